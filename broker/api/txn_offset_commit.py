"""TxnOffsetCommit (28): v0-v5: a consumer group's offsets, committed with a producer's transaction.

v1: older clients do not know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296): up to v1 they get COORDINATOR_NOT_AVAILABLE.
v2: leader epochs. v3: flexible, group metadata (KIP-447). v4: TRANSACTION_ABORTABLE. v5: transaction version 2
(KIP-890): the offsets' partition is added to the transaction by this request.
Order: authorise the transactional id, the group, each topic; omit missing topics; send to the group
coordinator, which has the transaction verified.
"""

import asyncio
from collections.abc import Callable

from kvorum.broker.api.group_client import client_of
from kvorum.broker.coordinator.group import refusals
from kvorum.broker.coordinator.runtime.words import refusal_of
from kvorum.broker.replica.transactions import (
    Guards,
    PartitionErrors,
    TransactionalProducer,
    txn_offset_commit_support,
)
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import NO_SEQUENCE
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kvorum.storage.verification import VerificationGuard

LOADING_KNOWN_FROM = 2
Rows = dict[str, list[TxnOffsetCommitResponsePartition]]


async def handle(ctx: RequestContext, request: TxnOffsetCommitRequest, broker: Broker) -> TxnOffsetCommitResponse:
    """Commit a group's offsets within a transaction."""
    rows: Rows = {topic.name: [] for topic in request.topics}
    taken = sift(ctx, request, broker, rows)
    if taken:
        request.topics = taken
        for topic in (await commit(ctx, request, broker)).topics:
            rows[topic.name] += topic.partitions
    for row in (row for of_topic in rows.values() for row in of_topic):
        if ctx.api_version < LOADING_KNOWN_FROM and row.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            row.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        throttle_time=broker.throttle(ctx),
        topics=[TxnOffsetCommitResponseTopic(name=name, partitions=of_topic) for name, of_topic in rows.items()],
    )


def sift(
    ctx: RequestContext, request: TxnOffsetCommitRequest, broker: Broker, rows: Rows
) -> list[TxnOffsetCommitRequestTopic]:
    """Return the permitted offsets; add the rows of the others to `rows`."""
    authorize = broker.authorizer.authorize

    def code_of(topic: str) -> Callable[[int], ErrorCode]:
        if not authorize(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return lambda index: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
            return lambda index: ErrorCode.GROUP_AUTHORIZATION_FAILED
        if not authorize(ctx, Operation.READ, ResourceType.TOPIC, topic):
            return lambda index: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return lambda index: (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if broker.metadata.partition(topic, index) is None else ErrorCode.NONE
        )

    taken: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        code = code_of(topic.name)
        kept: list[TxnOffsetCommitRequestPartition] = []
        for each in topic.partitions:
            if refusal := code(each.partition_index):
                rows[topic.name].append(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=refusal)
                )
            else:
                kept.append(each)
        if kept:
            taken.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=kept))
    return taken


async def commit(ctx: RequestContext, request: TxnOffsetCommitRequest, broker: Broker) -> TxnOffsetCommitResponse:
    """Verify the transaction, then send the offsets to the coordinator."""
    try:
        guard = await verified(request, broker, ctx.api_version)
    except KafkaError as error:
        return refusals.commit_transactional(request, error.code)
    return await broker.groups.commit_transactional(client_of(ctx), request, guard)


async def verified(request: TxnOffsetCommitRequest, broker: Broker, api_version: int) -> VerificationGuard | None:
    """Return the guard that the append has to come with, None if it needs none.

    Raises KafkaError for the client: NETWORK_EXCEPTION, which older producers do not retry, becomes
    COORDINATOR_LOAD_IN_PROGRESS, which all retry. Source: CoordinatorOperationExceptionHelper.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id must not be empty")
    key = broker.groups.partition_of(request.group_id)
    producer = TransactionalProducer(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        support=txn_offset_commit_support(api_version),
    )
    answer: asyncio.Future[tuple[PartitionErrors, Guards]] = asyncio.get_running_loop().create_future()

    def done(errors: PartitionErrors, guards: Guards) -> None:
        if not answer.done():
            answer.set_result((errors, guards))

    broker.replica_manager.transactions.verify(producer, {key: NO_SEQUENCE}, done)
    errors, guards = await answer
    if key in errors:
        is_lost = errors[key] is ErrorCode.NETWORK_EXCEPTION
        raise refusal_of(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_lost else errors[key]))
    return guards.get(key)


HANDLER = BrokerApi(ApiKey.TXN_OFFSET_COMMIT, handle)
