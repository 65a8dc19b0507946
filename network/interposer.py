"""What a process may put between its listeners and its handlers: fault injection, where a configuration asks for it."""

from typing import Protocol

from kvorum.network.router import HandlerFunction
from kvorum.network.server import Listener


class Interposer(Protocol):
    """Handed to a server by its composition root, or not; without one nothing stands in the way of a request."""

    def around(self, api_key: int, handle: HandlerFunction) -> HandlerFunction:
        """Return what is called in place of a handler. Called once for each API, before the first request."""
        ...

    def opened(self, listener: Listener) -> None:
        """A listener is open; it may be told to refuse connections, and to accept them again."""
        ...
