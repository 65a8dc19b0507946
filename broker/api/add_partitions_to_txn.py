"""AddPartitionsToTxn (24): v0-v5.

v2: PRODUCER_FENCED. v3: flexible. v4: batches, from brokers only: partitions are verified, or added for producers of
transaction version 2 (KIP-890). v5: TRANSACTION_ABORTABLE. A rejected partition keeps all partitions of its transaction
out: the others are OPERATION_NOT_ATTEMPTED.
Order: authorise (brokers: the cluster; clients: the id, then each topic), check that the partitions exist, send to the
coordinator.
"""

import asyncio
from collections.abc import Mapping

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.words import (
    ADD_PARTITIONS_BROKER_VERSION,
    AddPartitions,
    known_code,
    version_of_add_partitions,
)
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kvorum.protocol.topic_names import INTERNAL_TOPICS
from kvorum.protocol.topic_partition import TopicPartition

Codes = Mapping[TopicPartition, ErrorCode]


async def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest, broker: Broker) -> AddPartitionsToTxnResponse:
    """Add a client's partitions, or respond to a broker."""
    if ctx.api_version < ADD_PARTITIONS_BROKER_VERSION:
        codes = await of_client(ctx, request, broker)
        return AddPartitionsToTxnResponse(
            throttle_time=broker.throttle(ctx), results_by_topic_v3_and_below=results_of(codes)
        )
    if not broker.authorizer.authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AddPartitionsToTxnResponse(
            throttle_time=broker.throttle(ctx), error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
    return await of_broker(request, broker)


async def of_client(ctx: RequestContext, request: AddPartitionsToTxnRequest, broker: Broker) -> Codes:
    """Return the error code of each partition of a request up to v3."""
    sent = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    authorize = broker.authorizer.authorize
    if not authorize(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, sent.transactional_id):
        return dict.fromkeys(keys_of(sent), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = frozenset(
        topic.name
        for topic in sent.topics
        if topic.name in INTERNAL_TOPICS or not authorize(ctx, Operation.WRITE, ResourceType.TOPIC, topic.name)
    )
    codes = await decide(sent, refused, version_of_add_partitions(ctx.api_version), broker)
    known = ApiKey.ADD_PARTITIONS_TO_TXN, ctx.api_version
    return {key: known_code(*known, code) for key, code in codes.items()}


async def of_broker(request: AddPartitionsToTxnRequest, broker: Broker) -> AddPartitionsToTxnResponse:
    """Answer a batch of another broker, or of this one. No quota applies among brokers."""
    version = version_of_add_partitions(ADD_PARTITIONS_BROKER_VERSION)
    decided = await asyncio.gather(*(decide(sent, frozenset(), version, broker) for sent in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=sent.transactional_id, topic_results=results_of(codes))
            for sent, codes in zip(request.transactions, decided, strict=True)
        ]
    )


async def decide(
    sent: AddPartitionsToTxnTransaction, unauthorized: frozenset[str], version: int, broker: Broker
) -> Codes:
    """The coordinator decides on one transaction's partitions, unless topics are `unauthorized`."""
    keys = keys_of(sent)
    codes = {key: ErrorCode.TOPIC_AUTHORIZATION_FAILED for key in keys if key.topic in unauthorized}
    for key in keys:
        if key not in codes and broker.metadata.partition(key.topic, key.partition) is None:
            codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if codes:
        return {key: codes.get(key, ErrorCode.OPERATION_NOT_ATTEMPTED) for key in keys}
    addition = AddPartitions(
        transactional_id=sent.transactional_id,
        producer=Producer(sent.producer_id, sent.producer_epoch),
        partitions=frozenset(keys),
        client_transaction_version=version,
    )
    try:
        if sent.verify_only:
            return await broker.transactions.verify_partitions(addition)
        return dict.fromkeys(keys, await broker.transactions.add_partitions(addition))
    except KafkaError as error:
        return dict.fromkeys(keys, error.code)


def keys_of(sent: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    """Return the requested partitions without duplicates."""
    return list(dict.fromkeys(TopicPartition(topic.name, index) for topic in sent.topics for index in topic.partitions))


def results_of(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    """Return codes by topic, as the answer has them."""
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for key, code in codes.items():
        row = AddPartitionsToTxnPartitionResult(partition_index=key.partition, partition_error_code=code)
        topics.setdefault(key.topic, AddPartitionsToTxnTopicResult(name=key.topic)).results_by_partition.append(row)
    return list(topics.values())


HANDLER = BrokerApi(ApiKey.ADD_PARTITIONS_TO_TXN, handle)
