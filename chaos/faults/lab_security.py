"""TLS and SASL of a lab: certificates, a user of SCRAM or an issuer of tokens, and the settings of the lab's clients.

Clients connect by SASL_SSL, nodes to each other by TLS with client certificates. The lab observes with a certificate of
its own (`lab`), by the listeners of the nodes.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kvorum.chaos.client_access import OAUTHBEARER, ClientAccess
from kvorum.chaos.faults.token_issuer import TokenIssuer
from kvorum.cluster.local.cluster_security import HOSTS, ClusterSecurity
from kvorum.security.certificates import Kind
from kvorum.security.client_files import java_settings, rdkafka_settings

if TYPE_CHECKING:
    from kvorum.quorum.records import MetadataRecord

Mechanism: TypeAlias = Literal["SCRAM-SHA-512", "OAUTHBEARER"]
SCRAM: Final = "SCRAM-SHA-512"
USER: Final = "lab"
RELOAD_KEY: Final = "kvorum.ssl.reload.interval.ms"
RELOAD_MS: Final = 1_000
"""Renewed certificates are in use soon."""
ISSUER: Final = "issuer"


@dataclass(frozen=True, slots=True)
class LabSecurity:
    """The security of one lab. Make it with `create`."""

    files: ClusterSecurity
    issuer: TokenIssuer | None
    """Of the tokens of OAUTHBEARER."""

    @classmethod
    def create(
        cls, folder: str, hosts: Mapping[str, str], mechanism: Mechanism, port: Callable[[], int]
    ) -> "LabSecurity":
        """Make all files below the folder of a cluster; `hosts`: {node: its own}. Raises ClusterError, OSError."""
        files = ClusterSecurity(
            place=os.path.abspath(folder),
            nodes={name: tuple(dict.fromkeys((*HOSTS, host))) for name, host in hosts.items()},
            user=USER,
            clients=(USER,),
        )
        files.make_certificates()
        if mechanism == SCRAM:
            return cls(files, None)
        files.certificates.issue(Kind.NODE, ISSUER, HOSTS)
        return cls(files, TokenIssuer(str(files.certificates.key_store(ISSUER)), port()))

    def configs(self, client_listeners: Sequence[str]) -> dict[str, str]:
        """Return the configuration that all nodes have, without listeners."""
        found = {**self.files.configs(), RELOAD_KEY: str(RELOAD_MS)}
        if self.issuer is not None:
            trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{self.files.trust_store}"'
            module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
            found |= {"sasl.enabled.mechanisms": OAUTHBEARER, **self.issuer.configs()}
            for listener in client_listeners:
                key = f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config"
                found[key] = f"{module} required {trust};"
        return found

    def records(self) -> "Sequence[MetadataRecord]":
        """Return the records of the first metadata."""
        return [self.files.user_record()]

    def clients(self, bootstrap: str) -> ClientAccess:
        """Return how clients reach the cluster."""
        if self.issuer is not None:
            properties = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": OAUTHBEARER,
                "ssl.ca.location": self.files.trust_store,
            }
            return ClientAccess(bootstrap, properties, self.issuer.new_token)
        found = rdkafka_settings(bootstrap, USER, self.files.password(), self.files.trust_store)
        return ClientAccess(found.pop("bootstrap.servers"), found)

    def java_settings(self, bootstrap: str) -> dict[str, str]:
        """Return the settings of a Java client with the password of the user."""
        return java_settings(bootstrap, USER, self.files.password(), self.files.trust_store)

    def observers(self, bootstrap: str) -> ClientAccess:
        """Return how the lab itself reaches the listeners of the nodes."""
        own = str(self.files.certificates.key_store(USER))
        properties = {"ssl.certificate.location": own, "ssl.key.location": own}
        return ClientAccess(
            bootstrap, {"security.protocol": "SSL", "ssl.ca.location": self.files.trust_store, **properties}
        )
