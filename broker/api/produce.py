"""Produce (0): v3-v13; v0 to v2 are advertised and close the connection, as in Kafka (KIP-896).

v7: zstd. v8: which records were wrong (KIP-467). v9: flexible. v10: current leader and its endpoint (KIP-951).
v12: transactions without AddPartitionsToTxn (KIP-890). v13: topic ids (KIP-516).
acks=0 is not answered: an error closes the connection, so that the client finds out.
Order: authorise the transaction, resolve, authorise and check each topic, have a transaction verified, append, wait for
acks=all, answer.
"""

import asyncio
from collections.abc import Callable

from kvorum.broker.api.hints import WRONG_LEADER, Hints
from kvorum.broker.metadata.cache import Node, is_internal
from kvorum.broker.replica.appends import refusal
from kvorum.broker.replica.transactions import TransactionalProducer, produce_support
from kvorum.broker.services import Broker, BrokerApi, Result
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    parse_header,
)
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kvorum.protocol.records import next_batch_size
from kvorum.protocol.topic_partition import TopicPartition

NO_ACKS = 0
LENGTH_POSITION = 8
TRANSACTIONAL_BYTE = 22
"""The low byte of a batch's attributes: codec, timestamp type, transactional and control bits."""
ZSTD_VERSION_MIN = 7
HINTS_VERSION_MIN = 10
INTERNAL_PREFIX = "__"
ADMIN_CLIENT_ID = "__admin_client"
"""Client id that may write to internal topics, as in Kafka (AdminUtils.ADMIN_CLIENT_ID)."""
ERRORS_NAMED_MAX = 10
"""Number of failed partitions in the log line of an acks=0 request that ends its connection."""

Rows = dict[TopicPartition, PartitionProduceResponse]
ProduceDone = Callable[[Rows], None]


