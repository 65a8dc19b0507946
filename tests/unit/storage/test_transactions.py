"""Transactions in one log: what stays hidden through restarts, cuts and lost power, and who may begin one."""

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.storage.log import Log
from kvorum.storage.names import TXN_INDEX_SUFFIX
from kvorum.storage.recovery import OpenOptions
from kvorum.storage.txn_index import AbortedTransaction, TransactionIndex
from kvorum.storage.verification import UNCHECKED, VerificationGuard
from sim.disk import SimDisk
from tests.unit.storage.kit import FOLDER, NOW_MS, StillClock, batch, idempotent, new_disk, open_test_log, small_config
from tests.unit.storage.txn_kit import append_verified, end, read_committed_all, transactional

DAY_MS = 86_400_000


def with_aborted(disk: SimDisk) -> Log:
    """A log of a plain record, an aborted and a committed transaction, all replicated."""
    log = open_test_log(disk, small_config(segment_bytes=1 << 20))
    log.append_as_leader(batch(b"plain"), 0)
    append_verified(log, transactional(b"aborted"))
    end(log, commit=False)
    append_verified(log, transactional(b"committed", sequence=1), sequence=1)
    end(log, commit=True)
    log.high_watermark = log.log_end_offset
    return log


SHOWN = [(0, b"plain"), (3, b"committed")]


def index_files(disk: SimDisk) -> list[str]:
    return [name for name in disk.listdir(FOLDER) if TXN_INDEX_SUFFIX in name]


def reopened(disk: SimDisk, **options: object) -> Log:
    log = open_test_log(disk, small_config(segment_bytes=1 << 20), options=OpenOptions(**options))  # type: ignore[arg-type]
    log.high_watermark = log.log_end_offset
    return log


def test_aborted_records_stay_hidden_after_kill_9_and_after_a_clean_restart() -> None:
    """Redpanda #5107: the list of aborted transactions was lost with the process."""
    disk = new_disk()
    assert read_committed_all(with_aborted(disk)) == SHOWN
    log = reopened(disk)
    assert read_committed_all(log) == SHOWN
    log.close()
    log = reopened(disk, is_clean=True, recovery_point=log.recovery_point)
    assert read_committed_all(log) == SHOWN


@pytest.mark.parametrize("seed", range(30))
def test_aborted_records_stay_hidden_after_a_power_failure_following_a_clean_shutdown(seed: int) -> None:
    """The index was made by the shutdown itself: its bytes and its name must be as durable as the batches."""
    disk = new_disk(seed)
    log = with_aborted(disk)
    log.flush()
    log.close()
    disk.crash()
    assert read_committed_all(reopened(disk, is_clean=True, recovery_point=log.recovery_point)) == SHOWN


@pytest.mark.parametrize("seed", range(30))
def test_aborted_records_stay_hidden_after_a_power_failure_following_a_roll_and_a_flush(seed: int) -> None:
    """Below the recovery point the indexes are trusted as they are."""
    disk = new_disk(seed)
    log = with_aborted(disk)
    log.roll()
    log.append_as_leader(batch(b"more"), 0)
    log.flush()
    disk.crash()
    log = reopened(disk, recovery_point=log.recovery_point)
    assert read_committed_all(log) == [*SHOWN, (5, b"more")]


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_damaged_index_is_recreated(is_clean: bool) -> None:
    disk = new_disk()
    log = with_aborted(disk)
    log.roll()
    log.append_as_leader(batch(b"more"), 0)
    log.close()
    path = f"{FOLDER}/{index_files(disk)[0]}"
    whole = disk.read(path)
    for damaged in (
        whole[:-1],
        whole * 2,
        bytes(34),
        b"\0\0" + (7).to_bytes(8, "big") + (2**40).to_bytes(8, "big") * 3,
    ):
        disk.write_atomic(path, damaged)
        log = reopened(disk, is_clean=is_clean, recovery_point=log.recovery_point)
        assert read_committed_all(log) == [*SHOWN, (5, b"more")]
        assert disk.read(path) == whole
        log.close()


def test_cutting_the_marker_opens_the_transaction_again() -> None:
    log = with_aborted(new_disk())
    log.truncate_to(2)
    log.high_watermark = 2
    assert (log.last_stable_offset, read_committed_all(log)) == (1, [(0, b"plain")])
    assert log.producer_state.has_ongoing_transaction(7, 0)
    end(log, commit=True)
    log.high_watermark = 3
    assert read_committed_all(log) == [(0, b"plain"), (1, b"aborted")]


