"""Where partitions end that have no replica here: who is asked, how often, and what is known when nobody answers."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvorum.broker.coordinator.group.log_ends import (
    FRESH_MS,
    PARTITIONS_MAX,
    ROUND_MS,
    WANTED_MS,
    LogEnds,
)
from kvorum.network.dial import ConnectionLost
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.runtime_kit import LoopClock

LATEST, READ_UNCOMMITTED, CONSUMER = -1, 0, -1
A, B, ELSEWHERE = TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("c", 0)


@dataclass
class Brokers:
    """Brokers that lead partitions and say where they end; `channels` are those that are open."""

    leaders: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)
    requested: list[tuple[float, int, list[TopicPartition]]] = field(default_factory=list)
    channels: list[int] = field(default_factory=list)

    def open(self, broker_id: int) -> "Brokers.Channel":
        self.channels.append(broker_id)
        return self.Channel(self, broker_id)

    @dataclass
    class Channel:
        world: "Brokers"
        broker_id: int

        async def ask(self, message: Any, response: Any, *, timeout_ms: int) -> Any:
            assert isinstance(message, ListOffsetsRequest) and response is ListOffsetsResponse
            assert (message.replica_id, message.isolation_level) == (CONSUMER, READ_UNCOMMITTED)
            await asyncio.sleep(0.001)
            keys = [
                TopicPartition(topic.name, row.partition_index) for topic in message.topics for row in topic.partitions
            ]
            self.world.requested.append((asyncio.get_running_loop().time(), self.broker_id, keys))
            if self.broker_id in self.world.unreachable:
                raise ConnectionLost("gone", maybe_sent=False)
            assert {row.timestamp for topic in message.topics for row in topic.partitions} == {LATEST}
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            self.row(TopicPartition(topic.name, row.partition_index)) for row in topic.partitions
                        ],
                    )
                    for topic in message.topics
                ]
            )

        def row(self, key: TopicPartition) -> ListOffsetsPartitionResponse:
            if key in self.world.refused:
                return ListOffsetsPartitionResponse(partition_index=key.partition, error_code=self.world.refused[key])
            return ListOffsetsPartitionResponse(partition_index=key.partition, offset=self.world.ends[key])

        async def close(self) -> None:
            self.world.channels.remove(self.broker_id)


def ends_on(world: Brokers) -> LogEnds:
    return LogEnds(LoopClock(), world.leaders.get, world.open)


async def pass_ms(duration_ms: float) -> None:
    await asyncio.sleep(duration_ms / 1000)


def test_leaders_are_queried_once_a_round_each_for_its_own(run: Run) -> None:
    async def work() -> None:
        world = Brokers({A: 1, B: 2}, {A: 10, B: 20})
        ends = ends_on(world)
        ends.want({A, B, ELSEWHERE})
        assert ends.end(A) is None
        await pass_ms(10)
        assert (ends.end(A), ends.end(B), ends.end(ELSEWHERE)) == (10, 20, None)
        assert [(broker, keys) for _, broker, keys in world.requested] == [(1, [A]), (2, [B])]
        world.ends[A] = 15
        ends.want({A, B})
        await pass_ms(ROUND_MS)
        assert (ends.end(A), len(world.requested)) == (15, 4)
        await ends.close()
        assert world.channels == []

    run(work())


def test_partitions_are_requested_in_batches(run: Run) -> None:
    async def work() -> None:
        keys = [TopicPartition("many", index) for index in range(PARTITIONS_MAX + 1)]
        world = Brokers(dict.fromkeys(keys, 3), {key: key.partition for key in keys})
        ends = ends_on(world)
        ends.want(keys)
        await pass_ms(10)
        assert [ends.end(key) for key in keys] == list(range(PARTITIONS_MAX + 1))
        assert [len(found) for _, _, found in world.requested] == [PARTITIONS_MAX, 1]
        await ends.close()

    run(work())


@pytest.mark.parametrize("how", ["unreachable", "refused", "leaderless"])
def test_an_end_that_is_not_reported_any_more_is_soon_not_known(run: Run, how: str) -> None:
    async def work() -> None:
        world = Brokers({A: 1, B: 2}, {A: 10, B: 20})
        ends = ends_on(world)
        ends.want({A, B})
        await pass_ms(10)
        if how == "unreachable":
            world.unreachable.add(1)
        elif how == "refused":
            world.refused[A] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            world.leaders[A] = -1
        await pass_ms(FRESH_MS - ROUND_MS)
        assert (ends.end(A), ends.end(B)) == (10, 20)
        await pass_ms(ROUND_MS + 100)
        assert (ends.end(A), ends.end(B)) == (None, 20)
        world.unreachable.clear()
        world.refused.clear()
        world.leaders[A] = 2
        await pass_ms(ROUND_MS)
        assert ends.end(A) == 10
        await ends.close()

    run(work())


def test_former_leaders_are_removed(run: Run) -> None:
    async def work() -> None:
        world = Brokers({A: 1, B: 2}, {A: 10, B: 20})
        ends = ends_on(world)
        ends.want({A, B})
        await pass_ms(10)
        assert sorted(world.channels) == [1, 2]
        world.leaders[A] = 2
        await pass_ms(ROUND_MS)
        assert world.channels == [2]
        await ends.close()

    run(work())


def test_no_requests_are_sent_without_scrapes(run: Run) -> None:
    async def work() -> None:
        world = Brokers({A: 1}, {A: 10})
        ends = ends_on(world)
        ends.want(set())
        await pass_ms(10)
        assert not world.requested
        ends.want({A})
        await pass_ms(WANTED_MS + 2 * ROUND_MS)
        reported = len(world.requested)
        assert ends.end(A) is None and world.channels == []
        await pass_ms(WANTED_MS)
        assert len(world.requested) == reported
        ends.want({A})
        await pass_ms(10)
        assert ends.end(A) == 10
        await ends.close()
        ends.want({A})
        await pass_ms(ROUND_MS)
        assert world.channels == []

    run(work())


def test_closed_in_the_middle_of_a_round_nothing_is_left_behind(run: Run) -> None:
    async def work() -> None:
        world = Brokers({A: 1}, {A: 10})
        ends = ends_on(world)
        ends.want({A})
        await asyncio.sleep(0.0005)
        assert world.channels == [1]
        await ends.close()
        await ends.close()
        assert world.channels == []
        assert [task for task in asyncio.all_tasks() if task.get_name() == "log-ends"] == []

    run(work())
