"""Simulated members of groups: what they tell the history that the coordinator knows of them, and what not.

A classic member's session begins anew with a heartbeat, and when a generation is complete or assigned that its own
request was parked for. A stable group answers a member that joins or syncs again without that, as Kafka's does: so such
a member may be told its assignment in one moment and be dropped in the next.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

from kvorum.chaos.checker import check
from kvorum.chaos.history import HistoryWriter, Owned
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kvorum.protocol.messages.sync_group import SyncGroupResponse
from kvorum.protocol.schema import Message
from sim.client import NoAnswer, SimClient
from sim.member import ClassicMember
from sim.workload import Recorder

SESSION_MS = 1_000
REST_S = 0.05
"""What a request and its answer take."""


class Hasty(Random):
    """Nobody who draws a pause from this pauses."""

    def random(self) -> float:
        return -0.5


class Coordinated(SimClient):
    """A client whose coordinator gives out generations as told; None is an answer that is lost."""

    def __init__(self) -> None:
        super().__init__("c", [], Hasty(1))
        self.t = 10.0
        self.generations: list[int | ErrorCode | None] = []

    async def ask_any(self, request: Message, response: type) -> FindCoordinatorResponse:  # type: ignore[override]
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="h", port=1)])

    async def ask(self, address: object, request: Message, response: type, *, newest: int | None = None) -> Message:  # type: ignore[override]
        self.t += REST_S
        if not isinstance(request, JoinGroupRequest):
            return SyncGroupResponse(assignment=b"\1")
        if not request.member_id:
            return JoinGroupResponse(member_id="m", error_code=ErrorCode.MEMBER_ID_REQUIRED)
        given = self.generations.pop(0)
        if given is None:
            raise NoAnswer("lost", maybe_sent=True)
        if isinstance(given, ErrorCode):
            return JoinGroupResponse(error_code=given)
        return JoinGroupResponse(member_id="m", generation_id=given, leader="another")


def reported(script: Callable[[Coordinated, ClassicMember], Coroutine[None, None, None]]) -> list[Owned]:
    """Return what a member tells of partitions that it owns, where a script leads it."""
    history = HistoryWriter()

    async def run() -> None:
        client = Coordinated()
        member = ClassicMember("g", client, Recorder(history, lambda: client.t), 7, SESSION_MS, 2)
        await script(client, member)
        member.die()

    asyncio.run(run())
    return [event for event in history.events if isinstance(event, Owned) and event.partitions]


async def joined(client: Coordinated, member: ClassicMember, *generations: int | ErrorCode | None) -> None:
    """Join until the generations are given out."""
    client.generations = list(generations)
    while client.generations:
        await member.settle()


def disturbed(client: Coordinated, member: ClassicMember) -> None:
    """Half a session later it hears of a rebalance."""
    client.t += SESSION_MS / 2000
    member._is_member = False


def test_a_new_generation_results_from_a_join_sent_after_its_begin() -> None:
    async def script(client: Coordinated, member: ClassicMember) -> None:
        await joined(client, member, 3)

    (owned,) = reported(script)
    assert owned.contact == 10.0 and owned.generation == 3


def test_a_repeated_join_of_its_generation_is_no_contact() -> None:
    async def script(client: Coordinated, member: ClassicMember) -> None:
        await joined(client, member, 3)
        disturbed(client, member)
        await joined(client, member, 3)
        disturbed(client, member)
        await joined(client, member, 4)

    first, again, later = reported(script)
    assert (first.contact, again.contact) == (10.0, None)
    assert later.contact is not None and again.t < later.contact < later.t - REST_S


def test_a_generation_may_result_from_the_first_of_several_joins() -> None:
    async def script(client: Coordinated, member: ClassicMember) -> None:
        await joined(client, member, 3)
        disturbed(client, member)
        client.t = 20.0
        await joined(client, member, None, ErrorCode.NOT_COORDINATOR, 4)

    _, owned = reported(script)
    assert owned.contact == 20.0 and owned.t > 20.1


def test_the_same_number_under_another_member_id_is_another_membership() -> None:
    async def script(client: Coordinated, member: ClassicMember) -> None:
        await joined(client, member, 3)
        member._membership = ("n", 3)
        disturbed(client, member)
        await joined(client, member, 3)

    _, owned = reported(script)
    assert owned.contact is not None and owned.t - 2.5 * REST_S < owned.contact < owned.t - REST_S


def test_a_member_that_is_dropped_right_after_it_joined_its_generation_again_is_a_zombie_and_not_an_owner() -> None:
    """Its session began when the coordinator took over, and was over when another was given everything."""

    async def script(client: Coordinated, member: ClassicMember) -> None:
        await joined(client, member, 2)
        disturbed(client, member)
        disturbed(client, member)
        await joined(client, member, 2)

    history = reported(script)
    last = history[-1]
    another = Owned(t=last.t + REST_S, process=8, group="g", partitions=last.partitions, generation=3, session=1.0)
    assert check([*history, another]).violations == []
    heard = Owned(t=last.t, process=7, group="g", partitions=last.partitions, generation=2, session=1.0, contact=last.t)
    (found,) = check([*history, heard, another]).violations
    assert found.anomaly == "two-owners"
