"""A client that is a coroutine, in a thread with an event loop of its own."""

import asyncio
import threading
from abc import abstractmethod


class LoopThread:
    """Runs `live` until it is stopped; `live` looks at `stopping` and waits by `pause`."""

    def __init__(self, name: str) -> None:
        """Nothing starts yet."""
        self.stopping = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self.live()), name=name, daemon=True)

    @abstractmethod
    async def live(self) -> None:
        """Do all the client does; return soon after `stopping` is set."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing new."""
        self.stopping = True

    def join(self) -> None:
        """Wait until `live` has returned."""
        self._thread.join()
