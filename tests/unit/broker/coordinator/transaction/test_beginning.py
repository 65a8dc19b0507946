"""InitProducerId and partitions, decided: every state, as Kafka 4.3's TransactionCoordinator has them."""

from dataclasses import replace

import pytest

from kvorum.broker.coordinator.runtime.placing import partition_for
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.beginning import (
    add_partitions,
    init_producer_id,
    offsets_partition,
    verify_partitions,
)
from kvorum.broker.coordinator.transaction.ending import completed
from kvorum.broker.coordinator.transaction.state import EPOCH_MAX, State, TransactionMetadata
from kvorum.broker.coordinator.transaction.words import NEEDS_PRODUCER_ID, AddPartitions, InitProducer, Terms
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TERMS = Terms(wall_ms=500, transaction_version=2, timeout_ms_max=900_000)
BETWEEN = [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]
PREPARED = [State.PREPARE_COMMIT, State.PREPARE_ABORT]
FENCED, CONCURRENT = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
FIRST = InitProducer(transactional_id="t", timeout_ms=70)


def metadata(state: State, epoch: int = 5, **changes: object) -> TransactionMetadata:
    has_partitions = state is State.ONGOING or state.is_prepared
    fields: dict[str, object] = {
        "partitions": frozenset({A0}) if has_partitions else frozenset(),
        "start_ms": -1 if state is State.EMPTY else 400,
        "previous_producer_id": 7,
    }
    return TransactionMetadata(
        transactional_id="t",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=60,
        last_update_ms=450,
        state=state,
        **(fields | changes),  # type: ignore[arg-type]
    )


def expecting(producer_id: int, epoch: int) -> InitProducer:
    return replace(FIRST, expected=Producer(producer_id, epoch))


def adding(*keys: TopicPartition, producer_id: int = 7, epoch: int = 5, version: int = 2) -> AddPartitions:
    return AddPartitions(
        transactional_id="t",
        producer=Producer(producer_id, epoch),
        partitions=frozenset(keys),
        client_transaction_version=version,
    )


@pytest.mark.parametrize("request_", [FIRST, expecting(3, 9)])
def test_a_new_transactional_id_gets_a_new_producer_id(request_: InitProducer) -> None:
    assert init_producer_id(None, request_, TERMS) is NEEDS_PRODUCER_ID
    verdict = init_producer_id(None, request_, TERMS._replace(new_producer_id=99))
    assert verdict.answer == (ErrorCode.NONE, 99, 0)
    made = verdict.next
    assert made is not None and (made.state, made.timeout_ms, made.last_update_ms) == (State.EMPTY, 70, 500)
    assert (made.producer_id, made.producer_epoch, made.last_producer_epoch) == (99, 0, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds(timeout_ms: int) -> None:
    verdict = init_producer_id(None, replace(FIRST, timeout_ms=timeout_ms), TERMS)
    assert verdict.answer.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert init_producer_id(metadata(State.EMPTY), replace(FIRST, timeout_ms=900_000), TERMS).next is not None


def test_an_empty_transactional_id() -> None:
    request = replace(FIRST, transactional_id="")
    assert init_producer_id(None, request, TERMS).answer.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("state", BETWEEN)
def test_between_transactions_the_epoch_is_bumped(state: State) -> None:
    verdict = init_producer_id(metadata(state, last_producer_epoch=4), FIRST, TERMS)
    after = verdict.next
    assert after is not None and verdict.answer == (ErrorCode.NONE, 7, 6)
    assert (after.state, after.last_producer_epoch, after.start_ms, after.timeout_ms) == (State.EMPTY, -1, -1, 70)


@pytest.mark.parametrize("state", BETWEEN)
@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ((7, 5), (ErrorCode.NONE, 7, 6)),  # it goes on
        ((7, 4), (ErrorCode.NONE, 7, 5)),  # it went on, and did not hear of it
        ((7, 3), (FENCED, -1, -1)),
        ((7, 6), (FENCED, -1, -1)),
        ((8, 5), (FENCED, -1, -1)),
    ],
)
def test_a_producer_that_continues(state: State, expected: tuple[int, int], answer: tuple[ErrorCode, int, int]) -> None:
    before = metadata(state, last_producer_epoch=4)
    verdict = init_producer_id(before, expecting(*expected), TERMS)
    assert verdict.answer == answer
    if verdict.next is not None:
        assert verdict.next.last_producer_epoch == expected[1]


def test_no_producer_continues_an_epoch_after_another_producer() -> None:
    after = init_producer_id(metadata(State.EMPTY), FIRST, TERMS).next
    assert init_producer_id(after, expecting(7, 5), TERMS).answer.code is FENCED


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("request_", [FIRST, expecting(7, 5), expecting(8, 0)])
def test_all_requests_wait_while_a_transaction_is_ending(state: State, request_: InitProducer) -> None:
    verdict = init_producer_id(metadata(state), request_, TERMS)
    assert (verdict.next, verdict.answer.code) == (None, CONCURRENT)


@pytest.mark.parametrize(("version", "last_epoch"), [(0, -1), (1, -1), (2, 5)])
@pytest.mark.parametrize("request_", [FIRST, expecting(7, 5), expecting(7, 2)])
def test_an_open_transaction_is_aborted_first(version: int, last_epoch: int, request_: InitProducer) -> None:
    verdict = init_producer_id(metadata(State.ONGOING), request_, TERMS._replace(transaction_version=version))
    after = verdict.next
    assert after is not None and verdict.answer == (CONCURRENT, -1, -1)
    assert (after.state, after.producer_epoch, after.last_producer_epoch) == (State.PREPARE_ABORT, 6, last_epoch)
    assert after.partitions == {A0}
    again = init_producer_id(completed(after, 600), FIRST, TERMS)
    assert again.answer == (ErrorCode.NONE, 7, 7)


