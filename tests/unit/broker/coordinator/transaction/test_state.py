"""Transactional ids: which states follow which, and what their records say."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.broker.coordinator.records.codec import transaction_record
from kvorum.broker.coordinator.records.transactions import TransactionLogKey, TransactionLogValue
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.broker.coordinator.transaction.replay import record_of, replay, tombstone_of
from kvorum.broker.coordinator.transaction.state import (
    EPOCH_MAX,
    TWO_PHASE_TIMEOUT_MS,
    State,
    TransactionMetadata,
    TransactionsState,
    moved,
)
from kvorum.protocol.topic_partition import TopicPartition

EM, ON, PC, PA, CC, CA, DEAD, FENCE = State
LEGAL = {
    (EM, EM), (CC, EM), (CA, EM),
    (ON, ON), (EM, ON), (CC, ON), (CA, ON),
    (ON, PC),
    (ON, PA), (FENCE, PA), (EM, PA), (CC, PA), (CA, PA),
    (PC, CC), (PA, CA),
    (EM, DEAD), (CC, DEAD), (CA, DEAD),
    (ON, FENCE),
}  # fmt: skip
"""(from, to), as Kafka 4.3's TransactionState.validPreviousStates has them."""
KEYS = frozenset({TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1)})


def metadata(state: State, **changes: object) -> TransactionMetadata:
    fields = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 3, "timeout_ms": 1_000, "last_update_ms": 50}
    if state is not State.EMPTY:
        fields["start_ms"] = 40
    return TransactionMetadata(state=state, **(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_a_state_is_followed_by_those_of_the_table_and_no_other(before: State, after: State) -> None:
    given_ = metadata(before, start_ms=40)
    if (before, after) in LEGAL:
        new = moved(given_, after)
        assert new.state is after and new.previous_producer_id == 7
    else:
        with pytest.raises(AssertionError, match="may not become"):
            moved(given_, after)


def test_there_are_no_partitions_outside_of_a_transaction() -> None:
    with pytest.raises(AssertionError, match="no partitions"):
        moved(metadata(PC, partitions=KEYS), CC)
    assert moved(metadata(PC, partitions=KEYS), CC, partitions=frozenset()).state is CC


def test_names_are_those_of_the_wire() -> None:
    assert [state.wire_name for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_a_transaction_times_out_after_its_timeout_and_not_with_it() -> None:
    open_ = metadata(ON)
    assert not open_.is_timed_out(1_040) and open_.is_timed_out(1_041)
    assert not metadata(PC).is_timed_out(10**12)
    assert not metadata(ON, timeout_ms=TWO_PHASE_TIMEOUT_MS).is_timed_out(10**12)


@pytest.mark.parametrize("state", State)
def test_an_id_expires_between_transactions_only(state: State) -> None:
    assert metadata(state).is_expired(150, 100) is (state in (EM, CC, CA))
    assert not metadata(state).is_expired(149, 100)


LOGGED = st.sampled_from([EM, ON, PC, PA, CC, CA])
LONGS = st.integers(0, 2**63 - 1)


@given(
    state=LOGGED,
    producer_id=LONGS,
    epoch=st.integers(1, EPOCH_MAX),
    timeout_ms=st.integers(1, 2**31 - 1),
    start_ms=LONGS,
    last_update_ms=LONGS,
    next_producer_id=st.integers(-1, 2**63 - 1),
    partitions=st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9)), max_size=6),
    version=st.integers(0, 2),
)
def test_a_record_restores_the_written_state(
    state: State,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    start_ms: int,
    last_update_ms: int,
    next_producer_id: int,
    partitions: frozenset[TopicPartition],
    version: int,
) -> None:
    is_ended = state in (PC, PA, CC, CA) and version == 2
    written = TransactionMetadata(
        transactional_id="t",
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions if state in (ON, PC, PA) else frozenset(),
        start_ms=start_ms,
        last_update_ms=last_update_ms,
        previous_producer_id=producer_id,
        next_producer_id=next_producer_id,
        last_producer_epoch=epoch - 1 if is_ended else -1,
        client_transaction_version=version,
    )
    found = replay(TransactionsState(), 0, record_of(written, 2))
    assert found.get("t") == written
    assert ("t" in found.ongoing) is (state is ON)


def test_a_transaction_version_of_zero_writes_values_of_version_zero() -> None:
    written = metadata(CC, next_producer_id=9, previous_producer_id=8)
    record = record_of(written, 0)
    assert record.value is not None and record.value[:2] == b"\x00\x00"
    found = replay(TransactionsState(), 0, record).get("t")
    assert found == metadata(CC)
    assert (record_of(written, 1).value or b"")[:2] == b"\x00\x01"


def test_the_last_epoch_of_an_id_that_was_used_up_follows_from_its_successor() -> None:
    used_up = metadata(CC, producer_id=8, producer_epoch=0, previous_producer_id=7, client_transaction_version=2)
    found = replay(TransactionsState(), 0, record_of(used_up, 2)).get("t")
    assert found is not None and found.last_producer_epoch == EPOCH_MAX - 1


def test_a_tombstone_forgets_an_id() -> None:
    state = replay(TransactionsState(), 0, record_of(metadata(ON, partitions=KEYS), 2))
    assert replay(state, 1, tombstone_of("t")) == TransactionsState()
    assert replay(state, 1, tombstone_of("u")) == state


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_no_log_has_is_left_out(status: int) -> None:
    record = transaction_record(TransactionLogKey(transactional_id="t"), TransactionLogValue(transaction_status=status))
    assert replay(TransactionsState(), 0, record) == TransactionsState()


def test_insignificant_bytes_are_omitted() -> None:
    for record in (CoordinatorRecord(b"\x00\x09", b""), CoordinatorRecord(b"\x00", b""), CoordinatorRecord(b"", None)):
        assert replay(TransactionsState(), 0, record) == TransactionsState()
