"""A Kafka client for a cluster: Kafka's admin requests over the wire, each sent to the right node.

Used by the admin HTTP API and the command line. Brokers forward requests for the controller, so any broker is suitable;
only offsets come from a partition's leader. `bootstrap` may also be controllers: they serve their own state and the
metadata (KIP-919). Rejections are raised as KafkaError with the message of the broker.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar

from kvorum.client.wire.connections import QUICK, Connections, may_repeat
from kvorum.client.wire.metadata_barrier import MetadataBarrier
from kvorum.network.addresses import Address
from kvorum.network.cluster_check import ClusterCheck
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError, KafkaException
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kvorum.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kvorum.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.security.client import PLAINTEXT, ClientSecurity

METADATA_TOPIC = "__cluster_metadata"
BROKER_MS = 30_000
"""request.timeout.ms: time that a broker waits for the controller before it answers REQUEST_TIMED_OUT."""
ANSWER_SHARE = 0.8
"""Share of a request's timeout that a broker may wait for others, so that its response arrives in time."""
TIMEOUT_MS = int(BROKER_MS / ANSWER_SHARE)
OTHERS = 3
"""After a third of the timeout a quick request is sent to the next broker, if there is one."""
EARLIEST = -2
LATEST = -1
BROKERS = 1
CONTROLLERS = 2
"""DescribeCluster's endpoint types."""

M = TypeVar("M", bound=Message)


