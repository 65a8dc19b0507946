"""The deadlines of members of consumer groups, one of a kind a member. Sans-IO."""

from collections.abc import Callable
from enum import Enum

from kvorum.broker.coordinator.group.desk import ShardDesk
from kvorum.runtime.timers import Timer


class Deadline(Enum):
    """Deadline of a member; it is fenced afterwards."""

    SESSION = "session"
    """Send something (group.consumer.session.timeout.ms; a classic member's own session timeout)."""
    REBALANCE = "rebalance"
    """Revoke partitions (the member's rebalance timeout)."""
    JOIN = "join"
    """A classic member must rejoin (its rebalance timeout)."""
    SYNC = "sync"
    """A classic member has joined: sync (its rebalance timeout)."""


class MemberTimers:
    """Timers of members by kind of deadline."""

    def __init__(self, desk: ShardDesk) -> None:
        """Start without timers."""
        self._desk = desk
        self._timers: dict[tuple[str, str], dict[Deadline, Timer]] = {}

    def begin(
        self, kind: Deadline, group_id: str, member_id: str, timeout_ms: int, callback: Callable[[], None]
    ) -> None:
        """Call back at that time, instead of the former timer."""
        self.end(kind, group_id, member_id)

        def due() -> None:
            self.end(kind, group_id, member_id)
            callback()

        mine = self._timers.setdefault((group_id, member_id), {})
        mine[kind] = self._desk.after(timeout_ms, due)

    def has(self, kind: Deadline, group_id: str, member_id: str) -> bool:
        """Return whether this timer exists."""
        return kind in self._timers.get((group_id, member_id), ())

    def end(self, kind: Deadline, group_id: str, member_id: str) -> None:
        """Cancel this timer. Idempotent."""
        mine = self._timers.get((group_id, member_id))
        timer = None if mine is None else mine.pop(kind, None)
        if timer is not None:
            timer.cancel()
        if mine is not None and not mine:
            del self._timers[group_id, member_id]

    def end_all(self, group_id: str, member_id: str) -> None:
        """Wait for nothing of a member. Idempotent."""
        for timer in self._timers.pop((group_id, member_id), {}).values():
            timer.cancel()
