"""The coordinator runtime after a refused batch, and its reads while the high watermark lags behind a failover."""

import asyncio
from dataclasses import dataclass, field

from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.broker.coordinator.runtime.words import PLAIN, Terms
from kvorum.broker.coordinator.transaction.state import State
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import NO_DELAY, OneHome, World, commit, fetch_request, rows_of
from tests.unit.broker.coordinator.runtime_kit import ModelLog, loaded, put
from tests.unit.broker.coordinator.transaction.transaction_kit import A0, A1, Node, node


@dataclass
class Refusing(ModelLog):
    """Refuses as many appends as there are refusals."""

    refusals: list[KafkaError] = field(default_factory=list)

    def append(self, batch: bytearray, epoch: int, terms: Terms = PLAIN) -> int:
        if self.refusals:
            raise self.refusals.pop(0)
        return super().append(batch, epoch, terms)


def code_of(future: "asyncio.Future[str]") -> ErrorCode:
    error = future.exception()
    assert isinstance(error, KafkaError)
    return error.code


def test_decisions_based_on_a_failed_batch_fail_with_it(run: Run) -> None:
    async def scenario() -> None:
        log = Refusing(commits_at_once=True, bytes_max=1_000)
        partition = await loaded(log)
        log.refusals.append(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "for a moment"))
        first = partition.write("put", put("1", size=600))
        second = partition.write("put", put("2", size=600))  # decided on the first, which has to make room for it
        await asyncio.sleep(0.1)
        assert code_of(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert code_of(second) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it rests on what never was"
        assert not partition.state and log.end == 0
        assert await partition.write("put", put("3")) == ""

    run(scenario())


def all_topics() -> OffsetFetchRequestGroup:
    request = fetch_request()
    request.topics = None
    return request


def test_an_acknowledged_commit_is_seen_after_a_failover_though_the_high_watermark_lags(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await commit(world.partition, 10)
        known_to_the_next = world.log.watermark
        await commit(world.partition, 20)
        world.log.epoch += 1
        world.partition.resign(world.log.epoch)
        world.log.watermark, world.log.commits_at_once = known_to_the_next, False
        await world.lead()
        door = GroupCoordinator(OneHome(world))
        answers = [
            asyncio.ensure_future(door.fetch(request, require_stable=is_stable))
            for request in (fetch_request(), all_topics())
            for is_stable in (False, True)
        ]
        await asyncio.sleep(0.1)
        assert [each.result() for each in answers if each.done()] == [], "20 was acknowledged, and is not certain yet"
        world.log.commit()
        assert [rows_of(await each) for each in answers] == [[("t", 0, 20)]] * 4
        commit(world.partition, 30)
        await asyncio.sleep(0.1)
        now = await asyncio.wait_for(door.fetch(fetch_request(), require_stable=False), 0.1)
        assert rows_of(now) == [("t", 0, 20)], "what this leader itself has not acknowledged, nobody waits for"

    run(scenario())


def test_a_fetch_fails_if_acknowledged_records_do_not_become_committed(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await commit(world.partition, 10)
        world.log.epoch += 1
        world.log.watermark, world.log.commits_at_once = 0, False
        await world.lead()
        answer = await GroupCoordinator(OneHome(world)).fetch(fetch_request(), require_stable=False)
        assert answer.error_code is ErrorCode.NOT_COORDINATOR and not answer.topics

    run(scenario())


def test_a_partition_that_was_added_is_verified_after_a_failover_though_the_high_watermark_lags(run: Run) -> None:
    async def scenario() -> None:
        first = await node(version=2)
        producer = await first.producer()
        assert await first.add(producer, A0, version=0) is ErrorCode.NONE
        known_to_the_next = first.log.watermark
        assert await first.add(producer, A1, version=0) is ErrorCode.NONE
        first.partition.resign(first.log.epoch + 1)
        log = first.log
        log.epoch += 1
        log.watermark, log.commits_at_once = known_to_the_next, False
        second = await Node(log, first.brokers, first.ids).lead()
        requested = asyncio.ensure_future(second.coordinator.verify_partitions(second.adding(producer, A0, A1)))
        await asyncio.sleep(0.1)
        assert not requested.done()
        log.commit()
        assert await requested == {A0: ErrorCode.NONE, A1: ErrorCode.NONE}
        assert second.state() is State.ONGOING

    run(scenario())
