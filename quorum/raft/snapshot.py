"""Snapshots on disk: written outside the loop, checked completely on load, durable (file and folder) before removals.

    file     `<index, 20 digits>-<term, 10 digits>.snapshot`
    header   (64): magic 8 bytes, version u16, 6 zeros, index u64, term u64, end offset i64, epoch i64,
             voters length u32, crc32c u32 of the 52 before, 8 zeros
    voters   the set committed at `index` (commands.encode_voters)
    content  what the layer above supplied, in one piece: FetchSnapshot serves any part of it
    trailer  (16): file length u64, crc32c u32 of all before it, magic u32

A damaged snapshot stops the node: a state machine that starts empty would still vote and respond.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

import msgspec
from crc32c import crc32c

from kvorum.quorum.raft.commands import decode_voters, encode_voters
from kvorum.quorum.raft.journal_files import make_folder
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.voters import Endpoints, VoterSet
from kvorum.quorum.steps import Steps, finish
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk, File

MAGIC: Final = b"KVORUMS\0"
VERSION: Final = 1
TRAILER_MAGIC: Final = 0x444E454B
HEADER: Final = Struct("<8sH6xQQqqII8x")
HEADER_CHECKED_SIZE: Final = 52
TRAILER: Final = Struct("<QII")
SUFFIX: Final = ".snapshot"
_NAME: Final = re.compile(rf"[0-9]{{20}}-[0-9]{{10}}\{SUFFIX}")
"""Names from `snapshot_name`. A file with another name, such as a copy, is neither read nor removed."""
INCOMING_NAME: Final = "incoming.tmp"
OUTGOING_NAME: Final = "outgoing.tmp"
KEPT: Final = 3
"""The newest, and those before it that may still be opened by name: one written and one received may come at once."""
PIECE: Final = 1024 * 1024
"""Bytes read at a time: a fraction of a millisecond."""

assert HEADER.size == 64


class SnapshotCorrupt(Exception):
    """A snapshot is damaged, or the one that the journal leans on is missing: the node must not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMeta:
    """Identity of a snapshot, in Raft's terms and in Kafka's."""

    index: int
    term: int
    snapshot_id: SnapshotId
    voters: VoterSet
    endpoints: Endpoints | None = None
    """Endpoints of a dynamic quorum's voters; None in a static one."""


class Snapshot:
    """An open snapshot file; see SnapshotView. `read_file` gives the raw bytes for a transfer."""

    __slots__ = ("_content_position", "_file", "_path", "file_size", "meta", "size", "snapshot_id")

    def __init__(self, file: File, path: str, meta: SnapshotMeta, content_position: int, file_size: int) -> None:
        """Own an open file whose header was checked."""
        self._file = file
        self._path = path
        self.meta = meta
        self.snapshot_id = meta.snapshot_id
        self.file_size = file_size
        self._content_position = content_position
        self.size = file_size - content_position - TRAILER.size

    def check(self) -> Steps[None]:
        """Read all of it. Raises SnapshotCorrupt if length or checksum differ from the trailer."""
        end, computed = self.file_size - TRAILER.size, 0
        for position in range(0, end, PIECE):
            computed = crc32c(self._file.pread(min(PIECE, end - position), position), computed)
            yield
        if TRAILER.unpack(self._file.pread(TRAILER.size, end)) != (self.file_size, computed, TRAILER_MAGIC):
            raise SnapshotCorrupt(f"{self._path}: wrong checksum or length of the content")

    def read(self, position: int, size: int) -> bytes:
        """See SnapshotView."""
        size = max(0, min(size, self.size - position))
        return self._file.pread(size, self._content_position + position)

    def read_file(self, position: int, size: int) -> bytes:
        """Return bytes of the file unchanged."""
        return self._file.pread(min(size, self.file_size - position), position)

    def chunks(self) -> Iterator[bytes]:
        """See SnapshotView."""
        for position in range(0, self.size, PIECE):
            yield self.read(position, PIECE)

    def close(self) -> None:
        """See SnapshotView."""
        self._file.close()


