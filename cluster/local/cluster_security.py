"""Certificates and a user of a cluster on this machine, in its folder `security`, and the configuration they make.

Clients use SASL_SSL with SCRAM-SHA-512; nodes connect to each other by TLS with client certificates (listeners INTERNAL
and CONTROLLER), so that no node's configuration has a password.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvorum.cluster.local.add_scram import ScramUser
from kvorum.cluster.local.plan import ClusterError
from kvorum.runtime.chance import new_nonce, random_bytes
from kvorum.runtime.disk import OsDisk
from kvorum.security.certificate_folder import CertificateFolder
from kvorum.security.certificates import CertificateError, Kind, summarize
from kvorum.security.credentials import ITERATIONS_MIN, ScramMechanism

if TYPE_CHECKING:
    from kvorum.quorum.records import MetadataRecord

FOLDER: Final = "security"
HOSTS: Final = ("localhost", "127.0.0.1")
RENEWAL_DAYS: Final = 30
"""A certificate that expires earlier is renewed at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """The folder `security` of a cluster, with a CA, the certificates of its nodes, and a user with a password."""

    place: str
    """The folder of the cluster."""
    nodes: Mapping[str, Sequence[str]]
    """{node: hosts in its certificate}."""
    user: str
    clients: Sequence[str] = ()
    """Further certificates with the rights of a node."""

    @property
    def folder(self) -> str:
        """The folder of all files."""
        return os.path.join(self.place, FOLDER)

    @property
    def certificates(self) -> CertificateFolder:
        """The CA and what it has issued."""
        return CertificateFolder(self.folder)

    @property
    def trust_store(self) -> str:
        """The CA's certificate."""
        return str(self.certificates.trust_store)

    def configs(self) -> dict[str, str]:
        """Return the configuration that all nodes have, without listeners."""
        return {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.internal.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust_store,
            "super.users": ";".join(f"User:CN={name}" for name in (*self.nodes, *self.clients)),
        }

    def node_configs(self, name: str) -> dict[str, str]:
        """Return the configuration of one node."""
        return {"ssl.keystore.location": str(self.certificates.key_store(name))}

    def make_certificates(self) -> None:
        """Write the certificates that are missing and renew those that expire soon. Raises ClusterError, OSError."""
        found = self.certificates
        try:
            if not found.authority_key.exists():
                found.trust_store.unlink(missing_ok=True)  # of a start that was interrupted
                found.init("Kvorum dev CA")
            for name, hosts in self.nodes.items():
                self._issue(Kind.NODE, name, hosts)
            for name in self.clients:
                self._issue(Kind.CLIENT, name)
        except CertificateError as error:
            raise ClusterError(str(error)) from None

    def _issue(self, kind: Kind, name: str, hosts: Sequence[str] = ()) -> None:
        found = self.certificates
        if not found.key_store(name).exists():
            found.issue(kind, name, hosts)
        elif summarize(found.read(found.key_store(name)).chain[0], found.now()).days_left < RENEWAL_DAYS:
            found.rotate(name)

    def user_record(self) -> "MetadataRecord":
        """Return the record of the user for the first metadata. Raises OSError."""
        user = ScramUser(
            mechanism=ScramMechanism.SCRAM_SHA_512,
            name=self.user,
            iterations=ITERATIONS_MIN,
            salt=None,
            password=self.password(),
            salted=b"",
        )
        return user.to_record(random_bytes)

    def password(self) -> str:
        """Return the password of the user, made once. Raises OSError."""
        path = os.path.join(self.folder, f"{self.user}.password")
        if not os.path.exists(path):
            OsDisk().write_atomic(path, new_nonce().encode() + b"\n", private=True)
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\n")