def test_a_foreign_producer_does_not_abort_an_open_transaction() -> None:
    verdict = init_producer_id(metadata(State.ONGOING), expecting(8, 5), TERMS)
    assert (verdict.next, verdict.answer.code) == (None, FENCED)


def test_an_open_transaction_of_the_last_epoch_needs_a_new_id() -> None:
    before = metadata(State.ONGOING, EPOCH_MAX - 1)
    assert init_producer_id(before, FIRST, TERMS) is NEEDS_PRODUCER_ID
    verdict = init_producer_id(before, FIRST, TERMS._replace(new_producer_id=99))
    assert verdict.answer.code is CONCURRENT and verdict.next is not None
    assert completed(verdict.next, 600).producer_id == 99


@pytest.mark.parametrize("epoch", [EPOCH_MAX - 1, EPOCH_MAX])
@pytest.mark.parametrize("state", BETWEEN)
def test_epochs_that_are_used_up_make_a_new_id(state: State, epoch: int) -> None:
    before = metadata(state, epoch)
    assert init_producer_id(before, FIRST, TERMS) is NEEDS_PRODUCER_ID
    verdict = init_producer_id(before, FIRST, TERMS._replace(new_producer_id=99))
    after = verdict.next
    assert after is not None and verdict.answer == (ErrorCode.NONE, 99, 0)
    assert (after.previous_producer_id, after.last_producer_epoch) == (7, -1)


def test_a_new_id_with_a_lost_response_is_returned_again() -> None:
    last = expecting(7, EPOCH_MAX - 1)
    terms = TERMS._replace(new_producer_id=99)
    after = init_producer_id(metadata(State.EMPTY, EPOCH_MAX - 1), last, terms).next
    assert after is not None and after.last_producer_epoch == EPOCH_MAX - 1
    assert init_producer_id(after, last, TERMS).answer == (ErrorCode.NONE, 99, 0)
    assert init_producer_id(after, expecting(7, 5), TERMS).answer.code is FENCED
    stale = expecting(7, 5)
    assert init_producer_id(metadata(State.EMPTY, EPOCH_MAX - 1), stale, TERMS).answer.code is FENCED


# --- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", BETWEEN)
@pytest.mark.parametrize("version", [0, 2])
def test_partitions_begin_a_transaction(state: State, version: int) -> None:
    verdict = add_partitions(metadata(state), adding(A0, B0, version=version), TERMS)
    after = verdict.next
    assert after is not None and verdict.answer.code is ErrorCode.NONE
    assert (after.state, after.partitions, after.start_ms) == (State.ONGOING, frozenset({A0, B0}), 500)
    assert (after.producer_epoch, after.client_transaction_version) == (5, version)


def test_partitions_join_a_transaction_that_began_earlier() -> None:
    before = metadata(State.ONGOING)
    after = add_partitions(before, adding(A1), TERMS).next
    assert after is not None and after.partitions == {A0, A1} and after.start_ms == 400
    known = add_partitions(after, adding(A0, A1), TERMS)
    assert (known.next, known.answer.code) == (None, ErrorCode.NONE)


@pytest.mark.parametrize("state", PREPARED)
def test_nothing_is_added_while_a_transaction_is_being_ended(state: State) -> None:
    for request in (adding(A0), adding(A1, epoch=4), adding(A1, producer_id=8)):
        verdict = add_partitions(metadata(state), request, TERMS)
        assert (verdict.next, verdict.answer.code) == (None, CONCURRENT)


@pytest.mark.parametrize("state", [*BETWEEN, State.ONGOING])
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (adding(A0, epoch=4), FENCED),
        (adding(A0, epoch=6), FENCED),
        (adding(A0, producer_id=8), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (replace(adding(A0), transactional_id=""), ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_the_current_producer_adds_and_verifies(state: State, request_: AddPartitions, code: ErrorCode) -> None:
    assert add_partitions(metadata(state), request_, TERMS) == (None, (code, -1, -1), False)
    assert verify_partitions(metadata(state), request_) == {A0: code}


def test_an_id_that_is_not_known() -> None:
    assert add_partitions(None, adding(A0), TERMS).answer.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert verify_partitions(None, adding(A0)) == {A0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_partitions_are_verified_one_by_one() -> None:
    found = verify_partitions(metadata(State.ONGOING), adding(A0, B0))
    assert found == {A0: ErrorCode.NONE, B0: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify_partitions(metadata(State.COMPLETE_ABORT), adding(A0)) == {A0: ErrorCode.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("state", PREPARED)
def test_a_wrong_epoch_is_reported_before_the_end_of_a_transaction_when_verifying(state: State) -> None:
    assert verify_partitions(metadata(state), adding(A0, epoch=4)) == {A0: FENCED}
    assert verify_partitions(metadata(state), adding(A0)) == {A0: CONCURRENT}


def test_offsets_are_in_the_groups_partition() -> None:
    assert offsets_partition("group", 50) == TopicPartition("__consumer_offsets", partition_for("group", 50))
