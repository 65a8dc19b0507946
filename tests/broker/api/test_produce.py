"""Produce: what is checked before the log is asked, and how rows become answers."""

import asyncio
from typing import Any

import pytest
from api_kit import OTHER_ID, TOPIC_ID, Rules, a_broker, ask, asking, three_brokers, topic

from kvorum.broker.api import produce
from kvorum.broker.replica.appends import refusal
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kvorum.protocol.records import Record, build_batch
from kvorum.storage.names import TopicPartition

PLAIN = bytes(build_batch([Record(value=b"v", timestamp=1)]))
ZSTD = bytes(build_batch([Record(value=b"v", timestamp=1)], codec=Codec.ZSTD))
TRANSACTIONAL = bytes(
    build_batch(
        [Record(value=b"v", timestamp=1)], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
)


class Replicas:
    """A replica manager that notes what it is given and answers what the test says, now or later."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE, *, later: bool = False) -> None:
        self.code = code
        self.later = later
        self.appended: list[tuple[int, dict[TopicPartition, bytes]]] = []
        self.waiting: list[Any] = []

    def append_records(self, timeout_ms, required_acks, entries, on_done) -> None:
        self.appended.append((required_acks, {key: bytes(records) for key, records in entries.items()}))
        rows = {key: self.row(key) for key in entries}
        if self.later:
            self.waiting.append(lambda: on_done(rows))
        else:
            on_done(rows)

    def row(self, key: TopicPartition) -> PartitionProduceResponse:
        if self.code is not ErrorCode.NONE:
            return refusal(key, self.code)
        return PartitionProduceResponse(index=key.partition, base_offset=40 + key.partition, log_start_offset=3)


def orders() -> list[Any]:
    return [*three_brokers(), *topic("orders", TOPIC_ID, ((1, 2), (1, 2), 1), ((2, 1), (2, 1), 2))]


def request(
    *partitions: tuple[int, bytes | None], name: str = "orders", topic_id: Any = TOPIC_ID, acks: int = -1, **more: Any
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
    return ProduceRequest(
        acks=acks, timeout=100, topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=data)], **more
    )


def rows_of(answer: Any) -> dict[int, Any]:
    return {row.index: row for each in answer.responses for row in each.partition_responses}


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_answers_offsets(version: int) -> None:
    replicas = Replicas()
    answer = ask(a_broker(*orders(), replica_manager=replicas), request((0, PLAIN), (1, PLAIN), acks=1), version)
    assert replicas.appended == [(1, {TopicPartition("orders", 0): PLAIN, TopicPartition("orders", 1): PLAIN})]
    assert {index: (row.error_code, row.base_offset) for index, row in rows_of(answer).items()} == {
        0: (0, 40),
        1: (0, 41),
    }
    assert answer.responses[0].topic_id == TOPIC_ID if version >= 13 else answer.responses[0].name == "orders"


def test_acks_all_is_answered_when_it_is_done() -> None:
    replicas = Replicas(later=True)

    async def run() -> Any:
        asked = asyncio.ensure_future(asking(a_broker(*orders(), replica_manager=replicas), request((0, PLAIN)), 9))
        await asyncio.sleep(0)
        assert not asked.done()
        replicas.waiting[0]()
        return await asked

    assert rows_of(asyncio.run(run()))[0].base_offset == 40


def test_acks_0_is_not_answered_and_an_error_ends_the_connection() -> None:
    assert ask(a_broker(*orders(), replica_manager=Replicas()), request((0, PLAIN), acks=0), 9) is None
    failing = a_broker(*orders(), replica_manager=Replicas(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(KafkaError) as closed:
        ask(failing, request((0, PLAIN), acks=0), 9)
    assert closed.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError):
        ask(a_broker(*orders(), replica_manager=Replicas()), request((0, PLAIN), name="nowhere", acks=0), 9)


REFUSED = [
    pytest.param(request((9, PLAIN)), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no-such-partition"),
    pytest.param(request((0, PLAIN), name="nowhere"), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no-such-topic"),
    pytest.param(request((0, PLAIN), topic_id=OTHER_ID), 13, ErrorCode.UNKNOWN_TOPIC_ID, id="no-such-topic-id"),
    pytest.param(request((0, PLAIN), name="secret"), 9, ErrorCode.TOPIC_AUTHORIZATION_FAILED, id="not-authorised"),
    pytest.param(request((0, None)), 9, ErrorCode.INVALID_RECORD, id="no-records"),
    pytest.param(request((0, ZSTD)), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="zstd-before-v7"),
    pytest.param(
        request((0, TRANSACTIONAL)), 9, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, id="no-transactional-id"
    ),
    pytest.param(
        request((0, TRANSACTIONAL), transactional_id="mine"), 9, ErrorCode.INVALID_TXN_STATE, id="no-transaction"
    ),
    pytest.param(
        request((0, TRANSACTIONAL), transactional_id="theirs"),
        9,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        id="another's-transactional-id",
    ),
]


@pytest.mark.parametrize(("sent", "version", "code"), REFUSED)
def test_what_cannot_be_appended_is_refused_by_partition(sent: ProduceRequest, version: int, code: ErrorCode) -> None:
    replicas = Replicas()
    rules = Rules(
        {
            (Operation.WRITE, ResourceType.TOPIC, "secret"),
            (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "theirs"),
        }
    )
    answer = ask(a_broker(*orders(), replica_manager=replicas, authorizer=rules), sent, version)
    (row,) = rows_of(answer).values()
    assert (row.error_code, row.base_offset) == (code, -1)
    assert replicas.appended == []


def test_zstd_is_taken_from_v7_on() -> None:
    answer = ask(a_broker(*orders(), replica_manager=Replicas()), request((0, ZSTD), acks=1), 7)
    assert rows_of(answer)[0].error_code == 0


def test_one_bad_partition_does_not_keep_the_others_from_being_appended() -> None:
    replicas = Replicas()
    answer = ask(a_broker(*orders(), replica_manager=replicas), request((0, PLAIN), (9, PLAIN), acks=1), 9)
    assert {index: row.error_code for index, row in rows_of(answer).items()} == {
        0: 0,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize(("version", "hinted"), [(9, False), (10, True), (13, True)])
def test_the_wrong_broker_says_who_leads(version: int, hinted: bool) -> None:
    broker = a_broker(*orders(), replica_manager=Replicas(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    answer = ask(broker, request((1, PLAIN), acks=1), version, listener="INTERNAL")
    row = rows_of(answer)[1]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == ((2, 5) if hinted else (-1, -1))
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == ([(2, 9502)] if hinted else [])


class Throttling:
    """Quotas that hold everybody back by what they produced."""

    def throttle_ms(self, ctx, *, produced: int = 0, fetched: int = 0, mutations: int = 0) -> int:
        return produced


def test_the_throttle_time_counts_the_bytes_is_answered_and_kept_to() -> None:
    broker = a_broker(*orders(), replica_manager=Replicas(), quotas=Throttling())
    ctx = RequestContext(api_key=ApiKey.PRODUCE, api_version=9)
    answer = produce.handle(ctx, request((0, memoryview(PLAIN)), acks=1), broker)
    assert answer.throttle_time == ctx.throttle_ms == len(PLAIN)
