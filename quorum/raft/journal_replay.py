"""Recovery of the journal: all segments read in order, checked against one another, the torn tail truncated.

JournalCorrupt, with file and position: a damaged block before a valid one, an invalid block in a segment that is not
the newest, a missing segment (number, block sequence, or the log's end do not fit), entries that are not consecutive, a
log that begins later than a START or RESET requires.
"""

import re
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, assert_never

from kvorum.quorum.raft.journal_format import JournalCorrupt, Record, RecordKind, Scan, scan_segment
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk

SUFFIX: Final = ".journal"
_NAME: Final = re.compile(rf"[0-9]{{20}}\{SUFFIX}")
_VOTE: Final = Struct("<q")
_UNKNOWN_TERM: Final = -1


def segment_name(number: int) -> str:
    """Return a segment's file name."""
    return f"{number:020d}{SUFFIX}"


@dataclass(slots=True)
class Replayed:
    """Result of the replay."""

    log: list[tuple[bytes, int, int]] = field(default_factory=list)
    term: int = 0
    vote: int | None = None
    state: bytes = b""
    segments: list[tuple[int, int]] = field(default_factory=list)
    sequence: int = 1
    """The next block's."""
    end: int = 0
    """Position of the next block in the newest segment."""
    floating: bool = False
    """The first segment left begins in the middle: entries before it are unknown until a START or RESET."""

    @property
    def last_index(self) -> int:
        """The last entry's index, 0 without one."""
        return self.log[-1][1] if self.log else 0

    def apply(self, record: Record, path: str) -> None:
        """Replay one record."""
        kind = RecordKind(record.kind)
        match kind:
            case RecordKind.ENTRY:
                if self.log and record.at != self.last_index + 1:
                    raise JournalCorrupt(f"{path}: entry {record.at} follows entry {self.last_index}")
                self.log.append((record.payload, record.at, record.term))
            case RecordKind.TRUNCATE:
                self._truncate(record.at, path)
            case RecordKind.META:
                vote = int(_VOTE.unpack(record.payload)[0])
                self.term, self.vote = record.term, None if vote == -1 else vote
            case RecordKind.START:
                self._start(record, path)
            case RecordKind.RESET:
                self.log = [(b"", record.at, record.term)]
                self.floating = False
            case RecordKind.STATE:
                self.state = record.payload
            case RecordKind.BASE:
                self._base(record, path)
            case _:
                assert_never(kind)

    def _truncate(self, index: int, path: str) -> None:
        if self.log and index > self.log[0][1]:
            del self.log[index - self.log[0][1] :]
        elif self.floating:
            self.log = [(b"", index - 1, _UNKNOWN_TERM)]
        else:
            raise JournalCorrupt(f"{path}: truncation at {index} of a log that begins at {self.log[:1]}")

    def _start(self, record: Record, path: str) -> None:
        first = self.log[0][1] if self.log else 0
        if self.floating and record.at < first:
            return
        place = record.at - first
        if not 0 <= place < len(self.log):
            raise JournalCorrupt(f"{path}: start {record.at} outside of {first}..{self.last_index}")
        if self.log[place][2] not in (record.term, _UNKNOWN_TERM):
            raise JournalCorrupt(f"{path}: start {record.at} has a different term than the entry")
        kept = self.log[place]
        self.log = [(kept[0], record.at, record.term), *self.log[place + 1 :]]
        self.floating = False

    def _base(self, record: Record, path: str) -> None:
        if self.segments:
            last = (self.last_index, self.log[-1][2] if self.log else 0)
            if last != (record.at, record.term) and not (last[0] == record.at and last[1] == _UNKNOWN_TERM):
                raise JournalCorrupt(f"{path}: continues entry {record.at}, the segment before ends at {last[0]}")
        elif record.at:
            self.log = [(b"", record.at, record.term)]
            self.floating = True


def replay(disk: Disk, path: str) -> Replayed:
    """Read all segments of the folder; cut a torn tail off durably. Raises JournalCorrupt."""
    names = [name for name in disk.listdir(path) if _NAME.fullmatch(name)]
    if not names:
        raise JournalCorrupt(f"{path}: the journal is missing; a directory without its journal must be formatted again")
    result = Replayed()
    for place, name in enumerate(names):
        file_path = f"{path}/{name}"
        newest = place == len(names) - 1
        scan = scan_segment(disk.read(file_path), file_path)
        _check_order(result, scan, name, file_path)
        if scan.torn and not newest:
            raise JournalCorrupt(f"{file_path}: damaged at byte {scan.end}, and a later segment exists")
        last_index = result.last_index
        for sequence, records in scan.blocks:
            if sequence != result.sequence:
                raise JournalCorrupt(f"{file_path}: block {sequence}, expected {result.sequence}")
            result.sequence = sequence + 1
            for record in records:
                result.apply(record, file_path)
                last_index = max(last_index, result.last_index)
        if not scan.blocks:
            raise JournalCorrupt(f"{file_path}: the first block is invalid")
        result.segments.append((scan.number, last_index))
        result.end = scan.end
        if scan.torn:
            _cut_tail(disk, file_path, scan.end)
    if result.floating:
        raise JournalCorrupt(f"{path}: the log begins at {result.log[0][1]}, without a snapshot start record")
    return result


def _check_order(result: Replayed, scan: Scan, name: str, path: str) -> None:
    if segment_name(scan.number) != name:
        raise JournalCorrupt(f"{path}: it contains segment number {scan.number}")
    if result.segments and scan.number != result.segments[-1][0] + 1:
        raise JournalCorrupt(f"{path}: the segment before it is {result.segments[-1][0]}; one is missing")
    if not result.segments and scan.blocks:
        result.sequence = scan.blocks[0][0]


def _cut_tail(disk: Disk, path: str, position: int) -> None:
    """Write zeros over a torn tail, durably, before anything may be appended behind it."""
    file = disk.open(path)
    try:
        size = file.size()
        failpoints.hit("journal.cut.before")
        file.pwrite(bytes(size - position), position)
        failpoints.hit("journal.cut.written")
        file.sync()
        failpoints.hit("journal.cut.after")
    finally:
        file.close()
