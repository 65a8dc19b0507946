"""An event loop in a thread, for the synchronous API."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
END = object()
"""Marks the end of an iterator."""


class LoopThread:
    """An event loop that runs coroutines for other threads, also beside a running loop (notebooks). Close it."""

    def __init__(self) -> None:
        """Start the thread; it ends with the process."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kvorum-client", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """Return whether it no longer runs anything."""
        return self._is_closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupted wait cancels it."""
        with self._lock:  # what was submitted before the end is cancelled by it
            if self._is_closed:
                work.close()
                raise RuntimeError("the cluster is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an async iterator; closing this one closes it."""
        try:
            while (item := self.run(_next_item(items))) is not END:
                yield item  # type: ignore[misc]  # not END
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and not self.is_closed:
                self.run(close())

    def close(self) -> None:
        """Cancel what other threads wait for, and stop the loop and the thread. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    """Cancel all other tasks of the loop, and wait for their ends."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _next_item(items: AsyncIterator[T]) -> T | object:
    return await anext(items, END)
