"""Postprocessing of responses, without an extra task if the response is available immediately, as in most requests.

A handler that decides within its call and only postprocesses the result returns the response or a future of it. The
next request of the connection is handled after it in both cases.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kvorum.protocol.schema import Message

M = TypeVar("M", bound=Message)


def finished(answer: "M | asyncio.Future[M]", finish: Callable[[M], None]) -> "M | asyncio.Future[M]":
    """Return the finished answer if it is available, else its future; either fails as `answer` does.

    `finish` changes the answer in place: it is the first callback, before the one that sends the answer.
    """
    if not isinstance(answer, asyncio.Future):
        finish(answer)
        return answer
    if answer.done():
        return finished(answer.result(), finish)

    def done(answer: "asyncio.Future[M]") -> None:
        if answer.exception() is None:
            finish(answer.result())

    answer.add_done_callback(done)
    return answer
