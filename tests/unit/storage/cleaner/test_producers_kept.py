"""What producers wrote is known as long as what they wrote is: after cleanings, retention, recoveries, lost tails.

A producer that is forgotten too early is a duplicate: what it sends again is taken for its first words.
"""

import dataclasses
from collections.abc import Callable

import pytest

from kvorum.protocol.compression import Codec
from kvorum.storage.log import Log
from kvorum.storage.recovery import OpenOptions
from tests.unit.storage.cleaner.kit import FOLDER, Broker, compacted, names, offsets_of, put
from tests.unit.storage.cleaner.test_cleaning_model import CleaningMachine
from tests.unit.storage.kit import NOW_MS, idempotent, new_disk, open_test_log, small_config

A, B = b"a", b"b"
PRODUCER = 5


def by_producer(sequence: int) -> dict[str, object]:
    return {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence}


def last_sequence(log: Log) -> int | None:
    entry = log.producer_state.producers.get(PRODUCER)
    return None if entry is None else entry.last_sequence


def snapshots(broker: Broker) -> list[int]:
    return [int(name[:20]) for name in names(broker.disk, [".snapshot"])]


# Cleaned away, and the rest lost


def test_after_a_power_failure_a_producer_is_known_by_its_last_surviving_batch() -> None:
    """Although that one was superseded, and cleaned away when the newest was there already."""
    broker = Broker()
    put(broker.log, (A, b"1"), **by_producer(0))
    put(broker.log, (A, b"2"))
    broker.settle()
    put(broker.log, (B, b"1"), **by_producer(1))
    assert broker.clean()
    assert offsets_of(broker.log) == [1, 2]
    broker.lose_power()
    assert broker.log.log_end_offset == 2
    assert last_sequence(broker.log) == 0


def test_after_a_truncation_a_producer_is_known_by_its_last_remaining_batch() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"), **by_producer(0))
    put(broker.log, (A, b"2"))
    broker.settle()
    put(broker.log, (B, b"1"), **by_producer(1))
    assert broker.clean()
    broker.disk.remove(f"{FOLDER}/00000000000000000002.snapshot")
    broker.kill()
    broker.log.truncate_to(2)
    assert last_sequence(broker.log) == 0


def test_a_batch_goes_once_there_is_a_later_one_that_is_durable() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"), **by_producer(0))
    put(broker.log, (A, b"2"), **by_producer(1))
    broker.settle()
    put(broker.log, (A, b"3"), **by_producer(2))
    broker.settle()
    assert broker.clean()
    assert offsets_of(broker.log) == [2]
    assert [placed.header.last_offset for placed in broker.log.cleaning.segments.first.batches()] == [2]


def test_the_producer_of_a_segment_recovered_after_a_crash_outlives_the_next_one() -> None:
    """As a run of the model had it: cleaned twice, the power lost five times, and the producer with it."""
    state = CleaningMachine()
    steps: list[Callable[[], object]] = [
        lambda: state.begin(slots=1000, seed=8671, segment_bytes=600),
        lambda: state.append_idempotent(
            pairs=[(b"a", None), (b"e", b"=\xfc\x7f\xcb\xf0"), (b"b", b"3G%\xbe\x87\x9d\x97\xfbu\x17\x13")],
            producer_id=1,
        ),
        lambda: state.clean_what_is_not_synced(),
        lambda: state.die_while_writing(seed=105, steps=66),
        lambda: state.clean(),
        lambda: state.clean_what_is_not_synced(),
        lambda: state.checkpoint(),
        lambda: state.die_while_writing(seed=30399, steps=63),
        lambda: state.append(codec=Codec.SNAPPY, pairs=[(b"e", None)]),
        lambda: state.pass_time(duration_ms=100),
        lambda: state.append_transactional(
            pairs=[(b"e", None), (b"a", None), (b"e", b"H\xeaqA\xc3\x0b\xecV\xa9\xbf\x01'")], producer_id=12
        ),
        lambda: state.clean_what_is_not_synced(),
        lambda: state.die_while_cleaning(is_power_cut=True, steps=17),
        lambda: state.die_while_writing(seed=12562, steps=21),
        lambda: state.append_transactional(pairs=[(b"d", None), (b"a", b"\xd7c")], producer_id=11),
        lambda: state.end(is_commit=True, producer_id=12),
        lambda: state.die_while_writing(seed=4039, steps=52),
    ]
    for step in steps:
        step()
        state.all_of_it_holds()
    state.teardown()


# The snapshots that all of it rests on


@pytest.mark.parametrize("recovery_point", [0, 6])
def test_every_segment_that_was_recovered_has_a_snapshot_at_its_start(recovery_point: int) -> None:
    disk = new_disk()
    config = small_config(segment_bytes=300)
    log = open_test_log(disk, config)
    for sequence in range(12):
        log.append_as_leader(idempotent(sequence, producer_id=PRODUCER), 0)
    bases = [segment.base_offset for segment in log.cleaning.segments]
    disk.kill()
    log = open_test_log(disk, config, options=OpenOptions(recovery_point=recovery_point))
    found = {int(name[:20]) for name in disk.listdir("/data/topic-0") if name.endswith(".snapshot")}
    assert found == set(bases[1:]) and len(bases) > 3
    log.truncate_to(bases[2])
    assert last_sequence(log) == bases[2] - 1


