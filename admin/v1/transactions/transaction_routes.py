"""Transactions and producers over HTTP."""

import asyncio

from pydantic import BaseModel

from kvorum.admin.http.operations import INT64_MAX, BadInput, Call, NoBody, Operation, Role, number_of
from kvorum.admin.http.parameters import PAGE
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v1.transactions.transaction_models import (
    Abort,
    Hanging,
    Producer,
    Transaction,
    TransactionPage,
    TransactionPartition,
    TransactionSummary,
)
from kvorum.client.namespaces.transactions import Transactions
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition, by_topic

AT_ONCE_MAX = 32
"""Partitions of a transaction whose leaders are queried at the same time."""
MINUTE_MS = 60_000
OPEN_MINUTES_DEFAULT = 15
"""transaction.max.timeout.ms: a transaction that is open for less may still be active."""
OPEN_MINUTES_MAX = 60 * 24 * 365


async def list_transactions(call: Call[NoBody]) -> TransactionPage:
    """List transactional ids of all coordinators, in pages."""
    limit, after = PAGE.of(call), call.query.get("after", "")
    rows, unreachable = await Transactions(call.cluster).list_available(
        states=call.words("state"),
        producer_ids=call.numbers("producer_ids", INT64_MAX) or (),
        open_for_ms=call.optional_number("open_for_ms", 0, INT64_MAX),
        pattern=call.query.get("pattern"),
    )
    found = [row for row in rows if row.transactional_id > after]
    page = [
        TransactionSummary(
            transactional_id=row.transactional_id,
            coordinator=row.coordinator_id,
            producer_id=row.producer_id,
            state=row.state,
        )
        for row in found[:limit]
    ]
    following = page[-1].transactional_id if len(found) > limit else None
    return TransactionPage(transactions=page, next=following, unreachable=[*unreachable])


async def get_transaction(call: Call[NoBody]) -> Transaction:
    """Describe a transaction by its coordinator's state."""
    row = await Transactions(call.cluster).describe(call.path["transactional_id"])
    return Transaction(
        transactional_id=row.transactional_id,
        coordinator=row.coordinator_id,
        producer_id=row.producer_id,
        state=row.state,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.timeout_ms,
        start_time_ms=row.start_time_ms,
        duration_ms=None if row.start_time_ms is None else max(0, call.clock.wall_ms() - row.start_time_ms),
        partitions={topic: sorted(partitions) for topic, partitions in by_topic(row.partitions).items()},
    )


async def list_transaction_partitions(call: Call[NoBody]) -> list[BaseModel]:
    """List the partitions of a transaction with its first offset in each, from their leaders."""
    transactions = Transactions(call.cluster)
    row = await transactions.describe(call.path["transactional_id"])
    partitions = sorted(row.partitions)

    async def of(partition: TopicPartition) -> TransactionPartition:
        found, error = None, None
        try:
            producers = await transactions.producers(partition)
            found = next((each for each in producers if each.producer_id == row.producer_id), None)
        except KafkaError as refused:
            error = refused.code.name
        except Unreachable:
            error = ErrorCode.LEADER_NOT_AVAILABLE.name
        return TransactionPartition(
            topic=partition.topic,
            partition=partition.partition,
            start_offset=None if found is None else found.transaction_start_offset,
            last_timestamp_ms=None if found is None or found.last_timestamp_ms < 0 else found.last_timestamp_ms,
            producer_epoch=None if found is None else found.producer_epoch,
            error=error,
        )

    rows: list[BaseModel] = []
    for start in range(0, len(partitions), AT_ONCE_MAX):
        rows += await asyncio.gather(*(of(each) for each in partitions[start : start + AT_ONCE_MAX]))
    return rows


async def terminate_transaction(call: Call[NoBody]) -> None:
    """Fence the producer of a transactional id and abort its open transaction, whatever its timeout (KIP-939).

    Requests of that producer are rejected from then on.
    """
    await Transactions(call.cluster).force_terminate(call.path["transactional_id"])


