"""Partitions that a request on a group's offsets names, and their log ends.

Source: Kafka's ConsumerGroupCommand (prepareOffsetsToReset).
"""

from collections.abc import Iterable, Mapping, Sequence

from kvorum.client.groups.offset_reset import LogEnds
from kvorum.client.partitions.offsets import UNKNOWN_OFFSET, fetch_offsets
from kvorum.client.values.offset import OffsetSpec
from kvorum.client.values.offset_reset import ResetTarget
from kvorum.client.wire.cluster_client import ClusterClient, code_of, refuse
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition


async def find_partitions(
    client: ClusterClient, requested: Iterable[tuple[str, Sequence[int] | None]]
) -> list[TopicPartition]:
    """Return the named partitions, each once; None means all of a topic.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION for a missing topic. Numbers are not checked: a group may have offsets
    of deleted partitions.
    """
    found, errors = await find_existing_partitions(client, requested)
    for topic, code in errors.items():
        refuse(code, f"topic {topic!r}")
    return found


async def find_existing_partitions(
    client: ClusterClient, requested: Iterable[tuple[str, Sequence[int] | None]]
) -> tuple[list[TopicPartition], dict[str, ErrorCode]]:
    """Return the partitions as `find_partitions`; and {topic: error} for topics that are not available."""
    requested = list(requested)
    whole = sorted({topic for topic, partitions in requested if partitions is None})
    known: dict[str, list[int]] = {}
    errors: dict[str, ErrorCode] = {}
    for topic in (await client.metadata(whole)).topics if whole else ():
        known[topic.name or ""] = sorted(row.partition_index for row in topic.partitions)
        if topic.error_code:
            errors[topic.name or ""] = code_of(topic.error_code)
    found = [
        TopicPartition(topic, partition)
        for topic, partitions in requested
        for partition in (known[topic] if partitions is None else partitions)
        if partitions is not None or topic not in errors
    ]
    return list(dict.fromkeys(found)), errors


async def read_log_ends(
    client: ClusterClient, partitions: Sequence[TopicPartition], target: ResetTarget, attempts: int
) -> dict[TopicPartition, LogEnds]:
    """Read the offsets that a reset needs from the leaders. Raises KafkaError, Unreachable."""
    if not partitions:
        return {}
    earliest = await fetch_offsets(client, partitions, OffsetSpec.EARLIEST, attempts=attempts)
    latest = await fetch_offsets(client, partitions, OffsetSpec.LATEST, attempts=attempts)
    times: Mapping[TopicPartition, int] = {}
    if target.timestamp_ms is not None:
        timestamp_ms = max(0, target.timestamp_ms)  # negative numbers mean the ends of the log
        times = await fetch_offsets(client, partitions, timestamp_ms, attempts=attempts)

    def at_time(partition: TopicPartition) -> int | None:
        offset = times.get(partition, UNKNOWN_OFFSET)
        return None if offset == UNKNOWN_OFFSET else offset

    return {each: LogEnds(earliest[each], latest[each], at_time(each)) for each in partitions}
