"""Output of `kafka-topics --describe`. Source: Kafka's TopicCommand (describeTopic, PartitionDescription)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvorum.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kvorum.client.reassignments.reassignments import UnderWay
    from kvorum.client.wire.cluster_client import ClusterClient, Eligible
    from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
    from kvorum.protocol.topic_partition import TopicPartition

DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Filters of partitions; without any of these all, and the topics themselves."""

    under_replicated_partitions: bool = False
    unavailable_partitions: bool = False
    under_min_isr_partitions: bool = False
    at_min_isr_partitions: bool = False
    topics_with_overrides: bool = False

    @property
    def everything(self) -> bool:
        """Return whether no partition filter is requested."""
        return not (
            self.under_replicated_partitions
            or self.unavailable_partitions
            or self.under_min_isr_partitions
            or self.at_min_isr_partitions
        )


async def described(
    cluster: "ClusterClient", topics: "Sequence[MetadataResponseTopic]", live: set[int], shown: Shown
) -> list[str]:
    """Return the lines of these topics. Raises KafkaError, Unreachable."""
    from kvorum.client.wire.cluster_client import ResourceType
    from kvorum.protocol.topic_partition import TopicPartition

    lines: list[str] = []
    under_way = await reassignments(cluster) if topics else {}
    for each in topics:
        name = each.name or ""
        entries = await cluster.describe_configs(ResourceType.TOPIC, name)
        configs = {entry.name: entry.value or "" for entry in entries}
        own = {entry.name: entry.value for entry in entries if entry.config_source != DEFAULT_CONFIG}
        rows = sorted(each.partitions, key=lambda row: row.partition_index)
        moving = {row.partition_index: under_way.get(TopicPartition(name, row.partition_index)) for row in rows}
        lines += topic_lines(each, rows, moving, own, shown)
        if shown.topics_with_overrides:
            continue
        eligible = await cluster.eligible(each)
        min_isr = int(configs.get("min.insync.replicas", "1"))
        lines += [
            partition_line(name, row, moving[row.partition_index], eligible)
            for row in rows
            if is_shown(row, moving[row.partition_index], shown, live, min_isr)
        ]
    return lines


async def reassignments(cluster: "ClusterClient") -> "Mapping[TopicPartition, UnderWay]":
    """Return the present reassignments; none if the cluster is too old, or does not return them."""
    from kvorum.client.reassignments.reassignments import Reassignments

    try:
        return await Reassignments(cluster).under_way()
    except KafkaError as error:
        if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        return {}


def topic_lines(
    topic: "MetadataResponseTopic",
    rows: "Sequence[MetadataResponsePartition]",
    moving: "Mapping[int, UnderWay | None]",
    own: Mapping[str, str | None],
    shown: Shown,
) -> list[str]:
    """Return a topic's line, if it is to be shown."""
    if not shown.everything or (shown.topics_with_overrides and not own):
        return []
    from kvorum.client.partitions.replication import replication_factor

    factor = replication_factor(rows[0], moving[rows[0].partition_index]) if rows else 0
    topic_id = f"\tTopicId: {topic.topic_id}" if any(topic.topic_id) else ""  # older clusters have none
    return [
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(rows)}\tReplicationFactor: {factor}"
        f"\tConfigs: {','.join(f'{key}={value}' for key, value in own.items())}"
    ]


def is_shown(
    row: "MetadataResponsePartition", moving: "UnderWay | None", shown: Shown, live: set[int], min_isr: int
) -> bool:
    """Return whether a partition matches the requested filter."""
    from kvorum.client.partitions.replication import is_under_replicated

    leaderless = row.leader_id < 0
    return (
        shown.everything
        or (shown.under_replicated_partitions and is_under_replicated(row, moving))
        or (shown.unavailable_partitions and (leaderless or row.leader_id not in live))
        or (shown.under_min_isr_partitions and (leaderless or len(row.isr_nodes) < min_isr))
        or (shown.at_min_isr_partitions and len(row.isr_nodes) == min_isr)
    )


def partition_line(
    topic: str, row: "MetadataResponsePartition", moving: "UnderWay | None", eligible: "Mapping[int, Eligible]"
) -> str:
    """Return a partition's line."""
    row_eligible = eligible[row.partition_index]
    line = (
        f"\tTopic: {topic}\tPartition: {row.partition_index}\tLeader: {'none' if row.leader_id < 0 else row.leader_id}"
        f"\tReplicas: {ids(row.replica_nodes)}\tIsr: {ids(row.isr_nodes)}"
    )
    if moving is not None:
        line += f"\tAdding Replicas: {ids(moving.adding)}\tRemoving Replicas: {ids(moving.removing)}"
    return f"{line}\tElr: {ids(row_eligible.elr)}\tLastKnownElr: {ids(row_eligible.last_known_elr)}"


def ids(numbers: Iterable[int] | None) -> str:
    """Return brokers as a text."""
    return "N/A" if numbers is None else ",".join(map(str, numbers))