@pytest.mark.parametrize("restarts", [False, True])
def test_cutting_the_marker_opens_the_transaction_of_a_producer_that_has_expired(restarts: bool) -> None:
    clock, disk = StillClock(), new_disk()
    log = open_test_log(disk, clock=clock)
    append_verified(log, transactional(b"a"))
    end(log, commit=False)
    log.producers.expire(NOW_MS + DAY_MS)
    assert log.producer_state.producers == {}
    if restarts:
        log.close()
        options = OpenOptions(is_clean=True, recovery_point=log.recovery_point)
        log = open_test_log(disk, clock=clock, options=options)
    log.truncate_to(1)
    log.high_watermark = 1
    assert log.last_stable_offset == 0


def test_a_cut_forgets_no_marker_that_waits_to_be_replicated() -> None:
    """A snapshot does not tell of them: what ended before it was taken, above the high watermark, stays unstable."""
    log = open_test_log(new_disk())
    append_verified(log, transactional(b"a"))
    end(log, commit=True)
    log.roll()
    log.append_as_leader(batch(b"b"), 0)
    log.high_watermark = 1
    log.truncate_to(2)
    assert log.last_stable_offset == 0
    log.high_watermark = 2
    assert log.last_stable_offset == 2


def test_a_log_started_again_has_no_transactions() -> None:
    log = open_test_log(new_disk())
    append_verified(log, transactional(b"a"))
    log.truncate_fully_and_start_at(5)
    log.append_as_leader(batch(b"b"), 0)
    log.high_watermark = 6
    assert (log.last_stable_offset, read_committed_all(log)) == (6, [(5, b"b")])


def test_a_transaction_over_many_segments_is_found_from_each() -> None:
    """The marker lies in the last segment, its index with it; a read from the first one has to look there."""
    log = open_test_log(new_disk(), small_config(segment_bytes=250))
    for sequence in range(8):
        append_verified(log, transactional(b"x" * 80, sequence=sequence), sequence=sequence)
        log.append_as_leader(batch(b"%d" % sequence), 0)
    end(log, commit=False)
    log.high_watermark = log.log_end_offset
    assert log.segment_count > 4
    shown = [(2 * number + 1, b"%d" % number) for number in range(8)]
    for offset in range(16):
        assert read_committed_all(log, offset, 1) == [each for each in shown if each[0] >= offset]


def test_an_index_goes_with_its_segment() -> None:
    disk = new_disk()
    log = with_aborted(disk)
    assert index_files(disk) == []
    log.roll()
    assert index_files(disk) == [f"{0:020d}{TXN_INDEX_SUFFIX}"]
    log.maybe_increment_log_start_offset(5)
    log.flush()
    assert log.delete_old_segments(NOW_MS) == 1
    assert index_files(disk) == [f"{0:020d}{TXN_INDEX_SUFFIX}.deleted"]
    log.purge_deleted(NOW_MS + 60_000)
    assert index_files(disk) == []


def test_a_new_segment_takes_over_no_index_of_its_name() -> None:
    disk = new_disk()
    log = with_aborted(disk)
    left_behind = TransactionIndex(f"{FOLDER}/{5:020d}{TXN_INDEX_SUFFIX}", 5)
    left_behind.append(AbortedTransaction(7, 3, 5, 6))
    left_behind.save(disk)
    log.roll()
    log.append_as_leader(batch(b"more"), 0)
    log.close()
    assert read_committed_all(reopened(disk, is_clean=True, recovery_point=6)) == [*SHOWN, (5, b"more")]


def test_a_read_without_transactions_looks_at_no_index() -> None:
    disk = new_disk()
    log = open_test_log(disk)
    log.append_as_leader(batch(b"a"), 0)
    log.close()
    log = reopened(disk, is_clean=True, recovery_point=1)
    before = dict(disk.counts)
    assert log.aborted_transactions(0, log.read(0, 1000).parts) == ()
    assert disk.counts.get("open", 0) - before.get("open", 0) <= 1


# Verification: who may begin a transaction


def refused(log: Log, data: memoryview, guard: VerificationGuard | None = None) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(data, 0, guard=guard)
    return raised.value.code


