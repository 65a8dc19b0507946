"""At which offset each leader epoch of a log began. Sans-IO (KIP-101, KIP-279; Kafka's LeaderEpochFileCache).

Invariant: epochs and start offsets both ascend strictly from entry to entry. An epoch ends where the next one starts,
the last at the log end. Epochs without a record between two others may be missing: they own no offset.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kvorum.storage.names import parse_number

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1
CHECKPOINT_VERSION: Final = 0


class EpochEntry(NamedTuple):
    """The first offset that a leader of this epoch wrote or could have written."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """An epoch and one past its last offset; both -1 when unknown."""

    epoch: int
    end_offset: int


class EpochCache:
    """The entries of one log, and whether they differ from the last saved ones."""

    __slots__ = ("_epochs", "_starts", "is_dirty")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        """Start from saved entries, which must hold the invariant (`parse` checks it)."""
        self._epochs: list[int] = [entry.epoch for entry in entries or ()]
        self._starts: list[int] = [entry.start_offset for entry in entries or ()]
        self.is_dirty = False

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, oldest first."""
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int | None:
        """The last epoch, None in an empty cache."""
        return self._epochs[-1] if self._epochs else None

    @property
    def latest_entry(self) -> EpochEntry | None:
        """The last entry, None in an empty cache."""
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The first entry, None in an empty cache."""
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that the epoch starts here; return whether it is new.

        A known latest epoch keeps its start (unless the new one is smaller). Entries that the new one contradicts (an
        epoch or a start offset not below its own) are removed: their records were truncated.
        """
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and start_offset >= starts[-1]:
            return False
        assert epoch >= 0 and start_offset >= 0, "an epoch entry is not negative"
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.is_dirty = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the largest known epoch that is not above the given one, with its end offset.

        The latest: the log end. Above the latest: undefined. Below the first: the requested epoch and the first start.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if higher == 0:
            return EpochEndOffset(epoch, self._starts[0])
        return EpochEndOffset(self._epochs[higher - 1], self._starts[higher])

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which this offset was or will be written, None below the first entry."""
        place = bisect_right(self._starts, offset)
        return self._epochs[place - 1] if place else None

    def previous_epoch(self, epoch: int) -> int | None:
        """Return the greatest known epoch below this one."""
        place = bisect_right(self._epochs, epoch - 1)
        return self._epochs[place - 1] if place else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or behind the log's new end."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end before the log's new start; the one it falls into now starts there."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep < 0 or (keep == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:keep], self._starts[:keep]
        self._starts[0] = start_offset
        self.is_dirty = True

    def refine(self, saved: Sequence[EpochEntry]) -> None:
        """Add saved entries that the batches no longer show, because compaction removed an epoch's first batches.

        The entries here come from the remaining batches. A log with an epoch has all records of its leader before it,
        so the saved entries are valid up to the last epoch of the batches; later ones may belong to a lost tail, and
        are ignored.
        """
        starts = dict(zip(self._epochs, self._starts, strict=True))
        confirmed = max((each.epoch for each in saved if each.start_offset <= starts.get(each.epoch, -1)), default=-1)
        for epoch, start_offset in saved:
            if epoch <= confirmed:
                starts[epoch] = min(start_offset, starts.get(epoch, start_offset))
        epochs = sorted(starts)
        if any(starts[epoch] >= starts[following] for epoch, following in pairwise(epochs)):
            return  # it is of another history after all
        refined = [starts[epoch] for epoch in epochs]
        self.is_dirty = self.is_dirty or (epochs, refined) != (self._epochs, self._starts)
        self._epochs, self._starts = epochs, refined

    def keep_last(self, saved: Sequence[EpochEntry], log_end_offset: int) -> None:
        """Keep the last saved epoch of a log that retention or DeleteRecords has emptied. Kafka removes it here.

        Only this entry identifies the records before the log's start (see broker.replica.follower).
        """
        known = [entry for entry in saved if entry.start_offset <= log_end_offset]
        if known and log_end_offset > 0:
            self.assign(known[-1].epoch, log_end_offset)

    def settle(self, first_offset: int, log_end_offset: int) -> None:
        """Remove epochs that the next open removes, so that it finds the files as recorded at the shutdown.

        These are epochs without a record: their leaders wrote nothing.
        """
        saved = self.entries
        self.truncate_from_end(log_end_offset)
        if first_offset == log_end_offset:
            self.keep_last(saved, log_end_offset)

    def take_over(self, other: "EpochCache", log_start_offset: int) -> None:
        """Add the epochs of another cache, from this start on, including those without records."""
        self._epochs, self._starts = list(other._epochs), list(other._starts)
        self.truncate_from_start(log_start_offset)
        self.is_dirty = True

    def clear(self) -> None:
        """Forget everything."""
        self.is_dirty = self.is_dirty or bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()

    def to_text(self) -> str:
        """Return the content of leader-epoch-checkpoint: version, count, then one line `epoch start_offset` each."""
        lines = [str(CHECKPOINT_VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def parse(text: str) -> "EpochCache":
        """Return the cache of a checkpoint file. Raises ValueError with the error."""
        lines = text.split("\n")
        if len(lines) < 2 or lines[0] != str(CHECKPOINT_VERSION):
            raise ValueError(f"unrecognized version of the checkpoint: {lines[0][:20]!r}")
        rows = [line.split() for line in lines[2:] if line.strip()]
        if parse_number(lines[1]) != len(rows):
            raise ValueError(f"expected {lines[1][:20]!r} entries but found {len(rows)}")
        entries = []
        for row in rows:
            if len(row) != 2:
                raise ValueError(f"malformed line: {' '.join(row)[:80]!r}")
            entries.append(EpochEntry(parse_number(row[0]), parse_number(row[1])))
        for entry, following in pairwise(entries):
            if not (entry.epoch < following.epoch and entry.start_offset < following.start_offset):
                raise ValueError(f"{following} does not follow {entry}")
        return EpochCache(entries)
