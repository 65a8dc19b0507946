"""WriteTxnMarkers: who may end transactions, what is appended where, and each producer's answer."""

import asyncio
from typing import Any

import pytest

from kvorum.broker.services import EndedTransaction
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.producer_replay import end_marker
from tests.unit.broker.api.api_kit import Rules, a_broker, ask, asking

ORDERS = TopicPartition("orders", 0)
OFFSETS = TopicPartition("__consumer_offsets", 3)


class Replicas:
    """A replica manager that has all partitions but number 9, and answers what the test says, now or later."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE, *, later: bool = False) -> None:
        self.code = code
        self.later = later
        self.appended: list[tuple[int, int, dict[TopicPartition, bytes]]] = []
        self.waiting: list[Any] = []
        self.transactions = self

    def has_replica(self, key: TopicPartition) -> bool:
        return key.partition != 9

    def append_markers(self, timeout_ms, markers, transaction_version, on_done) -> None:
        self.appended.append((timeout_ms, transaction_version, {key: bytes(data) for key, data in markers.items()}))
        codes = dict.fromkeys(markers, self.code)
        if self.later:
            self.waiting.append(lambda: on_done(codes))
        else:
            on_done(codes)


class Groups:
    """A group coordinator that notes what it is to end, and refuses with what the test says."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.ended: list[tuple[TopicPartition, EndedTransaction, int]] = []

    async def complete_transaction(self, key: TopicPartition, ended: EndedTransaction, timeout_ms: int) -> None:
        self.ended.append((key, ended, timeout_ms))
        await asyncio.sleep(0)
        if self.code is not ErrorCode.NONE:
            raise KafkaError(self.code)


def marker(
    *keys: TopicPartition, producer_id: int = 7, epoch: int = 3, commit: bool = True, version: int = 2
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=key.topic, partition_indexes=[key.partition]) for key in keys],
        coordinator_epoch=5,
        transaction_version=version,
    )


def codes_of(answer: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], int]:
    return {
        (each.producer_id, topic.name, row.partition_index): row.error_code
        for each in answer.markers
        for topic in each.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
def test_every_version_appends_the_marker_of_its_transaction_version(version: int) -> None:
    replicas = Replicas()
    broker = a_broker(replica_manager=replicas, settings={"request.timeout.ms": 1234})
    answer = ask(broker, WriteTxnMarkersRequest(markers=[marker(ORDERS, commit=False)]), version)
    assert codes_of(answer) == {(7, "orders", 0): 0}
    ((timeout_ms, transaction_version, markers),) = replicas.appended
    assert (timeout_ms, transaction_version) == (1234, 2 if version >= 2 else 0)
    header = parse_header(markers[ORDERS])
    assert (header.producer_id, header.producer_epoch, header.is_control, header.is_transactional) == (7, 3, True, True)
    found = end_marker(memoryview(markers[ORDERS]), 0)
    assert found is not None and (found.coordinator_epoch, found.is_aborted) == (5, True)


def test_each_producer_and_partition_has_its_own_code() -> None:
    replicas = Replicas(ErrorCode.INVALID_PRODUCER_EPOCH)
    nowhere = TopicPartition("orders", 9)
    sent = [marker(ORDERS, nowhere), marker(nowhere, producer_id=8), marker(TopicPartition("other", 1), producer_id=7)]
    answer = ask(a_broker(replica_manager=replicas), WriteTxnMarkersRequest(markers=sent), 2)
    assert codes_of(answer) == {
        (7, "orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (7, "orders", 0): ErrorCode.INVALID_PRODUCER_EPOCH,
        (7, "other", 1): ErrorCode.INVALID_PRODUCER_EPOCH,
        (8, "orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [each.producer_id for each in answer.markers] == [7, 8]


def test_the_answer_waits_for_every_append() -> None:
    replicas = Replicas(later=True)

    async def run() -> WriteTxnMarkersResponse:
        sent = [marker(ORDERS), marker(ORDERS, producer_id=8)]
        requested = asyncio.ensure_future(
            asking(a_broker(replica_manager=replicas), WriteTxnMarkersRequest(markers=sent), 2)
        )
        for _ in range(10):
            await asyncio.sleep(0)
        for each in range(2):
            assert not requested.done()
            replicas.waiting[1 - each]()
            await asyncio.sleep(0)
        return await requested

    assert codes_of(asyncio.run(run())) == {(7, "orders", 0): 0, (8, "orders", 0): 0}


def test_nothing_sent_is_answered_with_nothing() -> None:
    assert ask(a_broker(replica_manager=Replicas()), WriteTxnMarkersRequest(), 2).markers == []


@pytest.mark.parametrize("allowed", [Operation.ALTER, Operation.CLUSTER_ACTION, None])
def test_altering_the_cluster_or_acting_for_it_is_needed(allowed: Operation | None) -> None:
    replicas = Replicas()
    denied = {Operation.ALTER, Operation.CLUSTER_ACTION} - {allowed}
    rules = Rules({(each, ResourceType.CLUSTER, CLUSTER_NAME) for each in denied})
    broker = a_broker(replica_manager=replicas, authorizer=rules)
    answer = ask(broker, WriteTxnMarkersRequest(markers=[marker(ORDERS)]), 2)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if allowed is None else ErrorCode.NONE
    assert codes_of(answer) == {(7, "orders", 0): code}
    assert bool(replicas.appended) == (allowed is not None)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_markers_of_the_offsets_topic_are_the_group_coordinators(refused: ErrorCode, code: ErrorCode) -> None:
    replicas, groups = Replicas(), Groups(refused)
    broker = a_broker(replica_manager=replicas, group_transactions=groups)
    answer = ask(broker, WriteTxnMarkersRequest(markers=[marker(OFFSETS, ORDERS)]), 2)
    assert codes_of(answer) == {(7, "__consumer_offsets", 3): code, (7, "orders", 0): 0}
    ended = EndedTransaction(
        producer_id=7, producer_epoch=3, coordinator_epoch=5, is_commit=True, transaction_version=2
    )
    assert groups.ended == [(OFFSETS, ended, 30_000)]
    assert [set(markers) for _, _, markers in replicas.appended] == [{ORDERS}]


def test_without_a_group_coordinator_they_are_appended_as_any_other() -> None:
    replicas = Replicas()
    answer = ask(a_broker(replica_manager=replicas), WriteTxnMarkersRequest(markers=[marker(OFFSETS)]), 2)
    assert codes_of(answer) == {(7, "__consumer_offsets", 3): 0}
    assert set(replicas.appended[0][2]) == {OFFSETS}
