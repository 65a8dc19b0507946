"""Names of files and folders, as Apache Kafka gives them (LogFileUtils, LocalLog).

A name is valid only if writing the parsed parts gives the same name: `topic-01` is not the folder of `topic-1`.
Files with other names are not opened, renamed or removed. Digits are ASCII digits.
"""

import re
from typing import Final

from kvorum.protocol.topic_partition import TopicPartition

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
OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")
_SUFFIXED_FOLDER: Final = re.compile(r"(.+)\.[0-9a-f]{32}(-delete|-stray|-future)")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}"


def segment_file(folder: str, base_offset: int, suffix: str) -> str:
    """Return the path of a segment's file: the base offset in 20 digits."""
    return f"{folder}/{base_offset:020d}{suffix}"


def offset_of(name: str, suffix: str = "") -> int | None:
    """Return the offset in the name of a segment's file, None for other names.

    With `suffix` it is all that may follow the digits.
    """
    digits, dot, _ = name.partition(".")
    if not dot or len(digits) != 20 or not digits.isascii() or not digits.isdigit():
        return None
    offset = int(digits)
    return None if offset > OFFSET_MAX or (suffix and name[20:] != suffix) else offset


def parse_number(text: str) -> int:
    """Return a count, id or offset of a Kvorum file. Raises ValueError for any other notation."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text[:30]!r} is not a number")
    return int(text)


def parse_folder(name: str) -> TopicPartition | None:
    """Return the partition of a log folder, None for other names and for names with a suffix."""
    match = _FOLDER.fullmatch(name)
    if match is None or int(match[2]) > PARTITION_MAX:
        return None
    return TopicPartition(match[1], int(match[2]))


def parse_suffixed_folder(name: str, suffix: str) -> TopicPartition | None:
    """Return the partition of a folder with a unique id and this suffix (-delete, -stray, -future), None without.

    The topic of a folder marked for deletion or as a stray may be cut.
    """
    match = _SUFFIXED_FOLDER.fullmatch(name)
    return parse_folder(match[1]) if match is not None and match[2] == suffix else None


def future_folder(partition: TopicPartition, unique: str) -> str:
    """Return the name of a future log's folder: `topic-N.32 hex digits-future`. It may be longer than names may be."""
    assert len(unique) == 32, "Kafka's form"
    return f"{partition}.{unique}{FUTURE_FOLDER_SUFFIX}"


def marked_folder(partition: TopicPartition, unique: str, suffix: str) -> str:
    """Return the folder name during the delay: `topic-N.32 hex digits-delete`, the topic truncated if too long."""
    tail = f"-{partition.partition}.{unique}{suffix}"
    assert len(unique) == 32 and suffix in (DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX), "Kafka's form"
    return partition.topic[: FOLDER_NAME_MAX - len(tail)] + tail
