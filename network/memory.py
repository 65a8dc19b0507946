"""Memory of all connections of a process: requests that are being received, and unsent responses.

Both are bounded over all connections, since a bound per connection does not bound thousands of them.

    incomplete requests   above half of REQUEST_BYTES_MAX they get memory only for received bytes; above it only the
                          one that began first is read, the others wait in their sockets. A connection that others
                          wait for and that sends less than PROGRESS_BYTES in STALLED_SECONDS is closed.
    unsent responses      above RESPONSE_BYTES_MAX the connection whose client has been behind for longest is closed

When usage has fallen far below its peak, the allocator is made to return memory to the operating system.

Slices of files are not memory, and small responses are not counted. Apache Kafka has no such bounds (it keeps the same
in its heap) but for queued.max.request.bytes, which network.limits has.
"""

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from kvorum.runtime.process import trim_heap

MIB: Final = 1024 * 1024
REQUEST_BYTES_MAX: Final = 64 * MIB
"""Limit of incomplete requests; each connection may exceed it by one read."""
RESPONSE_BYTES_MAX: Final = 256 * MIB
ROOMY_SHARE: Final = 16
SMALL_BYTES: Final = 16 * 1024
"""Responses of one connection that are not counted: 10,000 such connections hold less than RESPONSE_BYTES_MAX."""
READ_BYTES: Final = 128 * 1024
"""Budget of a connection when its reading is resumed."""
TRIM_BYTES: Final = 32 * MIB
"""The allocator returns its memory when usage has fallen this much below the last peak."""
TRIM_DELAY_SECONDS: Final = 1.0
STALLED_SECONDS: Final = 10.0
PROGRESS_BYTES: Final = 64 * 1024


class Holder(Protocol):
    """The memory of a connection."""

    @property
    def is_reading(self) -> bool:
        """Whether its socket is read: not while its client is throttled, or takes no responses."""
        ...

    def update_reading(self) -> None:
        """Read or do not read, now that `waits` of its share has changed."""
        ...

    def drop(self, reason: str) -> None:
        """Close at once, and log the reason."""
        ...


