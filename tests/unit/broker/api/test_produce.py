"""Produce: what is checked before the log is asked, and how rows become answers."""

import asyncio
import struct
import zlib
from typing import Any

import pytest

from kvorum.broker.api import produce
from kvorum.broker.replica.appends import refusal
from kvorum.broker.replica.transactions import Support, TransactionalProducer
from kvorum.network.authorizer import NoQuotas, Operation, ResourceType
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
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from tests.unit.broker.api.api_kit import OTHER_ID, TOPIC_ID, Rules, a_broker, ask, asking, three_brokers, topic

INTERNAL_ID = Uuid(b"\x0b" * 16)
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
        self.transactions = Transactions(self)

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


class Transactions:
    """Notes who writes within a transaction and what is to be verified, and appends it."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self.verified: list[tuple[TransactionalProducer, dict[TopicPartition, int]]] = []

    def append_records(self, producer, timeout_ms, required_acks, entries, sequences, on_done) -> None:
        self.verified.append((producer, sequences))
        self.replicas.append_records(timeout_ms, required_acks, entries, on_done)


def orders() -> list[Any]:
    made = [*three_brokers(), *topic("orders", TOPIC_ID, ((1, 2), (1, 2), 1), ((2, 1), (2, 1), 2))]
    return [*made, *topic("__consumer_offsets", INTERNAL_ID, ((1,), (1,), 1))]


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
        requested = asyncio.ensure_future(asking(a_broker(*orders(), replica_manager=replicas), request((0, PLAIN)), 9))
        await asyncio.sleep(0)
        assert not requested.done()
        replicas.waiting[0]()
        return await requested

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
        request((0, PLAIN), name="__consumer_offsets"), 9, ErrorCode.INVALID_TOPIC_EXCEPTION, id="internal-topic"
    ),
    pytest.param(
        request((0, TRANSACTIONAL), transactional_id="theirs"),
        9,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        id="another's-transactional-id",
    ),
]


@pytest.mark.parametrize(("sent", "version", "code"), REFUSED)
def test_invalid_appends_are_refused_per_partition(sent: ProduceRequest, version: int, code: ErrorCode) -> None:
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


def test_the_admin_client_may_write_to_internal_topics() -> None:
    broker = a_broker(*orders(), replica_manager=Replicas())
    sent = request((0, PLAIN), name="__consumer_offsets", acks=1)
    assert rows_of(ask(broker, sent, 9, client_id="__admin_client"))[0].error_code == 0


@pytest.mark.parametrize(
    ("version", "support"),
    [(3, Support.DEFAULT_ERROR), (11, Support.GENERIC_ERROR), (12, Support.ADD_PARTITION), (13, Support.ADD_PARTITION)],
)
def test_transactional_batches_are_verified_together(version: int, support: Support) -> None:
    replicas = Replicas()
    sent = request((0, PLAIN), (1, TRANSACTIONAL), acks=1, transactional_id="mine")
    answer = ask(a_broker(*orders(), replica_manager=replicas), sent, version)
    producer = TransactionalProducer(transactional_id="mine", producer_id=7, producer_epoch=0, support=support)
    assert replicas.transactions.verified == [(producer, {TopicPartition("orders", 1): 0})]
    assert [set(entries) for _, entries in replicas.appended] == [
        {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    ]
    assert {index: row.error_code for index, row in rows_of(answer).items()} == {0: 0, 1: 0}


def test_without_the_right_to_the_transactional_id_the_whole_request_is_refused() -> None:
    replicas = Replicas()
    rules = Rules({(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "theirs")})
    broker = a_broker(*orders(), replica_manager=replicas, authorizer=rules)
    for transactional_id in (None, "theirs"):
        sent = request((0, PLAIN), (1, TRANSACTIONAL), (9, PLAIN), transactional_id=transactional_id)
        rows = rows_of(ask(broker, sent, 9))
        assert {row.error_code for row in rows.values()} == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert set(rows) == {0, 1, 9}
    assert replicas.appended == []


@pytest.mark.parametrize("timestamp", [0, 1 << 28], ids=["no-bit", "the-bit-of-transactions"])
def test_a_message_of_magic_1_is_never_transactional(timestamp: int) -> None:
    """Its timestamp lies where a batch says whether it is of a transaction."""
    body = struct.pack(">bbqii", 1, 0, timestamp, -1, -1)
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    rows = rows_of(ask(a_broker(*orders(), replica_manager=Replicas()), request((0, message)), 9))
    assert rows[0].error_code == ErrorCode.INVALID_RECORD


def test_one_request_is_of_one_producer() -> None:
    replicas = Replicas()
    other = bytes(
        build_batch(
            [Record(value=b"v", timestamp=1)], producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True
        )
    )
    sent = request((0, TRANSACTIONAL), (1, other), transactional_id="mine")
    rows = rows_of(ask(a_broker(*orders(), replica_manager=replicas), sent, 9))
    assert {row.error_code for row in rows.values()} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert replicas.appended == []


def test_acks_0_of_a_transaction_ends_the_connection_when_it_is_refused_later() -> None:
    """The only produce of acks=0 that waits: for the transaction coordinator."""
    replicas = Replicas(ErrorCode.INVALID_TXN_STATE, later=True)

    async def run() -> Any:
        sent = request((0, TRANSACTIONAL), transactional_id="mine", acks=0)
        requested = asyncio.ensure_future(asking(a_broker(*orders(), replica_manager=replicas), sent, 9))
        await asyncio.sleep(0)
        replicas.waiting[0]()
        return await requested

    with pytest.raises(KafkaError) as closed:
        asyncio.run(run())
    assert closed.value.code is ErrorCode.INVALID_TXN_STATE


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
def test_a_broker_that_does_not_lead_returns_the_leader(version: int, hinted: bool) -> None:
    broker = a_broker(*orders(), replica_manager=Replicas(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    answer = ask(broker, request((1, PLAIN), acks=1), version, listener="INTERNAL")
    row = rows_of(answer)[1]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == ((2, 5) if hinted else (-1, -1))
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == ([(2, 9502)] if hinted else [])


class Throttling(NoQuotas):
    """Quotas that hold everybody back by what they produced."""

    enabled = True

    def throttle_ms(self, ctx, *, produced: int = 0, exempt: bool = False) -> int:
        return produced + exempt * 1_000_000


def test_the_throttle_time_counts_the_bytes_is_answered_and_kept_to() -> None:
    broker = a_broker(*orders(), replica_manager=Replicas(), quotas=Throttling())
    ctx = RequestContext(api_key=ApiKey.PRODUCE, api_version=9, request_bytes=777)
    answer = produce.handle(ctx, request((0, memoryview(PLAIN)), acks=1), broker)
    assert answer.throttle_time == ctx.throttle_ms == 777, "of the whole request"
    assert produce.handle(ctx, request((0, memoryview(PLAIN)), acks=0), broker) is None
    assert ctx.throttle_ms == 1_000_777, "its time does not count: nobody waits for its answer"
    broker.quotas = NoQuotas()
    assert produce.handle(ctx, request((0, memoryview(PLAIN)), acks=1), broker).throttle_time == ctx.throttle_ms == 0
