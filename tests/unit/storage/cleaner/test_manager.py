"""How cleaners go about it: what stops a cleaning, what it leaves behind then, how fast they go."""

import asyncio
import random
from collections.abc import Callable

import pytest

from kvorum.broker.cleaner_figures import follow_cleaner
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import metric_names
from kvorum.runtime.metrics import Metrics
from kvorum.storage.cleaner import cleaner as cleaner_module
from kvorum.storage.cleaner.hosts import ThreadHost
from kvorum.storage.cleaner.manager import CLEANERS_MAX, LogCleaner
from kvorum.storage.cleaner.throttle import Throttle
from kvorum.storage.cleaner.work import Advanced, Slice, Task
from tests.unit.storage.cleaner.kit import (
    CHECKPOINT,
    FOLDER,
    Broker,
    compacted,
    filled,
    names,
    offsets_of,
    put,
    records_of,
)
from tests.unit.storage.kit import NOW_MS
from tests.unit.storage.test_log_manager import TOPIC_ID


class Spy:
    """Stands where the cleaner pays for its bytes, in the event loop between two steps; acts at one of them."""

    def __init__(self, action: Callable[[], object], at_step: int) -> None:
        self.action = action
        self.at_step = at_step
        self.steps = 0

    def charge(self, size: int, now: float) -> None:
        self.steps += 1
        if self.steps == self.at_step:
            self.action()

    def wait(self, now: float) -> float:
        return 0.0


def meanwhile(broker: Broker, action: Callable[[], object], at_step: int) -> bool:
    """Clean, and act in the event loop after so many reads and writes of the cleaning."""
    spy = broker.cleaner._pace.throttle = Spy(action, at_step)  # type: ignore[assignment]
    is_done = broker.loop.run_until_complete(broker.cleaner.clean_dirtiest())
    assert spy.steps >= at_step
    return is_done


def started(broker: Broker) -> LogCleaner:
    """Its cleaners, under way."""

    async def start() -> None:
        broker.cleaner.start()

    broker.loop.run_until_complete(start())
    return broker.cleaner


def configured(broker: Broker, **changes: str) -> None:
    """Change settings, as the dynamic configs do."""

    async def configure() -> None:
        broker.cleaner.configure(broker.settings.with_overrides(changes))

    broker.loop.run_until_complete(configure())


# Settings


@pytest.mark.parametrize("factor", ["-Infinity", "-1", "0", "1e-300", "1.5", "1e308", "Infinity"])
@pytest.mark.parametrize("size", [0, 2**31 - 1])
def test_every_setting_that_is_allowed_is_cleaned_with(factor: str, size: int) -> None:
    broker = Broker(
        **{
            "log.cleaner.io.buffer.load.factor": factor,
            "log.cleaner.io.buffer.size": size,
            "log.cleaner.dedupe.buffer.size": 2**63 - 1,
            "log.cleaner.io.max.bytes.per.second": "Infinity",
            "log.cleaner.backoff.ms": 2**63 - 1,
        }
    )
    filled(broker, count=60, keys=5)
    while broker.clean():
        pass
    assert len(offsets_of(broker.log)) == 5


def test_no_more_cleaners_run_than_are_of_use() -> None:
    broker = Broker(**{"log.cleaner.threads": 2**31 - 1, "log.cleaner.dedupe.buffer.size": 2**63 - 1})
    assert len(started(broker)._tasks) == CLEANERS_MAX
    broker.loop.run_until_complete(broker.cleaner.close())


# Cleaning and retention


def test_both_policies_clean_and_delete() -> None:
    broker = Broker(compacted(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000))
    filled(broker, count=30)
    broker.clock.now_ms += 2000
    filled(broker, count=30, start=30, keys=3)
    assert broker.clean()
    assert offsets_of(broker.log) == [57, 58, 59], "the cleaner had retention done too"
    assert broker.log.log_start_offset > 0