def test_a_recovered_log_is_cleaned_up_to_its_active_segment() -> None:
    broker = Broker()
    put(broker.log, (A, b"1"), **by_producer(0))
    broker.log.roll()
    put(broker.log, (A, b"2"))
    broker.log.roll()
    put(broker.log, (A, b"3"))
    broker.log.roll()
    broker.kill()
    broker.log.high_watermark = 3
    assert broker.clean()
    assert offsets_of(broker.log) == [2]


def test_a_damaged_snapshot_limits_the_cleaning() -> None:
    broker = Broker(compacted(segment_bytes=100))
    for number in range(3):
        put(broker.log, (A, b"%d" % number), **by_producer(number))
        broker.settle()
    broker.loop.run_until_complete(broker.manager.flush_dirty(NOW_MS))
    broker.disk.flip_bit(f"{FOLDER}/00000000000000000003.snapshot", 9)
    assert not broker.clean()
    assert snapshots(broker) == [1, 2] and not broker.offline and not broker.cleaner.uncleanable
    assert broker.clean()
    assert offsets_of(broker.log) == [1, 2]


# Retention


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("retention_bytes", [50, 0])
def test_retention_takes_no_producer_along(retention_bytes: int, is_power_cut: bool) -> None:
    """Neither those of a segment that was full a moment ago, nor those of the active one."""
    config = small_config(retention_bytes=retention_bytes, retention_ms=-1)
    broker = Broker(config)
    broker.log.append_as_leader(idempotent(0, producer_id=PRODUCER), 0)
    broker.log.roll()
    broker.log.append_as_leader(idempotent(0, producer_id=6), 0)
    broker.log.high_watermark = 2
    assert not broker.manager.apply_retention(NOW_MS), "nothing tells yet who wrote what goes"
    broker.kill()
    assert last_sequence(broker.log) == 0 and 6 in broker.log.producer_state.producers
    broker.log.high_watermark = 2
    broker.manager.apply_retention(NOW_MS)
    broker.loop.run_until_complete(broker.manager.flush_dirty(NOW_MS))
    assert broker.log.log_start_offset == (2 if retention_bytes == 0 else 1)
    if is_power_cut:
        broker.lose_power()
    else:
        broker.kill()
    assert broker.log.log_end_offset == 2
    assert last_sequence(broker.log) == 0 and 6 in broker.log.producer_state.producers


def test_segments_kept_for_a_snapshot_are_deleted_with_the_next_flush() -> None:
    broker = Broker(small_config(retention_bytes=0, retention_ms=-1))
    broker.log.append_as_leader(idempotent(0, producer_id=PRODUCER), 0)
    broker.log.high_watermark = 1
    assert not broker.manager.apply_retention(NOW_MS)
    assert broker.log.retention.is_waiting and broker.log.log_start_offset == 0
    broker.loop.run_until_complete(broker.manager.flush_dirty(NOW_MS))
    assert not broker.log.retention.is_waiting and broker.log.log_start_offset == 1


# A flush that a truncation overtakes


def test_a_snapshot_that_is_written_behind_a_truncation_is_removed() -> None:
    """It is of batches that are gone: others take their offsets."""
    disk = new_disk()
    log = open_test_log(disk)
    for sequence in range(4):
        log.append_as_leader(idempotent(sequence, producer_id=PRODUCER), 0)
    log.roll()
    plan = log.begin_flush()
    log.truncate_to(1)
    dataclasses.replace(plan, is_current=lambda: True).run()  # it had looked before
    assert disk.exists("/data/topic-0/00000000000000000004.snapshot")
    log.complete_flush(plan)
    assert not disk.exists("/data/topic-0/00000000000000000004.snapshot")
    assert last_sequence(log) == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_truncated_snapshot_does_not_return(seed: int) -> None:
    """Nor after a flush of what came in place of its batches: the recovery point is behind it then."""
    disk = new_disk(seed)
    log = open_test_log(disk)
    for sequence in range(4):
        log.append_as_leader(idempotent(sequence, producer_id=PRODUCER), 0)
    log.close()
    log = open_test_log(disk, options=OpenOptions(recovery_point=4, is_clean=True))
    log.flush()
    log.truncate_to(2)
    for sequence in range(4):
        log.append_as_leader(idempotent(sequence, producer_id=6), 0)
    log.flush()
    disk.crash()
    log = open_test_log(disk, options=OpenOptions(recovery_point=6))
    log.truncate_to(4)
    assert last_sequence(log) == 1
    assert log.producer_state.producers[6].last_sequence == 1