class ResourceType(IntEnum):
    """Type of a config resource (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class IsolationLevel(IntEnum):
    """Isolation level of reads (IsolationLevel)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ConfigOperation(IntEnum):
    """Operation on a config (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Unreachable(KafkaException):
    """No broker is reachable; the message names each with the reason."""

    code = ErrorCode.NETWORK_EXCEPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One change of one config."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


class EligibleReplicas(NamedTuple):
    """Eligible leader replicas outside the ISR (KIP-966); None if the cluster does not return them."""

    elr: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass(slots=True)
class ClusterClient:
    """Connections to a cluster's brokers, made when they are needed. Owned by one event loop; close it."""

    bootstrap: Sequence[Address]
    client_id: str = "kvorum-admin"
    chance: random.Random = field(default_factory=random.Random)
    timeout_ms: int = TIMEOUT_MS
    """Maximum duration of one request."""
    check: ClusterCheck | None = None  # of each new connection, where the brokers' cluster id is known beforehand
    security: ClientSecurity = PLAINTEXT
    _connections: Connections = field(init=False)
    _silent: set[Address] = field(default_factory=set)
    """Brokers that did not respond to their last request: tried last."""
    _since: MetadataBarrier | None = None
    """Offset of the metadata log that a broker must have before it is queried."""
    _broker_addresses: dict[Address, None] = field(default_factory=dict)
    """Brokers in the last response that listed them: tried if none of `bootstrap` responds."""

    def __post_init__(self) -> None:
        """Connect on first use."""
        self._connections = Connections(self.client_id, self.chance, self.check, self.security)

    @property
    def wait_ms(self) -> int:
        """Return the time that a broker may wait for others, so that its response arrives in time."""
        return int(self.timeout_ms * ANSWER_SHARE)

    @property
    def part_ms(self) -> int:
        """Timeout of one broker of several, if the responses of the others are sufficient."""
        return self.timeout_ms // OTHERS

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def another(self) -> "ClusterClient":
        """Return a client with separate connections, for long requests that would delay others. Close it."""
        return ClusterClient(
            self.bootstrap,
            self.client_id,
            self.chance,
            self.timeout_ms,
            security=self.security,
            _broker_addresses=dict(self._broker_addresses),
        )

    async def ask(
        self,
        request: Message,
        response: type[M],
        address: Address | None = None,
        *,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> M:
        """Send a request to one broker, or to the first that can be reached. Raises Unreachable.

        A read is retried on the next broker if one that was reached does not answer. `version_max` keeps to versions
        whose fields the caller fills (names where newer ones have topic ids).
        """
        failures = []
        candidates = self._candidates() if address is None else [address]
        patience_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        for place, each in enumerate(candidates, 1):
            early = type(request) in QUICK and place < len(candidates)
            limit_ms = patience_ms // OTHERS if early else patience_ms
            try:
                if self._since is not None:
                    await self._since.wait_for(self._connections, each, limit_ms)
                answer = await self._connections.ask(
                    each, request, response, timeout_ms=limit_ms, version_max=version_max
                )
                self._silent.discard(each)
                return answer
            except ChannelError as error:
                self._silent.add(each)
                name, text = f"{each[0]}:{each[1]}", str(error)
                failures.append(text if text.startswith(name) else f"{name}: {text}")
                if not may_repeat(request, error):
                    break
        raise Unreachable("; ".join(failures) or "no bootstrap server is configured")

    async def ask_active(self, request: Message, response: type[M], code_in: Callable[[M], int]) -> M:
        """Send what belongs to the controller to any broker, and to the controller where brokers forward nothing.

        Such brokers, of clusters with ZooKeeper, answer NOT_CONTROLLER (`code_in` finds it) with the controller. Raises
        Unreachable.
        """
        answer = await self.ask(request, response)
        if code_in(answer) != ErrorCode.NOT_CONTROLLER:
            return answer
        metadata = await self.metadata([])
        for broker in metadata.brokers:
            if broker.node_id == metadata.controller_id:
                return await self.ask(request, response, (broker.host, broker.port))
        return answer

    async def up_to_date(self) -> "ClusterClient":
        """Return this client for reads: each broker is queried after it has published all changes committed before now.

        Other clients may have made changes through other brokers. Raises KafkaError, Unreachable: no controller is.
        """
        quorum = await self.describe_quorum(timeout_ms=self.part_ms)
        found = self.another()
        found._connections, found._silent = self._connections, self._silent
        found._since = MetadataBarrier(quorum.topics[0].partitions[0].high_watermark)
        return found

    def _candidates(self) -> list[Address]:
        """Return the brokers to try, in order, if any broker will do."""
        return sorted(dict.fromkeys((*self.bootstrap, *self._broker_addresses)), key=self._silent.__contains__)

    def _remember(self, brokers: Iterable[MetadataResponseBroker | DescribeClusterBroker]) -> None:
        self._broker_addresses = {(each.host, each.port): None for each in brokers} or self._broker_addresses

    async def metadata(
        self, names: Sequence[str] | None = None, *, authorized_operations: bool = False
    ) -> MetadataResponse:
        """Return the metadata of topics (all, when None); unknown topics come with their error code."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=authorized_operations,
        )
        answer = await self.ask(request, MetadataResponse)
        self._remember(answer.brokers)
        return answer

    async def topic(self, name: str) -> MetadataResponseTopic:
        """Return one topic. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, ...)."""
        found = (await self.metadata([name])).topics[0]
        refuse(found.error_code, f"topic {name!r}")
        return found

    async def eligible(self, topic: str, partitions: Iterable[int]) -> dict[int, EligibleReplicas]:
        """Return {partition: its eligible leader replicas} of these partitions of a topic.

        Metadata has no field for them; a cluster without DescribeTopicPartitions returns none.
        """
        found = dict.fromkeys(partitions, EligibleReplicas())
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)])
        while True:
            try:
                answer = await self.ask(request, DescribeTopicPartitionsResponse)
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                return found
            for row in (partition for each in answer.topics for partition in each.partitions):
                if row.partition_index in found:
                    found[row.partition_index] = EligibleReplicas(row.eligible_leader_replicas, row.last_known_elr)
            following = answer.next_cursor
            reached = -1 if request.cursor is None else request.cursor.partition_index
            if following is None or following.topic_name != topic or following.partition_index <= reached:
                return found
            request.cursor = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)

    async def describe_cluster(self, *, fenced: bool = True) -> DescribeClusterResponse:
        """Return the brokers (with fenced ones, if wanted), controller and cluster id; from controllers: these."""
        answer = await self.ask(DescribeClusterRequest(include_fenced_brokers=fenced), DescribeClusterResponse)
        if answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
            answer = await self.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), DescribeClusterResponse)
        refuse(answer.error_code, answer.error_message)
        self._remember(answer.brokers)
        return answer

    async def create_topics(
        self, topics: Sequence[CreatableTopic], *, validate_only: bool = False
    ) -> CreateTopicsResponse:
        """Create topics; each has its own error code in the answer."""
        request = CreateTopicsRequest(topics=list(topics), timeout=self.wait_ms, validate_only=validate_only)
        return await self.ask_active(request, CreateTopicsResponse, lambda it: first_code(it.topics))

    async def create_topic(self, topic: CreatableTopic, *, validate_only: bool = False) -> CreateTopicsResponse:
        """Create one topic. Raises KafkaError with the broker's reason."""
        answer = await self.create_topics([topic], validate_only=validate_only)
        refuse(answer.topics[0].error_code, answer.topics[0].error_message)
        return answer

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete topics; return the error of each."""
        topics = [DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=topics, topic_names=list(names), timeout=self.wait_ms)
        answer = await self.ask_active(request, DeleteTopicsResponse, lambda it: first_code(it.responses))
        return {
            name: error_in(row.error_code, row.error_message or f"topic {name!r}")
            for row in answer.responses
            for name in (row.name or "",)
        }

    async def delete_topic(self, name: str) -> None:
        """Delete one topic. Raises KafkaError."""
        for error in (await self.delete_topics([name])).values():
            if error is not None:
                raise error

    async def create_partitions(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase the number of partitions to `count`; `assignments`: replicas of new ones. Raises KafkaError."""
        rows = None
        if assignments is not None:
            rows = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments]
        topic = CreatePartitionsTopic(name=name, count=count, assignments=rows)
        request = CreatePartitionsRequest(topics=[topic], timeout=self.wait_ms, validate_only=validate_only)
        answer = await self.ask_active(request, CreatePartitionsResponse, lambda it: first_code(it.results))
        refuse(answer.results[0].error_code, answer.results[0].error_message)

    async def describe_configs(
        self, kind: ResourceType, name: str, *, documentation: bool = False, timeout_ms: int | None = None
    ) -> list[DescribeConfigsResourceResult]:
        """Return every config of a topic, broker or controller, ... with its source. Raises KafkaError."""
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=documentation
        )
        # Only the node itself knows its static configuration and its loggers.
        own = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name != ""
        address = await self.broker_address(int(name)) if own else None
        answer = (await self.ask(request, DescribeConfigsResponse, address, timeout_ms=timeout_ms)).results[0]
        refuse(answer.error_code, answer.error_message or f"{kind.name.lower()} {name!r}")
        return answer.configs

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change configs one by one (IncrementalAlterConfigs). Raises KafkaError."""
        configs = [AlterableConfig(name=c.name, config_operation=c.operation, value=c.value) for c in changes]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        # A broker's own configs are checked against its static ones, and a node alone has its loggers.
        own = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name
        address = await self._changer_address(kind, int(name)) if own else None
        answer = (await self.ask(request, IncrementalAlterConfigsResponse, address)).responses[0]
        if answer.error_code == ErrorCode.NOT_CONTROLLER and not own:
            address = await self._controller_address()
            answer = (await self.ask(request, IncrementalAlterConfigsResponse, address)).responses[0]
        refuse(answer.error_code, answer.error_message)

    async def elect_leaders(
        self, partitions: Mapping[str, Sequence[int]] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred leaders of partitions (all, when None), or any living replica if `unclean`.

        Return the error of each partition, in the order of the response: ELECTION_NOT_NEEDED, ...
        """
        wanted = None
        if partitions is not None:
            wanted = [TopicPartitions(topic=name, partitions=list(indexes)) for name, indexes in partitions.items()]
        request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=wanted, timeout=self.wait_ms)
        answer = await self.ask_active(request, ElectLeadersResponse, lambda it: it.error_code)
        refuse(answer.error_code, "elect leaders")
        return {
            TopicPartition(topic.topic, row.partition_id): error_in(row.error_code, row.error_message)
            for topic in answer.replica_election_results
            for row in topic.partition_result
        }

    async def describe_quorum(self, *, timeout_ms: int | None = None) -> DescribeQuorumResponse:
        """Return the metadata quorum's state. Raises KafkaError."""
        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        answer = await self.ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, timeout_ms=timeout_ms)
        refuse(answer.error_code, answer.error_message)
        partition = answer.topics[0].partitions[0]
        refuse(partition.error_code, partition.error_message)
        return answer

    async def broker_address(self, broker_id: int) -> Address:
        """Return where a broker is, or a controller. Raises KafkaError(BROKER_ID_NOT_REGISTERED)."""
        return address_in(await self.describe_cluster(), broker_id)

    async def _changer_address(self, kind: ResourceType, node_id: int) -> Address:
        """Return the node that changes a resource: the node itself; of configs at the controllers, the active one."""
        described = await self.describe_cluster()
        at_controllers = described.endpoint_type == CONTROLLERS and kind is ResourceType.BROKER
        return address_in(described, described.controller_id if at_controllers else node_id)

    async def _controller_address(self) -> Address:
        """Return the active controller's address, from controllers. Raises KafkaError(BROKER_ID_NOT_REGISTERED)."""
        described = await self.describe_cluster()
        return address_in(described, described.controller_id)


