"""Events of a served cluster for listeners (server-sent events), stored for later listeners."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

KEPT_MAX: Final = 1000
"""Events kept for listeners that come (back) later."""
LISTENERS_MAX: Final = 32
BEHIND_MAX: Final = 2 * KEPT_MAX
"""Events a listener may be behind; with one more it is disconnected, and may reconnect with the last id it received."""


class TooManyListeners(Exception):
    """LISTENERS_MAX listen already."""


class StreamEnd(Exception):
    """A listener is too far behind, or the server stops."""


@dataclass(frozen=True, slots=True)
class ServedEvent:
    """One event."""

    id: int
    kind: str
    data: dict[str, object]

    def encode_event(self) -> bytes:
        """Return it as one server-sent event."""
        return f"id: {self.id}\nevent: {self.kind}\ndata: {json.dumps(self.data)}\n\n".encode()


@dataclass(slots=True, eq=False)
class Listener:
    """One listener, in an event loop."""

    loop: asyncio.AbstractEventLoop
    _waiting: "asyncio.Queue[ServedEvent | None]" = field(default_factory=lambda: asyncio.Queue(BEHIND_MAX + 1))

    async def next(self) -> ServedEvent:
        """Wait for the next event. Raises StreamEnd."""
        event = await self._waiting.get()
        if event is None:
            raise StreamEnd
        return event

    def put(self, event: ServedEvent | None) -> None:
        """Add an event, in the listener's own loop; None is the last."""
        if self._waiting.qsize() >= BEHIND_MAX:
            event = None
        if not self._waiting.full():
            self._waiting.put_nowait(event)


class Events:
    """ServedEvent from any thread, listened to from an event loop."""

    def __init__(self) -> None:
        """Start without events."""
        self._lock = threading.Lock()
        self._kept: deque[ServedEvent] = deque(maxlen=KEPT_MAX)
        self._listeners: set[Listener] = set()
        self._next_id = 1
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Return whether the limit of listeners is reached."""
        return len(self._listeners) >= LISTENERS_MAX

    @property
    def is_closed(self) -> bool:
        """Return whether all were sent away."""
        return self._is_closed

    def publish(self, kind: str, data: dict[str, object], *, kept: bool = True) -> None:
        """Send to all listeners; `kept`: and to later ones."""
        with self._lock:
            event = ServedEvent(self._next_id, kind, data)
            self._next_id += 1
            if kept:
                self._kept.append(event)
            for listener in self._listeners:
                listener.loop.call_soon_threadsafe(listener.put, event)

    def close(self) -> None:
        """Send all listeners away, and those that come later."""
        with self._lock:
            self._is_closed = True
            for listener in self._listeners:
                listener.loop.call_soon_threadsafe(listener.put, None)

    @contextmanager
    def listen(self, after: int) -> Iterator[Listener]:
        """Listen to the events behind this id, kept ones first. Within one event loop. Raises TooManyListeners."""
        listener = Listener(asyncio.get_running_loop())
        with self._lock:
            if len(self._listeners) >= LISTENERS_MAX:
                raise TooManyListeners(f"{LISTENERS_MAX} event streams are open")
            for event in self._kept:
                if event.id > after:
                    listener.put(event)
            if self._is_closed:
                listener.put(None)
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)
