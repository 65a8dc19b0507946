"""Hook between listeners and handlers of a process, used for fault injection."""

from typing import Protocol

from kvorum.network.router import HandlerFunction
from kvorum.network.server import Listener


class Interposer(Protocol):
    """Handed to a server by its composition root, or not; without one nothing stands in the way of a request."""

    def around(self, api_key: int, handle: HandlerFunction) -> HandlerFunction:
        """Return what is called in place of a handler. Called once for each API, before the first request."""
        ...

    def opened(self, listener: Listener) -> None:
        """A listener is open; it can be made to reject connections, and to accept them again."""
        ...
