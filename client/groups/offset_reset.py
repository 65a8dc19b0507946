"""Targets of an offset reset per partition: decided here, read and committed elsewhere. Sans-IO.

The result is always within the log: an offset outside is replaced by the nearer end, and the result has the original.
Source: Kafka's ConsumerGroupCommand.resetOffsets, prepareOffsetsToReset, checkOffsetsRange.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kvorum.client.values.offset_reset import OffsetReset, ResetError, ResetTarget
from kvorum.protocol.topic_partition import TopicPartition


class LogEnds(NamedTuple):
    """Offsets of a partition: first, log end, and that of the requested time.

    `at_time` is None if no record is late enough, or without a requested time.
    """

    earliest: int
    latest: int
    at_time: int | None = None


def plan_reset(
    target: ResetTarget, ends: Mapping[TopicPartition, LogEnds], committed: Mapping[TopicPartition, int]
) -> list[OffsetReset]:
    """Return the new offset of each partition of `ends`, by topic and partition.

    Raises ResetError if a missing offset is to be shifted.
    """
    resets = []
    for partition, log in sorted(ends.items()):
        before = committed.get(partition)
        offset, note = target_offset(target, partition, log, before)
        resets.append(
            OffsetReset(
                topic=partition.topic,
                partition=partition.partition,
                before=before,
                target=offset,
                after=min(max(offset, log.earliest), log.latest),
                note=note,
            )
        )
    return resets


def target_offset(
    target: ResetTarget, partition: TopicPartition, log: LogEnds, before: int | None
) -> tuple[int, str | None]:
    """Return the target offset without regard to the log's ends, and notes on it. Raises ResetError."""
    if target.offsets is not None:
        return target.offsets[partition], None
    if target.offset is not None:
        return target.offset, None
    if target.shift_by is not None:
        if before is None:
            raise ResetError(
                f"Cannot shift offset for partition {partition} since there is no current committed offset"
            )
        return before + target.shift_by, None
    if target.timestamp_ms is not None:
        if log.at_time is None:
            return log.latest, "no record with such a timestamp: the latest offset is used"
        return log.at_time, None
    if target.to == "earliest":
        return log.earliest, None
    if target.to == "latest":
        return log.latest, None
    return (log.latest, "no committed offset: the latest offset is used") if before is None else (before, None)
