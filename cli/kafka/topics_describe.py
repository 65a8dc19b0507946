"""`kafka-topics --describe`. Source: Kafka's TopicCommand (describeTopic, PartitionDescription)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.topics_change import find_topics, require, run
from kvorum.cli.kafka.topics_options import FILTERS, stop, topic_filter
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.values.partition import Partition
    from kvorum.client.values.reassignment import Reassignment
    from kvorum.client.values.topic import Topic
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFilter:
    """Filters of partitions; without any of the first four all partitions match, and the topics are shown."""

    under_replicated_partitions: bool = False
    unavailable_partitions: bool = False
    under_min_isr_partitions: bool = False
    at_min_isr_partitions: bool = False
    topics_with_overrides: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether all partitions match."""
        return not any(getattr(self, name) for name in FILTERS)

    def matches(self, partition: "Partition", live: set[int], min_isr: int) -> bool:
        """Return whether a partition matches; `live`: ids of the live brokers."""
        return (
            self.is_empty
            or (self.under_replicated_partitions and partition.is_under_replicated)
            or (self.unavailable_partitions and partition.leader not in live)
            or (self.under_min_isr_partitions and (partition.leader is None or len(partition.isr) < min_isr))
            or (self.at_min_isr_partitions and len(partition.isr) == min_isr)
        )


def describe_topics(connection: Connection, options: dict[str, Any]) -> None:
    """Print topics and partitions, tabs between the columns."""
    from kvorum.protocol.uuids import Uuid

    topic, topic_id, if_exists = options["topic"], options["topic_id"], options["if_exists"]
    if if_exists and topic and topic_id:
        say(
            "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
            "Uuid.ZERO_UUID"
        )
    try:
        wanted_id = None if topic_id is None else Uuid.parse(topic_id)
    except ValueError as error:
        stop(str(error))
    by_id = wanted_id is not None and any(wanted_id)
    by_name = topic_filter(None if by_id else topic, options["exclude_internal"])
    wanted = DescribeFilter(**{name: options[name] for name in DescribeFilter.__dataclass_fields__})

    async def work(cluster: "ClusterClient") -> list[str]:
        found = await find_topics(cluster, by_name)
        if by_id:
            found = [each for each in found if each.topic_id == wanted_id]
        require(found, topic_id if by_id else topic, if_exists, what="TopicId" if by_id else "Topic")
        return await describe_lines(cluster, found, wanted)

    for line in run(connection, work):
        say(line)


async def describe_lines(cluster: "ClusterClient", topics: "list[Topic]", wanted: DescribeFilter) -> list[str]:
    """Return the lines of these topics. Raises KafkaError, Unreachable."""
    from kvorum.client.namespaces.configs import Configs
    from kvorum.client.values.topic import with_reassignment
    from kvorum.client.wire.cluster_client import ResourceType

    lines: list[str] = []
    live = set[int]()
    if wanted.unavailable_partitions:
        live = {broker.node_id for broker in (await cluster.metadata([])).brokers}
    moving = await reassignments(cluster) if topics else {}
    for each in topics:
        partitions = [with_reassignment(partition, moving) for partition in each.partitions]
        configs = await Configs(cluster).describe(ResourceType.TOPIC, each.name)
        own = {config.name: config.value for config in configs if not config.is_default}
        if wanted.is_empty and (own or not wanted.topics_with_overrides):
            lines.append(topic_line(replace(each, partitions=tuple(partitions)), own))
        if wanted.topics_with_overrides:
            continue
        eligible = await cluster.eligible(each.name, [partition.partition for partition in partitions])
        min_isr = int(next((config.value or "" for config in configs if config.name == "min.insync.replicas"), "1"))
        for partition in partitions:
            if wanted.matches(partition, live, min_isr):
                elr = eligible[partition.partition]
                line = partition_line(partition)
                lines.append(f"{line}\tElr: {ids(elr.elr)}\tLastKnownElr: {ids(elr.last_known_elr)}")
    return lines


async def reassignments(cluster: "ClusterClient") -> "Mapping[TopicPartition, Reassignment]":
    """Return the current reassignments; none if the cluster is too old, or does not return them."""
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.protocol.errors import ErrorCode, KafkaError

    try:
        return await Reassignments(cluster).list()
    except KafkaError as error:
        if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        return {}


def topic_line(topic: "Topic", own: Mapping[str, str | None]) -> str:
    """Return the line of a topic."""
    factor = topic.partitions[0].replication_factor if topic.partitions else 0
    topic_id = f"\tTopicId: {topic.topic_id}" if any(topic.topic_id) else ""  # older clusters have none
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {factor}"
        f"\tConfigs: {','.join(f'{key}={value}' for key, value in own.items())}"
    )


def partition_line(partition: "Partition") -> str:
    """Return the line of a partition, without its eligible leader replicas."""
    line = (
        f"\tTopic: {partition.topic}\tPartition: {partition.partition}"
        f"\tLeader: {'none' if partition.leader is None else partition.leader}"
        f"\tReplicas: {ids(partition.replicas)}\tIsr: {ids(partition.isr)}"
    )
    if partition.adding or partition.removing:
        line += f"\tAdding Replicas: {ids(partition.adding)}\tRemoving Replicas: {ids(partition.removing)}"
    return line


def ids(numbers: Iterable[int] | None) -> str:
    """Return brokers as a text."""
    return "N/A" if numbers is None else ",".join(map(str, numbers))
