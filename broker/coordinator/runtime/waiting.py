"""Waiters for a commit, with one common timeout: the oldest times out first. Sans-IO.

A request that times out does not know whether the change will be committed; it gets COORDINATOR_NOT_AVAILABLE, and the
client retries.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from kvorum.broker.coordinator.runtime.history import Answer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.timers import Timer

R = TypeVar("R")


class Alarms(Protocol):
    """Timers of the current leadership."""

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back at a monotonic time."""
        ...


class Waiting:
    """The futures of one partition's writes."""

    __slots__ = ("_is_armed", "_now_ms", "_timeout_ms", "_waiters")

    def __init__(self, timeout_ms: int, now_ms: Callable[[], int]) -> None:
        """Time limit of each wait, by this monotonic clock."""
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms
        self._waiters: deque[tuple[int, Callable[[], bool], Answer]] = deque()
        self._is_armed = False

    def answer_of(
        self, waiter: "asyncio.Future[R]", response: R, now_ms: int, refuse: Callable[[KafkaError], R] | None = None
    ) -> Answer:
        """Return a function that completes a future: with its response, or an error, see `refuse_to`.

        Ignores cancelled futures.
        """

        def answer(error: KafkaError | None) -> None:
            if waiter.done():
                return
            if error is None:
                waiter.set_result(response)
            else:
                refuse_to(waiter, error, refuse)

        self._waiters.append((now_ms + self._timeout_ms, waiter.done, answer))
        return answer

    def arm(self, alarms: Alarms) -> None:
        """Keep one timer for the oldest waiter, none without waiters; called after each new waiter."""
        if self._is_armed:
            return
        self.drop_done()
        if self._waiters:
            self._is_armed = True
            alarms.at(self._waiters[0][0], partial(self._time_out, alarms))

    def _time_out(self, alarms: Alarms) -> None:
        """Fail all waiters whose time is over; wait for the next one."""
        self._is_armed = False
        now_ms = self._now_ms()
        while self._waiters and self._waiters[0][0] <= now_ms:
            _, _, answer = self._waiters.popleft()
            answer(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the change was not committed in time"))
        self.arm(alarms)

    def clear(self) -> None:
        """Remove all waiters without an answer. The caller answers them and ends their timers."""
        self._waiters.clear()
        self._is_armed = False

    def tell(self, answers: list[Answer], error: KafkaError | None) -> None:
        """Answer each, in order."""
        for answer in answers:
            answer(error)
        self.drop_done()

    def drop_done(self) -> None:
        """Remove completed waiters; called whenever some were completed, so that none stay until the next timeout."""
        while self._waiters and self._waiters[0][1]():
            self._waiters.popleft()


def refuse_to(waiter: "asyncio.Future[R]", error: KafkaError, refuse: Callable[[KafkaError], R] | None) -> None:
    """Fail a future; or complete it with the result of `refuse`, if given."""
    if refuse is None:
        waiter.set_exception(error)
    else:
        waiter.set_result(refuse(error))
