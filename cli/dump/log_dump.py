"""Segments and snapshots as lines of text, in the format of Kafka's DumpLogSegments, with their damage."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from kvorum.cli.dump.log_files import Batch, FileProblem, batches, file_size
from kvorum.cli.records.control_records import control_text
from kvorum.cli.records.record_decoders import Decoder
from kvorum.protocol.batch_header import BatchHeader, increment_sequence
from kvorum.protocol.records import Record, codec_of
from kvorum.quorum.snapshots import CHECKPOINT
from kvorum.storage.names import offset_of

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Parts of a segment to print."""

    decoder: Decoder | None = None
    """Prints keys and payloads; None leaves them out."""
    deep: bool = False
    """Print every record, not only batches."""
    skip_metadata: bool = False
    size_max: int | None = None
    read: Callable[[int], None] = lambda _: None
    """Called with the number of bytes read of a segment since the last call."""


@dataclass(frozen=True, slots=True)
class Problems:
    """Problems of the files, in Kafka's words, by file."""

    lines: dict[str, list[str]] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    """Additional messages of Kafka's tool, which are normal for a compacted log."""

    def note(self, title: str, line: str) -> None:
        """Add a line below a title."""
        self.lines.setdefault(title, []).append(line)

    def remark(self, title: str, line: str) -> None:
        """Add a line that is not a fault."""
        self.remarks.setdefault(title, []).append(line)


def dump_log(path: str, options: Options, problems: Problems) -> Iterator[str]:
    """Yield the lines of a segment (.log) or a metadata snapshot (.checkpoint). Raises FileProblem, OSError."""
    yield title_of(os.path.basename(path))
    with open(path, "rb") as file:
        yield from batch_lines(file, os.path.abspath(path), options, problems)


def title_of(name: str) -> str:
    """Return the line above a file's batches. Raises FileProblem for a name that no such file has."""
    if name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    match = CHECKPOINT.fullmatch(name)
    if match:
        return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"
    offset = offset_of(name)
    if offset is None:
        raise FileProblem(f"{name} is not the name of a segment: 20 digits and .log")
    return f"Log starting offset: {offset}"


def batch_lines(file: BinaryIO, path: str, options: Options, problems: Problems) -> Iterator[str]:
    """Yield one line per batch, and one per record."""
    valid, last_offset = 0, None
    for batch in batches(file, size_max=options.size_max):
        yield batch_line(batch)
        if not batch.is_valid:
            problems.note(f"Batches with a wrong CRC in {path}", f"  at position {batch.position}")
        options.read(len(batch.data))
        valid = batch.position + len(batch.data)
        if not options.deep:
            continue
        for record in batch.records():
            if last_offset is not None and record.offset != last_offset + 1:
                problems.remark(f"Non-consecutive offsets in {path}", f"  {last_offset} is followed by {record.offset}")
            last_offset = record.offset
            yield record_line(batch.header, record, options)
    trailing = file_size(file) - valid
    if trailing and options.size_max is None:
        text = f"Found {trailing} invalid bytes at the end of {os.path.basename(path)}"
        problems.note(text, f"  after position {valid}")
        yield text


def batch_line(batch: Batch) -> str:
    """Return a batch's line."""
    header = batch.header
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {truth(header.is_transactional)} isControl: {truth(header.is_control)}"
        f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        f" position: {batch.position} {timestamp_type(header)}: {header.max_timestamp}"
        f" size: {len(batch.data)} magic: {header.magic} compresscodec: {codec_of(header).name.lower()}"
        f" crc: {header.crc} isvalid: {truth(batch.is_valid)}"
    )


def record_line(header: BatchHeader, record: Record, options: Options) -> str:
    """Return a record's line, with its content if wanted."""
    line, start = "", "| "
    if not options.skip_metadata:
        line = (
            f"| offset: {record.offset} {timestamp_type(header)}: {record.timestamp}"
            f" keySize: {size_of(record.key)} valueSize: {size_of(record.value)}"
            f" sequence: {sequence_of(header, record)} headerKeys: [{','.join(key for key, _ in record.headers)}]"
        )
        start = " "
        if header.is_control:
            line += control_text(record)
    if options.decoder is not None and not header.is_control:
        key, payload = options.decoder(record)
        parts = [f"key: {key}"] if key is not None else []
        parts += [f"payload: {payload}"] if payload is not None else []
        line += start + " ".join(parts) if parts else ""
    return line


def sequence_of(header: BatchHeader, record: Record) -> int:
    """Return a record's sequence number, -1 without one."""
    if header.base_sequence < 0:
        return header.base_sequence
    return increment_sequence(header.base_sequence, record.offset - header.base_offset)


def timestamp_type(header: BatchHeader) -> str:
    """Return whose clock the timestamps are of."""
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def size_of(data: bytes | None) -> int:
    """Return a length as Kafka prints it: -1 of null."""
    return -1 if data is None else len(data)


def truth(value: bool) -> str:
    """Return true or false, as Java writes them."""
    return "true" if value else "false"
