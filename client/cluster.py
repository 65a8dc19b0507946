"""A connected cluster: the entry point of the public API."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from kvorum.client.namespaces.brokers import Brokers
from kvorum.client.namespaces.configs import Configs
from kvorum.client.namespaces.features import Features
from kvorum.client.namespaces.groups import Groups
from kvorum.client.namespaces.log_dirs import LogDirs
from kvorum.client.namespaces.metadata import Metadata
from kvorum.client.namespaces.partitions import Partitions
from kvorum.client.namespaces.quorum import MetadataQuorum
from kvorum.client.namespaces.quotas import Quotas
from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.namespaces.records import Records
from kvorum.client.namespaces.tokens import Tokens
from kvorum.client.namespaces.topics import Topics
from kvorum.client.namespaces.transactions import Transactions
from kvorum.client.namespaces.users import Users
from kvorum.client.wire.cluster_client import TIMEOUT_MS, ClusterClient
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.chance import new_nonce, new_random
from kvorum.security.client import PLAINTEXT, ClientSecurity

CLIENT_ID = "kvorum-client"


def security_of(config: Mapping[str, str]) -> ClientSecurity:
    """Return the security of connections. Raises ValueError for an invalid property, or one that is not of security."""
    if not config:
        return PLAINTEXT
    # Loaded only if needed: certificates require a large library.
    from kvorum.runtime.config import ConfigError
    from kvorum.security.client_properties import client_settings, is_security_key
    from kvorum.security.outgoing import security_of_client

    properties = {key.replace("_", "."): text for key, text in config.items()}
    for key in properties:
        if not is_security_key(key):
            raise ValueError(f"{key} is not a security property")
    try:
        return security_of_client(client_settings(properties), new_nonce)
    except ConfigError as error:
        raise ValueError(str(error)) from None


class Cluster:
    """A Kafka cluster, with a namespace per noun. Owned by one event loop; close it.

    Requests go to any broker that responds, or to the one that they concern. Connections are opened when needed.
    """

    def __init__(self, client: ClusterClient) -> None:
        """Use this client, which `close` closes."""
        self.client = client
        self.brokers = Brokers(client)
        self.configs = Configs(client)
        self.features = Features(client)
        self.groups = Groups(client)
        self.log_dirs = LogDirs(client)
        self.metadata = Metadata(client)
        self.partitions = Partitions(client)
        self.quorum = MetadataQuorum(client)
        self.quotas = Quotas(client)
        self.reassignments = Reassignments(client)
        self.records = Records(client)
        self.tokens = Tokens(client)
        self.topics = Topics(client)
        self.transactions = Transactions(client)
        self.users = Users(client)

    @classmethod
    def connect(
        cls,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = CLIENT_ID,
        request_timeout_ms: int = TIMEOUT_MS,
        **config: str,
    ) -> Self:
        """Return a cluster, to be used with `async with`, which raises Unreachable if no broker is.

        `bootstrap`: one or more HOST:PORT, as a list or separated by commas. `config`: security properties by the names
        of Java clients or librdkafka, with underscores or dots: `security_protocol="SASL_SSL"`. Raises ValueError for
        an invalid address or property.
        """
        text = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
        addresses = parse_bootstrap(text)
        client = ClusterClient(
            addresses,
            client_id=client_id,
            chance=new_random(),
            timeout_ms=request_timeout_ms,
            security=security_of(config),
        )
        return cls(client)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        """Connect to a broker and learn the addresses of the others. Raises Unreachable."""
        try:
            await self.client.metadata([])
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:  # controllers do not serve Metadata
                await self.close()
                raise
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self.close()
