"""Connections of a driver that simulates very many clients: prepared frames, responses in order.

Both systems respond to the requests of a connection in order, as Kafka's protocol requires, so a queue of waiting
clients identifies the receiver of a response. The driver is the same for both systems.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import cast

from bench.stalled import StalledError
from kvorum.protocol.schema import Message
from tests.cluster.wire.raw import answer_of, request

ANSWER_SECONDS = 60.0
CORRELATION_ID_SIZE = 4
Take = Callable[[bytes], None]
"""Is given the body of an answer, from its correlation id on."""


class Link(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiting: deque[Take] = deque()
        self._transport: asyncio.Transport
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @staticmethod
    async def to(address: tuple[str, int]) -> "Link":
        """Connect."""
        _, link = await asyncio.get_running_loop().create_connection(Link, *address)
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not descend from it

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if not self._lost.done():
            self._lost.set_result(None)

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._waiting)

    def send(self, frames: bytes, takes: list[Take]) -> None:
        """Send whole frames, and have each answer taken."""
        self._waiting.extend(takes)
        self._transport.write(frames)

    def data_received(self, data: bytes) -> None:
        """Hand on the answers that are complete."""
        received, waiting = self._received, self._waiting
        received += data
        position, size = 0, len(received)
        while size - position >= 4:
            end = position + 4 + int.from_bytes(received[position : position + 4], "big")
            if end > size:
                break
            waiting.popleft()(bytes(received[position + 4 : end]))
            position = end
        del received[:position]

    async def ask(self, message: Message, version: int) -> Message:
        """Send a request and return its answer. Raises StalledError."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.send(request(message, version), [answer.set_result])
        await asyncio.wait((answer, self._lost), timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise StalledError(f"{type(message).__name__} is not answered; closed: {self._lost.done()}")
        return answer_of(answer.result(), message.API_KEY, version)

    async def idle(self) -> None:
        """Wait until everything is answered. Raises StalledError."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while self._waiting:
            if time.monotonic() > deadline:
                raise StalledError(f"{len(self._waiting)} requests are not answered")
            await asyncio.sleep(0.001)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    async def __aenter__(self) -> "Link":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Good:
    """Recognises successful responses of one API; each distinct response is decoded once."""

    def __init__(self, api_key: int, version: int, codes: Callable[[Message], Iterable[int]]) -> None:
        """`codes` returns all error codes of an answer."""
        self._api_key, self._version, self._codes = api_key, version, codes
        self._known: set[bytes] = set()

    def __call__(self, body: bytes) -> bool:
        """Return whether an answer has no error in it."""
        tail = body[CORRELATION_ID_SIZE:]
        if tail in self._known:
            return True
        is_good = not any(self._codes(answer_of(body, self._api_key, self._version)))
        if is_good:
            self._known.add(tail)
        return is_good


class Window:
    """Keeps so many requests of a connection unanswered, over and over the same frames, until it is stopped."""

    def __init__(self, link: Link, frames: list[bytes], depth: int, is_good: Callable[[bytes], bool]) -> None:
        self._link, self._frames, self._is_good = link, frames, is_good
        self._next = 0
        self._is_stopped = False
        self.answered = 0
        self.failed = 0
        for _ in range(depth):
            self._send()

    def _send(self) -> None:
        frame = self._frames[self._next % len(self._frames)]
        self._next += 1
        self._link.send(frame, [self._took])

    def _took(self, body: bytes) -> None:
        self.answered += 1
        self.failed += not self._is_good(body)
        if not self._is_stopped:
            self._send()

    async def stop(self) -> None:
        """Stop sending and wait for pending responses. Raises StalledError."""
        self._is_stopped = True
        await self._link.idle()
