"""A controller has the others know where it listens, until the voter set that is committed says so."""

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from kvorum.cluster.local import quorum_presence
from kvorum.cluster.local.quorum_presence import QuorumPresence
from kvorum.network.addresses import Address
from kvorum.network.cluster_check import WrongCluster
from kvorum.network.dial import ForeignPeer
from kvorum.protocol.schema import Message
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.quorum.raft.voters import Endpoint, Pending, StoredState, Voters

OWN, OTHER = b"\x01" * 16, b"\x02" * 16
SET = {1: OWN, 2: OTHER}
BEFORE: list[Endpoint] = [("CONTROLLER", "before", 9093)]
NOW: list[Endpoint] = [("CONTROLLER", "now", 9093)]


class Leading:
    """Node 1, which leads: as much of its metadata log as its presence looks at."""

    def __init__(self) -> None:
        state = StoredState(
            cluster_id="c",
            node_id=1,
            directory_id=OWN,
            voter_ids=[1, 2],
            pins=dict(SET),
            ready=True,
            forced=[],
            voters=dict(SET),
            voters_index=1,
            dynamic=True,
            endpoints={1: BEFORE, 2: BEFORE},
        )
        self.voters = Voters(state)
        self.node_id = 1
        self.leader_id: int | None = 1
        self.epoch = 1
        self.node = SimpleNamespace(replica=SimpleNamespace(voters=self.voters))
        self.membership = self
        self.updates = 0

    def add_listener(self, listener: object) -> None:
        """Nothing is told but by the test."""

    def update(self, node_id: int, directory_id: bytes, endpoints: list[Endpoint]) -> None:
        """Append a set, as Membership does."""
        assert (node_id, directory_id) == (1, OWN)
        self.updates += 1
        self.voters.pending.append(Pending(2, dict(SET), {**self.voters.endpoints, 1: endpoints}))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # whatever the condition is about
            await asyncio.sleep(0.001)


def test_endpoints_whose_set_was_lost_with_its_leader_are_reported_again() -> None:
    async def story() -> None:
        faults: list[BaseException] = []
        log = Leading()
        presence = QuorumPresence(
            cast(RaftMetadataLog, log),
            cast(RaftTransport, None),
            cluster_id="c",
            bootstrap=[],
            endpoints=NOW,
            chance=Random(1),
            on_fault=faults.append,
        )
        presence.start()
        await until(lambda: log.updates == 1)
        log.voters.truncated(2)
        presence.on_leader_changed(1, 2)
        await until(lambda: log.updates == 2)
        log.voters.applied(2, dict(SET), {1: NOW, 2: BEFORE})
        presence.on_active(2)
        await until(lambda: not presence._changed.is_set())
        assert log.updates == 2 and not faults
        await presence.close()

    asyncio.run(story())


def test_a_lost_upgrade_of_the_quorum_has_no_effect_until_the_next_one() -> None:
    async def story() -> None:
        log = Leading()
        log.voters.state.dynamic = False
        log.voters.pending.append(Pending(2, dict(SET), {1: BEFORE, 2: BEFORE}))
        faults: list[BaseException] = []
        presence = QuorumPresence(
            cast(RaftMetadataLog, log),
            cast(RaftTransport, None),
            cluster_id="c",
            bootstrap=[],
            endpoints=NOW,
            chance=Random(1),
            on_fault=faults.append,
        )
        log.voters.truncated(2)
        presence.start()
        for epoch in (2, 3):
            presence.on_leader_changed(1, epoch)
            await until(lambda: not presence._changed.is_set())
        assert log.updates == 0, "a static quorum refuses it"
        log.voters.applied(3, dict(SET), {1: BEFORE, 2: BEFORE})
        presence.on_active(4)
        await until(lambda: log.updates == 1)
        await presence.close()
        assert not faults

    asyncio.run(story())


def test_a_moved_observer_that_became_a_voter_reports_its_address() -> None:
    """The entry names it where it was when it was added, and came to it behind its next start."""

    async def story() -> None:
        log = Leading()
        log.voters.state.voters = {2: OTHER}
        faults: list[BaseException] = []
        presence = QuorumPresence(
            cast(RaftMetadataLog, log),
            cast(RaftTransport, None),
            cluster_id="c",
            bootstrap=[],
            endpoints=NOW,
            chance=Random(1),
            on_fault=faults.append,
        )
        presence.start()
        presence.on_leader_changed(1, 2)
        await until(lambda: not presence._changed.is_set())
        assert log.updates == 0, "it follows"
        log.voters.applied(2, dict(SET), {1: BEFORE, 2: BEFORE})
        presence.on_voters_changed()
        await until(lambda: log.updates == 1)
        await presence.close()
        assert not faults

    asyncio.run(story())


@pytest.mark.parametrize(("epoch", "is_wrong"), [(0, True), (3, False)], ids=["first start", "had a leader before"])
def test_a_controller_among_bootstrap_servers_of_another_cluster_ends_at_its_first_start(
    monkeypatch: pytest.MonkeyPatch, epoch: int, is_wrong: bool
) -> None:
    requested: list[Address] = []

    class Foreign:
        def __init__(self, where: Callable[[], Address], **options: object) -> None:
            requested.append(where())

        async def request(self, message: Message, *, timeout_ms: int) -> Message:
            raise ForeignPeer("theirs")

        async def close(self) -> None:
            """Nothing is open."""

    async def story() -> None:
        log, faults = Leading(), list[BaseException]()
        log.leader_id, log.epoch = None, epoch
        presence = QuorumPresence(
            cast(RaftMetadataLog, log),
            cast(RaftTransport, None),
            cluster_id="c",
            bootstrap=[("a", 1), ("b", 2), ("now", 9093)],
            endpoints=NOW,
            chance=Random(1),
            on_fault=faults.append,
        )
        presence.start()
        await until(lambda: faults if is_wrong else len(requested) > 4)
        assert [type(each) for each in faults] == ([WrongCluster] if is_wrong else [])
        assert {*requested} == {("a", 1), ("b", 2)}, "it does not ask itself"
        await presence.close()

    monkeypatch.setattr(quorum_presence, "Channel", Foreign)
    monkeypatch.setattr(quorum_presence, "BACKOFF_MS", 1)
    asyncio.run(story())
