"""Parked operations, which complete on an event or at their deadline.

Sans-IO.

An operation is parked under the partitions it waits on. A change of a partition calls `touched(key)`: each operation
under that key checks whether it can complete now. There is no polling: an operation without events waits for its
deadline.

    parked --try_complete is true--> completed (on_complete)
    parked --deadline--------------> completed (on_expire, then on_complete)
    parked --cancel----------------> removed silently (the client disconnected)

Invariants: an operation completes once; a completed one is under no key and has no timer. The number of operations is
bounded: one beyond the limit completes at once as if its deadline had passed.

Deadlines are rounded up to DEADLINE_STEP_MS and kept in one bucket per step, so that an operation that completes early,
as nearly all do, leaves no timer. Source: Kafka's DelayedOperationPurgatory.
"""

from collections.abc import Iterable
from typing import Protocol

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.timers import Timers

OPERATIONS_MAX = 100_000
"""Limit. Each is a request of a connection, and those are bounded before (max.connections, queued requests)."""
DEADLINE_STEP_MS = 10
"""Maximum delay of a timeout. This is precise enough, and 30 s of deadlines are at most 3000 timers."""


class DelayedOperation(Protocol):
    """An operation that can wait."""

    def try_complete(self, key: TopicPartition | None) -> bool:
        """Return whether it can complete now; only `key` has changed since the last call, None: check everything."""
        ...

    def on_expire(self) -> None:
        """Its deadline has passed (or the purgatory is full); on_complete follows."""
        ...

    def on_complete(self) -> None:
        """Answer. Called once. It may park and touch others."""
        ...


class Parked:
    """A waiting operation; `cancel` it when its result is not needed any more."""

    __slots__ = ("_purgatory", "due_ms", "keys", "operation")

    def __init__(
        self, purgatory: "Purgatory", operation: DelayedOperation, keys: list[TopicPartition], due_ms: int
    ) -> None:
        """Belong to one purgatory."""
        self._purgatory = purgatory
        self.operation: DelayedOperation | None = operation
        self.keys = keys
        self.due_ms = due_ms

    def cancel(self) -> None:
        """Leave without an answer. Idempotent, and nothing to one that has completed."""
        self._purgatory.remove(self)

    def watch(self, key: TopicPartition) -> None:
        """Wait on another key as well. No effect on a completed operation."""
        if self.operation is not None:
            self._purgatory.watch(self, key)


class Purgatory:
    """The waiting operations of one kind (produce, fetch, ...)."""

    def __init__(self, timers: Timers, operations_max: int = OPERATIONS_MAX) -> None:
        """Keep deadlines in `timers`, which its owner advances."""
        self._timers = timers
        self._operations_max = operations_max
        self.watchers: dict[TopicPartition, dict[Parked, None]] = {}
        """Waiters by key; only keys with waiters."""
        self._due: dict[int, dict[Parked, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many operations wait."""
        return self._count

    def watched(self, key: TopicPartition) -> int:
        """Return how many operations wait on a key."""
        return len(self.watchers.get(key, ()))

    def park(self, operation: DelayedOperation, keys: Iterable[TopicPartition], deadline_ms: int) -> Parked | None:
        """Complete the operation if possible, else park it until an event or the deadline; None if completed."""
        if operation.try_complete(None):
            operation.on_complete()
            return None
        if self._count >= self._operations_max:
            operation.on_expire()
            operation.on_complete()
            return None
        due_ms = -(-deadline_ms // DEADLINE_STEP_MS) * DEADLINE_STEP_MS
        parked = Parked(self, operation, list(keys), due_ms)
        for key in parked.keys:
            self.watchers.setdefault(key, {})[parked] = None
        bucket = self._due.get(due_ms)
        if bucket is None:
            bucket = self._due[due_ms] = {}
            self._timers.at(due_ms, lambda: self._expire(due_ms))
        bucket[parked] = None
        self._count += 1
        return parked

    def watch(self, parked: Parked, key: TopicPartition) -> None:
        """Wait on another key as well. No effect on a completed operation."""
        watchers = self.watchers.setdefault(key, {})
        if parked not in watchers:
            watchers[parked] = None
            parked.keys.append(key)

    def touched(self, key: TopicPartition) -> int:
        """Check the operations under `key` again, in order of arrival; return the number of completed ones."""
        watchers = self.watchers.get(key)
        if not watchers:
            return 0
        completed = 0
        for parked in tuple(watchers):
            operation = parked.operation
            # One that completed by an earlier one's answer is no longer there.
            if operation is not None and operation.try_complete(key) and parked.operation is not None:
                self.remove(parked)
                operation.on_complete()
                completed += 1
        return completed

    def remove(self, parked: Parked) -> None:
        """Forget an operation. Idempotent."""
        if parked.operation is None:
            return
        parked.operation = None
        self._count -= 1
        for key in parked.keys:
            watchers = self.watchers[key]
            del watchers[parked]
            if not watchers:
                del self.watchers[key]
        bucket = self._due.get(parked.due_ms)
        if bucket is not None:
            bucket.pop(parked, None)

    def _expire(self, due_ms: int) -> None:
        for parked in self._due.pop(due_ms):
            operation = parked.operation
            if operation is not None:
                self.remove(parked)
                operation.on_expire()
                operation.on_complete()
