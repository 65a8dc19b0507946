"""Hook between listeners and handlers of a process, used for fault injection."""

from typing import Protocol

from kvorum.network.router import HandlerFunction
from kvorum.network.server import Listener


class Interposer(Protocol):
    """Passed to a server by its composition root, or not; without one requests are not intercepted."""

    def around(self, api_key: int, handle: HandlerFunction) -> HandlerFunction:
        """Return the replacement of a handler. Called once for each API, before the first request."""
        ...

    def add_listener(self, listener: Listener) -> None:
        """Add an open listener, which can be made to reject connections and to accept them again."""
        ...
