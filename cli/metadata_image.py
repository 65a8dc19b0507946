"""The metadata as it was at an offset, from a controller's or broker's files (over the wire: metadata_fetch).

Files are only read: a node may run beside it. What the files no longer have (a snapshot stands for it) cannot be had.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kvorum.cli.log_files import batches
from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.errors import KafkaError
from kvorum.quorum.batches import METADATA_FOLDER, decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.snapshot import SUFFIX as RAFT_SUFFIX
from kvorum.quorum.raft.snapshot import SnapshotCorrupt, open_snapshot
from kvorum.quorum.records import UnknownRecord
from kvorum.quorum.snapshots import CHECKPOINT, SnapshotDamaged, load_snapshot
from kvorum.quorum.steps import finish
from kvorum.runtime.disk import OsDisk
from kvorum.storage.names import LOG_SUFFIX, offset_of

READ_BYTES = 256 * 1024
RAFT_SNAPSHOTS = ("raft", "snapshots")
"""Where a controller keeps its snapshots: beside the log's folder."""

Raw = tuple[memoryview, BatchHeader]
"""A batch's bytes, and its header."""


class MetadataProblem(Exception):
    """Metadata that cannot be read, or are not there; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where metadata come from: the snapshots there are, how to read one, and the batches from an offset on."""

    snapshots: Sequence[SnapshotId]
    read_snapshot: Callable[[SnapshotId], Iterator[bytes]]
    read_batches: Callable[[int], Iterator[Raw]]


def folder_source(path: str) -> Source:
    """Return what lies in a folder: that of the metadata log, or one it lies in. Raises MetadataProblem, OSError."""
    inner = os.path.join(path, METADATA_FOLDER)
    folder = inner if os.path.isdir(inner) else path
    names = os.listdir(folder)
    found = [
        SnapshotId(end_offset=int(match[1]), epoch=int(match[2])) for match in map(CHECKPOINT.fullmatch, names) if match
    ]
    segments = sorted(
        (offset, name) for name in names if name.endswith(LOG_SUFFIX) and (offset := offset_of(name)) is not None
    )
    own = raft_snapshots(os.path.join(os.path.dirname(os.path.abspath(folder)), *RAFT_SNAPSHOTS))
    if not found and not segments:
        raise MetadataProblem(f"{path} has no metadata log: neither segments nor snapshots")

    def read_snapshot(snapshot_id: SnapshotId) -> Iterator[bytes]:
        if snapshot_id in own:
            yield from raft_snapshot_content(own[snapshot_id])
            return
        name = f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"
        with open(os.path.join(folder, name), "rb") as file:
            while data := file.read(READ_BYTES):
                yield data

    def read_batches(start: int) -> Iterator[Raw]:
        for index, (_, name) in enumerate(segments):
            if index + 1 < len(segments) and segments[index + 1][0] <= start:
                continue  # it ends before
            with open(os.path.join(folder, name), "rb") as file:
                for batch in batches(file):
                    yield batch.data, batch.header

    ordered = sorted({*found, *own}, key=lambda snapshot_id: snapshot_id.end_offset)
    return Source(snapshots=ordered, read_snapshot=read_snapshot, read_batches=read_batches)


def raft_snapshots(folder: str) -> dict[SnapshotId, str]:
    """Return the files of a controller's own snapshots, which lie beside its log. Raises MetadataProblem, OSError."""
    found: dict[SnapshotId, str] = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(RAFT_SUFFIX):
            path = os.path.join(folder, name)
            try:
                snapshot = open_snapshot(OsDisk(), path)
            except SnapshotCorrupt as error:
                raise MetadataProblem(str(error)) from error
            found[snapshot.meta.snapshot_id] = path
            snapshot.close()
    return found


def raft_snapshot_content(path: str) -> Iterator[bytes]:
    """Yield what a controller's snapshot holds: a snapshot as Kafka has it. Raises MetadataProblem, OSError."""
    try:
        snapshot = open_snapshot(OsDisk(), path)
    except SnapshotCorrupt as error:
        raise MetadataProblem(str(error)) from error
    try:
        yield from snapshot.chunks()
    finally:
        snapshot.close()


def image_at(source: Source, at: int | None) -> MetadataImage:
    """Return the image behind the record at an offset, or the last there is. Raises MetadataProblem, OSError.

    An offset inside a batch counts the records up to it; a transaction that is open there does not count.
    """
    usable = [each for each in source.snapshots if at is None or each.end_offset - 1 <= at]
    image, transactions = MetadataImage(), TransactionBuffer()
    try:
        if usable:
            loaded = finish(load_snapshot(usable[-1], source.read_snapshot(usable[-1])))
            image, transactions = loaded.image, loaded.transactions
        offset, epoch, expected = image.offset, image.epoch, image.offset + 1
        delta = MetadataDelta(image)
        for view, header in source.read_batches(expected):
            if header.next_offset <= expected:
                continue
            if header.base_offset > expected:
                begins = f"the log begins at {header.base_offset}"
                raise MetadataProblem(f"nothing tells of offset {expected}: {begins}, no snapshot goes so far back")
            if at is not None and header.base_offset > at:
                break
            for number, record in enumerate(decode_batch(view, 0, header), header.base_offset):
                if at is not None and number > at:
                    break
                for place, ready in transactions.feed(number, record):
                    delta.replay(ready, place)
                offset = number
            epoch, expected = header.partition_leader_epoch, header.next_offset
    except (KafkaError, UnknownRecord, SnapshotDamaged) as error:
        raise MetadataProblem(str(error)) from error
    if at is not None and (at > offset or offset < 0):
        raise MetadataProblem(f"the log ends at {offset}: there is no offset {at}")
    return delta.apply(offset, epoch)
