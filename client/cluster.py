"""A connected cluster: the entry point of the public API."""

from collections.abc import Sequence
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
from kvorum.runtime.chance import new_random

CLIENT_ID = "kvorum-client"


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
        cls, bootstrap: str | Sequence[str], *, client_id: str = CLIENT_ID, request_timeout_ms: int = TIMEOUT_MS
    ) -> Self:
        """Return a cluster, to be used with `async with`, which raises Unreachable if no broker is.

        `bootstrap`: one or more HOST:PORT, as a list or separated by commas. Raises ValueError for any other text.
        """
        text = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
        addresses = parse_bootstrap(text)
        return cls(ClusterClient(addresses, client_id=client_id, chance=new_random(), timeout_ms=request_timeout_ms))

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
