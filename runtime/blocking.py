"""Work that would hold the event loop longer than 10 ms goes to a thread, through this one place.

The simulator's loop answers `run_in_executor` in virtual time, so nothing else has to know of it.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Lock: TypeAlias = threading.Lock
"""For what the loop and work in a thread may both do, each for no longer than one write to the disk."""


def run(loop: asyncio.AbstractEventLoop, work: Callable[[*Arguments], T], *arguments: *Arguments) -> asyncio.Future[T]:
    """Run `work` off the loop; the future carries its result or its exception.

    Two calls may run at the same time: callers that share state must order them (await one, then start the next).
    """
    return loop.run_in_executor(None, work, *arguments)
