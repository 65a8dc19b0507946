"""Services of the request handlers: one object with the broker's parts, built once by `broker.server`.

Handlers read it and change nothing in it. It owns none of the parts: their creator closes them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from kvorum.broker.coordinator.ended_transaction import EndedTransaction
from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.broker.coordinator.internal_topics import InternalTopics
from kvorum.broker.coordinator.transaction.coordinator import TransactionCoordinator
from kvorum.broker.fetch_session import FetchSessionCache
from kvorum.broker.metadata.auto_topic_creation import AutoTopicCreation
from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.broker.metadata.metadata_log import MetadataLogReader
from kvorum.broker.metadata.peer_watch import PeerWatch
from kvorum.broker.metadata.producer_ids import ProducerIdManager
from kvorum.broker.replica.manager import ReplicaManager
from kvorum.broker.telemetry.manager import ClientMetricsManager
from kvorum.network.authorizer import Authorizer, Quotas
from kvorum.network.channel import SOFTWARE_NAME
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.api_versions import ApiVersion
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.forwarder import Forwarder
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.security.credentials import CredentialStore, NoCredentials
from kvorum.storage.log_manager import LogManager

if TYPE_CHECKING:
    from kvorum.network.store_watch import StoreWatch

Result: TypeAlias = Message | Awaitable[Message | None] | None
"""A response, an awaitable of it, or None without a response (acks=0)."""


class GroupTransactions(Protocol):
    """Ends transactions in the offsets topic: the group coordinator."""

    async def complete_transaction(self, key: TopicPartition, ended: EndedTransaction, timeout_ms: int) -> None:
        """Append the marker, and learn of it in the order of the log; return once it is replicated.

        Raises KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT,
        or as the log refuses a marker.
        """
        ...


@dataclass(slots=True, kw_only=True)
class Broker:
    """The parts of one broker, for its handlers."""

    broker_id: int
    cluster_id: str
    clock: Clock
    disk: Disk
    metadata: MetadataCache
    configs: DynamicConfig
    replica_manager: ReplicaManager
    log_manager: LogManager
    fetch_sessions: FetchSessionCache
    controller: Forwarder
    auto_topics: AutoTopicCreation
    producer_ids: ProducerIdManager
    metadata_log: MetadataLogReader
    peers: PeerWatch
    authorizer: Authorizer
    quotas: Quotas
    internal_topics: InternalTopics
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    group_transactions: GroupTransactions | None = None
    """Writer of markers of the offsets topic; without it they are appended as any other."""
    telemetry: ClientMetricsManager | None = None
    """Receiver of clients' metrics; without it clients do not see that they can push."""
    credentials: CredentialStore = field(default_factory=NoCredentials)
    """Users and tokens, for the SASL mechanisms of the listeners."""
    token_hmacs: TokenHmacs = field(default_factory=lambda: TokenHmacs(None))
    """HMACs of delegation tokens, if these are enabled."""
    stores: "StoreWatch | None" = None
    """Key and trust stores of the listeners; None without TLS."""
    served_apis: Sequence[ApiVersion] = field(default_factory=tuple)
    """Response of ApiVersions: set by the registry from its handlers."""

    @property
    def settings(self) -> Settings:
        """The settings in force, dynamic configs included."""
        return self.configs.settings

    def throttle(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        """Return the throttle time (ms) for an answer; the connection applies it after the answer (KIP-219).

        See Quotas. Called once per request, at its end: its cost is counted.
        """
        quotas = self.quotas
        ctx.throttle_ms = quotas.throttle_ms(ctx, produced=produced, exempt=exempt) if quotas.enabled else 0
        return ctx.throttle_ms

    def throttle_handshake(self, ctx: RequestContext, software_name: str) -> int:
        """Return the throttle time of the first request of a node on a connection to a broker.

        Requests of nodes are exempt from client quotas, because quotas must not delay replication.
        """
        return self.throttle(ctx, exempt=software_name == SOFTWARE_NAME)


class BrokerApi(NamedTuple):
    """A request's handler, not yet bound to a broker. Its versions are those of protocol.api.BROKER_APIS."""

    api_key: ApiKey
    # Each handler takes its own request class, which a common table cannot express.
    handle: Callable[[RequestContext, Any, Broker], Result]
    abandon: bool = False
    """Cancel the awaited response when the client disconnects: for long polls without changes."""
