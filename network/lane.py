"""A short way past decoding and encoding, for requests that come over and over with the same head.

A lane belongs to one API. It learns the heads of requests that were handled in the ordinary way; of a request with a
known head it takes the frame itself, and does what all connections brought within one turn of the event loop together.
It leaves all else to the general path.

    connection                      lane
    take(caller, frame)    ----->   keeps the frame, and a place for its answer (caller.hold)
    settle()               ----->   before the next request of this connection that the lane did not take
    (end of the turn, or
    when it is replicated) <-----   caller.give(place, answer); then caller.go_on
"""

from typing import Any, Protocol

from kvorum.network.context import Peer, RequestContext
from kvorum.network.outbox import Slot
from kvorum.protocol.schema import Message


class LaneRequest(Protocol):
    """A request that a lane handled, with its times in the loop's seconds."""

    slot: Slot
    came_s: float
    since_s: float
    """Time at which it was executed."""
    waits_s: float
    """Since when it waited for replicas; 0: it did not wait."""

    @property
    def throttle_ms(self) -> int:
        """Throttle time of its client."""
        ...

    @property
    def size(self) -> int:
        """Its bytes."""
        ...


class LaneCaller(Protocol):
    """A connection, for a lane."""

    peer: Peer
    came_s: float
    """Time at which the last bytes arrived, including those of every waiting frame: the loop's time."""
    lane_memory: Any
    """The lane's own: None at first."""

    def hold(self) -> Slot:
        """Reserve the slot of the next response, for a request that was taken."""
        ...

    def give(self, slot: Slot, frame: bytes, throttle_ms: int) -> None:
        """Store a response in its slot, length and header included; empty: there is none. `go_on` follows."""
        ...

    def go_on(self) -> None:
        """Send the stored responses. Not to be called from within `settle`."""
        ...

    def go_on_soon(self) -> None:
        """Send it within this turn of the loop, or the next."""
        ...

    def handled(self, api: str, version: int, elapsed_ms: float, taken: "LaneRequest") -> None:
        """Count an answered request, with its time since its turn."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Lane(Protocol):
    """The short way of one API. Frames are whole, from the api key on."""

    api_key: int

    def take(self, caller: LaneCaller, frame: memoryview) -> bool:
        """Take a request with a known head if permitted; False: handle it on the general path."""
        ...

    def learn(self, caller: LaneCaller, frame: memoryview, ctx: RequestContext, request: Message) -> None:
        """Look at a request that was handled the ordinary way: its like may be taken from now on."""
        ...

    def settle(self) -> None:
        """Process all requests taken in this loop iteration."""
        ...