def snapshot_name(index: int, term: int) -> str:
    """Return a snapshot's file name; names sort by index."""
    return f"{index:020d}-{term:010d}{SUFFIX}"


def encode_header(meta: SnapshotMeta) -> bytes:
    """Return header and voters."""
    voters = encode_voters(meta.voters, meta.endpoints)
    identity = meta.snapshot_id
    fields = (MAGIC, VERSION, meta.index, meta.term, identity.end_offset, identity.epoch, len(voters))
    checksum = crc32c(HEADER.pack(*fields, 0)[:HEADER_CHECKED_SIZE])
    return HEADER.pack(*fields, checksum) + voters


def open_snapshot(disk: Disk, path: str) -> Snapshot:
    """Open a snapshot and check its header. Raises SnapshotCorrupt."""
    file = disk.open(path)
    try:
        return _opened(file, path)
    except BaseException:
        file.close()
        raise


def _opened(file: File, path: str) -> Snapshot:
    size = file.size()
    head = file.pread(HEADER.size, 0)
    if size < HEADER.size + TRAILER.size or len(head) < HEADER.size:
        raise SnapshotCorrupt(f"{path}: {size} bytes are not a snapshot")
    magic, version, index, term, end_offset, epoch, voters_size, checksum = HEADER.unpack(head)
    if magic != MAGIC or crc32c(head[:HEADER_CHECKED_SIZE]) != checksum:
        raise SnapshotCorrupt(f"{path}: the header is damaged")
    if version > VERSION:
        raise SnapshotCorrupt(f"{path}: written by a newer Kvorum (snapshot version {version}, known is {VERSION})")
    try:
        voters, endpoints = decode_voters(file.pread(voters_size, HEADER.size))
    except msgspec.MsgspecError as error:
        raise SnapshotCorrupt(f"{path}: the voters are damaged: {error}") from error
    identity = SnapshotId(end_offset=end_offset, epoch=epoch)
    meta = SnapshotMeta(index=index, term=term, snapshot_id=identity, voters=voters, endpoints=endpoints)
    return Snapshot(file, path, meta, HEADER.size + voters_size, size)


