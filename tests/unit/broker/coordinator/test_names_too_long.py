"""Names of clients that no record has room for are refused; other clients are not affected."""

import asyncio
from typing import Any

import pytest

from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import (
    NO_DELAY,
    Member,
    OneHome,
    World,
    commit,
    fetched,
    stable,
    subscription,
)
from tests.unit.broker.coordinator.transaction.transaction_kit import node

TOO_LONG = "x" * 2**15
REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    "named",
    [
        {"name": "x" * (2**15 - 37)},
        {"name": "a", "instance_id": "é" * 16_384},
        {"name": "a", "protocol_type": TOO_LONG},
        {"name": "a", "protocols": ((TOO_LONG, subscription("t")),)},
    ],
)
@pytest.mark.parametrize("has_group", [False, True])
def test_a_member_whose_names_no_record_can_hold_is_refused(run: Run, named: dict[str, Any], has_group: bool) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        other = Member(world, "other")
        if has_group:
            await stable(world, [other])
        refused = await Member(world, **named).join()
        assert refused.error_code == REFUSED
        if has_group:
            assert await other.heartbeat() is ErrorCode.NONE, "it was no reason for a rebalance"
        else:
            assert not world.partition.state.groups
            await stable(world, [other])

    run(scenario())


@pytest.mark.parametrize("name", ["x" * (2**15 - 38), "é" * 16_000])
def test_the_longest_names_are_taken(run: Run, name: str) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await stable(world, [Member(world, name[:100], instance_id=name), Member(world, name)])
        await world.fail_over()
        assert world.state_name == "Stable"

    run(scenario())


def test_a_commit_of_a_group_whose_id_no_record_can_hold_is_refused(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        with pytest.raises(KafkaError) as error:
            await commit(world.partition, 1, group_id=TOO_LONG)
        assert error.value.code is REFUSED
        (row,) = await GroupCoordinator(OneHome(world)).delete_groups([TOO_LONG])
        assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await commit(world.partition, 2)).topics[0].partitions[0].error_code == ErrorCode.NONE

    run(scenario())


def test_a_retention_time_beyond_the_end_of_time_is_for_ever(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        answer = await commit(world.partition, 42, version=4, retention_ms=2**63 - 1)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        await asyncio.sleep(10 * NO_DELAY.offsets_retention_ms / 1000)
        assert fetched(world.partition) == [("t", 0, 42)]

    run(scenario())


@pytest.mark.parametrize("version", [0, 2])
def test_a_transactional_id_that_no_record_can_hold_is_refused(run: Run, version: int) -> None:
    async def scenario() -> None:
        at = await node(version)
        with pytest.raises(KafkaError) as error:
            await at.init(TOO_LONG)
        assert error.value.code is REFUSED
        ended = await at.end(Producer(7, 0), is_commit=True, name=TOO_LONG)
        assert ended.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert (await at.init("x" * (2**15 - 1))).code is ErrorCode.NONE
        await asyncio.sleep(1)
        assert (await at.init()).code is ErrorCode.NONE

    run(scenario())