def test_retention_skips_logs_that_are_being_cleaned() -> None:
    broker = Broker(compacted(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000))
    filled(broker)
    later = broker.clock.now_ms = NOW_MS + 2000
    deleted: list[int] = []
    assert meanwhile(broker, lambda: deleted.append(broker.manager.apply_retention(later)), 2)
    assert deleted == [0]
    assert records_of(broker.log) == []


# What a cleaning leaves in the directory


def test_the_checkpoint_is_kafkas_and_survives() -> None:
    broker = Broker()
    filled(broker)
    assert broker.clean()
    assert broker.disk.read(CHECKPOINT) == b"0\n1\ntopic 0 60\n"
    broker.kill()
    assert broker.log.cleaning.cleaned_offset == 60
    broker.loop.run_until_complete(broker.manager.shutdown())
    broker.start()
    assert broker.log.cleaning.cleaned_offset == 60
    broker.loop.run_until_complete(broker.manager.delete(broker.log.partition))
    assert broker.disk.read(CHECKPOINT) == b"0\n0\n"


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n1\ntopic 0 99999\n", b"0\n1\ntopic 0 -1\n"])
def test_a_checkpoint_that_cannot_be_makes_the_whole_log_dirty(content: bytes) -> None:
    broker = Broker()
    filled(broker)
    broker.disk.write_atomic(CHECKPOINT, content)
    broker.kill()
    broker.settle()
    assert broker.clean()
    assert offsets_of(broker.log) == list(range(55, 60))


def test_a_truncation_below_the_clean_part_lowers_the_checkpoint() -> None:
    """Else what is appended then would pass for clean, and its tombstones go before what they delete."""
    broker = Broker(compacted(delete_retention_ms=0))
    filled(broker)
    assert broker.clean()
    broker.log.truncate_to(57)
    assert broker.log.cleaning.cleaned_offset == 57
    assert not broker.disk.exists(CHECKPOINT)
    broker.kill()
    assert broker.log.cleaning.cleaned_offset is None
    put(broker.log, (b"k0", None))
    for number in range(3):
        put(broker.log, (b"k9", b"%d" % number))
        broker.settle()
        assert broker.clean()
    assert {record.key for record in records_of(broker.log)} == {b"k1", b"k9"}


# What stops a cleaning


@pytest.mark.parametrize("at_step", range(1, 12))
def test_a_truncation_stops_the_cleaning_without_restoring_records(at_step: int) -> None:
    broker = Broker()
    filled(broker)
    assert not meanwhile(broker, lambda: broker.log.truncate_to(30), at_step)
    assert broker.log.log_end_offset == 30
    assert not names(broker.disk, [".cleaned", ".swap"])
    assert not broker.cleaner.uncleanable and not broker.offline
    left = offsets_of(broker.log)
    assert set(left) <= set(range(30))
    broker.lose_power()
    assert broker.log.log_end_offset == 30
    assert offsets_of(broker.log) == left


def test_a_truncation_withdraws_the_offered_segments() -> None:
    """A cleaned segment that is durable as the coming one holds what the cut takes away."""
    broker = Broker()
    filled(broker)
    sync_dir = broker.disk.sync_dir
    seen: list[list[str]] = []

    def cut_once(path: str) -> None:
        sync_dir(path)
        if broker.log.cleaning.is_offered and not seen:
            seen.append(names(broker.disk, [".log.swap"]))
            broker.log.truncate_to(3)

    broker.disk.sync_dir = cut_once  # type: ignore[method-assign]
    assert not broker.loop.run_until_complete(broker.cleaner.clean_dirtiest())
    assert seen == [["00000000000000000000.log.swap"]]
    assert not names(broker.disk, [".swap"])
    broker.disk.sync_dir = sync_dir  # type: ignore[method-assign]
    broker.lose_power()
    assert offsets_of(broker.log) == [0, 1, 2]


@pytest.mark.parametrize("at_step", [1, 3, 8])
def test_emptying_the_log_stops_the_cleaning(at_step: int) -> None:
    broker = Broker()
    filled(broker)
    assert not meanwhile(broker, lambda: broker.log.truncate_fully_and_start_at(500), at_step)
    broker.kill()
    assert (broker.log.log_start_offset, broker.log.log_end_offset) == (500, 500)
    assert records_of(broker.log) == []


