"""Notification of readers when a partition changes, so that they need not poll. Sans-IO.

A change is anything that a fetch could return, or that a follower would send to its leader: records, a watermark, the
log start, the role, the epochs, the assignment, the in-sync set. A watcher is woken once, and then has to register
again.
"""

from typing import Protocol


class Watcher(Protocol):
    """A reader to wake. Compared by identity."""

    def wake(self) -> None:
        """Called when the partition has changed, or is about to; must change no partition."""
        ...


class Watchers:
    """Those of one partition."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        """Start without any."""
        self._waiting: dict[Watcher, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._waiting)

    def add(self, watcher: Watcher) -> None:
        """Wake it at the next change. Idempotent."""
        self._waiting[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Stop waking it. Idempotent."""
        self._waiting.pop(watcher, None)

    def wake(self) -> None:
        """Wake all, once, in the order they came."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for watcher in waiting:
                watcher.wake()
