"""An append that raises leaves nothing: an error is injected into every call that an append makes, one by one."""

import errno
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from kvorum.protocol.control import marker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import patch_place
from kvorum.storage.atomic_append import AtomicAppend
from kvorum.storage.log import Log
from kvorum.storage.log_producers import LogProducers
from kvorum.storage.producer_state import Origin
from kvorum.storage.recovery import OpenOptions
from sim.disk import SimDisk
from tests.unit.storage.kit import NOW_MS, batch, end_of, idempotent, new_disk, open_test_log, read_all, small_config
from tests.unit.storage.txn_kit import append_verified, transactional

TRACED = ("/storage/", "/sim/disk", "/runtime/failpoints")


class InjectedError(Exception):
    """An error that no handler expects."""


def small(value: bytes = b"x" * 55) -> memoryview:
    return batch(value)


def fetched(log: Log) -> memoryview:
    """Batches as a leader has them: plain, of a producer, and the marker that ends its transaction."""
    offset = log.log_end_offset
    ended = marker(9, 0, is_commit=False, coordinator_epoch=1, timestamp=NOW_MS)
    patch_place(memoryview(ended), 0, offset + 2, 2)
    parts = [
        batch(b"a" * 300, base_offset=offset, partition_leader_epoch=2),
        transactional(b"b" * 300, base_offset=offset + 1, leader_epoch=2, producer_id=9),
        ended,
        batch(b"c" * 300, base_offset=offset + 3, partition_leader_epoch=2),
    ]
    return memoryview(b"".join(map(bytes, parts)))


def end_transaction(log: Log) -> object:
    data = marker(7, 0, is_commit=False, coordinator_epoch=1, timestamp=NOW_MS)
    return log.append_as_leader(memoryview(data), 0, Origin.COORDINATOR)


APPENDS: dict[str, Callable[[Log], object]] = {
    "leader": lambda log: log.append_as_leader(small(), 0),
    "leader, new segment": lambda log: log.append_as_leader(small(b"x" * 800), 0),
    "idempotent": lambda log: log.append_as_leader(idempotent(0, producer_id=8), 0),
    "abort marker": end_transaction,
    "run": lambda log: log.append_run_as_leader([small(), idempotent(0, producer_id=8), small(b"x" * 800)], 0),
    "follower": lambda log: log.append_as_follower(fetched(log)),
}


def prepared(disk: SimDisk) -> Log:
    """A log with a few segments, an open transaction and a half-filled active segment."""
    log = open_test_log(disk, small_config(segment_bytes=1200))
    for _ in range(12):
        log.append_as_leader(small(), 0)
    append_verified(log, transactional(b"open"))
    log.high_watermark = log.log_end_offset
    log.flush()
    log.append_as_leader(small(), 0)
    return log


def calls_of(action: Callable[[], object], fail_at: int | None = None) -> int:
    """Run the action and return how many calls into storage and disk it made; raise InjectedError in one of them."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        # The end of the context does nothing in an append that went well: from there on it is done.
        is_end = frame.f_code is AtomicAppend.__exit__.__code__
        if event == "call" and not is_end and any(part in frame.f_code.co_filename for part in TRACED):
            count += 1
            if count == fail_at:
                sys.settrace(None)
                raise InjectedError(f"in {frame.f_code.co_qualname}")

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.patches
@pytest.mark.parametrize("how", APPENDS)
def test_an_append_that_raises_leaves_nothing_behind(how: str) -> None:
    append = APPENDS[how]
    whole = prepared(new_disk())
    before, end_before = read_all(whole), whole.log_end_offset
    calls = calls_of(lambda: append(whole))
    after = read_all(whole)
    assert calls > 20 and len(after) > len(before)
    for number in range(1, calls + 1):
        for recovers in (True, False):
            disk = new_disk()
            log = prepared(disk)
            with pytest.raises(InjectedError) as raised:
                calls_of(lambda log=log: append(log), number)  # type: ignore[misc]
            place = f"call {number}: {raised.value}"
            left = read_all(log)
            assert after.startswith(left) and left.startswith(before), place
            # What is fetched goes to several segments; each write is whole or not there.
            assert how == "follower" or left == before, place
            assert log.log_end_offset == (end_of(left) if left else 0), place
            if recovers:
                again = open_test_log(disk, small_config(segment_bytes=1200))
                assert (again.log_end_offset, read_all(again)) == (log.log_end_offset, left), place
            elif log.log_end_offset == end_before:
                append(log)
                assert read_all(log) == after, place
                assert log.producer_state.to_snapshot() == whole.producer_state.to_snapshot(), place
                log.flush()
                again = open_test_log(disk, small_config(segment_bytes=1200))
                assert (again.log_end_offset, read_all(again)) == (whole.log_end_offset, after), place
                assert again.producer_state.to_snapshot() == whole.producer_state.to_snapshot(), place


@pytest.mark.patches
def test_a_log_that_cannot_be_cut_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Exception] = []
    disk = new_disk()
    log = open_test_log(disk, options=OpenOptions(on_io_error=failures.append))
    log.append_as_leader(small(), 0)
    disk.fail("truncate", errno.EIO)

    def fail(*_: object) -> None:
        raise InjectedError

    monkeypatch.setattr(LogProducers, "note", fail)
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(small(), 0)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [type(failure) for failure in failures] == [OSError]


def test_a_fetched_marker_that_cannot_be_decoded_is_refused_before_the_write() -> None:
    log = open_test_log(new_disk())
    no_marker = batch(b"v", base_offset=1, producer_id=7, producer_epoch=0, is_control=True)
    with pytest.raises(KafkaError) as raised:
        log.append_as_follower(memoryview(bytes(small()) + bytes(no_marker)))
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert (log.log_end_offset, log.size) == (0, 0)
