"""Consumers with a rack are sent to the follower in it that Kafka's RackAwareReplicaSelector picks, or to none."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kvorum.broker.replica.selector import NO_PREFERENCE
from kvorum.broker.replica.types import FetchParams
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.quorum import records
from kvorum.runtime.config_checks import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from tests.unit.broker.replica.manager_kit import World, brokers, fetch, follower_params, produce, target, topic, values
from tests.unit.broker.replica.replica_kit import TOPIC_ID

RACKS = {1: "a", 2: "b", 3: "b"}
IN_B = FetchParams(rack_id="b", listener="PLAINTEXT", fetch_only_leader=False, max_wait_ms=60_000)


@asynccontextmanager
async def a_leader(folder: Path, selector: str | None = RACK_AWARE_SELECTOR) -> AsyncIterator[World]:
    """Broker 1 in rack a, with ten records; 2 and 3 in rack b are in the ISR and have fetched all of them."""
    world = await World(folder, settings={} if selector is None else {"replica.selector.class": selector}).start()
    try:
        await world.metadata(*brokers(1, 2, 3, racks=RACKS), *topic(replicas=(1, 2, 3)))
        produce(world, *(b"%d" % number for number in range(10)), acks=1)
        for broker_id in (2, 3):
            fetch(world, target(10), params=follower_params(broker_id))
        yield world
    finally:
        await world.close()


def ask(world: World, offset: int = 0, params: FetchParams = IN_B) -> PartitionData:
    return fetch(world, target(offset), params=params).result()[0]


def run(
    folder: Path, test: Callable[[World], Coroutine[None, None, None]], selector: str | None = RACK_AWARE_SELECTOR
) -> None:
    async def story() -> None:
        async with a_leader(folder, selector) as world:
            await test(world)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_the_response_names_the_replica_without_records_at_once(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        row = ask(world, 10)  # nothing is there to read, and the consumer would wait a minute for it
        assert row.preferred_read_replica == 3, "equally caught up: the greatest id"
        assert (row.error_code, values(row), row.aborted_transactions) == (0, [], None)
        assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (10, 10, 0)

    run(tmp_path, test)


def test_the_one_with_the_greater_log_end_is_preferred_then_the_one_caught_up_last(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.clock.now_ms += 5
        fetch(world, target(10), params=follower_params(2))
        assert ask(world).preferred_read_replica == 2, "caught up later"
        produce(world, b"x", acks=1)
        fetch(world, target(11), params=follower_params(3))
        assert ask(world).preferred_read_replica == 3, "has more"

    run(tmp_path, test)


def test_a_follower_without_the_offset_is_not_preferred(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        produce(world, b"x", acks=1)
        fetch(world, target(11), params=follower_params(2))
        assert ask(world, 11).preferred_read_replica == 2
        fetch(world, target(11, log_start_offset=4), params=follower_params(2))
        assert ask(world, 3).preferred_read_replica == 3, "2 deleted it"
        fetch(world, target(11, log_start_offset=4), params=follower_params(3))
        row = ask(world, 3)
        assert row.preferred_read_replica == NO_PREFERENCE
        assert values(row), "so the leader serves it"

    run(tmp_path, test)


def test_only_members_of_the_isr_that_live_and_have_the_listener_are_preferred(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        assert ask(world, params=replace(IN_B, listener="OTHER")).preferred_read_replica == NO_PREFERENCE
        await world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, isr=(1, 2)))
        assert ask(world).preferred_read_replica == 2
        await world.metadata(records.BrokerRegistrationChange(broker_id=2, broker_epoch=102, fenced=True))
        assert ask(world).preferred_read_replica == NO_PREFERENCE

    run(tmp_path, test)


@pytest.mark.parametrize(
    "params", [replace(IN_B, rack_id=""), replace(IN_B, rack_id="a"), replace(IN_B, rack_id="c"), follower_params(2)]
)
def test_clients_without_a_rack_or_in_the_leaders_and_replicas_read_from_the_leader(
    tmp_path: Path, params: FetchParams
) -> None:
    async def test(world: World) -> None:
        row = ask(world, params=params)
        assert (row.preferred_read_replica, len(values(row))) == (NO_PREFERENCE, 10)

    run(tmp_path, test)


@pytest.mark.parametrize("selector", [None, LEADER_SELECTOR])
def test_without_the_selector_no_consumer_is_redirected(tmp_path: Path, selector: str | None) -> None:
    async def test(world: World) -> None:
        assert ask(world).preferred_read_replica == NO_PREFERENCE

    run(tmp_path, test, selector)


def test_a_wrong_leader_epoch_is_an_error_all_the_same(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        (row,) = fetch(world, target(0, leader_epoch=7), params=IN_B).result()
        assert (row.error_code, row.preferred_read_replica) == (ErrorCode.UNKNOWN_LEADER_EPOCH, NO_PREFERENCE)

    run(tmp_path, test)