def handle(ctx: RequestContext, request: ProduceRequest, broker: Broker) -> Result:
    """Append; answer now, or once acks=all is fulfilled."""
    refused: Rows = {}
    entries: dict[TopicPartition, memoryview] = {}
    transactional: dict[TopicPartition, BatchHeader] = {}
    names: list[str] = []
    for topic in request.topic_data:
        name, code = resolve(ctx, topic, broker)
        names.append(name)
        is_closed = name.startswith(INTERNAL_PREFIX) and is_internal(name) and ctx.client_id != ADMIN_CLIENT_ID
        for partition in topic.partition_data:
            key = TopicPartition(name, partition.index)
            try:
                if code is not ErrorCode.NONE:
                    raise KafkaError(code)
                entries[key] = records = checked(ctx, broker, key, partition, is_closed)
                is_transactional = records[TRANSACTIONAL_BYTE] & TRANSACTIONAL_FLAG != 0
            except KafkaError as error:
                refused[key] = refused_row(key, error)
                is_transactional = has_transactional_batch(partition.records)
            if is_transactional:
                if not (transactional or may_write_transactionally(ctx, request, broker)):
                    return refuse_all(ctx, request, broker, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                if key in entries and (header := parse_header(entries[key])).has_producer_id:
                    transactional[key] = header
    if not entries:
        return respond(ctx, request, broker, names, refused, ctx.request_bytes)
    if (
        len(transactional) > 1
        and len({(header.producer_id, header.producer_epoch) for header in transactional.values()}) > 1
    ):
        return refuse_all(ctx, request, broker, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    answer = PendingAnswer(ctx, request, broker, names, refused)
    if transactional:
        append_transactional(ctx, request, broker, entries, transactional, answer.complete)
    else:
        broker.replica_manager.append_records(request.timeout, request.acks, entries, answer.complete)
    if answer.rows is not None:
        return answer.response(answer.rows)
    answer.future = future = asyncio.get_running_loop().create_future()
    return future


class PendingAnswer:
    """The answer to a request whose records are being appended.

    No nested function: compiled by mypyc it would be in a reference cycle with the request, whose records would then
    stay in memory until the next cyclic garbage collection.
    """

    __slots__ = ("_broker", "_ctx", "_names", "_refused", "_request", "future", "rows")

    def __init__(
        self, ctx: RequestContext, request: ProduceRequest, broker: Broker, names: list[str], refused: Rows
    ) -> None:
        """Start without rows; `refused` are those of partitions that are not appended to."""
        self._ctx = ctx
        self._request = request
        self._broker = broker
        self._names = names
        self._refused = refused
        self.rows: Rows | None = None
        """Handle of a completed append."""
        self.future: asyncio.Future[ProduceResponse | None] | None = None
        """Set once the append turned out not to be done at once."""

    def complete(self, rows: Rows) -> None:
        """Store the rows of the append."""
        future = self.future
        if future is None:
            self.rows = rows  # `handle` sends the response: the append has not woken any fetch yet
        elif not future.done():
            try:
                future.set_result(self.response(rows))
            except KafkaError as error:
                # For acks=0, which waits only for the verification of a transaction.
                future.set_exception(error)

    def response(self, rows: Rows) -> ProduceResponse | None:
        """Return the answer with these rows. Raises KafkaError to close."""
        rows = rows | self._refused if self._refused else rows
        return respond(self._ctx, self._request, self._broker, self._names, rows, self._ctx.request_bytes)


def resolve(ctx: RequestContext, topic: TopicProduceData, broker: Broker) -> tuple[str, ErrorCode]:
    """Return a topic's name and whether it is writable; an unknown id gets a name that no topic can have."""
    name = topic.name
    if ctx.api_version >= 13:
        found = broker.metadata.image.topics.by_id.get(topic.topic_id)
        if found is None:
            return f"id {topic.topic_id}", ErrorCode.UNKNOWN_TOPIC_ID
        name = found.name
    if not broker.authorizer.authorize(ctx, Operation.WRITE, ResourceType.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, ErrorCode.NONE


def append_transactional(
    ctx: RequestContext,
    request: ProduceRequest,
    broker: Broker,
    entries: dict[TopicPartition, memoryview],
    transactional: dict[TopicPartition, BatchHeader],
    on_done: ProduceDone,
) -> None:
    """Append batches of which some belong to a producer's transaction: waits for the transaction coordinator."""
    first = next(iter(transactional.values()))
    producer = TransactionalProducer(
        transactional_id=request.transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        support=produce_support(ctx.api_version),
    )
    sequences = {key: header.base_sequence for key, header in transactional.items()}
    broker.replica_manager.transactions.append_records(
        producer, request.timeout, request.acks, entries, sequences, on_done
    )


def refuse_all(ctx: RequestContext, request: ProduceRequest, broker: Broker, code: ErrorCode) -> Result:
    """Answer every partition of the request with this code."""
    names = [resolve(ctx, topic, broker)[0] for topic in request.topic_data]
    keys = [
        TopicPartition(name, partition.index)
        for name, topic in zip(names, request.topic_data, strict=True)
        for partition in topic.partition_data
    ]
    return respond(ctx, request, broker, names, {key: refusal(key, code) for key in keys}, 0)


def has_transactional_batch(records: object) -> bool:
    """Return whether a rejected partition has batches of a transaction."""
    if not isinstance(records, memoryview) or len(records) <= TRANSACTIONAL_BYTE:
        return False
    try:
        is_batch = next_batch_size(records, 0) > 0
    except KafkaError:
        return False  # its bits are undefined
    # In older message formats these bytes have another meaning: in magic 1 a part of the timestamp.
    return is_batch and records[MAGIC_POSITION] == MAGIC and records[TRANSACTIONAL_BYTE] & TRANSACTIONAL_FLAG != 0


def may_write_transactionally(ctx: RequestContext, request: ProduceRequest, broker: Broker) -> bool:
    """Return whether the transactional batches of this request belong to a transactional id that the client may use."""
    transactional_id = request.transactional_id
    return transactional_id is not None and broker.authorizer.authorize(
        ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def checked(
    ctx: RequestContext, broker: Broker, key: TopicPartition, data: PartitionProduceData, is_closed: bool
) -> memoryview:
    """Return the records of one partition after the checks that precede the log's. Raises KafkaError."""
    if broker.metadata.partition(key.topic, key.partition) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if is_closed:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {key.topic}")
    records = data.records
    if not isinstance(records, memoryview):
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain a record batch for each partition")
    if not is_one_batch(records):
        check_one_batch(records)
    attributes = records[TRANSACTIONAL_BYTE]
    if attributes & CODEC_MASK == Codec.ZSTD and ctx.api_version < ZSTD_VERSION_MIN:
        problem = f"Produce v{ctx.api_version} is not allowed to use zstd"
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, problem)
    return records


def refused_row(key: TopicPartition, error: KafkaError) -> PartitionProduceResponse:
    """Return the row of a partition that `checked` refuses."""
    row = refusal(key, error.code)
    row.error_message = error.message
    return row


def is_one_batch(records: memoryview) -> bool:
    """Return whether the records are one batch of magic 2, the usual case. A cheap check."""
    size = len(records)
    return (
        size >= HEADER_SIZE
        and int.from_bytes(records[LENGTH_POSITION : LENGTH_POSITION + 4], "big") + LOG_OVERHEAD == size
        and records[MAGIC_POSITION] == MAGIC
    )


def check_one_batch(records: memoryview) -> None:
    """Raise KafkaError INVALID_RECORD or CORRUPT_MESSAGE unless there is one whole batch of magic 2."""
    size = next_batch_size(records, 0)
    if not size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain a complete record batch for each partition")
    if records[MAGIC_POSITION] != MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain record batches of magic 2 only")
    if next_batch_size(records, size):
        raise KafkaError(ErrorCode.INVALID_RECORD, "Produce must contain one record batch per partition")


def respond(
    ctx: RequestContext, request: ProduceRequest, broker: Broker, names: list[str], rows: Rows, size: int
) -> ProduceResponse | None:
    """Move the rows into a response by topic, in request order; None for acks=0. Raises KafkaError to close.

    `size` is that of the whole request, as quotas count it.
    """
    throttle_time = broker.throttle(ctx, produced=size, exempt=request.acks == NO_ACKS)
    if request.acks == NO_ACKS:
        close_on_error(rows)
        return None
    response = ProduceResponse(throttle_time=throttle_time)
    if ctx.api_version >= HINTS_VERSION_MIN:
        add_hints(ctx, broker, response, rows)
    topics: dict[str, TopicProduceResponse] = {}
    for name, topic in zip(names, request.topic_data, strict=True):
        answered = topics.get(name)
        if answered is None:
            answered = topics[name] = TopicProduceResponse(topic_id=topic.topic_id, name=topic.name)
        for partition in topic.partition_data:
            row = rows.pop(TopicPartition(name, partition.index), None)
            if row is not None:  # else it was named before: it has one answer
                answered.partition_responses.append(row)
    response.responses = list(topics.values())
    return response


def add_hints(ctx: RequestContext, broker: Broker, response: ProduceResponse, rows: Rows) -> None:
    """Add the current leader where the client sent the request to the wrong broker."""
    misplaced = [key for key, row in rows.items() if row.error_code in WRONG_LEADER]
    if not misplaced:
        return
    hints = Hints(broker, ctx.listener)
    for key in misplaced:
        leader_id, leader_epoch = hints.leader(key.topic, key.partition)
        rows[key].current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    response.node_endpoints = hints.endpoints(endpoint)


def endpoint(node: Node) -> NodeEndpoint:
    """Return a leader's endpoint as this answer has it."""
    return NodeEndpoint(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)


def close_on_error(rows: Rows) -> None:
    """Raise the first error of an acks=0 request: an answer without a top-level error code closes the connection."""
    failed = [(key, ErrorCode(row.error_code)) for key, row in rows.items() if row.error_code != ErrorCode.NONE]
    if failed:
        named = ", ".join(f"{key}: {code.name}" for key, code in failed[:ERRORS_NAMED_MAX])
        raise KafkaError(failed[0][1], f"Produce with acks=0 failed, the connection is closed: {named}")


HANDLER = BrokerApi(ApiKey.PRODUCE, handle)
