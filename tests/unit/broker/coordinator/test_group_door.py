"""The door's ends of transactions, and what the metrics tell of groups."""

import asyncio
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvorum.broker.coordinator.ended_transaction import EndedTransaction
from kvorum.broker.coordinator.group import figures
from kvorum.broker.coordinator.group.coordinator import GroupCoordinator
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.figures import follow_groups
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import batches
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.metrics import Metrics
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import (
    GROUP,
    NO_DELAY,
    Member,
    OneHome,
    World,
    commit,
    commit_in_transaction,
    fetched,
)
from tests.unit.broker.coordinator.runtime_kit import KEY

PRODUCER = Producer(7, 3)


def an_end(is_commit: bool) -> EndedTransaction:
    return EndedTransaction(
        producer_id=7, producer_epoch=3, coordinator_epoch=5, is_commit=is_commit, transaction_version=2
    )


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 42), (False, -1)])
def test_a_marker_completes_pending_offset_commits(run: Run, is_commit: bool, offset: int) -> None:
    async def work() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await commit_in_transaction(world.partition, PRODUCER, 42)
        await GroupCoordinator(OneHome(world)).complete_transaction(KEY, an_end(is_commit), 1_000)
        assert fetched(world.partition) == [("t", 0, offset)]
        assert not world.partition.committed_state.pending
        ((_, header),) = batches(memoryview(world.log.data[-1]))
        assert (header.is_control, header.producer_id, header.producer_epoch) == (True, 7, 3)

    run(work())


