"""Snapshots of the metadata: an image as record batches, and the `OFFSET-EPOCH.checkpoint` files that keep them.

A snapshot is Kafka's (KIP-630): a control batch with the SnapshotHeader record, batches of metadata records, a control
batch with the SnapshotFooter record. Offsets in it count from 0; every batch carries the epoch of the snapshot id. The
same image gives the same bytes. One without its footer, or with anything out of order, is refused whole.

The file name is Kafka's Snapshots.filenameFromSnapshotId: 20 digits of end offset, 10 digits of epoch.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from kvorum.protocol.batch_header import HEADER_SIZE, MAGIC, BatchHeader, parse_header
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.records import decode_records as decode_batch_records
from kvorum.quorum.batches import RECORD_OVERHEAD_MAX, decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.raft.log import COMMAND_BYTES_MAX, SnapshotId
from kvorum.quorum.records import MetadataRecord, UnknownRecord, encode
from kvorum.quorum.steps import Steps
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk, File

CHECKPOINT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
PARTIAL_SUFFIX: Final = ".checkpoint.part"
"""Suffix of files being written or fetched; removed at start."""

SNAPSHOT_BATCH_BYTES: Final = 64 * 1024
"""Small batches: a reader replays one between two checks of the clock."""
SNAPSHOT_BATCH_RECORDS: Final = 500
READ_SIZE: Final = 256 * 1024

CONTROL_RECORD_VERSION: Final = 0
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
"""Kafka's ControlRecordType."""

_KEY: Final = Struct(">hh")
_HEADER_VALUE: Final = Struct(">hqB")
_FOOTER_VALUE: Final = Struct(">hB")


class SnapshotDamaged(Exception):
    """The bytes are not a complete snapshot. The node must neither continue with it nor start empty instead."""


def checkpoint_name(snapshot_id: SnapshotId) -> str:
    """Return the file name of a snapshot."""
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def encode_snapshot(records: Iterable[MetadataRecord], epoch: int, last_timestamp_ms: int) -> Iterator[bytes]:
    """Yield the snapshot's batches, each as one chunk of bytes.

    `last_timestamp_ms` is that of the last batch in the image, and the timestamp of all records here. Lazy: the image's
    records are created on demand, so this may run off the event loop.
    """
    header = _HEADER_VALUE.pack(CONTROL_RECORD_VERSION, last_timestamp_ms, 0)
    offset = 0
    yield _control_batch(SNAPSHOT_HEADER, header, offset, epoch, last_timestamp_ms)
    offset += 1
    for values in _runs(encode(record) for record in records):
        batch = [Record(value=value, timestamp=last_timestamp_ms) for value in values]
        yield bytes(build_batch(batch, base_offset=offset, partition_leader_epoch=epoch))
        offset += len(values)
    footer = _FOOTER_VALUE.pack(CONTROL_RECORD_VERSION, 0)
    yield _control_batch(SNAPSHOT_FOOTER, footer, offset, epoch, last_timestamp_ms)


