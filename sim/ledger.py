"""Invariants of a partition's committed batches and possible leaders. Sans-IO.

The ledger of a partition grows when a leader advances its high watermark: records below are committed; from then on
every replica must equal them, and every new leader and every running member of ISR and ELR must have them
(Vanlightly's LeaderCandidateCompleteness, LeaderCompleteness, LogMatching; kip_966_properties.tla). Two events make a
loss legal (reliability: "N-1 fault tolerance must be stated precisely"): an unclean election, and that every member of
ISR and ELR lost its unsynced data, or its log. Then the ledger restarts at the end of the new leader's log, and reports
it.
"""

from bisect import bisect_left
from collections.abc import Set
from operator import attrgetter
from typing import NamedTuple

from kvorum.protocol.records import batches
from kvorum.storage.names import LOG_SUFFIX, offset_of, segment_file
from sim.disk import SimDisk
from sim.log_starts import LogStarts


class Violation(AssertionError):
    """A broken invariant: `kind` is its short name, the message has the observation."""

    def __init__(self, kind: str, message: str) -> None:
        """Name it."""
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Entry(NamedTuple):
    """A batch: its offsets, its leader epoch, and its CRC, which identifies the content."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    timestamp: int = 0
    """The latest of its records, in milliseconds."""
    size: int = 0


def place_of(entries: list[Entry], offset: int) -> int:
    """Return the place of the first entry that begins at an offset or above."""
    return bisect_left(entries, offset, key=attrgetter("base_offset"))


class ReplicaLog:
    """One replica's log, read from its disk as it grows; independent of the code under test."""

    __slots__ = (
        "_disk",
        "_folder",
        "_path",
        "_place",
        "_places",
        "deleted_below",
        "entries",
        "start",
        "verified_below",
    )

    def __init__(self, disk: SimDisk, folder: str) -> None:
        """Read the present content."""
        self._disk = disk
        self._folder = folder
        self.entries: list[Entry] = []
        names = [name for name in disk.names_in(folder) if name.endswith(LOG_SUFFIX) and offset_of(name) is not None]
        self.start = min((offset_of(name) or 0 for name in names), default=0)
        self.deleted_below = self.start
        """The log start offset: earlier records may still be on the disk, but are invisible."""
        self.verified_below = self.start
        """All entries below were found equal to the ledger's."""
        self._path = segment_file(folder, self.start, LOG_SUFFIX)
        self._place = 0
        self._places: list[tuple[str, int]] = []
        """Position of each entry's end: file and offset."""

    def begin_at(self, start: int) -> None:
        """Restart, empty, at the leader's log start."""
        self.entries, self._places = [], []
        self.start = self.deleted_below = self.verified_below = start
        self._path, self._place = segment_file(self._folder, start, LOG_SUFFIX), 0

    @property
    def end(self) -> int:
        """One past the last record."""
        return self.entries[-1].next_offset if self.entries else self.start

    def has(self, entry: Entry) -> bool:
        """Return whether it holds this very batch."""
        place = place_of(self.entries, entry.base_offset)
        return self.entries[place : place + 1] == [entry]

    def text_at(self, offset: int) -> str:
        """Describe the batch that begins at an offset."""
        place = place_of(self.entries, offset)
        return entry_text(self.entries[place]) if place < len(self.entries) else "nothing"

    def still_on_disk(self) -> list[Entry]:
        """Return the entries except the last lost ones: an interrupted event may have truncated the log."""
        count = len(self.entries)
        while count and not self._is_on_disk(self.entries[count - 1], *self._places[count - 1]):
            count -= 1
        return self.entries[:count]

    def _is_on_disk(self, entry: Entry, path: str, end: int) -> bool:
        data = self._disk.peek(path, end - entry.size)
        if data is None or len(data) < entry.size:
            return False
        return any(header.crc == entry.crc for _, header in batches(memoryview(data)[: entry.size]))

    def follow(self, log_end_offset: int) -> None:
        """Process appends and truncations since the last call, up to the log's end."""
        if log_end_offset < self.end:
            self._cut(log_end_offset)
        while self.end < log_end_offset:
            data = self._disk.peek(self._path, self._place)
            found = self._read(data, log_end_offset) if data else False
            if not found:
                following = segment_file(self._folder, self.end, LOG_SUFFIX)
                if following == self._path or self._disk.peek(following) is None:
                    raise Violation("LogOnDisk", f"{self._folder} ends at {self.end}, the log says {log_end_offset}")
                self._path, self._place = following, 0

    def _read(self, data: bytes, log_end_offset: int) -> bool:
        found = False
        for _, header in batches(memoryview(data)):
            if header.base_offset != self.end or header.next_offset > log_end_offset:
                break
            self.entries.append(
                Entry(
                    header.base_offset,
                    header.next_offset,
                    header.partition_leader_epoch,
                    header.crc,
                    header.max_timestamp,
                    header.size,
                )
            )
            self._place += header.size
            self._places.append((self._path, self._place))
            found = True
        return found

    def _cut(self, end: int) -> None:
        while self.entries and self.entries[-1].next_offset > end:
            self.entries.pop()
            self._places.pop()
        self.start = min(self.start, end)  # a follower's log may begin again below its start, where the leader's begins
        if self._places:
            self._path, self._place = self._places[-1]
        else:
            self._path, self._place = segment_file(self._folder, end, LOG_SUFFIX), 0
        self.verified_below = min(self.verified_below, end)


