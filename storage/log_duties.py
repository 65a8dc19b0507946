"""What the log manager has done in threads: writing checkpoints, closing logs."""

from collections.abc import Iterable, Mapping, Sequence

from kvorum.runtime.disk import Disk
from kvorum.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    encode_offsets,
    write_clean_shutdown,
    write_offsets,
)
from kvorum.storage.log import Log
from kvorum.storage.names import TopicPartition


def offsets_of(name: str, logs: Iterable[Log]) -> dict[TopicPartition, int]:
    """Return what a checkpoint of this name says of these logs, as of now."""
    match name:
        case _ if name == RECOVERY_POINTS:
            return {each.partition: each.recovery_point for each in logs}
        case _ if name == HIGH_WATERMARKS:
            return {each.partition: each.high_watermark for each in logs}
        case _:
            assert name == LOG_START_OFFSETS, "there are three checkpoints"
            # As Kafka: a start that the first segment's name says already is left out.
            return {each.partition: each.log_start_offset for each in logs if each.starts_within_segment}


def write_checkpoint(disk: Disk, folder: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace one checkpoint of a directory. Raises OSError."""
    write_offsets(disk, folder, name, encode_offsets(offsets))


def close_logs(logs: Sequence[Log]) -> None:
    """Close logs cleanly. Raises KafkaError KAFKA_STORAGE_ERROR at the first whose disk fails."""
    for each in logs:
        each.close()


def write_last_words(disk: Disk, folder: str, logs: Sequence[Log], broker_epoch: int) -> None:
    """Write a directory's checkpoints, then its clean-shutdown mark. Raises OSError."""
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
        write_checkpoint(disk, folder, name, offsets_of(name, logs))
    write_clean_shutdown(disk, folder, broker_epoch)
