"""What a voter waits for, and what not: an election with nobody to ask, the next try at a peer that is not there."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from kvorum.network.addresses import AddressBook
from kvorum.network.raw_link import BACKOFF_MAX_MS, BACKOFF_MS
from kvorum.network.router import Router
from kvorum.network.server import Listener
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.transport import RaftTransport
from sim.loop import Host, SimLoop
from sim.network import NetworkOptions
from sim.quorum import QuorumSimulation
from sim.quorum_options import Options
from sim.streams import StreamNetwork

SHORTEST, LONGEST = 0.8, 1.2
"""A delay is up to a fifth longer or shorter by chance."""
CONNECTING_MS = 5
"""An attempt and its refusal take less."""


@pytest.mark.parametrize("again", [False, True], ids=["first start", "restart"])
def test_a_single_voter_becomes_candidate_at_once(again: bool) -> None:
    """Its shortest election timeout is a hundred times as long as this takes."""
    settings = RaftSettings(
        election_timeout_min_s=30.0, election_timeout_max_s=60.0, heartbeat_s=9.0, check_quorum_timeout_s=20.0
    )
    made = QuorumSimulation(3, Options(voters=1, network=NetworkOptions(slow=0.0), settings=settings))
    made.boot(load=False)
    if again:
        made.leader(limit_s=100.0).kill()
        made.voters[1].start()
    began = made.loop.time()
    made.leader(limit_s=100.0)
    assert made.loop.time() - began < 0.3


class Owner:
    """Notes when what happened."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.refusals: list[float] = []
        self.connections: list[float] = []
        self.losses: list[float] = []

    def connected(self, peer: int) -> None:
        self.connections.append(self._loop.time())

    def disconnected(self, peer: int) -> None:
        self.losses.append(self._loop.time())

    def refused(self, peer: int) -> None:
        self.refusals.append(self._loop.time())

    def receive(self, peer: int, frame: bytes | memoryview) -> None:
        raise AssertionError("nobody sends")


def on(loop: SimLoop, host: Host, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop.call_at_host(host, loop.time(), lambda: loop.create_task(work()))


async def start(owner: Owner, node_id: int, *, listening: bool) -> None:
    peer = 3 - node_id
    book = AddressBook({peer: (f"node-{peer}", 9093)})
    transport = RaftTransport(
        node_id=node_id, cluster_id="c", addresses=book, peers=[peer], chance=random.Random(node_id)
    )
    transport.attach(owner)
    if listening:
        await Listener("CONTROLLER", "", 9093, Router([], upgrades=transport.upgrades)).start()
    transport.start()


def gaps(times: list[float]) -> list[float]:
    return [1000 * (later - earlier) for earlier, later in pairwise(times)]


def test_connects_to_a_missing_voter_back_off_up_to_a_limit_and_reset_on_success() -> None:
    loop = SimLoop(random.Random(1))
    network = StreamNetwork(loop, random.Random(2))
    owner, peers = Owner(loop), Host("node-2/controller")
    on(loop, Host("node-1/controller"), lambda: start(owner, 1, listening=False))
    loop.run_for(4.0)
    found = gaps(owner.refusals)
    wanted = [min(BACKOFF_MAX_MS, BACKOFF_MS << number) for number in range(len(found))]
    assert len(found) > 15, "it never stops"
    for gap, delay in zip(found, wanted, strict=True):
        assert delay * SHORTEST <= gap <= delay * LONGEST + CONNECTING_MS

    on(loop, peers, lambda: start(Owner(loop), 2, listening=True))
    loop.run_for(1.0)
    assert len(owner.connections) == 1
    assert gaps([owner.refusals[-1], owner.connections[0]])[0] <= BACKOFF_MAX_MS * LONGEST + CONNECTING_MS
    before = len(owner.refusals)
    network.kill(peers)
    loop.run_for(1.0)
    again = [owner.losses[0], *owner.refusals[before:]]
    assert gaps(again)[0] <= BACKOFF_MS * LONGEST + CONNECTING_MS, "a connection that lasted begins anew"
    assert gaps(again)[-1] >= BACKOFF_MAX_MS * SHORTEST
    assert not loop.errors


def test_a_voter_that_takes_connections_and_drops_them_is_not_tried_ever_faster() -> None:
    loop = SimLoop(random.Random(1))
    StreamNetwork(loop, random.Random(2))
    owner = Owner(loop)

    async def slam() -> None:
        class Door(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                transport.close()

        await loop.create_server(Door, None, 9093)

    on(loop, Host("node-2/controller"), slam)
    on(loop, Host("node-1/controller"), lambda: start(owner, 1, listening=False))
    loop.run_for(4.0)
    found = gaps(owner.losses)
    assert len(found) > 10 and min(found[5:]) >= BACKOFF_MAX_MS * SHORTEST