class ConnectionMemory:
    """The totals of one process."""

    __slots__ = (
        *("_behind", "_incomplete", "_is_trimming", "_peak", "_timer", "_waiting"),
        *("request_bytes", "request_bytes_max", "response_bytes", "response_bytes_max"),
    )

    def __init__(
        self, request_bytes_max: int = REQUEST_BYTES_MAX, response_bytes_max: int = RESPONSE_BYTES_MAX
    ) -> None:
        """Start with nothing held."""
        self.request_bytes_max = request_bytes_max
        self.response_bytes_max = response_bytes_max
        self.request_bytes = 0
        self.response_bytes = 0
        self._incomplete: OrderedDict[MemoryShare, None] = OrderedDict()
        self._waiting: OrderedDict[MemoryShare, None] = OrderedDict()
        self._behind: OrderedDict[MemoryShare, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._peak = 0
        self._is_trimming = False

    @property
    def is_free(self) -> bool:
        """Return whether a request may get memory before its bytes arrive."""
        return self.request_bytes < self.request_bytes_max // 2

    @property
    def is_roomy(self) -> bool:
        """Return whether a slow client may have more than the minimum of its response in memory."""
        return self.response_bytes < self.response_bytes_max // ROOMY_SHARE

    def set_request(self, share: "MemoryShare", size: int) -> None:
        """Take note of the memory of a connection's incomplete request; 0: it has none."""
        self.request_bytes += size - share.request_bytes
        share.request_bytes = size
        if size == 0:
            self._incomplete.pop(share, None)
            self._stop_waiting(share)
            self._resume()
            self._trim_after_peak()
            return
        self._peak = max(self._peak, self.request_bytes + self.response_bytes)
        self._incomplete[share] = None
        if self.request_bytes > self.request_bytes_max and self._first() is not share:
            share.waits = True
            self._waiting[share] = None
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(STALLED_SECONDS / 2, self._look_after_stalled)

    def set_response(self, share: "MemoryShare", size: int) -> None:
        """Take note of the memory of a connection's unsent responses; above the limit close the slowest connections."""
        if size < share.response_bytes:
            self._behind.pop(share, None)  # it makes progress
        self.response_bytes += size - share.response_bytes
        share.response_bytes = size
        if size:
            self._behind[share] = None
            self._peak = max(self._peak, self.request_bytes + self.response_bytes)
        else:
            self._trim_after_peak()
        while self.response_bytes > self.response_bytes_max:
            slowest, _ = self._behind.popitem(last=False)
            held, slowest.response_bytes = slowest.response_bytes, 0
            self.response_bytes -= held
            slowest.holder.drop(f"all connections hold more than {self.response_bytes_max} bytes of unsent responses")

    def _trim_after_peak(self) -> None:
        """Return the allocator's free memory to the operating system, a while after much of it was freed."""
        if self._peak - self.request_bytes - self.response_bytes >= TRIM_BYTES and not self._is_trimming:
            self._is_trimming = True
            asyncio.get_running_loop().call_later(TRIM_DELAY_SECONDS, self._trim)

    def _trim(self) -> None:
        self._is_trimming = False
        self._peak = self.request_bytes + self.response_bytes
        trim_heap()

    def _first(self) -> "MemoryShare | None":
        """Return the connection whose request began first, of those that are read or wait for room."""
        return next((share for share in self._incomplete if share.waits or share.holder.is_reading), None)

    def _stop_waiting(self, share: "MemoryShare") -> None:
        share.waits = False
        self._waiting.pop(share, None)

    def _resume(self) -> None:
        """Read again the connection whose request began first, and the newest ones up to half of the limit.

        The newest, as those that wait for long may be stalled; half, so that requests that begin now need not wait.
        """
        if not self._waiting:
            return
        now_s = asyncio.get_running_loop().time()
        room = self.request_bytes_max // 2 - self.request_bytes
        first = self._first()
        chosen = [first] if first is not None and first.waits else []
        for share in reversed(self._waiting):
            if room <= 0:
                break
            room -= READ_BYTES
            if share is not first:
                chosen.append(share)
        for share in chosen:
            self._stop_waiting(share)
            share.progress_s = now_s
            share.holder.update_reading()

    def _look_after_stalled(self) -> None:
        """Close connections that others wait for and that send next to nothing."""
        self._timer = None
        loop = asyncio.get_running_loop()
        if self._waiting:
            self._timer = loop.call_later(STALLED_SECONDS / 2, self._look_after_stalled)
            before_s = loop.time() - STALLED_SECONDS
            for share in tuple(self._incomplete):
                if self._waiting and share.holder.is_reading and share.progress_s <= before_s:
                    share.holder.drop("other requests wait for the memory of its request, which does not come in")
                    self.set_request(share, 0)
            self._resume()


class MemoryShare:
    """Memory of one connection."""

    __slots__ = ("_memory", "_progress_bytes", "holder", "progress_s", "request_bytes", "response_bytes", "waits")

    def __init__(self, memory: ConnectionMemory, holder: Holder) -> None:
        """Start with nothing."""
        self._memory = memory
        self.holder = holder
        self._progress_bytes = 0
        self.progress_s = 0.0
        self.request_bytes = 0
        self.response_bytes = 0
        self.waits = False
        """Reading is paused: no room for its request."""

    def set_request(self, size: int, filled: int, now_s: float) -> None:
        """Take note of the memory of the incomplete request, and of the number of bytes received so far."""
        if size or self.request_bytes:
            if (
                filled < self._progress_bytes
                or filled - self._progress_bytes >= PROGRESS_BYTES
                or not self.request_bytes
            ):
                self._progress_bytes, self.progress_s = filled, now_s
            self._memory.set_request(self, size)

    def set_response(self, size: int) -> None:
        """Take note of the memory of the responses that are not sent."""
        if size > SMALL_BYTES or self.response_bytes:
            self._memory.set_response(self, size if size > SMALL_BYTES else 0)

    def close(self) -> None:
        """Release everything. Idempotent."""
        self.set_request(0, 0, 0.0)
        self.set_response(0)
