"""WriteTxnMarkers (27): v1-v2: a transaction coordinator ends transactions on the partitions led here.

v2: the transaction version, which distinguishes a late marker from one in time (KIP-1228). Markers for the offsets
topic are sent to the group coordinator, which processes them in the order of its log; its own errors become
NOT_LEADER_OR_FOLLOWER, which the transaction coordinator retries.
Order: authorise, append every marker, wait until all are replicated, answer each producer's partitions.
"""

import asyncio
from functools import partial

from kvorum.broker.coordinator.ended_transaction import EndedTransaction
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.control import marker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.topic_names import OFFSETS_TOPIC
from kvorum.protocol.topic_partition import TopicPartition

NOT_READY = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)

Codes = dict[TopicPartition, ErrorCode]


async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest, broker: Broker) -> WriteTxnMarkersResponse:
    """Authorise, and write."""
    may_write = any(
        broker.authorizer.authorize(ctx, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    )
    return await write(request, broker, may_write=may_write)


async def write(request: WriteTxnMarkersRequest, broker: Broker, *, may_write: bool) -> WriteTxnMarkersResponse:
    """Append all, then wait for all."""
    by_producer: dict[int, Codes] = {}
    waiting: list[tuple[Codes, asyncio.Future[Codes]]] = []
    for sent in request.markers:
        codes = by_producer.setdefault(sent.producer_id, {})
        keys = [TopicPartition(topic.name, index) for topic in sent.topics for index in topic.partition_indexes]
        if may_write:
            waiting += [(codes, each) for each in end_transaction(broker, sent, keys, codes)]
        else:
            codes.update(dict.fromkeys(keys, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    for codes, answer in waiting:
        codes.update(await answer)
    return respond(by_producer)


def end_transaction(
    broker: Broker, sent: WritableTxnMarker, keys: list[TopicPartition], codes: Codes
) -> list["asyncio.Future[Codes]"]:
    """Append one producer's marker to its partitions; return an awaitable of the codes that `codes` lacks."""
    timeout_ms = broker.settings.int("request.timeout.ms")
    ended = EndedTransaction(
        producer_id=sent.producer_id,
        producer_epoch=sent.producer_epoch,
        coordinator_epoch=sent.coordinator_epoch,
        is_commit=sent.transaction_result,
        transaction_version=sent.transaction_version,
    )
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[Codes]] = []
    markers: dict[TopicPartition, memoryview] = {}
    for key in dict.fromkeys(keys):
        if not broker.replica_manager.has_replica(key):
            codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif key.topic == OFFSETS_TOPIC and broker.group_transactions is not None:
            answers.append(loop.create_task(by_group_coordinator(broker, key, ended, timeout_ms)))
        else:
            markers[key] = memoryview(
                marker(
                    ended.producer_id,
                    ended.producer_epoch,
                    is_commit=ended.is_commit,
                    coordinator_epoch=ended.coordinator_epoch,
                    timestamp=broker.clock.wall_ms(),
                )
            )
    if markers:
        appended: asyncio.Future[Codes] = loop.create_future()
        done = partial(set_unless_done, appended)
        broker.replica_manager.transactions.append_markers(timeout_ms, markers, ended.transaction_version, done)
        answers.append(appended)
    return answers


def set_unless_done(future: "asyncio.Future[Codes]", codes: Codes) -> None:
    """Set the result if the waiter still exists."""
    if not future.done():
        future.set_result(codes)


async def by_group_coordinator(broker: Broker, key: TopicPartition, ended: EndedTransaction, timeout_ms: int) -> Codes:
    """Write the marker at the group coordinator; return its code."""
    assert broker.group_transactions is not None
    try:
        await broker.group_transactions.complete_transaction(key, ended, timeout_ms)
    except KafkaError as error:
        return {key: ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in NOT_READY else error.code}
    return {key: ErrorCode.NONE}


def respond(by_producer: dict[int, Codes]) -> WriteTxnMarkersResponse:
    """Build the response from codes, by producer and topic. No quota applies between brokers."""
    response = WriteTxnMarkersResponse()
    for producer_id, codes in by_producer.items():
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for key, code in codes.items():
            row = WritableTxnMarkerPartitionResult(partition_index=key.partition, error_code=code)
            topics.setdefault(key.topic, WritableTxnMarkerTopicResult(name=key.topic)).partitions.append(row)
        response.markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values())))
    return response


HANDLER = BrokerApi(ApiKey.WRITE_TXN_MARKERS, handle)
