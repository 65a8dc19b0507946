"""preallocate: new segment files have their full length at once, and give back what they did not need."""

import pytest

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.disk import OsDisk
from kvorum.storage import durable_length
from kvorum.storage.log import Log
from kvorum.storage.recovery import OpenOptions, open_log
from sim.disk import SimDisk
from tests.unit.storage.kit import FOLDER, StillClock, batch, new_disk, open_test_log, read_all, small_config

CONFIG = small_config(preallocate=True)
SEGMENT_BYTES = CONFIG.segment_bytes


def sizes(disk: SimDisk) -> list[int]:
    return [disk.size(f"{FOLDER}/{name}") for name in disk.listdir(FOLDER) if name.endswith(".log")]


def filled(disk: SimDisk, count: int = 12) -> Log:
    log = open_test_log(disk, CONFIG)
    for index in range(count):
        log.append_as_leader(batch(b"%02d" % index * 50), 0)
    return log


def test_only_the_active_segment_is_longer_than_its_batches() -> None:
    disk = new_disk()
    log = open_test_log(disk, CONFIG)
    assert (sizes(disk), log.size) == ([SEGMENT_BYTES], 0)
    log = filled(disk)
    *rolled, active = sizes(disk)
    assert active == SEGMENT_BYTES and log.segment_count == len(rolled) + 1 > 2
    assert rolled == [segment.size for segment in log._local.segments][:-1]
    assert len(read_all(log)) == log.size < sum(rolled) + active


def test_without_it_no_file_is_longer_than_its_batches() -> None:
    disk = new_disk()
    open_test_log(disk, small_config()).append_as_leader(batch(), 0)
    assert sizes(disk) == [len(batch())]


def test_a_clean_shutdown_trims_the_active_segment_and_the_next_start_trusts_it() -> None:
    disk = new_disk()
    log = filled(disk)
    data = read_all(log)
    log.close()
    assert sum(sizes(disk)) == len(data)
    disk.crash()
    again = open_test_log(disk, CONFIG, options=OpenOptions(recovery_point=12, is_clean=True))
    assert (again.log_end_offset, read_all(again)) == (12, data)
    assert again.append_as_leader(batch(), 0).first_offset == 12


def test_a_recovery_trims_preallocated_files() -> None:
    disk = new_disk()
    data = read_all(filled(disk))
    again = open_test_log(disk, CONFIG)
    assert (again.log_end_offset, read_all(again), sum(sizes(disk))) == (12, data, len(data))


@pytest.mark.parametrize("seed", range(40))
def test_a_trimming_that_the_power_cut_takes_back_costs_nothing_synced(seed: int) -> None:
    """All was synced, then came the roll: its cut of the zeros may be lost, and they lie before a whole segment."""
    disk = new_disk(seed)
    log = filled(disk)
    log.flush()
    data = read_all(log)
    log.roll()
    disk.sync_dir(FOLDER)
    log.append_as_leader(batch(b"perhaps"), 0)
    disk.crash()
    again = open_test_log(disk, CONFIG, options=OpenOptions(recovery_point=log.recovery_point))
    assert 12 <= again.log_end_offset <= 13
    again.append_as_leader(batch(b"after"), 1)
    kept = read_all(again)
    assert kept.startswith(data)
    assert read_all(open_test_log(disk, CONFIG)) == kept


def test_a_flush_overtaken_by_a_roll_leaves_the_zeros_to_recovery() -> None:
    """The recovery point is then the new segment's base, and the old one's zeros are not trimmed durably yet."""
    disk = new_disk()
    log = filled(disk)
    plan = log.begin_flush()
    plan.run()
    log.roll()
    disk.sync_dir(FOLDER)
    log.complete_flush(plan)
    found = durable_length.read(disk, FOLDER)
    assert found is not None and found.segment_base_offset < found.recovery_point == 12
    data = read_all(log)
    old = f"{FOLDER}/{found.segment_base_offset:020d}.log"
    disk.open(old).truncate(SEGMENT_BYTES)
    again = open_test_log(disk, CONFIG, options=OpenOptions(recovery_point=12))
    assert (again.log_end_offset, read_all(again)) == (12, data)
    assert disk.size(old) == found.size


def test_a_truncation_and_a_new_beginning_keep_to_it() -> None:
    disk = new_disk()
    log = filled(disk)
    log.truncate_to(5)
    log.append_as_leader(batch(b"new"), 1)
    assert (log.log_end_offset, len(read_all(log))) == (6, log.size)
    log.truncate_fully_and_start_at(40)
    assert sizes(disk)[-1] == SEGMENT_BYTES
    log.append_as_leader(batch(b"newer"), 1)
    assert open_test_log(disk, CONFIG, options=OpenOptions(log_start_offset=40)).log_end_offset == 41


def test_the_operating_systems_files_do_it_too(tmp_path: object) -> None:
    folder = f"{tmp_path}/topic-0"
    log = open_log(OsDisk(), folder, TopicPartition("topic", 0), CONFIG, StillClock())
    log.append_as_leader(batch(b"value"), 0)
    path = f"{folder}/00000000000000000000.log"
    assert OsDisk().size(path) == SEGMENT_BYTES
    log.close()
    assert OsDisk().size(path) == log.size == len(batch(b"value"))
