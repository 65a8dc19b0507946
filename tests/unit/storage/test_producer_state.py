"""Idempotent producers: every judgement of Kafka's ProducerAppendInfo, wraps, snapshots, expiry, transactions."""

import random

import pytest
from crc32c import crc32c

from kvorum.protocol.batch_header import INT32_MAX, BatchHeader
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.storage.producer_state import (
    BATCHES_KEPT,
    BatchMetadata,
    CompletedTransaction,
    Origin,
    ProducerState,
    decode_snapshot,
)

PRODUCER = 42
DAY_MS = 86_400_000


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, producer_id: int = PRODUCER,
    timestamp: int = 1000, transactional: bool = False,
) -> BatchHeader:  # fmt: skip
    attributes = 0x10 if transactional else 0
    return BatchHeader(
        offset, 100, 0, 2, 0, attributes, count - 1, timestamp, timestamp, producer_id, epoch, sequence, count
    )


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for each in headers:
        state.append(each)
    return state


def judged(state: ProducerState, sent: BatchHeader, origin: Origin = Origin.CLIENT) -> ErrorCode | str:
    if state.find_duplicate(sent) is not None:
        return "duplicate"
    try:
        state.check(sent, origin)
    except KafkaError as error:
        return error.code
    return "ok"


WRITTEN = (header(0, 5), header(5, 5, offset=5))
"""Epoch 0 up to sequence 9."""


