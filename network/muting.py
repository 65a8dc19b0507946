"""A throttled connection: its next requests wait.

    muted      until a time: it was throttled (KIP-219), or exceeded the connection rate
    suspended  until its authentication continues: also muted
    over       its last response had a throttle time: it has one request in progress, as every connection of Kafka
    turn over  until the loop's next iteration: others, or a handler's first step, are first

Sans-IO except for the loop.
"""

import asyncio
from collections.abc import Callable
from typing import Final

TURN_REQUESTS_MAX: Final = 100
"""Requests handled before other connections have their turn."""
UNCOUNTED_MAX: Final = 5
"""Maximum of requests in progress if any quota exists: those in progress when one is counted are not throttled.

As many as Kafka's clients have at most; a client over its quota, or with a quota on request time, has one.
"""


class Muting:
    """Whether a connection is held back: `is_on` for either reason, `is_muted` for its client's own."""

    __slots__ = ("_loop", "_on_end", "_suspended", "_timer", "_turns", "is_muted", "is_on", "is_over", "is_timed")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]) -> None:
        """Start unmuted; `on_end` is called when a hold has ended."""
        self._loop = loop
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None
        self._turns = 0
        self._suspended = False
        self.is_muted = False
        self.is_on = False
        self.is_over = False
        self.is_timed = False
        """Its client has a quota of loop time: it has one request in progress."""

    def in_hand_max(self, *, timed: bool) -> int:
        """Return how many requests may be in progress under quotas; `timed`: one of them is a request-time quota."""
        return 1 if self.is_over or (timed and self.is_timed) else UNCOUNTED_MAX

    def answered(self, throttle_ms: int) -> None:
        """Apply the throttle time of a response, if it has one."""
        self.is_over = throttle_ms > 0
        if self.is_over:
            self.hold(throttle_ms / 1000)

    def hold(self, delay_s: float) -> None:
        """Mute it for this time from now on, or longer if it is muted longer already."""
        self.is_on = True
        at_s = self._loop.time() + delay_s
        if self._timer is not None:
            if self._timer.when() >= at_s:
                return
            self._timer.cancel()
        self.is_muted = True
        self._timer = self._loop.call_at(at_s, self._end)

    def suspend(self) -> None:
        """Mute it until `resume`."""
        self._suspended = self.is_muted = self.is_on = True

    def resume(self) -> None:
        """End `suspend`; other reasons continue."""
        self._suspended = False
        self._update()

    def yield_turn(self) -> None:
        """Delay it until the loop's next iteration."""
        self.is_on = True
        self._turns += 1
        self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turns -= 1
        self._update()
        self._on_end()

    def _end(self) -> None:
        self._timer = None
        self._update()
        self._on_end()

    def _update(self) -> None:
        self.is_muted = self._suspended or self._timer is not None
        self.is_on = self.is_muted or self._turns > 0  # a timer may come before the callback that was there first
