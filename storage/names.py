"""Names of files and folders, as Apache Kafka gives them (LogFileUtils, LocalLog)."""

import re
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
"""A segment that the cleaner is writing."""
SWAP_SUFFIX: Final = ".swap"
"""A segment that is whole and durable, about to take the place of those it was made from."""
TEMPORARY_SUFFIX: Final = ".tmp"
DELETE_FOLDER_SUFFIX: Final = "-delete"
STRAY_FOLDER_SUFFIX: Final = "-stray"
FUTURE_FOLDER_SUFFIX: Final = "-future"
"""A copy of a log that is to take its place, in another log directory."""

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
DURABLE_LENGTH: Final = "durable-length"
"""Ours: how much of this log was synced (see storage/checkpoints.py). Kafka passes over files it does not know."""

FOLDER_NAME_MAX: Final = 255
_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
_MARKED_FOLDER: Final = re.compile(r"(?P<name>.+)\.(?P<unique>[0-9a-f]{32})(?P<suffix>-delete|-stray)")
_FUTURE_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\.[0-9a-f]{32}-future")


class TopicPartition(NamedTuple):
    """A partition by name; its log lies in the folder of the same text."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return `topic-N`."""
        return f"{self.topic}-{self.partition}"


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}"


def segment_file(folder: str, base_offset: int, suffix: str) -> str:
    """Return the path of a segment's file: the base offset in 20 digits."""
    return f"{folder}/{base_offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """Return the offset that a segment's file name stands for, None if it is no such name."""
    digits, dot, _ = name.partition(".")
    return int(digits) if dot and len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def parse_folder(name: str) -> TopicPartition | None:
    """Return the partition whose log this folder holds, None if it is no such name (or one marked for deletion)."""
    match = _FOLDER.fullmatch(name)
    if match is None or is_marked_folder(name):
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def parse_future_folder(name: str) -> TopicPartition | None:
    """Return the partition whose future log this folder holds, None if it is no such name."""
    match = _FUTURE_FOLDER.fullmatch(name)
    return None if match is None else TopicPartition(match["topic"], int(match["partition"]))


def future_folder(partition: TopicPartition, unique: str) -> str:
    """Return the name of a future log's folder: `topic-N.32 hex digits-future`. It may be longer than names may be."""
    assert len(unique) == 32, "Kafka's form"
    return f"{partition}.{unique}{FUTURE_FOLDER_SUFFIX}"


def is_marked_folder(name: str) -> bool:
    """Tell whether the folder was renamed for deletion or as a stray."""
    return _MARKED_FOLDER.fullmatch(name) is not None


def marked_folder(partition: TopicPartition, unique: str, suffix: str) -> str:
    """Return the name under which a folder waits: `topic-N.32 hex digits-delete`, the topic cut if too long."""
    tail = f"-{partition.partition}.{unique}{suffix}"
    assert len(unique) == 32 and suffix in (DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX), "Kafka's form"
    return partition.topic[: FOLDER_NAME_MAX - len(tail)] + tail
