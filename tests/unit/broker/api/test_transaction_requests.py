"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, DescribeTransactions, ListTransactions.

The coordinators are models: who may ask, what they are asked, and how each version is answered.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.broker.api.local import LocalRequests
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.listing import TransactionFilter
from kvorum.broker.coordinator.transaction.words import AddPartitions, Answer, EndTransaction, InitProducer
from kvorum.broker.replica.transactions import Support
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.batch_header import NO_SEQUENCE
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import describe_transactions as described
from kvorum.protocol.messages import list_transactions as listed
from kvorum.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kvorum.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kvorum.protocol.messages.end_txn import EndTxnRequest
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest
from kvorum.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.broker.api.api_kit import OTHER_ID, TOPIC_ID, Rules, a_broker, ask, register, topic

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
HOME = TopicPartition("__consumer_offsets", 7)
WRITE_ID = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")


class Coordinator:
    """Notes what it is asked; answers what the test says."""

    def __init__(self, answer: Answer = Answer(), refusal: ErrorCode | None = None) -> None:  # noqa: B008
        self.answer = answer
        self.refusal = refusal
        self.requested: list[Any] = []

    def _take(self, request: Any) -> Answer:
        self.requested.append(request)
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        return self.answer

    async def init_producer_id(self, request: InitProducer) -> Answer:
        return self._take(request)

    async def add_partitions(self, request: AddPartitions) -> ErrorCode:
        return self._take(request).code

    async def verify_partitions(self, request: AddPartitions) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(request.partitions, self._take(("verify", request)).code)

    async def end_transaction(self, request: EndTransaction) -> Answer:
        return self._take(request)

    def describe(self, transactional_id: str) -> described.TransactionState:
        topics = [described.TopicData(topic=name, partitions=[0]) for name in ("orders", "secret")]
        return described.TransactionState(transactional_id=transactional_id, producer_id=5, topics=topics)

    def list_transactions(self, wanted: TransactionFilter) -> listed.ListTransactionsResponse:
        self.requested.append(wanted)
        names = [name for name in ("t", "theirs") if wanted.matches is None or wanted.matches(name)]
        return listed.ListTransactionsResponse(
            transaction_states=[listed.TransactionState(transactional_id=name) for name in names]
        )


def broker_of(coordinator: Coordinator, *refused: Any, **parts: Any) -> Any:
    made = [
        register(1),
        *topic("orders", TOPIC_ID, ((1,), (1,), 1)),
        *topic("payments", OTHER_ID, ((1,), (1,), 1)),
    ]
    groups = parts.pop("groups", SimpleNamespace(partition_of=lambda group: HOME))
    return a_broker(*made, transactions=coordinator, groups=groups, authorizer=Rules(set(refused)), **parts)


# --- InitProducerId ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_gets_its_coordinators_result(version: int) -> None:
    coordinator = Coordinator(Answer(ErrorCode.NONE, 70, 3))
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout=60_000, producer_id=7, producer_epoch=2)
    answer = ask(broker_of(coordinator), request, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 70, 3)
    expected = Producer(7, 2) if version >= 3 else None
    assert coordinator.requested == [InitProducer(transactional_id="t", timeout_ms=60_000, expected=expected)]


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_older_clients_get_an_epoch_error_instead_of_fenced(version: int, code: ErrorCode) -> None:
    coordinator = Coordinator(Answer(ErrorCode.PRODUCER_FENCED))
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout=1, producer_id=7, producer_epoch=2)
    answer = ask(broker_of(coordinator), request, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_a_coordinator_that_is_elsewhere_reports_it() -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout=1)
    answer = ask(broker_of(Coordinator(refusal=ErrorCode.NOT_COORDINATOR)), request, 5)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


# --- AddPartitionsToTxn -----------------------------------------------------------------------------------------------


def topics_of(*keys: TopicPartition) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=key.topic, partitions=[key.partition]) for key in keys]


def of_client(*keys: TopicPartition) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=2,
        v3_and_below_topics=topics_of(*keys),
    )


def of_broker(*keys: TopicPartition, name: str = "t", verify_only: bool = False) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=name, producer_id=7, producer_epoch=2, verify_only=verify_only, topics=topics_of(*keys)
    )