def test_a_transaction_begins_with_the_guard_of_its_own_verification_only() -> None:
    log = open_test_log(new_disk())
    other = log.begin_verification(8, 0, 0)
    assert refused(log, transactional(b"a")) is ErrorCode.INVALID_TXN_STATE
    assert refused(log, transactional(b"a"), other) is ErrorCode.INVALID_TXN_STATE
    assert refused(log, transactional(b"a"), VerificationGuard()) is ErrorCode.INVALID_TXN_STATE
    guard = log.begin_verification(7, 0, 0)
    assert log.begin_verification(7, 0, 0) is guard
    assert log.append_as_leader(transactional(b"a"), 0, guard=guard).first_offset == 0
    assert log.begin_verification(7, 0, 1) is None
    assert log.append_as_leader(transactional(b"b", sequence=1), 0).first_offset == 1
    end(log, commit=True)
    assert refused(log, transactional(b"c", sequence=2), guard) is ErrorCode.INVALID_TXN_STATE
    assert log.append_as_leader(transactional(b"c", sequence=2), 0, guard=UNCHECKED).first_offset == 3


def test_a_marker_ends_the_verification_of_a_transaction_that_wrote_nothing_here() -> None:
    log = open_test_log(new_disk())
    guard = log.begin_verification(7, 0, 0)
    end(log, commit=False)
    assert refused(log, transactional(b"late"), guard) is ErrorCode.INVALID_TXN_STATE


def test_appended_transactions_are_recognised_without_a_guard() -> None:
    """A retry whose answer was lost, behind the end of its transaction: the original offset."""
    log = open_test_log(new_disk())
    append_verified(log, transactional(b"a"))
    end(log, commit=True)
    again = log.append_as_leader(transactional(b"a"), 0)
    assert (again.first_offset, again.is_duplicate) == (0, True)


def test_an_older_epoch_gets_its_error_before_that_of_its_transaction() -> None:
    log = open_test_log(new_disk())
    append_verified(log, transactional(b"a", epoch=3), epoch=3)
    end(log, commit=True, epoch=4, version=2)
    with pytest.raises(KafkaError) as raised:
        log.begin_verification(7, 3, 0)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, transactional(b"b", epoch=3, sequence=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.begin_verification(7, 4, 0) is not None


def test_a_new_producer_of_version_2_begins_at_sequence_0_an_older_one_anywhere() -> None:
    log = open_test_log(new_disk())
    guard = log.begin_verification(7, 0, 5, True)
    assert refused(log, transactional(b"a", sequence=5), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    guard = log.begin_verification(8, 0, 5, False)
    data = transactional(b"a", sequence=5, producer_id=8)
    assert log.append_as_leader(data, 0, guard=guard).first_offset == 0


def test_the_lowest_sequence_verified_comes_first_and_a_new_epoch_counts_again() -> None:
    log = open_test_log(new_disk())
    guard = log.begin_verification(7, 0, 4)
    assert log.begin_verification(7, 0, 6) is log.begin_verification(7, 0, 2) is guard
    assert refused(log, transactional(b"b", sequence=4), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.begin_verification(7, 1, 3) is guard
    data = transactional(b"c", sequence=3, epoch=1)
    assert log.append_as_leader(data, 0, guard=guard).first_offset == 0


def test_an_unused_verification_expires() -> None:
    clock = StillClock()
    log = open_test_log(new_disk(), clock=clock)
    guard = log.begin_verification(7, 0, 0)
    log.producers.expire(NOW_MS + DAY_MS - 1)
    assert log.begin_verification(7, 0, 0) is guard
    log.producers.expire(NOW_MS + DAY_MS)
    assert len(log.producer_state.verifications) == 0
    assert refused(log, transactional(b"a"), guard) is ErrorCode.INVALID_TXN_STATE


def test_a_replicated_batch_or_marker_ends_a_verification_too() -> None:
    """A leader that became a follower meanwhile: what it was told before counts for nothing afterwards."""
    for is_marker in (False, True):
        source, log = open_test_log(new_disk(1)), open_test_log(new_disk(2))
        guard = log.begin_verification(7, 0, 0)
        append_verified(source, transactional(b"a"))
        if is_marker:
            end(source, commit=False)
        for part in source.read(0, 1 << 20).parts:
            log.append_as_follower(memoryview(bytes(part)), 0)  # type: ignore[arg-type]
        assert refused(log, transactional(b"b", sequence=2, epoch=1), guard) is ErrorCode.INVALID_TXN_STATE


def test_idempotent_producers_without_transactions_need_no_guard() -> None:
    log = open_test_log(new_disk())
    for sequence in range(3):
        assert log.append_as_leader(idempotent(sequence), 0).first_offset == sequence
    assert parse_header(memoryview(bytes(log.read(2, 1000).parts[0]))).base_sequence == 2  # type: ignore[arg-type]
