"""When a log is to be synced, and what a flush has synced when it is complete."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kvorum.runtime import failpoints
from kvorum.runtime.disk import OsDisk
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.names import INDEX_SUFFIX, LEADER_EPOCH_CHECKPOINT, offset_of
from kvorum.storage.recovery import open_log
from sim.disk import SimDisk
from tests.unit.storage.kit import (
    NOW_MS,
    PARTITION,
    StillClock,
    batch,
    filled,
    idempotent,
    new_disk,
    open_test_log,
    small_config,
)


def test_flush_messages_requests_a_sync_with_the_append_that_fills_it() -> None:
    """The append itself touches no disk but for its write: who answers has the sync done first."""
    disk = new_disk()
    log = open_test_log(disk, small_config(flush_messages=3, segment_bytes=10_000))
    for count in range(1, 8):
        syncs = disk.counts.get("sync", 0)
        log.append_as_leader(batch(), 0)
        assert disk.counts.get("sync", 0) == syncs
        assert log.is_sync_due == log.durability.is_flush_due(NOW_MS) == (count % 3 == 0)
        if log.is_sync_due:
            log.flush()
        assert log.recovery_point == count // 3 * 3
    disk.crash()
    assert open_test_log(disk).log_end_offset >= 6


def test_a_follower_must_sync_fetched_records() -> None:
    log = open_test_log(new_disk(), small_config(flush_messages=2))
    log.append_as_follower(batch(partition_leader_epoch=0))
    assert not log.is_sync_due
    log.append_as_follower(batch(b"a", b"b", base_offset=1, partition_leader_epoch=0))
    assert log.is_sync_due


def test_the_high_watermark_stays_below_records_of_a_due_sync() -> None:
    log = open_test_log(new_disk(), small_config(flush_messages=3))
    log.append_as_leader(batch(b"a", b"b"), 0)
    assert log.committable_end_offset == 2, "no sync is due: as far as the log"
    log.append_as_leader(batch(), 0)
    assert log.committable_end_offset == 0
    log.flush()
    assert log.committable_end_offset == 3
    log.append_as_leader(batch(), 0)
    log.config = small_config(flush_messages=1)
    assert log.committable_end_offset == 3, "also where a smaller flush.messages makes it due"


def test_a_sync_beside_a_flush_under_way_is_enough_for_the_answer() -> None:
    log = open_test_log(new_disk(), small_config(flush_messages=1))
    log.append_as_leader(batch(), 0)
    plan = log.begin_flush()
    log.append_as_leader(batch(), 0)
    log.flush()
    assert (log.is_sync_due, log.committable_end_offset, log.recovery_point) == (False, 2, 0)
    plan.run()
    log.complete_flush(plan)
    assert (log.is_sync_due, log.committable_end_offset, log.recovery_point) == (False, 2, 1)


def test_flush_ms_is_due_when_its_time_is_over() -> None:
    log = open_test_log(new_disk(), small_config(flush_ms=1000))
    assert not log.durability.is_flush_due(NOW_MS + 5000)
    log.append_as_leader(batch(), 0)
    assert not log.durability.is_flush_due(NOW_MS + 999)
    assert log.durability.is_flush_due(NOW_MS + 1000)
    log.flush()
    assert not log.durability.is_flush_due(NOW_MS + 5000)


def test_a_rolled_segment_is_due_at_once() -> None:
    log = filled()
    assert log.durability.is_flush_due(NOW_MS)
    plan = log.begin_flush(include_active=False)
    plan.run()
    log.complete_flush(plan)
    assert not log.durability.is_flush_due(NOW_MS)
    assert 0 < log.recovery_point < 30


def test_a_flush_overtaken_by_a_truncation_counts_for_nothing() -> None:
    disk = new_disk()
    log = filled(disk=disk)
    plan = log.begin_flush()
    log.truncate_to(10)
    for _ in range(10):
        log.append_as_leader(batch(b"new"), 1)
    plan.run()
    log.complete_flush(plan)
    assert log.recovery_point == 0
    # A snapshot of the state before the truncation must not come back either.
    again = open_test_log(disk)
    assert again.log_end_offset == 20
    assert again.epoch_cache.entries == [(0, 0), (1, 10)]


def test_a_snapshot_that_a_void_flush_left_unwritten_is_not_forgotten() -> None:
    """The log was cut while the flush ran, behind a snapshot that is still good: the next cut needs it."""
    log = open_test_log(new_disk())
    for sequence in range(3):
        log.append_as_leader(idempotent(sequence), 0)
    log.roll()
    for sequence in range(3, 6):
        log.append_as_leader(idempotent(sequence), 0)
    plan = log.begin_flush()
    log.truncate_to(5)
    plan.run()
    log.complete_flush(plan)
    log.truncate_to(4)
    assert log.producer_state.producers[7].last_sequence == 3


def test_an_index_that_goes_while_it_is_looked_for_needs_no_sync() -> None:
    """A flush runs in a thread: the event loop may cut the log at any of its steps."""
    disk = GoingDisk(random.Random(1))
    disk.mkdir("/data")
    log = filled(30, disk)
    plan = log.begin_flush()
    assert len(plan.index_paths) > 3
    disk.on_found = lambda: log.truncate_to(1)
    plan.run()
    log.complete_flush(plan)
    assert disk.on_found is None, "it was cut in between"
    assert (log.log_end_offset, log.failure) == (1, None)


class GoingDisk(SimDisk):
    """A disk on which something happens just after the index of a segment but the first was found to be there."""

    on_found: Callable[[], object] | None = None

    def exists(self, path: str) -> bool:
        is_there = super().exists(path)
        if path.endswith(INDEX_SUFFIX) and offset_of(path.rpartition("/")[2]) and self.on_found is not None:
            on_found, self.on_found = self.on_found, None
            on_found()
        return is_there


def test_epochs_of_before_a_restart_of_the_log_are_not_written_behind_those_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "topic-0"
    log = open_log(OsDisk(), str(folder), PARTITION, small_config(), StillClock())
    log.append_as_leader(batch(), 3)
    plan = log.begin_flush()
    restart = threading.Thread(target=log.truncate_fully_and_start_at, args=(40,))

    def hit(name: str) -> None:
        if name == "file.replace.written" and threading.current_thread() is threading.main_thread():
            restart.start()
            restart.join(0.5)  # it has to wait for this very file

    monkeypatch.setattr(failpoints, "hit", hit)
    plan.run()
    restart.join()
    log.complete_flush(plan)
    assert (folder / LEADER_EPOCH_CHECKPOINT).read_text() == EpochCache().to_text()
    assert log.log_end_offset == 40