@pytest.mark.parametrize(
    ("written", "sent", "verdict"),
    [
        ((), header(0), "ok"),
        ((), header(17), "ok"),
        ((), header(17, epoch=9), "ok"),
        (WRITTEN, header(10, 3), "ok"),
        (WRITTEN, header(11), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (WRITTEN, header(9), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (WRITTEN, header(0), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (WRITTEN, header(5, 5), "duplicate"),
        (WRITTEN, header(0, 5), "duplicate"),
        (WRITTEN, header(5, 4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (WRITTEN, header(0, 10), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (WRITTEN, header(0, epoch=1), "ok"),
        (WRITTEN, header(10, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (WRITTEN, header(10, producer_id=7), "ok"),
        ((header(0, epoch=3),), header(1, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        ((header(0, epoch=3),), header(0, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        ((header(INT32_MAX),), header(0), "ok"),
        ((header(INT32_MAX - 1, 3),), header(1), "ok"),
        ((header(INT32_MAX - 1, 3),), header(INT32_MAX - 1, 3), "duplicate"),
        ((header(INT32_MAX),), header(1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ((header(0, transactional=True),), header(1), ErrorCode.INVALID_TXN_STATE),
        ((header(0, transactional=True),), header(1, transactional=True), "ok"),
    ],
)
def test_verdicts(written: tuple[BatchHeader, ...], sent: BatchHeader, verdict: ErrorCode | str) -> None:
    assert judged(state_after(*written), sent) == verdict


def test_coordinators_have_no_sequences_but_epochs() -> None:
    state = state_after(*WRITTEN)
    assert judged(state, header(-1), Origin.COORDINATOR) == "ok"
    assert judged(state_after(header(0, epoch=3)), header(-1, epoch=2), Origin.COORDINATOR) == (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )


def test_replication_is_not_judged() -> None:
    assert judged(state_after(header(0, epoch=3)), header(77, epoch=1), Origin.REPLICATION) == "ok"


def test_a_duplicate_of_any_of_the_last_five_gets_its_own_offset() -> None:
    """Six in flight: the sixth-last is forgotten and out of order."""
    state = state_after(*[header(10 * i, 10, offset=100 + 10 * i) for i in range(BATCHES_KEPT + 1)])
    for i in range(1, BATCHES_KEPT + 1):
        found = state.find_duplicate(header(10 * i, 10))
        assert found is not None
        assert (found.base_offset, found.last_offset) == (100 + 10 * i, 109 + 10 * i)
    assert judged(state, header(0, 10)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    state = state_after(*WRITTEN, header(0, 5, epoch=1, offset=10))
    assert judged(state, header(0, 5, epoch=1)) == "duplicate"
    assert judged(state, header(5, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_without_a_producer_only_move_the_end() -> None:
    state = state_after(header(-1, 4, producer_id=-1, offset=6))
    assert (state.producers, state.end_offset) == ({}, 10)


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    state = state_after(*WRITTEN, header(3, 2, producer_id=7, epoch=4, offset=10, timestamp=99, transactional=True))
    loaded = ProducerState()
    loaded.load(state.to_snapshot(), 12, now_ms=1000, expiration_ms=DAY_MS)
    assert loaded.end_offset == 12
    assert list(loaded.producers[PRODUCER].batches) == [BatchMetadata(9, 9, 4, 1000)]
    assert loaded.producers[7].producer_epoch == 4
    assert loaded.producers[7].current_txn_first_offset == loaded.first_unstable_offset == 10
    assert judged(loaded, header(5, 5)) == "duplicate"
    assert judged(loaded, header(10)) == "ok"


def test_the_snapshot_is_kafkas() -> None:
    """ProducerSnapshot version 1 by hand: version, CRC over what follows it, count, one entry of 46 bytes."""
    data = state_after(header(8, 2, epoch=3, offset=20, timestamp=555)).to_snapshot()
    entry = (PRODUCER).to_bytes(8, "big") + (3).to_bytes(2, "big") + (9).to_bytes(4, "big") + (21).to_bytes(8, "big")
    entry += (1).to_bytes(4, "big") + (555).to_bytes(8, "big") + b"\xff" * 4 + b"\xff" * 8
    body = (1).to_bytes(4, "big") + entry
    assert data == b"\0\1" + crc32c(body).to_bytes(4, "big") + body


def test_a_damaged_snapshot_is_refused() -> None:
    data = state_after(*WRITTEN).to_snapshot()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(ValueError):
            list(decode_snapshot(bytes(damaged)))
    for size in range(len(data)):
        with pytest.raises(ValueError):
            list(decode_snapshot(data[:size]))


def test_idle_producers_expire_unless_in_a_transaction() -> None:
    state = state_after(header(0, timestamp=1000), header(0, producer_id=7, timestamp=1000, transactional=True))
    state.expire(1000 + DAY_MS - 1, DAY_MS)
    assert set(state.producers) == {PRODUCER, 7}
    state.expire(1000 + DAY_MS, DAY_MS)
    assert set(state.producers) == {7}
    assert judged(state, header(500)) == "ok"


def test_loading_leaves_out_the_expired() -> None:
    state = ProducerState()
    state.load(state_after(header(0, timestamp=0)).to_snapshot(), 1, now_ms=DAY_MS, expiration_ms=DAY_MS)
    assert state.producers == {}


def test_a_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    state = state_after(
        header(0, offset=10, transactional=True), header(0, offset=11, producer_id=7, transactional=True)
    )
    assert state.first_unstable_offset == state.first_undecided_offset == 10
    marker = header(-1, offset=12)
    assert state.append_marker(marker, 5, 2000, is_aborted=True) == CompletedTransaction(PRODUCER, 10, 12, True, 11)
    assert (state.first_unstable_offset, state.first_undecided_offset) == (10, 11)
    state.on_high_watermark(12)
    assert state.first_unstable_offset == 10
    state.on_high_watermark(13)
    assert state.first_unstable_offset == 11
    assert state.append_marker(header(-1, producer_id=7, offset=13), 5, 2000, is_aborted=False) is not None
    state.on_high_watermark(14)
    assert state.first_unstable_offset is None


def test_a_marker_without_a_transaction_completes_nothing() -> None:
    state = state_after(*WRITTEN)
    assert state.append_marker(header(-1, offset=10, epoch=2), 1, 0, is_aborted=True) is None
    assert judged(state, header(0, epoch=2)) == "ok"
    assert judged(state, header(4, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_markers_of_older_epochs_are_refused() -> None:
    state = state_after(header(0, epoch=2, transactional=True))
    state.append_marker(header(-1, epoch=2, offset=1), 5, 0, is_aborted=False)
    for sent, coordinator_epoch, code in (
        (header(-1, epoch=1), 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (header(-1, epoch=2), 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(KafkaError) as raised:
            state.check_marker(sent, coordinator_epoch)
        assert raised.value.code is code
    state.check_marker(header(-1, epoch=2), 5)


@pytest.mark.parametrize("seed", range(20))
def test_a_producer_with_retries_is_always_recognised(seed: int) -> None:
    """A producer with five in flight whose answers get lost resends any of the last five: nothing is written twice."""
    rng = random.Random(seed)
    state, sequence, offset, flight = ProducerState(), INT32_MAX - rng.randint(0, 40), 0, []
    for _ in range(200):
        if flight and rng.random() < 0.5:
            sent, original = rng.choice(flight)
            found = state.find_duplicate(sent)
            assert found is not None and found.base_offset == original
            continue
        count = rng.randint(1, 5)
        sent = header(sequence, count)
        assert judged(state, sent) == "ok"
        state.append(sent.replaced(base_offset=offset))
        flight = [*flight, (sent, offset)][-BATCHES_KEPT:]
        sequence, offset = (sequence + count) & INT32_MAX, offset + count
