"""What is done to logs by the clock, in virtual time: syncs, checkpoints, and a disk that fails under one of them."""

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvorum.broker.log_maintenance import FLUSH_INTERVAL_MS, LogMaintenance
from kvorum.broker.parts import count_flushes
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.runtime import metric_names
from kvorum.runtime.metrics import Metrics
from kvorum.storage.log import Log
from kvorum.storage.log_manager import LogManager
from sim.loop import SimLoop
from tests.unit.broker.test_server import Cluster, creation, is_led, only_code, produce, until
from tests.unit.broker.test_server import run as run_cluster
from tests.unit.storage.kit import batch, small_config
from tests.unit.storage.test_log_manager import TOPIC_ID, A, B, World, code_of, partitions

FLUSH_MS = 5_000
POINTS_MS = 7_000


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time; what a duty raises is reported to the loop, and no duty may."""
    loop = SimLoop(random.Random(1))
    loop.run_until_complete(work)
    assert loop.errors == []


class Running:
    """A broker's logs, two directories of two each, with their maintenance under way."""

    def __init__(self) -> None:
        self.world = World(**{"log.flush.offset.checkpoint.interval.ms": POINTS_MS})
        self.world.config = small_config(flush_ms=FLUSH_MS, segment_bytes=10_000)
        self.metrics = Metrics()

    async def start(self) -> tuple[LogManager, list[Log]]:
        self.manager = await self.world.started(on_flush=count_flushes(self.metrics, self.world.clock))
        self.maintenance = LogMaintenance(self.manager, lambda: self.world.settings, self.world.clock)
        self.maintenance.start()
        return self.manager, [self.manager.get_or_create(partition, TOPIC_ID) for partition in partitions(4)]

    async def pass_ms(self, duration_ms: int) -> None:
        """Let time go by, on all clocks alike."""
        for _ in range(duration_ms // FLUSH_INTERVAL_MS):
            self.world.clock.now_ms += FLUSH_INTERVAL_MS
            await asyncio.sleep(FLUSH_INTERVAL_MS / 1000)

    async def stop(self) -> None:
        await self.maintenance.close()
        await self.manager.shutdown()


def test_flush_ms_syncs_and_the_next_checkpoint_reports_it() -> None:
    async def work() -> None:
        running = Running()
        _, logs = await running.start()
        for log in logs:
            log.append_as_leader(batch(), 0)
        await running.pass_ms(FLUSH_MS - FLUSH_INTERVAL_MS)
        assert [log.recovery_point for log in logs] == [0] * 4
        await running.pass_ms(2 * FLUSH_INTERVAL_MS)
        assert [log.recovery_point for log in logs] == [1] * 4
        await running.pass_ms(POINTS_MS)
        assert running.world.disk.read(f"{A}/recovery-point-offset-checkpoint") == b"0\n2\ntopic 0 1\ntopic 2 1\n"
        await running.stop()

    run(work())


def test_every_sync_is_counted_with_its_seconds() -> None:
    async def work() -> None:
        running = Running()
        _, logs = await running.start()

        def flushes() -> float:
            (row,) = [
                sample.value
                for family in text_string_to_metric_families(running.metrics.render().decode())
                for sample in family.samples
                if sample.name == f"{metric_names.LOG_FLUSH_TIME}_count"
            ]
            return float(row)

        seconds = running.metrics.histogram(metric_names.LOG_FLUSH_SECONDS).labels()
        await running.pass_ms(2 * FLUSH_MS)
        assert (flushes(), sum(seconds.counts)) == (0, 0)
        for log in logs:
            log.append_as_leader(batch(), 0)
        await running.pass_ms(2 * FLUSH_MS)
        assert (flushes(), sum(seconds.counts)) == (4, 4)
        assert 4 * 0.0001 <= seconds.sum <= 4 * 0.0005, "as long as off-loop work takes in this world"
        await running.stop()

    run(work())


@pytest.mark.parametrize("why", ["flush.ms", "a rolled segment", "a recovery-point checkpoint"])
def test_a_disk_that_fails_under_a_duty_takes_its_directory_offline_once_and_is_reported(why: str) -> None:
    async def work() -> None:
        running = Running()
        world = running.world
        if why == "a rolled segment":
            world.config = small_config(segment_bytes=10_000)
        manager, logs = await running.start()
        for log in logs:
            log.append_as_leader(batch(), 0)
            if why == "a rolled segment":
                log.roll()
        if why == "a recovery-point checkpoint":
            await running.pass_ms(FLUSH_MS + FLUSH_INTERVAL_MS)
            assert [log.recovery_point for log in logs] == [1] * 4
        world.disk.fail("sync")
        assert world.offline == []
        await running.pass_ms(2 * POINTS_MS)
        assert world.offline == [A], "told once, though the maintenance went on"
        assert [each.is_online for each in manager.dirs] == [False, True]
        assert [log.failure is not None for log in logs] == [True, False, True, False]
        assert code_of(lambda: logs[0].append_as_leader(batch(), 0)) is ErrorCode.KAFKA_STORAGE_ERROR
        # The other directory is served as before, by the very same maintenance.
        assert [logs[1].recovery_point, logs[3].recovery_point] == [1, 1]
        logs[1].append_as_leader(batch(), 0)
        logs[1].roll()
        await running.pass_ms(2 * POINTS_MS)
        assert logs[1].recovery_point == 2
        assert world.disk.read(f"{B}/recovery-point-offset-checkpoint") == b"0\n2\ntopic 1 2\ntopic 3 1\n"
        syncs_there = world.disk.counts["sync"]
        await running.pass_ms(2 * FLUSH_MS)
        assert world.offline == [A]
        await running.stop()
        assert world.disk.counts["sync"] > syncs_there
        assert [world.disk.exists(f"{path}/.kafka_cleanshutdown") for path in (A, B)] == [False, True]

    run(work())


def test_a_failed_sync_is_not_tried_again() -> None:
    """What an fsync that failed has dropped is gone from the cache: a second one would say that all is well."""

    async def work() -> None:
        running = Running()
        running.world = World(dirs=[A])
        running.world.config = small_config(flush_ms=FLUSH_MS)
        _, logs = await running.start()
        for log in logs:
            log.append_as_leader(batch(), 0)
        running.world.disk.fail("sync")
        await running.pass_ms(2 * FLUSH_MS)
        tried = running.world.disk.counts["sync"]
        await running.pass_ms(10 * FLUSH_MS)
        assert running.world.disk.counts["sync"] == tried
        assert [log.recovery_point for log in logs] == [0] * 4
        await running.stop()

    run(work())


def test_a_brokers_metrics_report_its_syncs(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1)
        await cluster.ask(1, creation("orders", flush_messages="1"))
        await until(lambda: is_led(cluster, "orders"))
        for acks in (1, -1):
            assert only_code(await cluster.ask(1, produce("orders", b"a", acks=acks), 9)) == 0
        reported = broker._world.metrics.render().decode()
        assert f"\n{metric_names.LOG_FLUSH_TIME}_count 2.0\n" in reported
        assert f"\n{metric_names.LOG_FLUSH_SECONDS}_count 2.0\n" in reported

    run_cluster(tmp_path, story)


def keyed(name: str, *pairs: tuple[bytes | None, bytes]) -> ProduceRequest:
    """A Produce of (key, value) records."""
    data = bytes(build_batch([Record(value, key, timestamp=1) for key, value in pairs]))
    partition = PartitionProduceData(index=0, records=data)
    return ProduceRequest(acks=-1, timeout=10_000, topic_data=[TopicProduceData(name=name, partition_data=[partition])])


def test_a_broker_compacts_by_settings_that_change_while_it_runs(tmp_path: Path) -> None:
    """The cleaner would look again in an hour; a new backoff counts at once."""

    async def story(cluster: Cluster) -> None:
        broker = await cluster.start_broker(1, **{"log.cleaner.backoff.ms": 3_600_000})
        await cluster.ask(
            1, creation("orders", cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0")
        )
        await until(lambda: is_led(cluster, "orders"))
        refused = await cluster.ask(1, keyed("orders", (b"a", b"1"), (None, b"2")), 9)
        assert only_code(refused) == ErrorCode.INVALID_RECORD
        partition = refused.responses[0].partition_responses[0]
        assert [each.batch_index for each in partition.record_errors] == [1]
        log = next(broker.parts.log_manager.logs())
        for number in range(5):
            assert only_code(await cluster.ask(1, keyed("orders", (b"a", b"%d" % number)), 9)) == 0
            log.roll()
        change = AlterableConfig(name="log.cleaner.backoff.ms", config_operation=0, value="20")
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        altered = await cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]))
        assert altered.responses[0].error_code == 0

        async def is_clean() -> bool:
            return log.cleaning.cleaned_offset == 5

        await until(is_clean)
        assert log.cleaning.segments.size < 5 * 70
        reported = broker._world.metrics.render().decode()
        assert f"\n{metric_names.CLEANER_DEAD_THREADS} 0.0\n" in reported
        assert f"\n{metric_names.CLEANER_MAX_DIRTY_PERCENT} " in reported

    run_cluster(tmp_path, story)
