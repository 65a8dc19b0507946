"""Limits per connection, per address and per process.

Reaching a limit has an answer: a connection is not read (its client waits), or is refused with a log line.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from kvorum.runtime.config import Settings
from kvorum.runtime.sockets import KERNELS_CHOICE, buffer_bytes


@dataclass(slots=True, frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits of each connection of a listener."""

    request_bytes_max: int = 104_857_600
    """socket.request.max.bytes: a larger frame closes the connection."""
    in_flight_max: int = 100
    """Maximum number of requests without a response; the next ones wait. Bounds what one client can park."""
    idle_ms: int = 600_000
    """connections.max.idle.ms: an idle connection is closed after this time. Negative: never."""
    backlog: int = 50
    """socket.listen.backlog.size."""
    send_buffer_bytes: int = KERNELS_CHOICE
    """socket.send.buffer.bytes, where it is set."""
    receive_buffer_bytes: int = KERNELS_CHOICE
    """socket.receive.buffer.bytes, where it is set."""
    handshake_timeout_ms: int = 10_000
    """kvorum.ssl.handshake.timeout.ms: a TLS handshake that takes longer closes the connection."""
    handshakes_max: int = 1_000
    """kvorum.ssl.handshakes.max: TLS handshakes in progress; further connections wait. About 30 KiB each."""
    handshakes_per_ip_max: int = 500
    """kvorum.ssl.handshakes.per.ip.max: those of one address."""

    @classmethod
    def of(cls, settings: Settings) -> "ConnectionLimits":
        """Return the limits as configured."""
        return cls(
            request_bytes_max=settings.int("socket.request.max.bytes"),
            idle_ms=settings.int("connections.max.idle.ms"),
            backlog=settings.int("socket.listen.backlog.size"),
            send_buffer_bytes=buffer_bytes(settings, "socket.send.buffer.bytes"),
            receive_buffer_bytes=buffer_bytes(settings, "socket.receive.buffer.bytes"),
            handshake_timeout_ms=settings.int("kvorum.ssl.handshake.timeout.ms"),
            handshakes_max=settings.int("kvorum.ssl.handshakes.max"),
            handshakes_per_ip_max=settings.int("kvorum.ssl.handshakes.per.ip.max"),
        )


class RequestBudget:
    """queued.max.request.bytes: request bytes of the whole process that were read and not handled yet.

    As Kafka's memory pool: a request may begin while anything is left, so the last one may go beyond; then connections
    wait, first come first served, until bytes are given back.
    """

    __slots__ = ("_waiting", "bytes_max", "taken")

    def __init__(self, bytes_max: int = -1) -> None:
        """Start with all of it free; negative: no limit."""
        self.bytes_max = bytes_max
        self.taken = 0
        self._waiting: OrderedDict[object, Callable[[], None]] = OrderedDict()

    @property
    def limited(self) -> bool:
        """Return whether there is a limit at all."""
        return self.bytes_max > 0

    @property
    def exhausted(self) -> bool:
        """Return whether no capacity is left."""
        return self.limited and self.taken >= self.bytes_max

    def take(self, size: int) -> None:
        """Count bytes, even above the limit: they have been read already."""
        self.taken += size

    def wait(self, who: object, resume: Callable[[], None]) -> None:
        """Call `resume` once something is left."""
        self._waiting[who] = resume

    def forget(self, who: object) -> None:
        """Stop waiting. Idempotent."""
        self._waiting.pop(who, None)

    def give(self, size: int) -> None:
        """Return bytes, and resume waiters."""
        self.taken -= size
        assert self.taken >= 0, "more given back than taken"
        while self._waiting and not self.exhausted:
            _, resume = self._waiting.popitem(last=False)
            resume()


class BudgetShare:
    """One connection's share of the budget: queued requests, and a large one that is being received.

    While the connection waits for its own client nothing of it counts: in Kafka the bytes would still be in the socket,
    and must not delay others' requests. Its memory then is one read and a part of one request.
    """

    __slots__ = ("_budget", "_coming", "_is_aside", "_on_change", "_queued", "_wanted", "waits")

    def __init__(self, budget: RequestBudget, on_change: Callable[[], None]) -> None:
        """Start without usage; `on_change` is called when `waits` has changed because others released capacity."""
        self._budget = budget
        self._on_change = on_change
        self._queued = 0
        self._coming = 0
        self._wanted = 0
        self._is_aside = False
        self.waits = False
        """Reading is paused: no room for the incoming request."""

    def read(self, frames: list[memoryview], coming: int) -> None:
        """Count frames that were read, and the announced size of the one that is not complete (0: none)."""
        if not self._budget.limited:
            return
        size = sum(len(frame) for frame in frames)
        self._queued += size
        if not self._is_aside:
            self._budget.take(size)
        if frames:
            self._wanted = 0
            self.waits = False
            self._budget.forget(self)
            self._let_go()
        if coming and not self._wanted:
            self._wanted = coming
            self._begin()

    def handled(self, frame: memoryview) -> None:
        """Give back a frame that was counted."""
        if self._queued:
            self._queued -= len(frame)
            if not self._is_aside:
                self._budget.give(len(frame))

    def put_aside(self, is_aside: bool) -> None:
        """Count nothing while the connection waits for its own client and is not read; all of it again behind that."""
        if is_aside is self._is_aside or not self._budget.limited:
            return
        self._is_aside = is_aside
        if is_aside:
            self._budget.forget(self)
            self.waits = False
            self._let_go()
            if self._queued:
                self._budget.give(self._queued)
            return
        self._budget.take(self._queued)
        if self._wanted:
            self._begin()

    def close(self) -> None:
        """Release everything. Idempotent."""
        taken = self._coming + (0 if self._is_aside else self._queued)
        self._queued = self._coming = self._wanted = 0
        self._budget.forget(self)
        if taken:
            self._budget.give(taken)

    def _let_go(self) -> None:
        """Release the capacity reserved for the request that is being received."""
        taken, self._coming = self._coming, 0
        if taken:
            self._budget.give(taken)

    def _begin(self) -> None:
        if self._is_aside:
            return
        if self._budget.exhausted:
            self.waits = True
            self._budget.wait(self, self._resume)
            return
        self.waits = False
        self._coming = self._wanted
        self._budget.take(self._coming)

    def _resume(self) -> None:
        self._begin()
        self._on_change()
