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
from kvorum.client.transactions import Filters, Transactions
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition

AT_ONCE_MAX = 32
"""Partitions of a transaction whose leaders are queried at the same time."""
MINUTE_MS = 60_000
OPEN_MINUTES_DEFAULT = 15
"""transaction.max.timeout.ms: a transaction that is open for less may still be active."""
OPEN_MINUTES_MAX = 60 * 24 * 365


async def list_transactions(call: Call[NoBody]) -> TransactionPage:
    """List transactional ids of all coordinators, in pages."""
    limit, after = PAGE.of(call), call.query.get("after", "")
    filters = Filters(
        duration_ms=call.number("open_for_ms", 0, 0, INT64_MAX) if "open_for_ms" in call.query else -1,
        pattern=call.query.get("pattern"),
        producer_ids=call.numbers("producer_ids", INT64_MAX) or (),
        states=call.words("state"),
    )
    rows, unreachable = await Transactions(call.cluster).listed_if_reached(filters)
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
    return TransactionPage(transactions=page, next=following, unreachable=unreachable)


async def get_transaction(call: Call[NoBody]) -> Transaction:
    """Describe a transaction by its coordinator's state."""
    coordinator, row = await Transactions(call.cluster).describe(call.path["transactional_id"])
    start_ms = row.transaction_start_time if row.transaction_start_time >= 0 else None
    return Transaction(
        transactional_id=row.transactional_id,
        coordinator=coordinator,
        producer_id=row.producer_id,
        state=row.transaction_state,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout,
        start_time_ms=start_ms,
        duration_ms=None if start_ms is None else max(0, call.clock.wall_ms() - start_ms),
        partitions={topic.topic: sorted(topic.partitions) for topic in row.topics},
    )


async def list_transaction_partitions(call: Call[NoBody]) -> list[BaseModel]:
    """List the partitions of a transaction with its first offset in each, from their leaders."""
    transactions = Transactions(call.cluster)
    _, row = await transactions.describe(call.path["transactional_id"])
    places = sorted(TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions)

    async def of(place: TopicPartition) -> TransactionPartition:
        found, error = None, None
        try:
            producers = await transactions.producers(place)
            found = next((each for each in producers if each.producer_id == row.producer_id), None)
        except KafkaError as refused:
            error = refused.code.name
        except Unreachable:
            error = ErrorCode.LEADER_NOT_AVAILABLE.name
        is_open = found is not None and found.current_txn_start_offset >= 0
        return TransactionPartition(
            topic=place.topic,
            partition=place.partition,
            start_offset=found.current_txn_start_offset if found is not None and is_open else None,
            last_timestamp_ms=found.last_timestamp if found is not None and found.last_timestamp >= 0 else None,
            producer_epoch=None if found is None else found.producer_epoch,
            error=error,
        )

    rows: list[BaseModel] = []
    for start in range(0, len(places), AT_ONCE_MAX):
        rows += await asyncio.gather(*(of(place) for place in places[start : start + AT_ONCE_MAX]))
    return rows


async def terminate_transaction(call: Call[NoBody]) -> None:
    """Fence the producer of a transactional id and abort its open transaction, whatever its timeout (KIP-939).

    Requests of that producer are rejected from then on.
    """
    transactions = Transactions(call.cluster)
    transactional_id = call.path["transactional_id"]
    await transactions.describe(transactional_id)  # a name with a mistake in it makes no new one
    await transactions.force_terminate(transactional_id)


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
            last_timestamp_ms=each.last_timestamp,
            transaction_start_offset=each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in await Transactions(call.cluster).producers(place, broker_id)
    ]


async def find_hanging(call: Call[NoBody]) -> list[BaseModel]:
    """Find open transactions on a topic's partitions that no coordinator will end (KIP-664)."""
    if "topic" not in call.query and "broker" not in call.query:
        raise BadInput("topic", "give topic or broker to limit the search")
    minutes = call.number("open_for_minutes", OPEN_MINUTES_DEFAULT, 0, OPEN_MINUTES_MAX)
    broker_id = call.optional_number("broker", 0, INT32_MAX)
    transactions = Transactions(call.cluster)
    places = await transactions.places(call.query.get("topic"), None, broker_id)
    found = await transactions.hanging(
        places, timeout_ms=minutes * MINUTE_MS, now_ms=call.clock.wall_ms(), broker_id=broker_id
    )
    return [
        Hanging(
            topic=each.place.topic,
            partition=each.place.partition,
            producer_id=each.producer.producer_id,
            producer_epoch=each.producer.producer_epoch,
            coordinator_epoch=each.producer.coordinator_epoch,
            start_offset=each.producer.current_txn_start_offset,
            last_timestamp_ms=each.producer.last_timestamp,
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
        found = await transactions.open_at(place, body.start_offset)
        await transactions.abort(place, found.producer_id, found.producer_epoch, found.coordinator_epoch)
        return
    assert body.producer_id is not None and body.producer_epoch is not None and body.coordinator_epoch is not None
    await transactions.abort(place, body.producer_id, body.producer_epoch, body.coordinator_epoch)


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
