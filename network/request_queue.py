"""queued.max.requests: the number of received requests that have not started, and the effect of the limit.

Requests that wait for this broker count: after a hundred others of their connection's turn, or after a handler's
first step. Those that wait for their own client (throttled, not reading, too many in progress) do not count, as in
Kafka, where they stay in the socket: a client that stops reading must not block the others.

    count >= max    a connection with a request in progress is not read: no pipelining. Each can still have one
                    request, like any connection to Kafka. One read (network.frame.SCRATCH_BYTES) may exceed it.
    count < max     they are read again, in the order in which they stopped

A request that is handled on arrival, which is nearly every one, costs nothing here. Source: Kafka's RequestChannel.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

REQUESTS_MAX: Final = 500
"""Kafka's default."""


class RequestQueue:
    """Queued requests of all connections of a process."""

    __slots__ = ("_waiting", "count", "requests_max")

    def __init__(self, requests_max: int = REQUESTS_MAX) -> None:
        """Start empty."""
        self.requests_max = requests_max
        self.count = 0
        self._waiting: OrderedDict[QueueShare, None] = OrderedDict()

    @property
    def full(self) -> bool:
        """Return whether reading must pause."""
        return self.count >= self.requests_max

    def change(self, more: int) -> None:
        """Change the count; resume waiters when there is room again."""
        self.count += more
        assert self.count >= 0, "more taken out than was put in"
        while self._waiting and not self.full:
            share, _ = self._waiting.popitem(last=False)
            share.resume()

    def wait(self, share: "QueueShare") -> None:
        """Call `share.resume` once there is room."""
        self._waiting[share] = None

    def forget(self, share: "QueueShare") -> None:
        """Stop waiting. Idempotent."""
        self._waiting.pop(share, None)


class QueueShare:
    """One connection's part of it."""

    __slots__ = ("_queue", "count", "resume")

    def __init__(self, queue: RequestQueue, resume: Callable[[], None]) -> None:
        """Start empty; `resume` is called when a paused connection may continue."""
        self._queue = queue
        self.count = 0
        self.resume = resume

    def hold(self, count: int) -> None:
        """Set the number of waiting requests."""
        if count != self.count:
            more, self.count = count - self.count, count
            self._queue.change(more)

    def must_wait(self) -> bool:
        """Return whether a connection with a request in progress must not be read; it is resumed later."""
        if not self._queue.full:
            return False
        self._queue.wait(self)
        return True

    def close(self) -> None:
        """Remove everything. Idempotent."""
        self._queue.forget(self)
        self.hold(0)