class ErrorRow(Protocol):
    """One row of an answer."""

    error_code: int


def first_code(rows: Sequence[ErrorRow]) -> int:
    """Return the first error code of a response whose rows have one each: from a broker that is not the controller."""
    return rows[0].error_code if rows else ErrorCode.NONE


def address_in(described: DescribeClusterResponse, node_id: int) -> Address:
    """Return where one of these nodes is. Raises KafkaError(BROKER_ID_NOT_REGISTERED)."""
    for node in described.brokers:
        if node.broker_id == node_id:
            return node.host, node.port
    what = "controller" if described.endpoint_type == CONTROLLERS else "broker"
    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no {what} {node_id}")


def error_in(code: int, message: str | None) -> KafkaError | None:
    """Return the error of a row of a response; None without one."""
    return None if code == ErrorCode.NONE else KafkaError(code_of(code), message or "")


def refuse(code: int, message: str | None) -> None:
    """Raise KafkaError for an error code that is one."""
    if code != ErrorCode.NONE:
        raise KafkaError(code_of(code), message or "")


def code_of(code: int) -> ErrorCode:
    """Return an error code; one that a newer cluster has is UNKNOWN_SERVER_ERROR, as Kafka's clients take it."""
    return ErrorCode(code) if code in ErrorCode.__members__.values() else ErrorCode.UNKNOWN_SERVER_ERROR
