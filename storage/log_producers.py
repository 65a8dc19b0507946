"""Producers of one log: state, snapshots, and aborted transactions for the segments' indexes.

The state follows the log: `note` after each batch that was written, `rewind` when the log was cut, `begin_anew` when it
was emptied. Raises OSError and CorruptSegment as the disk does; the log turns them into an offline directory.
"""

from kvorum.protocol.batch_header import BatchHeader
from kvorum.runtime.clock import Clock
from kvorum.storage.local_log import LocalLog
from kvorum.storage.producer_replay import OFFSET_MAX, index_aborted, note_batch, rewind_producers
from kvorum.storage.producer_state import ProducerState
from kvorum.storage.snapshots import Snapshots
from kvorum.storage.verification import VerificationGuard


class LogProducers:
    """Producer state of one log. Times are wall milliseconds."""

    __slots__ = ("_clock", "_ended_late", "_snapshots", "expiration_ms", "state")

    def __init__(self, state: ProducerState, snapshots: Snapshots, clock: Clock, expiration_ms: int) -> None:
        """Take over what recovery made. `expiration_ms` is producer.id.expiration.ms."""
        self.state = state
        self.expiration_ms = expiration_ms
        self._snapshots = snapshots
        self._clock = clock
        self._ended_late: dict[int, int] = {}
        """{first offset: marker} of transactions that began in a segment before their marker's, which is not synced."""

    def note(self, local: LocalLog, header: BatchHeader, view: memoryview, position: int) -> None:
        """Take note of a batch that was just written to the active segment; `view` has its bytes at `position`."""
        completed = note_batch(self.state, header, view, position)
        if completed is None:
            return
        if completed.first_offset < local.segments.active.base_offset:
            self._ended_late[completed.first_offset] = completed.last_offset
        if completed.is_aborted:
            index_aborted(local.segments.active, completed)
            local.has_aborted = True

    def first_not_durably_ended(self, recovery_point: int) -> int | None:
        """Return the start of the first transaction whose marker is at or after the recovery point, or None.

        If a power loss removes the marker, it is open again, and may end differently: superseded records must still
        exist. Those within the newest segment are omitted.
        """
        if self._ended_late:
            self._ended_late = {first: last for first, last in self._ended_late.items() if last >= recovery_point}
        return min(self._ended_late, default=None)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """See ProducerState.begin_verification."""
        now_ms = self._clock.wall_ms()
        return self.state.begin_verification(producer_id, producer_epoch, sequence, supports_epoch_bump, now_ms)

    def moved_to(self, folder: str) -> None:
        """Go by the folder's new name."""
        self._snapshots.moved_to(folder)

    def take_over(self, other: "LogProducers") -> None:
        """Add the producer state of another log, of which this one is a complete copy.

        Retention may have removed a producer's last records from the copy's source, and verifications are in no log.
        Both are taken from the replaced log.
        """
        self.state.take_over(other.state)
        self._ended_late.update(other._ended_late)

    def take_snapshot(self, base_offset: int) -> None:
        """Store the present state at a new segment's base offset; it is written with the next flush."""
        self.state.end_offset = base_offset
        self._snapshots.take(base_offset, self.state.to_snapshot())

    def rewind(self, local: LocalLog, end_offset: int) -> None:
        """Bring the state back to the new end of a log that was cut."""
        now_ms = self._clock.wall_ms()
        self._ended_late = {first: last for first, last in self._ended_late.items() if last < end_offset}
        rewind_producers(self.state, self._snapshots, local.segments, end_offset, now_ms, self.expiration_ms)

    def begin_anew(self, offset: int) -> None:
        """Know nothing again: the log was emptied."""
        self._snapshots.remove_if(0, OFFSET_MAX)
        self._ended_late.clear()
        self.state.clear(offset)

    def are_durably_known_at(self, base_offset: int) -> bool:
        """Return whether the log below a segment's start can be deleted: its producer snapshot is synced."""
        return not self.state.producers or not self._snapshots.is_unwritten(base_offset)

    def forget_below(self, first_offset: int) -> None:
        """Remove the snapshots before the first segment's base offset."""
        self._snapshots.remove_if(0, first_offset - 1)

    def expire(self, now_ms: int) -> None:
        """Remove producers that are idle for producer.id.expiration.ms, and expired verifications."""
        self.state.expire(now_ms, self.expiration_ms)
