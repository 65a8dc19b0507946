"""Metadata cache: the newest image, with lookups for request handlers.

The publisher replaces the whole image before any other part applies a change, so every response is consistent.
Nothing is copied. Source: Kafka's KRaftMetadataCache.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_names import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS
from kvorum.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.partition import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionRegistration
from kvorum.quorum.image.topics import TopicImage
from kvorum.quorum.records import NO_LEADER

METADATA_TOPIC: Final = CLUSTER_METADATA_TOPIC


class Node(NamedTuple):
    """A broker's endpoint on one listener."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class PartitionView(NamedTuple):
    """A partition as clients of one listener see it."""

    error: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    elr: list[int]
    last_known_elr: list[int]


def is_internal(topic: str) -> bool:
    """Return whether the topic is an internal topic of Kafka."""
    return topic in INTERNAL_TOPICS or topic == METADATA_TOPIC


class MetadataCache:
    """The newest image and the questions to it. Also `broker.replica.types.Brokers`."""

    __slots__ = ("_active_controller", "_broker_id", "_rng", "image", "lingering")

    def __init__(self, broker_id: int, active_controller: Callable[[], int | None], rng: Random) -> None:
        """Start empty. `active_controller` returns the node id of the active controller, None if unknown."""
        self._broker_id = broker_id
        self._active_controller = active_controller
        self._rng = rng
        self.image = MetadataImage()
        self.lingering: set[int] = set()
        """Fenced a moment ago, and still in `live_nodes` for a while; PeerWatch's, and nearly always empty."""

    def topic(self, name: str) -> TopicImage | None:
        """Return a topic of this name."""
        return self.image.topics.by_name.get(name)

    def contains(self, name: str) -> bool:
        """Return whether a topic of this name exists."""
        return name in self.image.topics.by_name

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted. The metadata log is not among them."""
        return sorted(self.image.topics.by_name)

    def topic_id(self, name: str) -> Uuid:
        """Return a topic's id, ZERO_UUID if it does not exist."""
        topic = self.image.topics.by_name.get(name)
        if topic is not None:
            return topic.topic_id
        return METADATA_TOPIC_ID if name == METADATA_TOPIC else ZERO_UUID

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of a topic id, None if it does not exist."""
        topic = self.image.topics.by_id.get(topic_id)
        if topic is not None:
            return topic.name
        return METADATA_TOPIC if topic_id == METADATA_TOPIC_ID else None

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """Return the registration of a partition."""
        found = self.image.topics.by_name.get(topic)
        return None if found is None else found.partitions.get(index)

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a live broker's registration; None if it is fenced or not registered."""
        broker = self.image.cluster.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.broker_epoch

    def is_fenced(self, broker_id: int) -> bool:
        """Return whether a broker is fenced or not registered."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is None or broker.fenced

    def is_shutting_down(self, broker_id: int) -> bool:
        """Return whether a broker is in controlled shutdown."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown

    def has_live_broker(self, broker_id: int) -> bool:
        """Return whether a broker is registered and not fenced."""
        return not self.is_fenced(broker_id)

    def has_live_brokers(self) -> bool:
        """Return whether any broker is registered and not fenced."""
        return any(not broker.fenced for broker in self.image.cluster.brokers.values())

    def node(self, broker_id: int, listener: str) -> Node | None:
        """Return the address of a registered broker for this listener; None without one."""
        broker = self.image.cluster.brokers.get(broker_id)
        return None if broker is None else node_of(broker, listener)

    def live_rack(self, broker_id: int, listener: str) -> str | None:
        """Return the rack of a live broker with this listener; None without such a broker or rack."""
        node = None if self.is_fenced(broker_id) else self.node(broker_id, listener)
        return None if node is None else node.rack

    def live_nodes(self, listener: str) -> list[Node]:
        """Return the brokers that are not fenced, or were not a moment ago, and have this listener, by id."""
        named = [
            broker
            for broker in self.image.cluster.sorted_brokers()
            if not broker.fenced or broker.broker_id in self.lingering
        ]
        return [node for broker in named if (node := node_of(broker, listener)) is not None]

    def controller_id(self) -> int:
        """Return the broker that clients use as the controller, -1 if there is none.

        The active controller's own broker if that node is both, else this broker: every broker forwards. (Kafka always
        answers a random one that is not fenced. It may have died a moment ago, and librdkafka's admin client then waits
        for it until the request times out.)
        """
        active = self._active_controller()
        for broker_id in (active, self._broker_id):
            if broker_id is not None and self.has_live_broker(broker_id):
                return broker_id
        live = [broker.broker_id for broker in self.image.cluster.brokers.values() if not broker.fenced]
        return self._rng.choice(sorted(live)) if live else NO_LEADER

    def leader_and_epoch(self, topic: str, index: int) -> tuple[int, int]:
        """Return (leader id, leader epoch) of a partition, (-1, -1) if it does not exist: the hint of KIP-951."""
        partition = self.partition(topic, index)
        return (NO_LEADER, -1) if partition is None else (partition.leader, partition.leader_epoch)

    def partition_views(
        self, topic: TopicImage, listener: str, *, unavailable_endpoints: bool, unavailable_listeners: bool
    ) -> list[PartitionView]:
        """Return all partitions of a topic in order.

        `unavailable_endpoints` (Metadata v0) turns replicas that are not live into an error and leaves them out;
        `unavailable_listeners` (v6+) distinguishes a leader without this listener from a dead one.
        """
        return [
            self.partition_view(index, partition, listener, unavailable_endpoints, unavailable_listeners)
            for index, partition in topic.sorted_partitions()
        ]

    def partition_view(
        self,
        index: int,
        partition: PartitionRegistration,
        listener: str,
        unavailable_endpoints: bool,
        unavailable_listeners: bool,
    ) -> PartitionView:
        """Return one partition as clients of the listener see it; see `partition_views`."""
        replicas, isr = list(partition.replicas), list(partition.isr)
        if unavailable_endpoints:
            replicas = [each for each in replicas if self._is_reachable(each, listener)]
            isr = [each for each in isr if self._is_reachable(each, listener)]
        leader_id, error = partition.leader, ErrorCode.NONE
        if self.node(partition.leader, listener) is None:
            leader_id = NO_LEADER
            registered = partition.leader in self.image.cluster.brokers
            missing = ErrorCode.LISTENER_NOT_FOUND if unavailable_listeners else ErrorCode.LEADER_NOT_AVAILABLE
            error = missing if registered else ErrorCode.LEADER_NOT_AVAILABLE
        elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return PartitionView(
            error=error,
            partition_index=index,
            leader_id=leader_id,
            leader_epoch=partition.leader_epoch,
            replicas=replicas,
            isr=isr,
            offline_replicas=[each for each in partition.replicas if self._is_offline(each, partition, listener)],
            elr=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
        )

    def _is_reachable(self, broker_id: int, listener: str) -> bool:
        return not self.is_fenced(broker_id) and self.node(broker_id, listener) is not None

    def _is_offline(self, broker_id: int, partition: PartitionRegistration, listener: str) -> bool:
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.endpoint(listener) is None:
            return True
        directory = partition.directory(broker_id)
        if directory == LOST_DIRECTORY:
            return True
        return directory != UNASSIGNED_DIRECTORY and bool(broker.log_dirs) and directory not in broker.log_dirs


def node_of(broker: BrokerRegistration, listener: str) -> Node | None:
    """Return a broker's address for this listener name, None without one."""
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else Node(broker.broker_id, endpoint.host, endpoint.port, broker.rack)