def test_deleting_the_topic_stops_the_cleaning() -> None:
    broker = Broker()
    log = filled(broker)
    tasks: list[asyncio.Task[None]] = []

    def delete() -> None:
        tasks.append(broker.loop.create_task(broker.manager.delete(log.partition)))

    assert not meanwhile(broker, delete, 4)
    broker.loop.run_until_complete(tasks[0])
    again = broker.manager.get_or_create(log.partition, TOPIC_ID)
    assert again.cleaning.cleaned_offset is None
    assert records_of(again) == []
    assert not broker.offline


def test_another_policy_stops_the_cleaning() -> None:
    broker = Broker()
    filled(broker)
    policy = compacted(cleanup_policy=frozenset({"delete"}))
    assert not meanwhile(broker, lambda: broker.use(policy), 2)
    assert offsets_of(broker.log) == list(range(60))
    assert not names(broker.disk, [".cleaned", ".swap"])


def test_closing_waits_for_the_step_and_leaves_the_log_as_it_is() -> None:
    broker = Broker()
    filled(broker)
    started(broker)

    async def close_within() -> None:
        await asyncio.sleep(0.003)
        assert broker.log.cleaning.is_in_progress
        await broker.cleaner.close()
        await broker.manager.shutdown()

    broker.loop.run_until_complete(close_within())
    assert not names(broker.disk, [".cleaned", ".swap"])
    broker.start()
    assert set(range(55, 60)) <= set(offsets_of(broker.log))


def test_a_damaged_log_is_marked_and_not_tried_again() -> None:
    broker = Broker()
    filled(broker)
    before = offsets_of(broker.log)
    metrics = Metrics()
    follow_cleaner(metrics, broker.cleaner, broker.manager, broker.clock)
    broker.disk.flip_bit(f"{FOLDER}/00000000000000000000.log", 70)
    for _ in range(3):
        assert not broker.clean()
    assert broker.cleaner.uncleanable == [broker.log]
    assert broker.log.failure is None and not broker.offline
    assert broker.log.log_end_offset == before[-1] + 1
    sampled = dict(metrics.gauge(metric_names.CLEANER_UNCLEANABLE_PARTITIONS).sampled())
    assert sampled == {("/data/logs",): 1}
    assert dict(metrics.gauge(metric_names.CLEANER_UNCLEANABLE_BYTES).sampled())[("/data/logs",)] > 0
    assert not names(broker.disk, [".cleaned", ".swap"])


def test_the_metrics_report_what_was_done() -> None:
    broker = Broker(**{"log.cleaner.dedupe.buffer.size": 2400})
    metrics = Metrics()
    follow_cleaner(metrics, broker.cleaner, broker.manager, broker.clock)
    filled(broker)
    started(broker)
    broker.loop.run_for(2.0)
    broker.clock.now_ms += 1234

    def value(name: str) -> float:
        return metrics.gauge(name).labels().read()

    assert value(metric_names.CLEANER_BUFFER_UTILIZATION) == 5
    assert 0 < value(metric_names.CLEANER_RECOPY_PERCENT) < 30
    assert value(metric_names.CLEANER_MAX_DIRTY_PERCENT) == 0
    assert value(metric_names.CLEANER_TIME_SINCE_LAST_RUN_MS) == 1234
    assert value(metric_names.CLEANER_DEAD_THREADS) == 0


# How fast, and by how many


def test_the_rate_is_kept_and_changes_at_once() -> None:
    broker = Broker(**{"log.cleaner.io.max.bytes.per.second": 1000.0})
    filled(broker, count=200)
    size = broker.log.size
    started(broker)
    broker.loop.run_for(size / 1000)
    assert broker.log.cleaning.cleaned_offset is None
    assert broker.log.cleaning.is_in_progress
    configured(broker, **{"log.cleaner.io.max.bytes.per.second": "1e9"})
    broker.loop.run_for(1.0)
    assert broker.log.cleaning.cleaned_offset == 200


