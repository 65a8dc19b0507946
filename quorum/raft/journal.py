"""DurableJournal: the Raft log, term and vote of one voter, on disk; pysyncobj's Journal over one append-only stream.

Everything is a record appended to the stream (entry, truncation, term and vote, start), so each change is atomic and
nothing is rewritten in place. Group commit, in three steps, so that the event loop never waits for the disk:

    batch = journal.take()          # on the loop: everything added since the last take
    journal.write(batch)            # off the loop: one block, one fdatasync; never two at a time
    journal.complete(batch)         # on the loop: `durable_index` and `durable_position` move

Code that depends on durability compares with `durable_index` (entries) or `durable_position` (anything, `position`
after it was added). A failed write or sync is never retried: the node ends.

pysyncobj addresses entries by their position in a list whose first element is only used as "the previous entry":
`first_index` is that one; its command may be empty after a snapshot was installed. Not thread safe except `write`,
`make_spare` and `drop`, which use only data that the loop does not use.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from pysyncobj.journal import Journal

from kvorum.quorum.raft.journal_files import SEGMENT_BYTES, SPARE_NAME, fill_with_zeros, make_folder, write_head
from kvorum.quorum.raft.journal_format import (
    ALIGNMENT,
    BLOCK_HEADER_SIZE,
    JournalCorrupt,
    RecordKind,
    encode_block,
    encode_record,
)
from kvorum.quorum.raft.journal_replay import Replayed, replay, segment_name
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk, File

_VOTE: Final = Struct("<q")

Entry = tuple[bytes, int, int]
"""(command, index, term), as pysyncobj has it."""


@dataclass(slots=True)
class Segment:
    """A segment on disk: no entry in it has an index above `last_index`."""

    number: int
    last_index: int


@dataclass(slots=True)
class Batch:
    """Records that one group commit makes durable."""

    parts: list[bytes]
    head: list[bytes]
    last_index: int
    position: int


class DurableJournal(Journal):  # type: ignore[misc]  # pysyncobj is untyped
    """See the module. `state` is a small value of the owner, as durable as the term."""

    def __init__(self, disk: Disk, path: str, replayed: Replayed, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Take over a recovered stream; use `open_journal` or `format_journal`."""
        self._disk = disk
        self._path = path
        self._segment_bytes = segment_bytes
        self._log: list[Entry] = replayed.log
        self._term = replayed.term
        self._vote: int | None = replayed.vote
        self.state = replayed.state
        self._segments = [Segment(number, last_index) for number, last_index in replayed.segments]
        self._file: File | None = None
        self._file_position = replayed.end
        self._sequence = replayed.sequence
        self._parts: list[bytes] = []
        self._writing = False
        self._spare_ready = False
        self._spare_begun = False
        self.position = 0
        self.durable_position = 0
        self.durable_index = self.last_index
        self._writing_index = self.durable_index
        self._durable_first = self._writing_first = self.first_index
        self.sync_count = 0
        if self._segments:
            self._file = disk.open(f"{path}/{segment_name(self._segments[-1].number)}")

    # The log as the rest of Raft sees it.

    @property
    def first_index(self) -> int:
        """The index of the element before the first entry proper; 0 while there is nothing at all."""
        return self._log[0][1] if self._log else 0

    @property
    def last_index(self) -> int:
        """The index of the last entry, durable or not."""
        return self._log[-1][1] if self._log else 0

    def term_at(self, index: int) -> int | None:
        """Return the entry's term; None where the log does not reach (compacted away, or not there yet)."""
        place = index - self.first_index
        return self._log[place][2] if 0 <= place < len(self._log) else None

    def first_index_of_term(self, index: int, floor: int) -> int:
        """Return the first index, not below `floor`, from which on all entries up to `index` have its term."""
        place, first = index - self.first_index, self.first_index
        term = self._log[place][2]
        while place > 0 and self._log[place - 1][2] == term and first + place - 1 >= floor:
            place -= 1
        return first + place

    def entries(self, first: int, bytes_max: int) -> list[Entry]:
        """Return entries from `first` on up to `bytes_max`; at least one if there is one. O(returned entries)."""
        place, size, log = first - self.first_index, 0, self._log
        end = place
        assert place > 0, "the first element is only ever the one before"
        while end < len(log) and size < bytes_max:
            size += len(log[end][0])
            end += 1
        if end > place + 1 and size > bytes_max:
            end -= 1
        return log[place:end]

    # pysyncobj's Journal.

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append an entry."""
        assert not self._log or idx == self._log[-1][1] + 1, (idx, self._log[-1][1])
        self._log.append((command, idx, term))
        self._record(RecordKind.ENTRY, idx, term, command)

    def clear(self) -> None:
        """Refused: pysyncobj clears only where it loads its own dumps, which are not used."""
        raise AssertionError("a journal is reset behind a snapshot, never cleared")

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        """Truncate at an index of the list (pysyncobj's interface)."""
        self.truncate_from(self.first_index + entryFrom)

    def deleteEntriesTo(self, entryTo: int) -> None:
        """Drop the entries before `entryTo` (pysyncobj's interface)."""
        self.start_at(self.first_index + entryTo)

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        """Return an element, or a list of them, by place."""
        return self._log[item]

    def __len__(self) -> int:
        """Return how many elements there are, the one before the first entry included."""
        return len(self._log)

    def _destroy(self) -> None:
        """Nothing: the owner closes."""

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Nothing: the commit index is learnt again from the leader."""

    def getRaftCommitIndex(self) -> int:
        """Return the index that is certainly committed: the first element's."""
        return max(self.first_index, 1)

    def setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:
        """Record term and vote.

        Answers that reflect them may be sent once `durable_position` has reached `position`.
        """
        if (term, votedForNodeId) == (self._term, self._vote):
            return
        assert term >= self._term, "terms never go back"
        self._term, self._vote = term, votedForNodeId
        self._record(RecordKind.META, 0, term, self._encoded_vote())

    def getCurrentTerm(self) -> int:
        """Return the current term."""
        return self._term

    def getVotedForNodeId(self) -> int | None:
        """Return the node that has this node's vote in the current term."""
        return self._vote

    def onOneSecondTimer(self) -> None:
        """Nothing: everything is synced as it comes."""

    # Unknown to pysyncobj.

    def set_state(self, state: bytes) -> None:
        """Replace the owner's value."""
        self.state = state
        self._record(RecordKind.STATE, 0, 0, state)

    def truncate_from(self, index: int) -> None:
        """Drop entries from `index` on."""
        if index > self.last_index:
            return
        assert index > self.first_index, "what a snapshot covers is committed"
        del self._log[index - self.first_index :]
        self._record(RecordKind.TRUNCATE, index, 0)
        self.durable_index = min(self.durable_index, index - 1)
        self._writing_index = min(self._writing_index, index - 1)

    def start_at(self, index: int) -> None:
        """Drop entries below `index`, which a durable snapshot covers; `index` itself stays as the one before."""
        if index <= self.first_index:
            return
        term = self.term_at(index)
        assert term is not None, "starts inside the log"
        del self._log[: index - self.first_index]
        self._record(RecordKind.START, index, term)

    def reset(self, index: int, term: int) -> None:
        """Drop all entries; the log begins behind (index, term), which a durable snapshot covers."""
        self._log = [(b"", index, term)]
        self._record(RecordKind.RESET, index, term)
        self.durable_index = min(self.durable_index, index)
        self._writing_index = min(self._writing_index, index)

    def _encoded_vote(self) -> bytes:
        return _VOTE.pack(-1 if self._vote is None else self._vote)

    def _record(self, kind: int, index: int, term: int, payload: bytes = b"") -> None:
        self._parts.append(encode_record(kind, index, term, payload))
        if payload:
            self._parts.append(payload)
        self.position += 1

    # Group commit.

    @property
    def is_clean(self) -> bool:
        """Whether all that was added is durable."""
        return self.durable_position == self.position

    def take(self) -> Batch | None:
        """Return the next write; None if there is nothing, a write is in progress, or the spare is missing.

        A write that fills the segment needs the next one, whose file is created during writes: the two must never
        coincide there.
        """
        if self._writing or not self._parts or (self._spare_begun and self._fills_segment()):
            return None
        self._writing = True
        parts, self._parts = self._parts, []
        self._writing_index = self.last_index
        self._writing_first = self.first_index
        return Batch(parts, self._head(), self.last_index, self.position)

    def _head(self) -> list[bytes]:
        """Return the initial records of a new segment: the state that is not in its own blocks.

        They describe the state *after* the batch they are taken with, except BASE, which replay compares with the log's
        end; so they are written after the batch, as the new segment's first block.
        """
        vote, state = self._encoded_vote(), self.state
        base = encode_record(RecordKind.BASE, self.last_index, self._log[-1][2] if self._log else 0)
        meta = encode_record(RecordKind.META, 0, self._term, vote)
        return [base, meta, vote, encode_record(RecordKind.STATE, 0, 0, state), state]

    def write(self, batch: Batch) -> None:
        """Make a batch durable. Raises OSError: the journal must then be given up."""
        assert self._file is not None
        block = encode_block(batch.parts, self._sequence)
        failpoints.hit("journal.write.before")
        self._file.pwrite(block, self._file_position)
        self._file_position += len(block)
        self._sequence += 1
        failpoints.hit("journal.write.after")
        self._file.sync()
        failpoints.hit("journal.sync.after")
        self.sync_count += 1
        last = self._segments[-1]
        last.last_index = max(last.last_index, batch.last_index)
        if self._file_position >= self._segment_bytes:
            self._roll(batch)

    def complete(self, batch: Batch) -> None:
        """Record that a batch is durable; entries truncated meanwhile do not count."""
        self._writing = False
        self.durable_position = batch.position
        self.durable_index = self._writing_index
        self._durable_first = self._writing_first

    def sync(self) -> None:
        """Make everything durable now, in this thread: when opening and in tests."""
        while (batch := self.take()) is not None:
            self.write(batch)
            self.complete(batch)

    def close(self) -> None:
        """Release the file; unsynced data is not waited for."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # Segments.

    def _fills_segment(self) -> bool:
        """Return whether the pending records may fill the segment, so that their write begins the next one."""
        size = BLOCK_HEADER_SIZE + ALIGNMENT + sum(map(len, self._parts))
        return self._file_position + size >= self._segment_bytes

    def begin_spare(self) -> bool:
        """Return whether `make_spare` should prepare the next segment: the current one is half full.

        Not while a write is in progress.
        """
        assert not self._writing, "a write may be about to begin a segment itself"
        if self._spare_ready or self._spare_begun or self._file_position * 2 < self._segment_bytes:
            return False
        self._spare_begun = True
        return True

    def complete_spare(self) -> None:
        """Take note that `make_spare` is done; what `take` held back may be written."""
        self._spare_begun, self._spare_ready = False, True

    def make_spare(self) -> None:
        """Prepare the next segment's zeros, off the loop and beside writes, between begin_spare and complete_spare."""
        path = f"{self._path}/{SPARE_NAME}"
        self._disk.remove(path)
        failpoints.hit("journal.spare.before")
        fill_with_zeros(self._disk, path, self._segment_bytes)
        failpoints.hit("journal.spare.after")

    def _roll(self, batch: Batch) -> None:
        """Begin a new segment; every block of the old one is durable, so only the newest can ever be torn."""
        assert self._file is not None
        number = self._segments[-1].number + 1
        spare = f"{self._path}/{SPARE_NAME}"
        failpoints.hit("journal.roll.before")
        if not self._spare_ready:
            self._disk.remove(spare)
            fill_with_zeros(self._disk, spare, self._segment_bytes)
        self._spare_ready = False
        path = f"{self._path}/{segment_name(number)}"
        position = write_head(self._disk, spare, number, batch.head, self._sequence)
        failpoints.hit("journal.roll.written")
        self._disk.rename(spare, path)
        failpoints.hit("journal.roll.renamed")
        self._disk.sync_dir(self._path)
        failpoints.hit("journal.roll.after")
        self._file.close()
        self._file = self._disk.open(path)
        self._file_position = position
        self._sequence += 1
        self._segments.append(Segment(number, batch.last_index))

    def droppable(self) -> list[int]:
        """Return the numbers of segments all of whose entries a START that is durable has dropped."""
        count = 0
        while count < len(self._segments) - 1 and self._segments[count].last_index < self._durable_first:
            count += 1
        return [segment.number for segment in self._segments[:count]]

    def drop(self, numbers: list[int]) -> None:
        """Remove the segments that `droppable` named, oldest first, off the loop."""
        for number in numbers:
            failpoints.hit("journal.drop.before")
            self._disk.remove(f"{self._path}/{segment_name(number)}")
            failpoints.hit("journal.drop.after")
            assert self._segments[0].number == number
            del self._segments[0]


def format_journal(disk: Disk, path: str, state: bytes, *, segment_bytes: int = SEGMENT_BYTES) -> None:
    """Create an empty journal with the owner's first state. Raises FileExistsError if there is one."""
    make_folder(disk, path)
    if any(name.endswith(".journal") for name in disk.listdir(path)):
        raise FileExistsError(f"{path} has a journal already")
    spare = f"{path}/{SPARE_NAME}"
    disk.remove(spare)
    fill_with_zeros(disk, spare, segment_bytes)
    vote = _VOTE.pack(-1)
    head = [
        encode_record(RecordKind.BASE, 0, 0),
        encode_record(RecordKind.META, 0, 0, vote),
        vote,
        encode_record(RecordKind.STATE, 0, 0, state),
        state,
    ]
    write_head(disk, spare, 1, head, 1)
    failpoints.hit("journal.format.written")
    disk.rename(spare, f"{path}/{segment_name(1)}")
    failpoints.hit("journal.format.renamed")
    disk.sync_dir(path)


def open_journal(disk: Disk, path: str, *, segment_bytes: int = SEGMENT_BYTES) -> DurableJournal:
    """Recover and open the journal. Raises JournalCorrupt if it is damaged or missing (lost is not empty)."""
    if not disk.is_dir(path):
        raise JournalCorrupt(f"{path}: the journal is missing; a directory without its journal must be formatted again")
    replayed = replay(disk, path)
    disk.remove(f"{path}/{SPARE_NAME}")
    return DurableJournal(disk, path, replayed, segment_bytes=segment_bytes)