def codes(results: list[Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(each.name, row.partition_index): row.partition_error_code
        for each in results
        for row in each.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
def test_a_clients_partitions_are_added_for_a_client_of_version_0(version: int) -> None:
    coordinator = Coordinator()
    answer = ask(broker_of(coordinator), of_client(ORDERS, PAYMENTS), version)
    assert codes(answer.results_by_topic_v3_and_below) == {ORDERS: 0, PAYMENTS: 0}
    assert coordinator.requested == [
        AddPartitions(
            transactional_id="t",
            producer=Producer(7, 2),
            partitions=frozenset({ORDERS, PAYMENTS}),
            client_transaction_version=0,
        )
    ]


MISSING = TopicPartition("orders", 4)
OFFSETS = TopicPartition("__consumer_offsets", 0)


@pytest.mark.parametrize(
    ("refused", "keys", "expected"),
    [
        (WRITE_ID, [ORDERS], {ORDERS: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}),
        (
            (Operation.WRITE, ResourceType.TOPIC, "payments"),
            [ORDERS, PAYMENTS],
            {ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED, PAYMENTS: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        ),
        (
            None,
            [ORDERS, MISSING],
            {ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED, MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        ),
        (None, [OFFSETS], {OFFSETS: ErrorCode.TOPIC_AUTHORIZATION_FAILED}),
    ],
)
def test_one_partition_that_is_refused_keeps_all_out(
    refused: Any, keys: list[TopicPartition], expected: dict[TopicPartition, ErrorCode]
) -> None:
    coordinator = Coordinator()
    answer = ask(broker_of(coordinator, refused), of_client(*keys), 3)
    assert codes(answer.results_by_topic_v3_and_below) == expected
    assert coordinator.requested == []


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_client_gets_the_error_of_its_version(version: int, code: ErrorCode) -> None:
    answer = ask(broker_of(Coordinator(Answer(ErrorCode.PRODUCER_FENCED))), of_client(ORDERS), version)
    assert codes(answer.results_by_topic_v3_and_below) == {ORDERS: code}


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_send_several_transactions_at_once(version: int) -> None:
    """Added for producers of version 2, or only verified; topics are not authorised again."""
    coordinator = Coordinator()
    broker = broker_of(coordinator, (Operation.WRITE, ResourceType.TOPIC, "orders"), WRITE_ID)
    sent = [of_broker(ORDERS), of_broker(PAYMENTS, name="u", verify_only=True), of_broker(MISSING, name="v")]
    answer = ask(broker, AddPartitionsToTxnRequest(transactions=sent), version)
    assert {each.transactional_id: codes(each.topic_results) for each in answer.results_by_transaction} == {
        "t": {ORDERS: 0},
        "u": {PAYMENTS: 0},
        "v": {MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    added = next(each for each in coordinator.requested if isinstance(each, AddPartitions))
    assert (added.transactional_id, added.client_transaction_version) == ("t", 2)
    assert [each[1].transactional_id for each in coordinator.requested if isinstance(each, tuple)] == ["u"]


def test_only_brokers_send_several_transactions() -> None:
    refused = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    request = AddPartitionsToTxnRequest(transactions=[of_broker(ORDERS)])
    answer = ask(broker_of(Coordinator(), refused), request, 4)
    assert (answer.error_code, answer.results_by_transaction) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


@pytest.mark.parametrize("verify_only", [True, False])
def test_this_broker_queries_itself_without_a_connection(verify_only: bool) -> None:
    import asyncio

    coordinator = Coordinator(refusal=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker = broker_of(coordinator, (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))

    async def story() -> AddPartitionsToTxnResponse:
        sent = of_broker(ORDERS, verify_only=verify_only)
        request = AddPartitionsToTxnRequest(transactions=[sent])
        return await LocalRequests(lambda: broker).add_partitions_to_txn(request)

    row = asyncio.run(story()).results_by_transaction[0]
    assert codes(row.topic_results) == {ORDERS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


# --- AddOffsetsToTxn, EndTxn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_the_groups_partition_is_added(version: int) -> None:
    coordinator = Coordinator()
    request = AddOffsetsToTxnRequest(transactional_id="t", producer_id=7, producer_epoch=2, group_id="g")
    assert ask(broker_of(coordinator), request, version).error_code == 0
    assert [each.partitions for each in coordinator.requested] == [frozenset({HOME})]
    assert [each.client_transaction_version for each in coordinator.requested] == [0]


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (WRITE_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((Operation.READ, ResourceType.GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_offsets_of_a_group_need_the_right_to_it(refused: Any, code: ErrorCode) -> None:
    coordinator = Coordinator()
    request = AddOffsetsToTxnRequest(transactional_id="t", producer_id=7, producer_epoch=2, group_id="g")
    assert ask(broker_of(coordinator, refused), request, 4).error_code == code
    assert coordinator.requested == []


@pytest.mark.parametrize("version", range(6))
def test_an_end_of_version_5_has_the_next_epoch(version: int) -> None:
    coordinator = Coordinator(Answer(ErrorCode.NONE, 7, 3))
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=2, committed=True)
    answer = ask(broker_of(coordinator), request, version)
    assert answer.error_code == 0
    assert (answer.producer_id, answer.producer_epoch) == ((7, 3) if version >= 5 else (-1, -1))
    assert [(each.client_transaction_version, each.is_commit) for each in coordinator.requested] == [
        (2 if version >= 5 else 0, True)
    ]


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_ends_nothing(version: int, code: ErrorCode) -> None:
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=2, committed=True)
    assert ask(broker_of(Coordinator(Answer(ErrorCode.PRODUCER_FENCED))), request, version).error_code == code
    refused = ask(broker_of(Coordinator(), WRITE_ID), request, version)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# --- TxnOffsetCommit --------------------------------------------------------------------------------------------------


class Replicas:
    """A replica manager whose verifications end as the test says."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.verified: list[Any] = []
        self.transactions = self

    def verify(self, producer: Any, sequences: Mapping[TopicPartition, int], on_done: Any) -> None:
        self.verified.append((producer.support, dict(sequences)))
        if self.code:
            on_done(dict.fromkeys(sequences, self.code), {})
        else:
            on_done({}, dict.fromkeys(sequences, "guard"))


class Groups:
    """A group coordinator that commits what it is given."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.guards: list[Any] = []

    def partition_of(self, group_id: str) -> TopicPartition:
        return HOME

    async def commit_transactional(self, client: Any, request: TxnOffsetCommitRequest, guard: Any) -> Any:
        self.guards.append(guard)
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=each.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=self.code)
                        for row in each.partitions
                    ],
                )
                for each in request.topics
            ]
        )


def offsets(*keys: TopicPartition, group: str = "g") -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=7,
        producer_epoch=2,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=key.topic, partitions=[TxnOffsetCommitRequestPartition(partition_index=key.partition)]
            )
            for key in keys
        ],
    )


def rows(answer: TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(each.name, row.partition_index): row.error_code
        for each in answer.topics
        for row in each.partitions
    }


@pytest.mark.parametrize(
    ("version", "support"),
    [(0, Support.DEFAULT_ERROR), (3, Support.DEFAULT_ERROR), (4, Support.GENERIC_ERROR), (5, Support.ADD_PARTITION)],
)
def test_offsets_are_committed_once_the_transaction_is_verified(version: int, support: Support) -> None:
    replicas, groups = Replicas(), Groups()
    broker = broker_of(Coordinator(), groups=groups, replica_manager=replicas)
    answer = ask(broker, offsets(ORDERS, MISSING), version)
    assert rows(answer) == {ORDERS: 0, MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert replicas.verified == [(support, {HOME: NO_SEQUENCE})]
    assert groups.guards == ["guard"]


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_offsets_of_a_transaction_that_is_not_verified_are_refused(found: ErrorCode, reported: ErrorCode) -> None:
    groups = Groups()
    broker = broker_of(Coordinator(), groups=groups, replica_manager=Replicas(found))
    assert rows(ask(broker, offsets(ORDERS), 5)) == {ORDERS: reported}
    assert groups.guards == []


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (WRITE_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((Operation.READ, ResourceType.GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((Operation.READ, ResourceType.TOPIC, "orders"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_offsets_need_every_right(refused: Any, code: ErrorCode) -> None:
    groups = Groups()
    broker = broker_of(Coordinator(), refused, groups=groups, replica_manager=Replicas())
    assert rows(ask(broker, offsets(ORDERS), 5)) == {ORDERS: code}
    assert groups.guards == []


def test_offsets_of_no_group_are_refused() -> None:
    broker = broker_of(Coordinator(), groups=Groups(), replica_manager=Replicas())
    assert rows(ask(broker, offsets(ORDERS, group=""), 5)) == {ORDERS: ErrorCode.INVALID_GROUP_ID}


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_producers_get_no_error_of_a_loading_coordinator(version: int, code: ErrorCode) -> None:
    groups = Groups(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker = broker_of(Coordinator(), groups=groups, replica_manager=Replicas())
    assert rows(ask(broker, offsets(ORDERS), version)) == {ORDERS: code}


# --- what there is ----------------------------------------------------------------------------------------------------


def test_a_transaction_is_described_without_the_topics_that_one_may_not_see() -> None:
    refused = (
        (Operation.DESCRIBE, ResourceType.TOPIC, "secret"),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "theirs"),
    )
    request = described.DescribeTransactionsRequest(transactional_ids=["t", "theirs"])
    mine, theirs = ask(broker_of(Coordinator(), *refused), request, 0).transaction_states
    assert (mine.producer_id, [each.topic for each in mine.topics]) == (5, ["orders"])
    assert (theirs.error_code, theirs.topics) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])


@pytest.mark.parametrize("version", range(3))
def test_a_list_has_filtered_and_permitted_transactions(version: int) -> None:
    coordinator = Coordinator()
    broker = broker_of(coordinator, (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "theirs"))
    request = listed.ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[5])
    if version >= 1:
        request.duration_filter = 1_000
    if version >= 2:
        request.transactional_id_pattern = "the.*|t"
    answer = ask(broker, request, version)
    assert [each.transactional_id for each in answer.transaction_states] == ["t"]
    wanted = coordinator.requested[0]
    assert (list(wanted.state_names), wanted.producer_ids) == (["Ongoing"], frozenset({5}))
    assert wanted.duration_ms == (1_000 if version >= 1 else -1)
    assert wanted.matches is None if version < 2 else (wanted.matches("their") and not wanted.matches("a t"))


def test_an_invalid_pattern_is_refused() -> None:
    request = listed.ListTransactionsRequest(transactional_id_pattern="(")
    assert ask(broker_of(Coordinator()), request, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    empty = listed.ListTransactionsRequest(transactional_id_pattern="")
    assert len(ask(broker_of(Coordinator()), empty, 2).transaction_states) == 2