class Ledger:
    """The truth of one partition (a topic id and a number)."""

    def __init__(self, name: str) -> None:
        """Create it without committed batches."""
        self.name = name
        self.entries: list[Entry] = []
        self.leaders: dict[int, int] = {}
        """The leader of each epoch, as seen by brokers."""
        self.legal_losses: dict[int, str] = {}
        """Leader epochs whose election may lose committed records, and the reason."""
        self.losses: list[str] = []
        """Legal ones, in words."""
        self.lost_from: int | None = None
        """The lowest offset of a record that was lost legally, None where none was."""
        self.lossy_brokers: dict[int, float] = {}
        """When a broker last lost its log of this with the log's directory."""
        self.witnesses: set[int] = set()
        """ISR and ELR at its last growth, and later members: each of them has all of it."""
        self.committed_at = 0.0
        self.committed_epoch = -1
        self.starts = LogStarts()
        self.index_of: dict[int, int] = {}
        """The place of the entry that begins at an offset."""

    @property
    def unheard_losses(self) -> Set[int]:
        """Leader epochs, so far without a leader, whose election may lose committed records."""
        return self.legal_losses.keys() - self.leaders.keys()

    @property
    def end(self) -> int:
        """One past the last committed record: the true high watermark."""
        return self.entries[-1].next_offset if self.entries else 0

    def has_batch(self, base_offset: int, inside: int) -> bool:
        """Return whether a committed batch begins there and holds the other offset, but not as its first."""
        place = self.index_of.get(base_offset)
        return place is not None and base_offset < inside < self.entries[place].next_offset

    def commit(self, shadow: ReplicaLog, high_watermark: int, who: str) -> bool:
        """Process a leader's new high watermark: records below are committed. Return whether there are new ones."""
        self.verify(shadow, high_watermark, who)
        grown = False
        for entry in shadow.entries[place_of(shadow.entries, self.end) :]:
            if entry.next_offset > high_watermark:
                break
            self.index_of[entry.base_offset] = len(self.entries)
            self.entries.append(entry)
            shadow.verified_below = entry.next_offset
            grown = True
        return grown

    def verify(self, shadow: ReplicaLog, bound: int, who: str) -> None:
        """Compare a replica's batches below `bound` with the committed ones."""
        for theirs in shadow.entries[place_of(shadow.entries, shadow.verified_below) :]:
            if theirs.base_offset >= min(bound, self.end):
                return
            mine = self._entry_at(theirs.base_offset)
            # The records before a log's start are unknown if it began above the committed ones. A log start that
            # a power failure lost brings deleted records back, also those of a deposed leader.
            if mine is not None and mine != theirs and theirs.next_offset > self._deletion_limit(shadow):
                raise Violation(
                    "LogMatching",
                    f"{who} has {entry_text(theirs)} in {self.name} below its high watermark {bound}, "
                    f"committed is {entry_text(mine)}",
                )
            shadow.verified_below = theirs.next_offset

    def _entry_at(self, offset: int) -> Entry | None:
        """Return the batch that holds an offset, None where none does."""
        place = place_of(self.entries, offset + 1) - 1
        return self.entries[place] if place >= 0 and self.entries[place].next_offset > offset else None

    def _deletion_limit(self, shadow: ReplicaLog) -> int:
        """Return the offset below which a replica may differ from its leader, which has deleted those records.

        That is its own log start, and the highest legal one.
        """
        return max(shadow.deleted_below, self.starts.highest)

    def missing_batches(self, shadow: ReplicaLog) -> str | None:
        """Return the committed batches that a replica lacks, None without any."""
        deleted_below = self._deletion_limit(shadow)
        for mine in self.entries[place_of(self.entries, shadow.verified_below) :]:
            if mine.base_offset >= shadow.end:
                return f"its log ends at {shadow.end}, committed is everything below {self.end}"
            if mine.next_offset > deleted_below and not shadow.has(mine):
                return f"it has {shadow.text_at(mine.base_offset)}, committed is {entry_text(mine)}"
            shadow.verified_below = mine.next_offset
        return None

    def lose(self, shadow: ReplicaLog, reason: str) -> None:
        """Restart where a new leader's log diverges from the committed one: legal, and reported."""
        # Below the highest log start also, the new leader's log counts from now on: its own start may be lower.
        parts = (
            place
            for place, mine in enumerate(self.entries)
            if mine.next_offset > shadow.deleted_below and not shadow.has(mine)
        )
        kept = next(parts, len(self.entries))
        end = self.end
        for entry in self.entries[kept:]:
            del self.index_of[entry.base_offset]
        del self.entries[kept:]
        if self.end < end:
            self.lost_from = self.end if self.lost_from is None else min(self.lost_from, self.end)
        self.losses.append(f"{self.name}: {end - self.end} committed records lost: {reason}")
        shadow.verified_below = min(shadow.verified_below, self.end)
        self.starts.highest = min(self.starts.highest, self.end)

    def check_acknowledgement(self, offset: int, crc: int) -> str | None:
        """Return None if an acks=all response is correct: the batch is committed there; else the committed data."""
        place = self.index_of.get(offset)
        if place is None:
            return f"nothing committed begins at {offset}; everything below {self.end} is committed"
        return None if self.entries[place].crc == crc else f"committed there is {entry_text(self.entries[place])}"


def entry_text(entry: Entry) -> str:
    """Describe a batch."""
    return f"batch {entry.base_offset}-{entry.next_offset - 1} of epoch {entry.epoch} (crc {entry.crc:08x})"