def decode_snapshot(chunks: Iterable[bytes]) -> Iterator[tuple[int, list[MetadataRecord]]]:
    """Yield (last contained timestamp, records) of each batch, header and footer included (without records).

    Raises SnapshotDamaged at the first fault, and at the end without a footer: earlier results must not be used then.
    """
    expected_offset = 0
    timestamp_ms = -1
    ended = False
    for view, header in _whole_batches(chunks):
        if ended:
            raise SnapshotDamaged("data after the snapshot footer")
        if header.base_offset != expected_offset:
            raise SnapshotDamaged(f"a batch at offset {header.base_offset}, expected {expected_offset}")
        try:
            records = decode_batch(view, 0, header)
            kind = _control_type(view, header) if header.is_control else None
        except (KafkaError, UnknownRecord) as error:
            raise SnapshotDamaged(f"the batch at offset {expected_offset}: {error}") from error
        if (kind == SNAPSHOT_HEADER) != (expected_offset == 0):
            raise SnapshotDamaged(f"offset {expected_offset}: a snapshot must begin with its only header")
        if kind == SNAPSHOT_HEADER:
            timestamp_ms = header.max_timestamp
        ended = kind == SNAPSHOT_FOOTER
        expected_offset = header.next_offset
        yield timestamp_ms, records
    if not ended:
        raise SnapshotDamaged("the snapshot has no footer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """Contents of a snapshot: image, open transaction after it, timestamp of the last batch (ms)."""

    image: MetadataImage
    transactions: TransactionBuffer
    timestamp_ms: int


def load_snapshot(snapshot_id: SnapshotId, chunks: Iterable[bytes]) -> Steps[LoadedSnapshot]:
    """Make a snapshot's image; a step is one batch of it. Raises SnapshotDamaged, UnknownRecord."""
    delta = MetadataDelta(MetadataImage())
    transactions = TransactionBuffer()
    last_offset = snapshot_id.end_offset - 1
    timestamp_ms = -1
    for batch_timestamp_ms, found in decode_snapshot(chunks):
        timestamp_ms = batch_timestamp_ms
        yield
        for record in found:
            for _, ready in transactions.feed(last_offset, record):
                delta.replay(ready)
        yield
    image = yield from delta.applied(last_offset, snapshot_id.epoch)
    return LoadedSnapshot(image=image, transactions=transactions, timestamp_ms=timestamp_ms)


class SnapshotFiles:
    """The checkpoint files in the folder of one copy of the metadata log. Used off the event loop."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Use the folder, which must exist; incomplete files of an earlier process are removed."""
        self._disk = disk
        self._directory = directory
        for name in disk.listdir(directory):
            if name.endswith(PARTIAL_SUFFIX):
                disk.remove(self._path(name))

    def ids(self) -> list[SnapshotId]:
        """Return the existing ids, oldest first."""
        found = (CHECKPOINT.fullmatch(name) for name in self._disk.listdir(self._directory))
        ids = [SnapshotId(end_offset=int(match[1]), epoch=int(match[2])) for match in found if match]
        return sorted(ids, key=lambda snapshot_id: snapshot_id.end_offset)

    def write(self, snapshot_id: SnapshotId, chunks: Iterable[bytes]) -> int:
        """Write a snapshot as one step that survives a crash; return its size in bytes. Raises OSError."""
        part = self.partial(snapshot_id)
        with part:
            for chunk in chunks:
                part.append(chunk)
            part.finish()
        return part.size

    def partial(self, snapshot_id: SnapshotId) -> "PartialSnapshot":
        """Start a snapshot that arrives in pieces."""
        return PartialSnapshot(self._disk, self._directory, checkpoint_name(snapshot_id))

    def read(self, snapshot_id: SnapshotId) -> Iterator[bytes]:
        """Yield the file's bytes in pieces. Raises FileNotFoundError."""
        file = self._disk.open(self._path(checkpoint_name(snapshot_id)))
        try:
            position = 0
            while data := file.pread(READ_SIZE, position):
                position += len(data)
                yield data
        finally:
            file.close()

    def delete_before(self, end_offset: int) -> int:
        """Remove the snapshots that end below this offset; return how many."""
        old = [snapshot_id for snapshot_id in self.ids() if snapshot_id.end_offset < end_offset]
        for snapshot_id in old:
            self._disk.remove(self._path(checkpoint_name(snapshot_id)))
            failpoints.hit("metadata.snapshot.drop.after")
        if old:
            self._disk.sync_dir(self._directory)
        return len(old)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class PartialSnapshot:
    """A snapshot being written; it gets its name only when it is whole and synced."""

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        """Start with an empty file."""
        self._disk = disk
        self._directory = directory
        self._name = name
        self._path = f"{directory}/{name.removesuffix('.checkpoint')}{PARTIAL_SUFFIX}"
        self._finished = False
        self.size = 0
        self._file: File = disk.open(self._path, create=True)
        self._file.truncate(0)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write the next piece. Raises OSError."""
        failpoints.hit("metadata.snapshot.write.before")
        self._file.pwrite(data, self.size)
        failpoints.hit("metadata.snapshot.write.after")
        self.size += len(data)

    def check(self) -> None:
        """Read it all back as a snapshot. Raises SnapshotDamaged."""
        for _ in decode_snapshot(self.chunks()):
            pass

    def chunks(self) -> Iterator[bytes]:
        """Yield the written bytes."""
        position = 0
        while data := self._file.pread(READ_SIZE, position):
            position += len(data)
            yield data

    def finish(self) -> None:
        """Make it durable under its name."""
        failpoints.hit("metadata.snapshot.sync.before")
        self._file.sync()
        failpoints.hit("metadata.snapshot.sync.after")
        self._disk.rename(self._path, f"{self._directory}/{self._name}")
        failpoints.hit("metadata.snapshot.rename.after")
        self._disk.sync_dir(self._directory)
        failpoints.hit("metadata.snapshot.durable")
        self._finished = True

    def close(self) -> None:
        """Close the file; one that was not finished is removed. Idempotent."""
        self._file.close()
        if not self._finished:
            self._disk.remove(self._path)
            self._finished = True

    def __enter__(self) -> "PartialSnapshot":
        """Use as a context that closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def _runs(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield encoded records in runs that each form a batch."""
    run: list[bytes] = []
    size = 0
    for value in values:
        needed = len(value) + RECORD_OVERHEAD_MAX
        if run and (size + needed > SNAPSHOT_BATCH_BYTES or len(run) == SNAPSHOT_BATCH_RECORDS):
            yield run
            run, size = [], 0
        run.append(value)
        size += needed
    if run:
        yield run


def _control_batch(kind: int, value: bytes, offset: int, epoch: int, timestamp_ms: int) -> bytes:
    record = Record(key=_KEY.pack(CONTROL_RECORD_VERSION, kind), value=value, timestamp=timestamp_ms)
    return bytes(build_batch([record], base_offset=offset, partition_leader_epoch=epoch, is_control=True))


def _control_type(view: memoryview, header: BatchHeader) -> int:
    """Return the type of a control batch's one record. Raises SnapshotDamaged."""
    records = decode_batch_records(view)
    if len(records) != 1 or records[0].key is None or len(records[0].key) != _KEY.size:
        raise SnapshotDamaged(f"the batch at offset {header.base_offset} is not a control batch")
    version, kind = _KEY.unpack(records[0].key)
    if version != CONTROL_RECORD_VERSION or kind not in (SNAPSHOT_HEADER, SNAPSHOT_FOOTER):
        raise SnapshotDamaged(f"a control record of type {kind}, version {version} in a snapshot")
    return int(kind)


def _whole_batches(chunks: Iterable[bytes]) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Cut the pieces, which may end anywhere, into batches. Raises SnapshotDamaged."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        position = 0
        while len(data) - position >= HEADER_SIZE:
            header = parse_header(data, position)
            if header.magic != MAGIC or not HEADER_SIZE <= header.size <= COMMAND_BYTES_MAX:
                raise SnapshotDamaged(f"a batch of {header.size} bytes and magic {header.magic}")
            if len(data) - position < header.size:
                break
            yield memoryview(data)[position : position + header.size], header
            position += header.size
        rest = data[position:]
    if rest:
        raise SnapshotDamaged(f"{len(rest)} bytes after the last batch")
