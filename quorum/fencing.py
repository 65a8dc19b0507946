"""Detects that a broker's process has ended.

A closed connection is a hint; two refused connections are sufficient proof.

    connected --last connection closed--> attempt --refused--> wait 20 ms --> attempt --refused--> fence
                                          attempt --anything else--> wait 20 ms (after 5 times 250 ms), begin again
                                          a new connection, another epoch, fenced --> stop

A refused connect means that the machine runs and the port has no listener: the process has ended, or its successor does
not listen yet. A successful connect proves nothing: a dying process closes its connections before its listener, about
40 ms before on a busy machine, and more on a very busy one. So a broker that has not reconnected is probed until its
session expires. A timeout proves nothing. The probed address is the broker's own advertised inter-broker address, never
a substitute of a test: a proxy that is down is not a dead broker. A false refusal costs one leadership change and no
data: the next heartbeat unfences. `kvorum.fast.fencing=off` leaves it to broker.session.timeout.ms.

A broker that died together with the last active controller (they share a node) never had a connection to the new one
that could close. So a new active controller probes each unfenced broker without a connection once, a little later.

`Connections` and `FenceProbe` decide without clock and sockets; `FastFencing` performs their actions.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Protocol

from kvorum.network.addresses import Address
from kvorum.network.dial import is_refusing
from kvorum.quorum.image import MetadataImage
from kvorum.runtime.logs import get_logger

log = get_logger("quorum")

ATTEMPTS: Final = 2
ATTEMPT_GAP_MS: Final = 20
CONNECTS_MAX: Final = 5
"""A process's end is nearly always over by then; one that lives has long connected again."""
LATER_ATTEMPT_GAP_MS: Final = 250
"""After CONNECTS_MAX successful connects."""
ATTEMPT_TIMEOUT_MS: Final = 500
"""An address that neither answers nor refuses for this time does not refuse."""
PROBES_MAX: Final = 100
"""Limit of concurrent probes: more closed connections at once indicate a problem of this node."""
ACTIVATION_GAP_MS: Final = 75
"""Time for brokers to connect to a new active controller: most need no probe then. It is short beside an election."""


class Prober(Protocol):
    """Tries to connect."""

    async def refuses(self, address: Address) -> bool:
        """Connect once; return whether it was refused. Other failures and timeouts count as not refused."""
        ...


class NetworkProber:
    """Tries it over the network."""

    __slots__ = ()

    async def refuses(self, address: Address) -> bool:
        """See Prober."""
        return await is_refusing(*address, timeout_ms=ATTEMPT_TIMEOUT_MS)


class Step(Enum):
    """Next step of a probe."""

    ATTEMPT = "attempt"
    WAIT = "wait"
    WAIT_LONGER = "wait longer"
    FENCE = "fence"
    STOP = "stop"


class FenceProbe:
    """The table above for one broker's incarnation."""

    __slots__ = ("_connects", "_refusals")

    def __init__(self) -> None:
        """Start without attempts."""
        self._refusals = 0
        self._connects = 0

    def next(self, *, refused: bool | None, still_gone: bool) -> Step:
        """Return what to do now; `refused` is the last attempt's outcome, None before the first and after a wait.

        `still_gone`: active, the same incarnation is registered and unfenced, and it has no connection again.
        """
        if not still_gone:
            return Step.STOP
        if refused is None:
            return Step.ATTEMPT
        if not refused:
            self._refusals = 0
            self._connects += 1
            return Step.WAIT_LONGER if self._connects > CONNECTS_MAX else Step.WAIT
        self._refusals += 1
        assert self._refusals <= ATTEMPTS, "the last refusal ends it"
        return Step.FENCE if self._refusals == ATTEMPTS else Step.WAIT


