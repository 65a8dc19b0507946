"""EndTxn, decided: every state, epoch and version, as Kafka 4.3's TransactionCoordinator has them."""

from dataclasses import replace

import pytest

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.ending import (
    abort_and_fence,
    abort_if_timed_out,
    completed,
    end_transaction,
)
from kvorum.broker.coordinator.transaction.state import EPOCH_MAX, State, TransactionMetadata
from kvorum.broker.coordinator.transaction.words import (
    NEEDS_PRODUCER_ID,
    EndTransaction,
    Terms,
    known_code,
    version_of_add_partitions,
    version_of_end_txn,
)
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition

KEYS = frozenset({TopicPartition("a", 0), TopicPartition("b", 1)})
TERMS = Terms(wall_ms=500, transaction_version=2, timeout_ms_max=900_000)
STATES = [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.COMPLETE_COMMIT]
STATES += [State.COMPLETE_ABORT]
FENCED, MAPPING = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
INVALID, CONCURRENT, OK = ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE
ENDS = "ends"


def metadata(state: State, epoch: int = 5, **changes: object) -> TransactionMetadata:
    has_partitions = state is State.ONGOING or state.is_prepared
    fields: dict[str, object] = {
        "partitions": KEYS if has_partitions else frozenset(),
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


def request(epoch: int, *, is_commit: bool, version: int, producer_id: int = 7) -> EndTransaction:
    return EndTransaction(
        transactional_id="t",
        producer=Producer(producer_id, epoch),
        is_commit=is_commit,
        client_transaction_version=version,
    )


# (abort, retry), (abort, current), (commit, retry), (commit, current)
TABLE_2 = {
    State.EMPTY: (FENCED, ENDS, FENCED, INVALID),
    State.ONGOING: (FENCED, ENDS, FENCED, ENDS),
    State.PREPARE_COMMIT: (CONCURRENT,) * 4,
    State.PREPARE_ABORT: (CONCURRENT,) * 4,
    State.COMPLETE_ABORT: (OK, ENDS, FENCED, INVALID),
    State.COMPLETE_COMMIT: (INVALID, ENDS, OK, INVALID),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("is_current", [False, True])
def test_the_table_of_version_2(state: State, is_commit: bool, is_current: bool) -> None:
    before = metadata(state)
    verdict = end_transaction(before, request(5 if is_current else 4, is_commit=is_commit, version=2), TERMS)
    expected = TABLE_2[state][2 * is_commit + is_current]
    if expected is not ENDS:
        assert verdict.next is None and verdict.answer.code is expected
        assert verdict.answer[1:] == ((7, 5) if expected is OK else (-1, -1)), "a retry is told what it missed"
        return
    after = verdict.next
    assert after is not None and after.state is (State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT)
    assert verdict.answer == (OK, 7, 6)
    assert (after.producer_epoch, after.last_producer_epoch, after.partitions) == (6, 5, before.partitions)
    assert after.start_ms == (400 if state is State.ONGOING else 500) and after.client_transaction_version == 2


# abort, commit, of the current epoch
TABLE_1 = {
    State.EMPTY: (INVALID, INVALID),
    State.ONGOING: (ENDS, ENDS),
    State.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    State.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    State.COMPLETE_ABORT: (OK, INVALID),
    State.COMPLETE_COMMIT: (INVALID, OK),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("version", [0, 1])
def test_the_table_of_versions_0_and_1(state: State, is_commit: bool, version: int) -> None:
    verdict = end_transaction(metadata(state), request(5, is_commit=is_commit, version=version), TERMS)
    expected = TABLE_1[state][is_commit]
    if expected is not ENDS:
        assert (verdict.next, verdict.answer) == (None, (expected, -1, -1))
        return
    after = verdict.next
    assert after is not None and after.state is (State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT)
    assert (after.producer_epoch, after.partitions, after.client_transaction_version) == (5, KEYS, 0)
    assert verdict.answer == (OK, -1, -1)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("epoch", [3, 4, 6])
def test_before_version_2_every_other_epoch_is_fenced(state: State, is_commit: bool, epoch: int) -> None:
    verdict = end_transaction(metadata(state), request(epoch, is_commit=is_commit, version=0), TERMS)
    assert (verdict.next, verdict.answer.code) == (None, FENCED)


@pytest.mark.parametrize("state", [each for each in STATES if not each.is_prepared])
@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("epoch", [3, 6])
def test_in_version_2_epochs_further_away_are_fenced(state: State, is_commit: bool, epoch: int) -> None:
    verdict = end_transaction(metadata(state), request(epoch, is_commit=is_commit, version=2), TERMS)
    assert (verdict.next, verdict.answer.code) == (None, FENCED)


@pytest.mark.parametrize("version", [0, 2])
def test_unknown_producers(version: int) -> None:
    other = request(5, is_commit=True, version=version, producer_id=8)
    assert end_transaction(None, other, TERMS).answer.code is MAPPING
    assert end_transaction(metadata(State.ONGOING), other, TERMS).answer.code is MAPPING
    assert end_transaction(None, replace(other, transactional_id=""), TERMS).answer.code is ErrorCode.INVALID_REQUEST


def test_a_transaction_that_is_being_ended_is_reported_before_a_wrong_id_in_version_2_only() -> None:
    prepared = metadata(State.PREPARE_COMMIT)
    assert (
        end_transaction(prepared, request(5, is_commit=True, version=2, producer_id=8), TERMS).answer[0] is CONCURRENT
    )
    assert end_transaction(prepared, request(5, is_commit=True, version=0, producer_id=8), TERMS).answer[0] is MAPPING


def test_the_last_epoch_of_an_id_ends_with_a_new_id() -> None:
    before = metadata(State.ONGOING, EPOCH_MAX - 1)
    commit = request(EPOCH_MAX - 1, is_commit=True, version=2)
    assert end_transaction(before, commit, TERMS) is NEEDS_PRODUCER_ID
    verdict = end_transaction(before, commit, TERMS._replace(new_producer_id=99))
    prepared = verdict.next
    assert prepared is not None and verdict.answer == (OK, 99, 0)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, EPOCH_MAX, 99)
    over = completed(prepared, 600)
    assert (over.producer_id, over.producer_epoch, over.next_producer_id) == (99, 0, -1)
    assert (over.previous_producer_id, over.last_producer_epoch) == (7, EPOCH_MAX - 1)
    assert end_transaction(over, commit, TERMS) == (None, (OK, 99, 0), False), "its answer was lost"
    abort = replace(commit, is_commit=False)
    assert end_transaction(over, abort, TERMS).answer.code is INVALID
    aborted = replace(over, state=State.COMPLETE_ABORT)
    assert end_transaction(aborted, abort, TERMS).answer == (OK, 99, 0)
    assert end_transaction(aborted, commit, TERMS).answer.code is FENCED
    assert end_transaction(replace(over, state=State.EMPTY), commit, TERMS).answer.code is FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_completion_keeps_the_epoch_and_drops_the_partitions(state: State) -> None:
    over = completed(metadata(state, 6, client_transaction_version=2), 600)
    assert over.state is (State.COMPLETE_COMMIT if state is State.PREPARE_COMMIT else State.COMPLETE_ABORT)
    assert (over.producer_id, over.producer_epoch, over.partitions) == (7, 6, frozenset())
    assert (over.start_ms, over.last_update_ms) == (400, 600)


@pytest.mark.parametrize(("version", "last_epoch", "marker_version"), [(0, -1, 0), (1, -1, 0), (2, 5, 2)])
def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(
    version: int, last_epoch: int, marker_version: int
) -> None:
    terms = TERMS._replace(transaction_version=version)
    after = abort_if_timed_out(metadata(State.ONGOING), terms).next
    assert after is not None and after.state is State.PREPARE_ABORT
    assert (after.producer_epoch, after.last_producer_epoch) == (6, last_epoch)
    assert (after.client_transaction_version, after.partitions) == (marker_version, KEYS)
    over = completed(after, 600)
    for client_version in (0, 2):
        commit = end_transaction(over, request(5, is_commit=True, version=client_version), TERMS)
        assert commit.answer.code is FENCED, "a commit that was under way: fenced, which clients survive"


def test_an_ended_transaction_is_not_aborted() -> None:
    for state in (State.EMPTY, State.PREPARE_COMMIT, State.COMPLETE_COMMIT):
        assert abort_if_timed_out(metadata(state), TERMS).next is None
    assert abort_if_timed_out(None, TERMS).next is None
    assert abort_if_timed_out(metadata(State.ONGOING), TERMS._replace(wall_ms=460)).next is None


def test_an_abort_of_the_last_epoch_needs_a_new_id_in_version_2_and_the_reserved_epoch_before() -> None:
    last = metadata(State.ONGOING, EPOCH_MAX - 1)
    assert abort_and_fence(last, TERMS) is NEEDS_PRODUCER_ID
    after = abort_and_fence(last, TERMS._replace(new_producer_id=99)).next
    assert after is not None and (after.producer_epoch, after.next_producer_id) == (EPOCH_MAX, 99)
    after = abort_and_fence(last, TERMS._replace(transaction_version=0)).next
    assert after is not None and (after.producer_epoch, after.next_producer_id) == (EPOCH_MAX, -1)
    after = abort_and_fence(metadata(State.ONGOING, EPOCH_MAX), TERMS._replace(transaction_version=0)).next
    assert after is not None and after.producer_epoch == EPOCH_MAX, "never beyond"


def test_versions_of_requests() -> None:
    assert [version_of_end_txn(version) for version in range(6)] == [0, 0, 0, 0, 0, 2]
    assert [version_of_add_partitions(version) for version in range(6)] == [0, 0, 0, 0, 2, 2]


@pytest.mark.parametrize(
    ("api_key", "first"),
    [
        (ApiKey.INIT_PRODUCER_ID, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 2),
        (ApiKey.ADD_OFFSETS_TO_TXN, 2),
        (ApiKey.END_TXN, 2),
    ],
)
def test_older_clients_get_an_invalid_epoch_error(api_key: ApiKey, first: int) -> None:
    assert known_code(api_key, first - 1, FENCED) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert known_code(api_key, first, FENCED) is FENCED
    assert known_code(api_key, 0, CONCURRENT) is CONCURRENT
