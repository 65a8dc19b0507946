"""`kvorum dev --secure`: certificates, a user and the settings of its clients, all in a folder of the cluster.

Clients use SASL_SSL with SCRAM-SHA-512; nodes connect to each other by TLS with client certificates, so that no node's
configuration has a password.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvorum.cli.security.certificate_folder import CertificateFolder
from kvorum.cli.security.client_files import client_files, usage_lines
from kvorum.cluster.local.add_scram import ScramUser
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import ClusterError
from kvorum.runtime.chance import new_nonce, random_bytes
from kvorum.runtime.disk import OsDisk
from kvorum.security.certificates import CertificateError, Kind, summarize
from kvorum.security.credentials import ITERATIONS_MIN, ScramMechanism

if TYPE_CHECKING:
    from kvorum.quorum.records import MetadataRecord

USER: Final = "dev"
HOSTS: Final = ("localhost", "127.0.0.1")
RENEWAL_DAYS: Final = 30
"""A certificate that expires earlier is renewed at the start."""


class DevSecurity:
    """The folder `security` of a `dev` cluster."""

    listeners = ("SASL_SSL", "INTERNAL")
    """Of clients, and between brokers."""

    def __init__(self, place: str, nodes: int) -> None:
        """Name the folder of the cluster, and the number of its nodes."""
        self._place, self._names = place, [f"node-{number}" for number in range(1, nodes + 1)]
        self.folder = os.path.join(place, "security")
        self._certificates = CertificateFolder(self.folder)
        self._password_file = os.path.join(self.folder, f"{USER}.password")

    def overrides(self) -> tuple[str, ...]:
        """Return the configuration of the nodes, as --set options."""
        stores = tuple(f"{name}:ssl.keystore.location={self._certificates.key_store(name)}" for name in self._names)
        return (
            "listener.security.protocol.map=SASL_SSL:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name=INTERNAL",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            "listener.name.internal.ssl.client.auth=required",
            "listener.name.controller.ssl.client.auth=required",
            "ssl.keystore.type=PEM",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self._certificates.trust_store}",
            f"super.users={';'.join(f'User:CN={name}' for name in self._names)}",
            *stores,
        )

    def prepare(self) -> "Sequence[MetadataRecord]":
        """Write what is missing and renew what expires soon; return the record of the user.

        Raises ClusterError, OSError.
        """
        try:
            self._make_certificates()
        except CertificateError as error:
            raise ClusterError(str(error)) from None
        user = ScramUser(
            mechanism=ScramMechanism.SCRAM_SHA_512,
            name=USER,
            iterations=ITERATIONS_MIN,
            salt=None,
            password=self._password(),
            salted=b"",
        )
        return [user.to_record(random_bytes)]

    def _make_certificates(self) -> None:
        found, paths = self._certificates, ClusterPaths(self._place)
        if not found.authority_key.exists():
            if os.path.exists(paths.cluster) and not os.path.exists(paths.never_started_file):
                raise ClusterError(f"the cluster in {self._place} was made without --secure; choose another --dir")
            found.trust_store.unlink(missing_ok=True)  # of a start that was interrupted
            found.init("Kvorum dev CA")
        for name in self._names:
            if not found.key_store(name).exists():
                found.issue(Kind.NODE, name, HOSTS)
            elif summarize(found.read(found.key_store(name)).chain[0], found.now()).days_left < RENEWAL_DAYS:
                found.rotate(name)

    def write_client_files(self, bootstrap: str) -> list[str]:
        """Write the settings of clients, which have the password; return lines about their use. Raises OSError."""
        texts = client_files(bootstrap, USER, self._password(), str(self._certificates.trust_store))
        for name, text in texts.items():
            OsDisk().write_atomic(os.path.join(self.folder, name), text.encode(), private=True)
        lines = [f"  security           SASL_SSL, SCRAM-SHA-512, user {USER}; settings of clients, with the password:"]
        return [*lines, *(f"    {name:<16} {usage}" for name, usage in usage_lines(self.folder, bootstrap))]

    def _password(self) -> str:
        """Return the password of the user, made once."""
        if not os.path.exists(self._password_file):
            OsDisk().write_atomic(self._password_file, new_nonce().encode() + b"\n", private=True)
        with open(self._password_file, encoding="utf-8") as file:
            return file.readline().rstrip("\n")
