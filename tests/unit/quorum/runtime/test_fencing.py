"""A closed connection and two refusals fence; anything less does not."""

import asyncio
import random

import pytest
from rpds import HashTrieMap

from kvorum.network.addresses import Address
from kvorum.protocol.uuids import ZERO_UUID
from kvorum.quorum.fencing import (
    ACTIVATION_GAP_MS,
    ATTEMPT_GAP_MS,
    CONNECTS_MAX,
    LATER_ATTEMPT_GAP_MS,
    PROBES_MAX,
    Connections,
    FastFencing,
    FenceProbe,
    NetworkProber,
    Step,
)
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.cluster import BrokerRegistration, ClusterImage
from sim.loop import SimLoop
from tests.unit.quorum.runtime.runtime_kit import World


@pytest.mark.parametrize(
    ("outcomes", "steps"),
    [
        ([None, True, None, True], [Step.ATTEMPT, Step.WAIT, Step.ATTEMPT, Step.FENCE]),
        ([None, False, None, True, None, True], [Step.ATTEMPT, Step.WAIT] * 2 + [Step.ATTEMPT, Step.FENCE]),
        ([None, True, None, False, None, True], [Step.ATTEMPT, Step.WAIT] * 3),
        (
            [None, False] * (CONNECTS_MAX + 2) + [None, True, None, True],
            [Step.ATTEMPT, Step.WAIT] * CONNECTS_MAX
            + [Step.ATTEMPT, Step.WAIT_LONGER] * 2
            + [Step.ATTEMPT, Step.WAIT, Step.ATTEMPT, Step.FENCE],
        ),
    ],
)
def test_two_consecutive_refusals_fence_and_an_accepting_listener_is_probed_again(
    outcomes: list[bool | None], steps: list[Step]
) -> None:
    probe = FenceProbe()
    assert [probe.next(refused=outcome, still_gone=True) for outcome in outcomes] == steps


@pytest.mark.parametrize("refused", [None, True, False])
def test_a_broker_that_is_back_is_let_be(refused: bool | None) -> None:
    assert FenceProbe().next(refused=refused, still_gone=False) is Step.STOP


def test_a_broker_is_considered_dead_after_its_last_connection_closes() -> None:
    connections = Connections()
    connections.note("a", 11)
    connections.note("b", 11)
    connections.note("b", 11)
    connections.note("c", 12)
    assert connections.closed("a") == 11 and connections.count(11) == 1
    assert connections.closed("a") is None
    assert connections.closed("b") == 11 and connections.count(11) == 0
    assert connections.closed("unknown") is None
    assert connections.count(12) == 1


def test_a_connection_that_another_broker_uses_now_is_its() -> None:
    connections = Connections()
    connections.note("a", 11)
    connections.note("a", 12)
    assert connections.count(11) == 0
    assert connections.closed("a") == 12


def is_fenced(world: World, broker_id: int) -> bool:
    broker = world.image.cluster.broker(broker_id)
    assert broker is not None
    return broker.fenced


def joined(world: World) -> None:
    world.elect()
    world.run(world.join(11, 12))


def test_a_broker_whose_address_refuses_is_fenced_at_once(world: World) -> None:
    joined(world)
    world.doors.refusing = True
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    assert not is_fenced(world, 11)
    world.advance(ATTEMPT_GAP_MS + 5)
    assert is_fenced(world, 11)
    assert not is_fenced(world, 12)
    assert world.doors.requested == [("127.0.0.1", 9011)] * 2


def test_a_broker_whose_address_answers_stays(world: World) -> None:
    joined(world)
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    world.advance(LATER_ATTEMPT_GAP_MS)
    assert not is_fenced(world, 11)
    requested = len(world.doors.requested)
    assert requested == CONNECTS_MAX + 1, "after these it is asked less often"
    world.advance(2 * LATER_ATTEMPT_GAP_MS)
    assert not is_fenced(world, 11) and len(world.doors.requested) == requested + 2
    broker = world.image.cluster.broker(11)
    assert broker is not None
    world.run(world.beat(11, broker.broker_epoch))
    world.advance(2 * LATER_ATTEMPT_GAP_MS)
    assert len(world.doors.requested) == requested + 2, "it has come back"


def test_a_broker_whose_listener_closes_late_is_fenced(world: World) -> None:
    """A process that is being killed on a very busy machine: its connections are closed long before its listener."""
    joined(world)
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    world.advance(1000)
    assert not is_fenced(world, 11)
    world.doors.refusing = True
    world.advance(LATER_ATTEMPT_GAP_MS + ATTEMPT_GAP_MS + 5)
    assert is_fenced(world, 11)
    requested = len(world.doors.requested)
    world.advance(1000)
    assert len(world.doors.requested) == requested, "who is fenced is asked no more"


