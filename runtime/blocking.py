"""Runs work that would block the event loop for more than 10 ms in a thread.

The simulator's loop executes `run_in_executor` in virtual time.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Lock: TypeAlias = threading.Lock
"""For work that both the loop and a thread may do, each for no longer than one write to the disk."""


def run(loop: asyncio.AbstractEventLoop, work: Callable[[*Arguments], T], *arguments: *Arguments) -> asyncio.Future[T]:
    """Run `work` off the loop; the future carries its result or its exception.

    Two calls may run at the same time: callers that share state must order them (await one, then start the next).
    """
    return loop.run_in_executor(None, work, *arguments)