async def list_producers(call: Call[NoBody]) -> list[BaseModel]:
    """List the producers with state on a partition, from its leader or another replica."""
    place = TopicPartition(call.path["topic"], number_of("partition", call.path["partition"], 0, INT32_MAX))
    broker_id = call.optional_number("broker", 0, INT32_MAX)
    return [
        Producer(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            last_sequence=each.last_sequence,
            last_timestamp_ms=each.last_timestamp_ms,
            transaction_start_offset=each.transaction_start_offset,
        )
        for each in await Transactions(call.cluster).producers(place, broker_id=broker_id)
    ]


async def find_hanging(call: Call[NoBody]) -> list[BaseModel]:
    """Find open transactions on a topic's partitions that no coordinator will end (KIP-664)."""
    if "topic" not in call.query and "broker" not in call.query:
        raise BadInput("topic", "give topic or broker to limit the search")
    minutes = call.number("open_for_minutes", OPEN_MINUTES_DEFAULT, 0, OPEN_MINUTES_MAX)
    found = await Transactions(call.cluster).find_hanging(
        call.query.get("topic"),
        broker_id=call.optional_number("broker", 0, INT32_MAX),
        open_for_ms=minutes * MINUTE_MS,
        now_ms=call.clock.wall_ms(),
    )
    return [
        Hanging(
            topic=each.topic,
            partition=each.partition,
            producer_id=each.producer.producer_id,
            producer_epoch=each.producer.producer_epoch,
            coordinator_epoch=each.producer.coordinator_epoch,
            start_offset=each.start_offset,
            last_timestamp_ms=each.producer.last_timestamp_ms,
        )
        for each in found
    ]


async def abort_transaction(call: Call[Abort]) -> None:
    """Abort a hanging transaction on one partition.

    A transaction that a coordinator knows ends by itself. Find hanging ones first.
    """
    body, transactions = call.body, Transactions(call.cluster)
    place = TopicPartition(body.topic, body.partition)
    if body.start_offset is not None:
        await transactions.abort(place, body.start_offset)
        return
    assert body.producer_id is not None and body.producer_epoch is not None and body.coordinator_epoch is not None
    await transactions.abort_producer(place, body.producer_id, body.producer_epoch, body.coordinator_epoch)


LISTING = {
    "state": "only these, comma-separated: Ongoing, PrepareCommit, CompleteCommit, Empty, ...",
    "producer_ids": "only these, comma-separated",
    "open_for_ms": "only transactions that are open for longer",
    "pattern": "only ids that match this RE2 pattern completely",
    "after": "start after this id",
    **PAGE.documentation,
}
TRANSACTIONS = "/v1/transactions"
OPERATIONS = [
    Operation.get(TRANSACTIONS, "List transactions", list_transactions, TransactionPage, query=LISTING),
    Operation.get(f"{TRANSACTIONS}/{{transactional_id}}", "Describe a transaction", get_transaction, Transaction),
    Operation.get(
        f"{TRANSACTIONS}/{{transactional_id}}/partitions",
        "List the partitions of a transaction",
        list_transaction_partitions,
        TransactionPartition,
        many=True,
    ),
    Operation(
        method="POST",
        path=f"{TRANSACTIONS}/{{transactional_id}}/abort",
        summary="Abort a transaction and fence its producer",
        handle=terminate_transaction,
        status=204,
        role=Role.OPERATE,
    ),
    Operation.get(
        "/v1/topics/{topic}/partitions/{partition}/producers",
        "List the producers of a partition",
        list_producers,
        Producer,
        many=True,
        query={"broker": "this replica instead of the leader"},
    ),
    Operation.get(
        "/v1/hanging-transactions",
        "Find hanging transactions",
        find_hanging,
        Hanging,
        many=True,
        query={
            "topic": "the topic to check",
            "broker": "the broker whose replicas are checked",
            "open_for_minutes": f"only transactions that are open for longer (default {OPEN_MINUTES_DEFAULT})",
        },
    ),
    Operation(
        method="POST",
        path="/v1/hanging-transactions/abort",
        summary="Abort a hanging transaction",
        handle=abort_transaction,
        body=Abort,
        status=204,
        role=Role.OPERATE,
    ),
]