def test_a_broker_that_connects_again_between_the_attempts_stays(world: World) -> None:
    joined(world)
    world.doors.refusing = True

    async def go() -> None:
        world.server.on_connection_closed("broker-11")
        await asyncio.sleep(0.001)
        broker = world.image.cluster.broker(11)
        assert broker is not None
        await world.beat(11, broker.broker_epoch)
        await asyncio.sleep(1)

    world.run(go())
    assert not is_fenced(world, 11)
    assert len(world.doors.requested) == 1


def test_an_inactive_controller_sends_no_requests(world: World) -> None:
    joined(world)
    world.doors.refusing = True
    world.act(lambda: world.log.depose(leader_id=2))
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    world.advance(100)
    assert world.doors.requested == []


def test_fast_fencing_can_be_switched_off() -> None:
    world = World(kvorum_fast_fencing="off")
    joined(world)
    world.doors.refusing = True
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    world.advance(1000)
    assert not is_fenced(world, 11)
    world.end()


def took_over(world: World) -> None:
    """Become active anew, with brokers 11 and 12 known and no connection of theirs here."""
    joined(world)
    world.act(lambda: world.log.depose(leader_id=2))
    for broker_id in (11, 12):
        world.act(lambda: world.server.on_connection_closed(f"broker-{broker_id}"))  # noqa: B023
    assert world.doors.requested == []
    world.elect()


def test_a_broker_that_died_with_the_last_controller_is_fenced_soon_after_the_election(world: World) -> None:
    took_over(world)
    world.doors.refusing = True
    broker = world.image.cluster.broker(12)
    assert broker is not None
    world.run(world.beat(12, broker.broker_epoch))
    world.advance(ACTIVATION_GAP_MS - 5)
    assert world.doors.requested == []
    world.advance(ATTEMPT_GAP_MS + 10)
    assert is_fenced(world, 11)
    assert not is_fenced(world, 12), "it has come to the new controller"
    assert world.doors.requested == [("127.0.0.1", 9011)] * 2


def test_a_broker_that_responds_stays_unfenced_without_a_heartbeat_to_the_new_controller(world: World) -> None:
    took_over(world)
    world.advance(ACTIVATION_GAP_MS + LATER_ATTEMPT_GAP_MS)
    assert not is_fenced(world, 11) and not is_fenced(world, 12)
    assert set(world.doors.requested) == {("127.0.0.1", 9011), ("127.0.0.1", 9012)}
    assert len(world.doors.requested) == 2 * (CONNECTS_MAX + 1), "then less often"


def test_a_controller_deposed_before_the_request_sends_none(world: World) -> None:
    took_over(world)
    world.doors.refusing = True
    world.advance(ACTIVATION_GAP_MS // 2)
    world.act(lambda: world.log.depose(leader_id=2))
    world.advance(1000)
    assert world.doors.requested == []


def test_a_fenced_broker_gets_no_requests(world: World) -> None:
    took_over(world)
    broker = world.image.cluster.broker(11)
    assert broker is not None
    world.run(world.beat(11, broker.broker_epoch, want_fence=True))
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    world.advance(1000)
    assert set(world.doors.requested) == {("127.0.0.1", 9012)}


def test_all_of_a_large_cluster_are_queried_so_many_at_a_time() -> None:
    count = 2 * PROBES_MAX + 7
    fenced: list[int] = []
    under_way: set[Address] = set()
    most = 0

    class Slow:
        async def refuses(self, address: Address) -> bool:
            nonlocal most
            under_way.add(address)
            most = max(most, len(under_way))
            await asyncio.sleep(0.01)
            under_way.discard(address)
            return True

    async def fence(broker_id: int, broker_epoch: int) -> None:
        fenced.append(broker_id)

    async def go() -> None:
        faults: list[BaseException] = []
        fencing = FastFencing(
            Slow(),
            enabled=True,
            address_of=lambda broker_id: (5, ("127.0.0.1", broker_id)),
            fence=fence,
            on_fault=faults.append,
        )
        brokers = {
            broker_id: BrokerRegistration(
                broker_id=broker_id,
                broker_epoch=5,
                incarnation_id=ZERO_UUID,
                endpoints=(),
                features=(),
                rack=None,
                fenced=False,
                in_controlled_shutdown=False,
                log_dirs=(),
            )
            for broker_id in range(1, count + 1)
        }
        fencing.on_activated(MetadataImage(cluster=ClusterImage(brokers=HashTrieMap(brokers))))
        await asyncio.sleep(1)
        await fencing.close()
        assert not faults

    loop = SimLoop(random.Random(1))
    loop.run_until_complete(go())
    loop.close()
    assert sorted(fenced) == list(range(1, count + 1))
    assert most == PROBES_MAX


def test_a_closed_port_refuses_and_an_open_one_does_not() -> None:
    async def go() -> tuple[bool, bool]:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        answers = await NetworkProber().refuses((host, port))
        server.close()
        await server.wait_closed()
        return answers, await NetworkProber().refuses((host, port))

    assert asyncio.run(go()) == (False, True)
