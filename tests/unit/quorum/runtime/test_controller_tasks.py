"""What the active controller does unasked, in virtual time."""

import asyncio
from collections.abc import Iterator

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.partition import PartitionRegistration
from tests.unit.quorum.runtime.runtime_kit import SESSION_MS, World


@pytest.fixture
def active(world: World) -> World:
    world.elect()
    return world


def broker(world: World, broker_id: int) -> BrokerRegistration:
    found = world.image.cluster.broker(broker_id)
    assert found is not None
    return found


def partition(world: World, name: str) -> PartitionRegistration:
    topic = world.image.topics.topic(name)
    assert topic is not None
    found = topic.partition(0)
    assert found is not None
    return found


async def beating(world: World, epochs: dict[int, int], for_ms: int, *broker_ids: int) -> None:
    """Let these brokers send heartbeats each second."""
    for _ in range(for_ms // 1000):
        await asyncio.sleep(1)
        for broker_id in broker_ids:
            await world.beat(broker_id, epochs[broker_id])


def test_a_silent_broker_is_fenced_and_others_lead(active: World) -> None:
    async def go() -> None:
        epochs = await active.join(11, 12)
        assert (await active.create_topic("t", replicas=2)).topics[0].error_code == ErrorCode.NONE
        silent = partition(active, "t").leader
        talking = 23 - silent
        await beating(active, epochs, SESSION_MS, talking)
        assert not broker(active, silent).fenced
        await beating(active, epochs, 1000, talking)
        assert broker(active, silent).fenced
        assert not broker(active, talking).fenced
        assert partition(active, "t").leader == talking
        assert partition(active, "t").isr == (talking,)
        assert not (await active.beat(silent, epochs[silent])).is_fenced, "a valid heartbeat unfences"

    active.run(go())


@pytest.mark.parametrize("elr", [0, 1])
def test_all_silent_brokers_are_fenced_and_the_last_of_an_isr_is_waited_for(elr: int) -> None:
    active = World(kvorum_eligible_leader_replicas_version=elr)
    active.elect()

    async def go() -> None:
        await active.join(11, 12, 13)
        await active.create_topic("t", replicas=3)

    active.run(go())
    active.advance(SESSION_MS + 1000)
    assert all(broker(active, broker_id).fenced for broker_id in (11, 12, 13))
    found = partition(active, "t")
    assert found.leader == -1
    assert (len(found.isr), len(found.elr), len(found.last_known_elr)) == ((0, 1, 1) if elr else (1, 0, 0))
    active.end()


def test_a_new_active_controller_gives_all_a_fresh_session(active: World) -> None:
    active.run(active.join(11, 12))
    active.advance(SESSION_MS - 1000)
    active.act(active.log.depose)
    active.advance(10 * SESSION_MS)
    assert not broker(active, 11).fenced, "who is not active fences nobody"
    active.elect()
    active.advance(SESSION_MS - 100)
    assert not broker(active, 11).fenced
    active.advance(1000)
    assert broker(active, 11).fenced


def test_a_paused_controller_fences_no_broker_for_its_own_pause(active: World) -> None:
    async def go() -> None:
        epochs = await active.join(11)
        # The clock has moved on by two sessions, and no callback ran meanwhile: SIGSTOP, SIGCONT.
        active.loop._now += 2 * SESSION_MS / 1000
        await asyncio.sleep(0.1)
        assert not broker(active, 11).fenced
        await active.beat(11, epochs[11])
        await asyncio.sleep(1)
        assert not broker(active, 11).fenced

    active.run(go())
    active.advance(SESSION_MS + 1000)
    assert broker(active, 11).fenced, "whoever stays silent then is fenced"


def test_leaders_move_back_to_their_preferred_replicas(active: World) -> None:
    async def go() -> None:
        epochs = await active.join(11, 12)
        await active.create_topic("t", replicas=2)
        preferred = partition(active, "t").leader
        other = 23 - preferred
        await active.beat(preferred, epochs[preferred], want_fence=True)
        assert partition(active, "t").leader == other
        await active.beat(preferred, epochs[preferred])
        now = partition(active, "t")
        topic = active.image.topics.topic("t")
        assert topic is not None
        row = RequestPartitionData(
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in (11, 12)],
        )
        rows = [RequestTopicData(topic_id=topic.topic_id, partitions=[row])]
        answer = await active.ask(AlterPartitionRequest(broker_id=other, broker_epoch=epochs[other], topics=rows))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        await beating(active, epochs, 299_000, 11, 12)
        assert partition(active, "t").leader == other
        await beating(active, epochs, 2_000, 11, 12)
        assert partition(active, "t").leader == preferred

    active.run(go())


def test_unclean_election_takes_effect_within_its_interval() -> None:
    world = World(unclean_leader_election_interval_ms=10_000)
    world.elect()

    async def go() -> None:
        epochs = await world.join(11, 12)
        await world.create_topic("t", replicas=2)
        leader = partition(world, "t").leader
        follower = 23 - leader
        await world.beat(follower, epochs[follower], want_fence=True)
        await world.beat(leader, epochs[leader], want_fence=True)
        await world.beat(follower, epochs[follower])
        assert partition(world, "t").leader == -1, "the only replica in sync is gone"
        config = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        answer = await world.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert partition(world, "t").leader == -1
        await beating(world, epochs, 11_000, follower)
        assert partition(world, "t").leader == follower

    world.run(go())
    world.end()


@pytest.fixture
def lively() -> Iterator[World]:
    world = World(metadata_max_idle_interval_ms=500)
    world.elect()
    yield world
    world.end()


def test_an_idle_log_gets_a_sign_of_life(lively: World) -> None:
    before = lively.log.high_watermark
    lively.advance(2_050)
    assert lively.log.high_watermark == before + 4


def test_a_busy_log_needs_no_sign_of_life(lively: World) -> None:
    async def go() -> None:
        for number in range(20):
            await asyncio.sleep(0.3)
            await lively.create_topic(f"t{number}")

    lively.run(lively.join(11))
    before = lively.log.high_watermark
    lively.run(go())
    configs_and_partition = 2
    assert lively.log.high_watermark == before + 20 * configs_and_partition


def test_an_inactive_controller_writes_nothing(lively: World) -> None:
    lively.act(lively.log.depose)
    before = lively.log.high_watermark
    lively.advance(5_000)
    assert lively.log.high_watermark == before


def test_a_restarted_broker_is_refused_while_its_old_session_lasts(active: World) -> None:
    async def go() -> None:
        await active.join(11)
        answer = await active.register(11, incarnation=2)
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await asyncio.sleep(SESSION_MS / 1000 + 1)
        answer = await active.register(11, incarnation=2)
        assert answer.error_code == ErrorCode.NONE
        assert answer.broker_epoch == active.log.high_watermark - 1
        stale = await active.beat(11, 0)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    active.run(go())
