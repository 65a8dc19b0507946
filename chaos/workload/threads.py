"""The threads of a run's clients. One that dies of an exception is a problem of the run: its work was not done."""

import asyncio
import sys
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from kvorum.chaos.workload.recorder import Recorder

HANGS_SECONDS: Final = 90.0
"""Longer than every step of a transaction with its repetitions."""


def client_thread(name: str, work: Callable[[], None], recorder: Recorder) -> threading.Thread:
    """Return a thread, not started yet, that does `work` and informs the recorder of an unexpected end."""

    def run() -> None:
        try:
            work()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            recorder.problem(f"the client thread {name} died: {why}")

    return threading.Thread(target=run, name=name, daemon=True)


def join_or_tell(thread: threading.Thread, recorder: Recorder) -> None:
    """Wait for a stopped client; one that does not end in time hangs, which is a problem of the run."""
    thread.join(HANGS_SECONDS)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        where = " < ".join(f"{each.name}:{each.lineno}" for each in reversed(traceback.extract_stack(frame)))
        recorder.problem(f"the client thread {thread.name} hangs: it was stopped {HANGS_SECONDS:g} s ago, in {where}")


class LoopThread:
    """Runs the coroutine `live` in its own event loop until it is stopped; `live` checks `stopping`."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        """Create it; `start` starts it."""
        self.stopping = False
        self._thread = client_thread(name, lambda: asyncio.run(self.live()), recorder)

    @abstractmethod
    async def live(self) -> None:
        """Execute the client's operations; return soon after `stopping` is set."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop starting operations."""
        self.stopping = True

    def join(self) -> None:
        """Wait until `live` has returned."""
        self._thread.join()