def test_a_marker_that_is_not_replicated_in_time_is_requested_again(run: Run) -> None:
    async def work() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await commit_in_transaction(world.partition, PRODUCER, 42)
        world.log.commits_at_once = False
        door = GroupCoordinator(OneHome(world))
        with pytest.raises(KafkaError) as error:
            await door.complete_transaction(KEY, an_end(True), 1_000)
        assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
        world.log.commit()
        assert fetched(world.partition) == [("t", 0, 42)]

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_marker_for_a_partition_that_is_not_led_is_refused(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        world = World()
        await world.lead()
        with pytest.raises(KafkaError) as error:
            await GroupCoordinator(OneHome(world, refusal=code)).complete_transaction(KEY, an_end(True), 1_000)
        assert error.value.code is code

    run(work())


def reported(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return {(name, label values): value} of what concerns groups."""
    order = ("protocol", "state", "consumergroup", "topic", "partition")
    return {
        (sample.name, tuple(sample.labels[each] for each in order if each in sample.labels)): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if "group" in sample.name
    }


class Elsewhere:
    """Knows some ends, and what it was asked to find out."""

    def __init__(self) -> None:
        self.known: dict[TopicPartition, int] = {}
        self.wanted: set[TopicPartition] = set()

    def end(self, key: TopicPartition) -> int | None:
        return self.known.get(key)

    def want(self, keys: Iterable[TopicPartition]) -> None:
        self.wanted = set(keys)


def following(world: World, metrics: Metrics, local: dict[TopicPartition, int]) -> Elsewhere:
    """Have the world's groups told; `local` are the high watermarks of replicas here."""
    elsewhere = Elsewhere()
    follow_groups(metrics, OneHome(world).all_active, world.counts, local.get, elsewhere)
    return elsewhere


def test_groups_their_offsets_and_their_lag_are_reported(run: Run) -> None:
    async def work() -> None:
        metrics = Metrics()
        world = World(settings=NO_DELAY)
        await world.lead()
        following(world, metrics, {TopicPartition("t", 0): 50, TopicPartition("t", 1): 50})
        member = Member(world, "a")
        await member.join()
        assert (await member.ask_sync({member.member_id: b"x"})).error_code == 0
        await member.commit(42)
        await member.commit(7, topic="far")
        await commit(world.partition, 1, group_id="simple")
        found = reported(metrics)
        manager, coordinator = (
            "kafka_coordinator_group_groupmetadatamanager_",
            "kafka_server_group_coordinator_metrics_",
        )
        assert found[manager + "numgroups", ()] == 2
        assert found[manager + "numgroupsstable", ()] == 1
        assert found[manager + "numgroupsempty", ()] == 1
        assert found[manager + "numoffsets", ()] == 3
        assert found[coordinator + "group_count", ("classic",)] == 2
        assert found[coordinator + "group_count", ("consumer",)] == 0
        assert found[coordinator + "offset_commit_total", ()] == 3
        assert found[coordinator + "group_completed_rebalance_total", ()] == 1
        assert found["kafka_consumergroup_current_offset", (GROUP, "far", "0")] == 7
        assert found["kafka_consumergroup_lag", (GROUP, "t", "0")] == 8
        await commit(world.partition, 30, index=1, member_id=member.member_id, generation=member.generation)
        found = reported(metrics)
        assert found["kafka_consumergroup_current_offset_sum", (GROUP, "t")] == 72
        assert found["kafka_consumergroup_current_offset_sum", (GROUP, "far")] == 7
        assert found["kafka_consumergroup_lag_sum", (GROUP, "t")] == 8 + 20
        assert found["kafka_consumergroup_members", (GROUP,)] == 1
        assert found["kafka_consumergroup_members", ("simple",)] == 0

    run(work())


def test_a_sum_of_lags_is_reported_when_all_of_it_is_known(run: Run) -> None:
    async def work() -> None:
        metrics = Metrics()
        world = World(settings=NO_DELAY)
        await world.lead()
        elsewhere = following(world, metrics, {TopicPartition("t", 0): 50})
        await commit(world.partition, 42)
        await commit(world.partition, 30, index=1)
        found = reported(metrics)
        assert found["kafka_consumergroup_lag", (GROUP, "t", "0")] == 8
        assert ("kafka_consumergroup_lag", (GROUP, "t", "1")) not in found
        assert ("kafka_consumergroup_lag_sum", (GROUP, "t")) not in found
        assert elsewhere.wanted == {TopicPartition("t", 1)}
        elsewhere.known[TopicPartition("t", 1)] = 33
        found = reported(metrics)
        assert found["kafka_consumergroup_lag", (GROUP, "t", "1")] == 3
        assert found["kafka_consumergroup_lag_sum", (GROUP, "t")] == 8 + 3

    run(work())


def test_of_too_many_offsets_groups_are_reported_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "OFFSETS_EXPOSED_MAX", 3)

    async def work() -> None:
        metrics = Metrics()
        world = World(settings=NO_DELAY)
        await world.lead()
        following(world, metrics, {TopicPartition("t", index): 10 for index in range(2)})
        for group_id in ("one", "two"):
            for index in range(2):
                await commit(world.partition, 4, index=index, group_id=group_id)
        found = reported(metrics)
        sums = {labels: value for (name, labels), value in found.items() if name == "kafka_consumergroup_lag_sum"}
        assert list(sums.values()) == [12]
        assert len([labels for name, labels in found if name == "kafka_consumergroup_current_offset"]) == 2

    run(work())


def test_deleted_and_expired_offsets_are_counted(run: Run) -> None:
    async def work() -> None:
        counts = GroupCounts()
        world = World(settings=NO_DELAY, counts=counts)
        await world.lead()
        await commit(world.partition, 1, group_id="old")
        await commit(world.partition, 1, group_id="gone")
        door = GroupCoordinator(OneHome(world))
        (row,) = await door.delete_groups(["gone"])
        assert (row.error_code, counts.offsets_deleted, counts.offsets_expired) == (0, 1, 0)
        await asyncio.sleep(NO_DELAY.offsets_retention_ms / 1000 + 3600)
        assert (counts.offsets_deleted, counts.offsets_expired) == (1, 1)
        assert not world.partition.committed_state.groups

    run(work())
