"""The metadata log from a controller's or broker's files (over the wire: client/metadata_log/metadata_fetch).

Files are only read: a node may run beside it. Records that the files no longer have (a snapshot replaced them) are not
available.
"""

import os
from collections.abc import Iterator

from kvorum.cli.dump.log_files import batches
from kvorum.client.metadata_log.metadata_image import MetadataProblem, Raw, Source
from kvorum.quorum.batches import METADATA_FOLDER
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.snapshot import SUFFIX as RAFT_SUFFIX
from kvorum.quorum.raft.snapshot import SnapshotCorrupt, open_snapshot
from kvorum.quorum.snapshots import CHECKPOINT
from kvorum.runtime.disk import OsDisk
from kvorum.storage.names import LOG_SUFFIX, offset_of

READ_BYTES = 256 * 1024
RAFT_SNAPSHOTS = ("raft", "snapshots")
"""Folder of a controller's snapshots: beside the log's folder."""


def folder_source(path: str) -> Source:
    """Return the contents of the metadata log's folder, or of its parent. Raises MetadataProblem, OSError."""
    inner = os.path.join(path, METADATA_FOLDER)
    folder = inner if os.path.isdir(inner) else path
    names = os.listdir(folder)
    found = [
        SnapshotId(end_offset=int(match[1]), epoch=int(match[2])) for match in map(CHECKPOINT.fullmatch, names) if match
    ]
    segments = sorted((offset, name) for name in names if (offset := offset_of(name, LOG_SUFFIX)) is not None)
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


def file_source(path: str) -> Source:
    """Return the content of a snapshot (.checkpoint), or of a segment from the beginning. Raises MetadataProblem."""
    name = os.path.basename(path)
    match = CHECKPOINT.fullmatch(name)
    if match is None and offset_of(name, LOG_SUFFIX) is None:
        raise MetadataProblem(f"{name} is neither a snapshot (OFFSET-EPOCH.checkpoint) nor a segment (OFFSET.log)")

    def read_snapshot(_: SnapshotId) -> Iterator[bytes]:
        with open(path, "rb") as file:
            while data := file.read(READ_BYTES):
                yield data

    def read_batches(_: int) -> Iterator[Raw]:
        if match is None:
            with open(path, "rb") as file:
                for batch in batches(file):
                    yield batch.data, batch.header

    found = [] if match is None else [SnapshotId(end_offset=int(match[1]), epoch=int(match[2]))]
    return Source(snapshots=found, read_snapshot=read_snapshot, read_batches=read_batches)


def raft_snapshots(folder: str) -> dict[SnapshotId, str]:
    """Return the files of a controller's own snapshots, which are beside its log. Raises MetadataProblem, OSError."""
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
    """Yield the content of a controller's snapshot, in Kafka's form. Raises MetadataProblem, OSError."""
    try:
        snapshot = open_snapshot(OsDisk(), path)
    except SnapshotCorrupt as error:
        raise MetadataProblem(str(error)) from error
    try:
        yield from snapshot.chunks()
    finally:
        snapshot.close()
