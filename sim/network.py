"""FrameNetwork: links between Raft voters at the level of frames; seeded delay, cuts, frozen links, and worse.

One connection for each direction, dialled by the sender, as production's link does it. On a connection frames arrive in
order; a *cut* holds them back (TCP retransmits), and on healing they arrive late, or the connection was closed
and they are lost. `wild` goes beyond what TCP allows (loss, duplication, reordering on a living connection): Raft must
bear it. Never permitted is a frame of an older connection after a newer one's first, nor any of a connection before its
own first, or without it: that identifies the sender and its directory.
"""

import random
from dataclasses import dataclass, field
from typing import Protocol

from sim.loop import Host, SimLoop

DIAL_EVERY_S = 0.02
DIAL_EVERY_MAX_S = 0.3


class Endpoint(Protocol):
    """Interface of a voter for the network."""

    host: Host

    def connected(self, peer: int) -> None:
        """A connection to the peer is up."""
        ...

    def disconnected(self, peer: int) -> None:
        """It is lost."""
        ...

    def refused(self, peer: int) -> None:
        """No listener there."""
        ...

    def receive(self, peer: int, frame: bytes) -> None:
        """A frame from the peer."""
        ...


@dataclass(slots=True)
class Connection:
    """One direction, one life."""

    number: int
    source: Endpoint
    target: Endpoint
    first_at: float | None = None
    """When its first frame arrives: none of the others does before."""
    last_at: float = 0.0
    held: list[bytes] = field(default_factory=list)
    """Frames behind a cut."""
    open: bool = True


@dataclass(slots=True, kw_only=True)
class NetworkOptions:
    """Delays in seconds; probabilities a frame."""

    delay_min_s: float = 0.0002
    delay_max_s: float = 0.002
    slow: float = 0.01
    slow_max_s: float = 0.1
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0


class FrameNetwork:
    """See the module."""

    def __init__(self, loop: SimLoop, rng: random.Random, options: NetworkOptions) -> None:
        """Start with no endpoint and nothing cut."""
        self._loop = loop
        self._rng = rng
        self.options = options
        self._endpoints: dict[int, Endpoint] = {}
        self._connections: dict[tuple[int, int], Connection] = {}
        self._cut: set[tuple[int, int]] = set()
        self._numbers = 0
        self.delivered = 0

    def attach(self, node_id: int, endpoint: Endpoint) -> None:
        """A process has started: it dials all others, and they may reach it."""
        self._endpoints[node_id] = endpoint

    def dial_all(self, node_id: int, peers: tuple[int, ...]) -> None:
        """Keep connections to the peers open as long as the endpoint lives."""
        endpoint = self._endpoints[node_id]
        for peer in peers:
            self._dial(endpoint, node_id, peer, DIAL_EVERY_S)

    def detach(self, node_id: int) -> None:
        """A process has died: its connections break, and connecting to it is refused."""
        del self._endpoints[node_id]
        for pair, connection in list(self._connections.items()):
            if node_id in pair:
                self._break(pair, connection)

    def cut(self, source: int, target: int) -> None:
        """Drop all frames from source to target."""
        self._cut.add((source, target))

    def passes(self, source: int, target: int) -> bool:
        """Return whether frames pass from source to target now: the target exists, and the link is not cut."""
        return target in self._endpoints and (source, target) not in self._cut

    def heal(self, source: int, target: int) -> None:
        """Let frames pass again: held frames arrive late, or the connection was closed meanwhile."""
        if (source, target) not in self._cut:
            return
        self._cut.discard((source, target))
        connection = self._connections.get((source, target))
        if connection is None:
            return
        if self._rng.random() < 0.5:
            held, connection.held = connection.held, []
            for frame in held:
                self._deliver(connection, source, frame)
        else:
            self._break((source, target), connection)

    def heal_all(self) -> None:
        """Heal every cut."""
        for pair in sorted(self._cut):
            self.heal(*pair)

    def reset(self, source: int, target: int) -> None:
        """Break a connection; frames in flight are lost."""
        connection = self._connections.get((source, target))
        if connection is not None:
            self._break((source, target), connection)

    def send(self, source: int, target: int, frame: bytes) -> None:
        """Send a frame on the present connection; without one it is lost."""
        connection = self._connections.get((source, target))
        if connection is None or not connection.open:
            return
        if (source, target) in self._cut:
            connection.held.append(frame)
            return
        self._deliver(connection, source, frame)

    def _delay(self) -> float:
        options, rng = self.options, self._rng
        if rng.random() < options.slow:
            return options.slow_max_s * rng.random()
        return options.delay_min_s + (options.delay_max_s - options.delay_min_s) * rng.random()

    def _deliver(self, connection: Connection, source: int, frame: bytes) -> None:
        options, rng = self.options, self._rng
        if options.loss and rng.random() < options.loss and connection.first_at is not None:
            return
        at = self._loop.time() + self._delay()
        if not options.reorder or rng.random() >= options.reorder:
            at = connection.last_at = max(at, connection.last_at + 1e-7)
        if connection.first_at is None:
            connection.first_at = at
        at = max(at, connection.first_at)
        self._schedule(connection, source, frame, at)
        if options.duplicate and rng.random() < options.duplicate:
            self._schedule(connection, source, frame, at + self._delay() * 3)

    def _schedule(self, connection: Connection, source: int, frame: bytes, at: float) -> None:
        def arrive() -> None:
            if connection.open:
                self.delivered += 1
                connection.target.receive(source, frame)

        self._loop.call_at_host(connection.target.host, at, arrive)

    def _break(self, pair: tuple[int, int], connection: Connection) -> None:
        connection.open = False
        del self._connections[pair]
        if not connection.source.host.alive:
            return

        def redial() -> None:
            connection.source.disconnected(pair[1])
            self._dial(connection.source, *pair, DIAL_EVERY_S)

        self._loop.call_at_host(connection.source.host, self._loop.time() + self._delay(), redial)

    def _dial(self, endpoint: Endpoint, source: int, target: int, pause_s: float) -> None:
        """Try to connect after one delay; again after a pause until it works."""

        def attempt() -> None:
            if self._endpoints.get(source) is not endpoint or (source, target) in self._connections:
                return
            peer = self._endpoints.get(target)
            if (source, target) in self._cut or (target, source) in self._cut:
                self._dial(endpoint, source, target, min(pause_s * 2, DIAL_EVERY_MAX_S))
            elif peer is None:
                endpoint.refused(target)
                self._dial(endpoint, source, target, min(pause_s * 2, DIAL_EVERY_MAX_S))
            else:
                self._numbers += 1
                self._connections[(source, target)] = Connection(self._numbers, endpoint, peer)
                endpoint.connected(target)

        pause = pause_s * self._rng.random() + self._delay()
        self._loop.call_at_host(endpoint.host, self._loop.time() + pause, attempt)
