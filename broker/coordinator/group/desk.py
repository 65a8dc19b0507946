"""A shard's timers and writes, which end with its leadership; later calls have no effect.

Sans-IO.

Outcomes of uncommitted writes are reported while a leadership ends, and act on groups as usual: timers they set never
expire.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kvorum.broker.coordinator.group.classic.words import Change
from kvorum.broker.coordinator.group.words import GroupsState
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decide, Decision, Outcome, Turn
from kvorum.runtime.timers import Timer

RECORDS_PER_WRITE: Final = 500
"""Records without a waiter are written in parts, so that no part exceeds a batch."""


class ShardDesk:
    """Interface of a shard for its groups; the Desk of its classic groups."""

    def __init__(self) -> None:
        """Wait for the turn to begin."""
        self._turn: Turn[GroupsState] | None = None
        self.is_over = False

    def begin(self, turn: Turn[GroupsState]) -> None:
        """The log has been replayed."""
        assert self._turn is None, "a shard lives for one leadership"
        self._turn = turn

    def end(self) -> None:
        """Never act again."""
        self.is_over = True

    @property
    def turn(self) -> Turn[GroupsState]:
        """The shard's side of its partition."""
        assert self._turn is not None, "nobody asks a shard before it is active"
        return self._turn

    def now_ms(self) -> int:
        """Return the monotonic time."""
        return self.turn.now_ms()

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back after this time, unless the leadership is over by then."""

        def due() -> None:
            if not self.is_over:
                callback()

        deadline_ms = self.now_ms() + delay_ms
        return Timer(deadline_ms, due) if self.is_over else self.turn.at(deadline_ms, due)

    def write_change(self, name: str, operation: Callable[[], Change]) -> None:
        """Execute an operation without a waiting client, and write its records."""

        def decide(state: GroupsState, now_ms: int) -> Decision[None]:
            change = operation()
            return Decision(response=None, records=change.records, outcome=change.outcome)

        self.turn.write_nowait(name, decide)

    def write_records(self, name: str, records: Sequence[CoordinatorRecord], outcome: Outcome | None = None) -> None:
        """Write records without a waiting client, in parts; the last part has the outcome. Without records: nothing."""
        for start in range(0, len(records), RECORDS_PER_WRITE):
            part = records[start : start + RECORDS_PER_WRITE]
            on_last = outcome if start + RECORDS_PER_WRITE >= len(records) else None
            self.turn.write_nowait(name, as_decided(part, on_last))


def as_decided(records: Sequence[CoordinatorRecord], outcome: Outcome | None) -> Decide[GroupsState, None]:
    """Return a decision that writes decided records."""
    return lambda state, now_ms: Decision(response=None, records=records, outcome=outcome)