class Connections:
    """Connections of the controller's listener by broker."""

    __slots__ = ("_by_broker", "_by_connection")

    def __init__(self) -> None:
        """Start with none."""
        self._by_connection: dict[str, int] = {}
        self._by_broker: dict[int, set[str]] = {}

    def note(self, connection_id: str, broker_id: int) -> None:
        """Record that a broker's request arrived on this connection."""
        if self._by_connection.get(connection_id) == broker_id:
            return
        self.closed(connection_id)
        self._by_connection[connection_id] = broker_id
        self._by_broker.setdefault(broker_id, set()).add(connection_id)

    def closed(self, connection_id: str) -> int | None:
        """Record a closed connection; return its broker, None for other connections."""
        broker_id = self._by_connection.pop(connection_id, None)
        if broker_id is not None:
            connections = self._by_broker[broker_id]
            connections.discard(connection_id)
            if not connections:
                del self._by_broker[broker_id]
        return broker_id

    def count(self, broker_id: int) -> int:
        """Return how many connections of a broker are open."""
        return len(self._by_broker.get(broker_id, ()))


class FastFencing:
    """Runs one probe per broker at a time. An ActivationListener of the ActiveController."""

    def __init__(
        self,
        prober: Prober,
        *,
        enabled: bool,
        address_of: Callable[[int], tuple[int, Address] | None],
        fence: Callable[[int, int], Awaitable[None]],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """`address_of` answers (broker epoch, direct address) of an unfenced broker, None otherwise or while inactive.

        `fence` takes (broker id, broker epoch).
        """
        self._prober = prober
        self._enabled = enabled
        self._address_of = address_of
        self._fence = fence
        self._on_fault = on_fault
        self._probes: dict[int, asyncio.Task[None]] = {}
        self._unheard: deque[int] = deque()
        self._activation: asyncio.TimerHandle | None = None
        self.connections = Connections()

    def on_activated(self, image: MetadataImage) -> None:
        """Probe soon the brokers that have not connected by then."""
        self._unheard = deque(broker.broker_id for broker in image.cluster.sorted_brokers() if not broker.fenced)
        self._activation = asyncio.get_running_loop().call_later(ACTIVATION_GAP_MS / 1000, self._ask_unheard)

    def on_deactivated(self) -> None:
        """Stop starting probes; those in progress end on their own."""
        self._unheard.clear()
        if self._activation is not None:
            self._activation.cancel()

    def _ask_unheard(self) -> None:
        """Begin as many probes as may run; each that ends calls this for the rest."""
        while self._unheard and len(self._probes) < PROBES_MAX:
            broker_id = self._unheard.popleft()
            if self.connections.count(broker_id) == 0:
                self.on_broker_connection_lost(broker_id)

    def on_connection_closed(self, connection_id: str) -> None:
        """Record the end of a connection of the listener."""
        broker_id = self.connections.closed(connection_id)
        if broker_id is not None and self.connections.count(broker_id) == 0:
            self.on_broker_connection_lost(broker_id)

    def on_broker_connection_lost(self, broker_id: int) -> None:
        """Probe a broker whose last connection has closed."""
        found = self._address_of(broker_id)
        if not self._enabled or found is None or broker_id in self._probes or len(self._probes) >= PROBES_MAX:
            return
        task = asyncio.get_running_loop().create_task(self._run(broker_id, *found))
        self._probes[broker_id] = task
        task.add_done_callback(lambda done: self._ended(broker_id, done))

    def _ended(self, broker_id: int, task: "asyncio.Task[None]") -> None:
        del self._probes[broker_id]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_fault(error)
        self._ask_unheard()

    async def close(self) -> None:
        """Stop the probes."""
        self.on_deactivated()
        tasks = list(self._probes.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, broker_id: int, broker_epoch: int, address: Address) -> None:
        probe = FenceProbe()
        refused: bool | None = None
        while True:
            gone = self.connections.count(broker_id) == 0 and self._address_of(broker_id) == (broker_epoch, address)
            match probe.next(refused=refused, still_gone=gone):
                case Step.ATTEMPT:
                    refused = await self._prober.refuses(address)
                case Step.WAIT | Step.WAIT_LONGER as wait:
                    gap_ms = ATTEMPT_GAP_MS if wait is Step.WAIT else LATER_ATTEMPT_GAP_MS
                    await asyncio.sleep(gap_ms / 1000)
                    refused = None
                case Step.FENCE:
                    log.info("broker rejects connections", broker_id=broker_id, address=f"{address[0]}:{address[1]}")
                    await self._fence(broker_id, broker_epoch)
                    return
                case Step.STOP:
                    return
