"""`kvorum dev --secure`: certificates, a user and the settings of its clients, all in a folder of the cluster."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvorum.cluster.local.cluster_security import HOSTS, ClusterSecurity
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import ClusterError
from kvorum.runtime.disk import OsDisk
from kvorum.security.client_files import client_files, usage_lines

if TYPE_CHECKING:
    from kvorum.quorum.records import MetadataRecord

USER: Final = "dev"


class DevSecurity:
    """The folder `security` of a `dev` cluster."""

    listeners = ("SASL_SSL", "INTERNAL")
    """Of clients, and between brokers."""

    def __init__(self, place: str, nodes: int) -> None:
        """Name the folder of the cluster, and the number of its nodes."""
        names = [f"node-{number}" for number in range(1, nodes + 1)]
        self._place, self._security = place, ClusterSecurity(place=place, nodes=dict.fromkeys(names, HOSTS), user=USER)

    def overrides(self) -> tuple[str, ...]:
        """Return the configuration of the nodes, as --set options."""
        common = {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "INTERNAL",
            **self._security.configs(),
        }
        own = {name: self._security.node_configs(name) for name in self._security.nodes}
        return (
            *(f"{key}={value}" for key, value in common.items()),
            *(f"{name}:{key}={value}" for name, configs in own.items() for key, value in configs.items()),
        )

    def prepare(self) -> "Sequence[MetadataRecord]":
        """Write what is missing and renew what expires soon; return the record of the user.

        Raises ClusterError, OSError.
        """
        paths = ClusterPaths(self._place)
        is_new = not self._security.certificates.authority_key.exists()
        if is_new and os.path.exists(paths.cluster) and not os.path.exists(paths.never_started_file):
            raise ClusterError(f"the cluster in {self._place} was made without --secure; choose another --dir")
        self._security.make_certificates()
        return [self._security.user_record()]

    def write_client_files(self, bootstrap: str) -> list[str]:
        """Write the settings of clients, which have the password; return lines about their use. Raises OSError."""
        folder = self._security.folder
        texts = client_files(bootstrap, USER, self._security.password(), self._security.trust_store)
        for name, text in texts.items():
            OsDisk().write_atomic(os.path.join(folder, name), text.encode(), private=True)
        lines = [f"  security           SASL_SSL, SCRAM-SHA-512, user {USER}; settings of clients, with the password:"]
        return [*lines, *(f"    {name:<16} {usage}" for name, usage in usage_lines(folder, bootstrap))]