class SnapshotStore:
    """The snapshots of one node. `latest` is durable and checked; methods with I/O name their thread."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Name the folder; call `load` before anything else."""
        self._disk = disk
        self._path = path
        self.latest: SnapshotMeta | None = None
        self._incoming: File | None = None
        self.incoming_id: tuple[int, int, int] | None = None
        """(index, term, file size) of the transfer under way."""
        self.incoming_position = 0

    def load(self) -> None:
        """Find and check the newest snapshot, and remove the remains of a crash. Raises SnapshotCorrupt."""
        if not self._disk.is_dir(self._path):
            make_folder(self._disk, self._path)
        for name in self._disk.listdir(self._path):
            if name.endswith(".tmp"):
                self._disk.remove(f"{self._path}/{name}")
        names = self._names()
        if names:
            snapshot = open_snapshot(self._disk, f"{self._path}/{names[-1]}")
            try:
                finish(snapshot.check())
            finally:
                snapshot.close()
            named = snapshot_name(snapshot.meta.index, snapshot.meta.term)
            if named != names[-1]:
                raise SnapshotCorrupt(f"{self._path}/{names[-1]} contains snapshot {named}: remove the copy")
            self.latest = snapshot.meta

    def _names(self) -> list[str]:
        return sorted(name for name in self._disk.listdir(self._path) if _NAME.fullmatch(name))

    def open_latest(self) -> Snapshot | None:
        """Open the newest one, its header checked."""
        if self.latest is None:
            return None
        return open_snapshot(self._disk, f"{self._path}/{snapshot_name(self.latest.index, self.latest.term)}")

    def write(self, meta: SnapshotMeta, chunks: Iterator[bytes]) -> int:
        """Write a snapshot durably, off the loop, and return its size; `adopt` it on the loop then. Raises OSError."""
        path = f"{self._path}/{OUTGOING_NAME}"
        self._disk.remove(path)
        file = self._disk.open(path, create=True)
        try:
            failpoints.hit("snapshot.write.before")
            head = encode_header(meta)
            file.pwrite(head, 0)
            position, checksum = len(head), crc32c(head)
            for chunk in chunks:
                file.pwrite(chunk, position)
                position += len(chunk)
                checksum = crc32c(chunk, checksum)
            file.pwrite(TRAILER.pack(position + TRAILER.size, checksum, TRAILER_MAGIC), position)
            failpoints.hit("snapshot.write.after")
            file.sync()
            failpoints.hit("snapshot.sync.after")
        finally:
            file.close()
        self._publish(path, meta.index, meta.term)
        return position + TRAILER.size

    def _publish(self, path: str, index: int, term: int) -> None:
        failpoints.hit("snapshot.rename.before")
        self._disk.rename(path, f"{self._path}/{snapshot_name(index, term)}")
        failpoints.hit("snapshot.rename.after")
        self._disk.sync_dir(self._path)
        failpoints.hit("snapshot.durable")
        for name in self._names()[:-KEPT]:
            failpoints.hit("snapshot.drop.before")
            self._disk.remove(f"{self._path}/{name}")
            failpoints.hit("snapshot.drop.after")

    def adopt(self, meta: SnapshotMeta) -> None:
        """Use a written snapshot as the newest."""
        if self.latest is None or meta.index > self.latest.index:
            self.latest = meta

    def receive(self, index: int, term: int, file_size: int, position: int, data: bytes) -> int:
        """Store a piece of a leader's snapshot; return the next wanted position. Gaps and repetitions are ignored."""
        identity = (index, term, file_size)
        if self.incoming_id != identity:
            self.abandon()
            path = f"{self._path}/{INCOMING_NAME}"
            self._disk.remove(path)
            self._incoming = self._disk.open(path, create=True)
            self.incoming_id, self.incoming_position = identity, 0
        assert self._incoming is not None
        if position == self.incoming_position and data and position + len(data) <= file_size:
            failpoints.hit("snapshot.receive.before")
            self._incoming.pwrite(data, position)
            failpoints.hit("snapshot.receive.after")
            self.incoming_position += len(data)
        return self.incoming_position

    def abandon(self) -> None:
        """Forget the transfer under way."""
        if self._incoming is not None:
            self._incoming.close()
        self._incoming = self.incoming_id = None
        self.incoming_position = 0

    def detach(self) -> tuple[int, int]:
        """Take the complete transfer from `receive`, for `install`; return its (index, term)."""
        assert self._incoming is not None and self.incoming_id is not None
        index, term, size = self.incoming_id
        assert self.incoming_position == size
        failpoints.hit("snapshot.arrive.before")
        self._disk.rename(f"{self._path}/{INCOMING_NAME}", self._arrived(index, term))
        failpoints.hit("snapshot.arrive.after")
        self.abandon()
        return index, term

    def _arrived(self, index: int, term: int) -> str:
        return f"{self._path}/{snapshot_name(index, term)}.tmp"

    def install(self, index: int, term: int) -> SnapshotMeta:
        """Make a complete transfer durable and check it, off the loop. Raises SnapshotCorrupt, OSError."""
        path = self._arrived(index, term)
        file = self._disk.open(path)
        try:
            failpoints.hit("snapshot.install.before")
            file.sync()
            failpoints.hit("snapshot.install.synced")
            snapshot = _opened(file, path)
            finish(snapshot.check())
        finally:
            file.close()
        meta = snapshot.meta
        if (meta.index, meta.term) != (index, term):
            raise SnapshotCorrupt(f"{path}: contains index {meta.index}, term {meta.term}")
        self._publish(path, index, term)
        return meta
