"""`clean-shutdown-logs`, a small file of ours in every log directory: its logs as a clean shutdown left them.

    1 <broker epoch>                                            as in .kafka_cleanshutdown, to which it belongs
    topic partition start end segments indexes checksum         a line per log
    <crc32c of all before, in hex>

`start` and `end` are offsets, `segments` the base offsets of the segments (comma separated), `indexes` those of the
transaction indexes or `-`; the checksum is of names and sizes of the log's files, and of the content of the two small
text files. A start compares each folder with its line: that costs a stat per file. Kafka passes over the file; after
Kafka had the directory, the broker epochs differ and it is not used.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.disk import Disk
from kvorum.storage.names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    join,
    offset_of,
    parse_number,
)

CLOSED_LOGS: Final = "clean-shutdown-logs"
VERSION: Final = "1"
NONE: Final = "-"
SUFFIXES: Final = frozenset({LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX})
TEXT_FILES: Final = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)


class LogFiles(NamedTuple):
    """Files of a log's folder, by names and sizes."""

    segments: tuple[int, ...]
    txn_indexes: tuple[int, ...]
    checksum: int


class ClosedLog(NamedTuple):
    """A log as a clean shutdown left it; without `files` only its end is known (by the recovery point)."""

    log_end_offset: int
    log_start_offset: int = 0
    files: LogFiles | None = None

    def missing_segments(self, found: Iterable[int]) -> list[int]:
        """Return the base offsets of missing segments."""
        return [] if self.files is None else sorted({*self.files.segments} - {*found})

    def missing_txn_indexes(self, found: LogFiles) -> frozenset[int]:
        """Return the base offsets of segments without their transaction index."""
        return frozenset() if self.files is None else frozenset({*self.files.txn_indexes} - {*found.txn_indexes})


def describe_files(disk: Disk, folder: str) -> LogFiles:
    """Return the content of a log's folder. Raises OSError."""
    segments, txn_indexes, lines = [], [], []
    for name in disk.listdir(folder):
        offset = offset_of(name)
        if offset is not None and name[20:] in SUFFIXES:
            lines.append(f"{name} {disk.size(join(folder, name))}")
            if name[20:] == LOG_SUFFIX:
                segments.append(offset)
            elif name[20:] == TXN_INDEX_SUFFIX:
                txn_indexes.append(offset)
        elif name in TEXT_FILES:
            lines.append(f"{name} {crc32c(disk.read(join(folder, name)))}")
    return LogFiles(tuple(segments), tuple(txn_indexes), crc32c("\n".join(lines).encode()))


def write_closed_logs(disk: Disk, directory: str, broker_epoch: int, logs: Mapping[TopicPartition, ClosedLog]) -> None:
    """Replace the file. Raises OSError."""
    lines = [f"{VERSION} {broker_epoch}"]
    for (topic, partition), each in logs.items():
        assert each.files is not None, "a closed log's folder was described"
        bases = [",".join(map(str, found)) or NONE for found in (each.files.segments, each.files.txn_indexes)]
        fields = (partition, each.log_start_offset, each.log_end_offset, *bases, each.files.checksum)
        lines.append(f"{topic} {' '.join(map(str, fields))}")
    text = "\n".join(lines) + "\n"
    disk.write_atomic(join(directory, CLOSED_LOGS), f"{text}{crc32c(text.encode()):08x}\n".encode())


def read_closed_logs(disk: Disk, directory: str, broker_epoch: int) -> dict[TopicPartition, ClosedLog] | None:
    """Return the record of this broker epoch's clean shutdown; None if the file is missing or damaged."""
    path = join(directory, CLOSED_LOGS)
    if not disk.exists(path):
        return None
    body, _, checksum = disk.read(path).removesuffix(b"\n").rpartition(b"\n")
    body += b"\n"
    if checksum != f"{crc32c(body):08x}".encode():
        return None
    head, *lines = body.decode().splitlines()
    if head != f"{VERSION} {broker_epoch}":
        return None
    found = {}
    for line in lines:
        topic, partition, start, end, segments, txn_indexes, files_checksum = line.split(" ")
        files = LogFiles(_bases(segments), _bases(txn_indexes), parse_number(files_checksum))
        key = TopicPartition(topic, parse_number(partition))
        found[key] = ClosedLog(parse_number(end), parse_number(start), files)
    return found


def _bases(text: str) -> tuple[int, ...]:
    return () if text == NONE else tuple(map(parse_number, text.split(",")))