def test_a_small_log_that_is_read_in_one_step_is_not_written_before_its_bytes_are_paid_for() -> None:
    class InOneStep(ThreadHost):
        async def advance(self, task: Task | None, bytes_max: int) -> Advanced:
            return self._work.advance(task, Slice(steps_max=2**31, ms_max=2**31, bytes_max=2**31))

    broker = Broker(**{"log.cleaner.io.max.bytes.per.second": 1.0})
    filled(broker)
    broker.cleaner._open_host = InOneStep
    started(broker)
    broker.loop.run_for(60.0)
    assert broker.log.cleaning.cleaned_offset is None
    assert broker.log.cleaning.is_in_progress


def test_a_throttle_delays_by_the_time_of_the_bytes() -> None:
    throttle = Throttle(1000.0)
    assert throttle.wait(5.0) == 0.0
    for size, now, wait in ((10, 5.0, 0.0), (990, 5.0, 1.0), (1000, 6.0, 1.0), (1000, 50.0, 1.0)):
        throttle.charge(size, now)
        assert throttle.wait(now) == pytest.approx(wait)
    assert throttle.wait(50.5) == pytest.approx(0.5)
    throttle.set_rate(2000.0)
    assert throttle.wait(50.5) == 0.0
    unlimited = Throttle(float("inf"))
    unlimited.charge(1 << 40, 0.0)
    assert unlimited.wait(0.0) == 0.0


def test_the_backoff_and_the_number_of_cleaners_change_at_once() -> None:
    broker = Broker(**{"log.cleaner.backoff.ms": 10**9})
    started(broker)
    broker.loop.run_for(1.0)
    filled(broker)
    broker.loop.run_for(10.0)
    assert broker.log.cleaning.cleaned_offset is None
    configured(broker, **{"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "2"})
    broker.loop.run_for(1.0)
    assert broker.log.cleaning.cleaned_offset == 60
    assert sorted(broker.cleaner.last_runs) == [0, 1]
    configured(broker, **{"log.cleaner.threads": "1"})
    broker.loop.run_for(1.0)
    assert sorted(broker.cleaner.last_runs) == [0]
    broker.loop.run_until_complete(broker.cleaner.close())


def test_two_cleaners_clean_two_logs() -> None:
    broker = Broker(**{"log.cleaner.threads": 2})
    other = broker.manager.get_or_create(TopicPartition("topic", 1), TOPIC_ID)
    filled(broker)
    filled(broker, other)
    started(broker)
    broker.loop.run_for(1.0)
    assert offsets_of(broker.log) == offsets_of(other) == list(range(55, 60))


def test_a_step_is_short_for_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps everybody else has their turn; a large batch must not be one step."""
    broker = Broker(compacted(segment_bytes=1 << 20, max_message_bytes=1 << 20))
    put(broker.log, *[(b"k%d" % number, b"v") for number in range(5000)])
    put(broker.log, *[(b"k%d" % number, b"w") for number in range(5000)])
    broker.settle()
    calls = 0
    scan = cleaner_module.scanned

    def counted(view: memoryview, header: object) -> object:
        nonlocal calls
        for step in scan(view, header):  # type: ignore[arg-type]
            calls += 1
            assert len(step[1]) <= 200
            yield step

    monkeypatch.setattr(cleaner_module, "scanned", counted)
    assert broker.clean()
    assert calls == 50


def test_each_run_draws_its_own_secret() -> None:
    broker = Broker()
    filled(broker)
    drawn: list[bytes] = []

    class Chance(random.Random):
        def randbytes(self, n: int) -> bytes:
            drawn.append(super().randbytes(n))
            return drawn[-1]

    for seed in (1, 2):
        cleaner: LogCleaner = broker.manager.make_cleaner(broker.settings, Chance(seed))
        broker.loop.run_until_complete(cleaner.clean_dirtiest())
        filled(broker, start=60)
    assert len(set(drawn)) == 2
