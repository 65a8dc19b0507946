"""Who waits for a commit, and for how long: all wait equally long, so the oldest is the first to give up. Sans-IO.

Whoever gives up does not know whether the change comes to be; it is told COORDINATOR_NOT_AVAILABLE, and asks again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kvorum.broker.coordinator.runtime.history import Answer
from kvorum.protocol.errors import ErrorCode, KafkaError

R = TypeVar("R")


class Waiting:
    """The futures of one partition's writes."""

    __slots__ = ("_is_armed", "_timeout_ms", "_waiters")

    def __init__(self, timeout_ms: int) -> None:
        """Let each wait so long."""
        self._timeout_ms = timeout_ms
        self._waiters: deque[tuple[int, Callable[[], bool], Answer]] = deque()
        self._is_armed = False

    def answer_of(
        self, waiter: "asyncio.Future[R]", response: R, now_ms: int, refuse: Callable[[KafkaError], R] | None = None
    ) -> Answer:
        """Return what completes a future: with its response, or an error, see `refuse_to`.

        Does nothing to one that has given up.
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

    def deadline_to_arm(self) -> int | None:
        """Return the time (monotonic ms) to call `time_out` at, once; None if nobody waits or it is armed already."""
        if self._is_armed:
            return None
        self.drop_done()
        if not self._waiters:
            return None
        self._is_armed = True
        return self._waiters[0][0]

    def time_out(self, now_ms: int) -> None:
        """Fail whoever has waited long enough."""
        self._is_armed = False
        while self._waiters and self._waiters[0][0] <= now_ms:
            _, _, answer = self._waiters.popleft()
            answer(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the change was not committed in time"))

    def clear(self) -> None:
        """Forget all: they are told by others."""
        self._waiters.clear()
        self._is_armed = False

    def tell(self, answers: list[Answer], error: KafkaError | None) -> None:
        """Answer each, in order."""
        for answer in answers:
            answer(error)
        self.drop_done()

    def drop_done(self) -> None:
        """Forget who was answered; called whenever some were, so that none of them are kept until the next time out."""
        while self._waiters and self._waiters[0][1]():
            self._waiters.popleft()


def refuse_to(waiter: "asyncio.Future[R]", error: KafkaError, refuse: Callable[[KafkaError], R] | None) -> None:
    """Have a future fail; or have it what `refuse` makes of the error, where that is given."""
    if refuse is None:
        waiter.set_exception(error)
    else:
        waiter.set_result(refuse(error))
