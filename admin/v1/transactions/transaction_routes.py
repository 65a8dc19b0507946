"""Transactions and producers over HTTP."""

import asyncio

from pydantic import BaseModel

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import (
    INT64_MAX,
    PAGE,
    PARTITION_INDEX,
    TOPIC_NAME,
    BadInput,
    number,
    numbers,
    optional_number,
    optional_text,
    text,
    words,
)
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


TRANSACTIONAL_ID = text("transactional_id", "the transactional id")
BROKER = optional_number("broker", "this replica instead of the leader", 0, INT32_MAX)
TOPIC = optional_text("topic", "the topic to check")
BROKER_TO_CHECK = optional_number("broker", "the broker whose replicas are checked", 0, INT32_MAX)
OPEN_FOR_MINUTES = number(
    "open_for_minutes",
    f"only transactions that are open for longer (default {OPEN_MINUTES_DEFAULT})",
    0,
    OPEN_MINUTES_MAX,
    OPEN_MINUTES_DEFAULT,
)
STATE = words("state", "only these, comma-separated: Ongoing, PrepareCommit, CompleteCommit, Empty, ...")
PRODUCER_IDS = numbers("producer_ids", "only these, comma-separated", INT64_MAX)
OPEN_FOR_MS = number("open_for_ms", "only transactions that are open for longer", 0, INT64_MAX, -1)
PATTERN = optional_text("pattern", "only ids that match this RE2 pattern completely")
AFTER = text("after", "start after this id", "")


async def list_transactions(call: Call[NoBody]) -> TransactionPage:
    """List transactional ids of all coordinators, in pages."""
    limit, after = PAGE.of(call), AFTER.of(call)
    rows, unreachable = await Transactions(call.cluster).list_available(
        states=STATE.of(call),
        producer_ids=PRODUCER_IDS.of(call) or (),
        open_for_ms=OPEN_FOR_MS.of(call),
        pattern=PATTERN.of(call),
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
    row = await Transactions(call.cluster).describe(TRANSACTIONAL_ID.of(call))
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
    row = await transactions.describe(TRANSACTIONAL_ID.of(call))
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
    await Transactions(call.cluster).force_terminate(TRANSACTIONAL_ID.of(call))


async def list_producers(call: Call[NoBody]) -> list[BaseModel]:
    """List the producers with state on a partition, from its leader or another replica."""
    place = TopicPartition(TOPIC_NAME.of(call), PARTITION_INDEX.of(call))
    broker_id = BROKER.of(call)
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
    if not TOPIC.is_given(call) and not BROKER_TO_CHECK.is_given(call):
        raise BadInput("topic", "give topic or broker to limit the search")
    minutes = OPEN_FOR_MINUTES.of(call)
    found = await Transactions(call.cluster).find_hanging(
        TOPIC.of(call),
        broker_id=BROKER_TO_CHECK.of(call),
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


LISTING = (
    STATE,
    PRODUCER_IDS,
    OPEN_FOR_MS,
    PATTERN,
    AFTER,
    PAGE,
)
TRANSACTIONS = "/v1/transactions"
OPERATIONS = [
    Operation.get(
        TRANSACTIONS,
        "List transactions",
        list_transactions,
        TransactionPage,
        parameters=(*LISTING,),
        command=Command(
            name="transactions list",
            examples=("", "--state Ongoing --open-for-ms 60000", "--pattern 'orders-.*'"),
            text="List transactional ids of all coordinators.",
            rows="transactions",
            columns=("transactional_id", "coordinator", "producer_id", "state"),
        ),
    ),
    Operation.get(
        f"{TRANSACTIONS}/{{transactional_id}}",
        "Describe a transaction",
        get_transaction,
        Transaction,
        parameters=(TRANSACTIONAL_ID,),
        command=Command(name="transactions describe", examples=("orders-1",)),
    ),
    Operation.get(
        f"{TRANSACTIONS}/{{transactional_id}}/partitions",
        "List the partitions of a transaction",
        list_transaction_partitions,
        TransactionPartition,
        many=True,
        parameters=(TRANSACTIONAL_ID,),
        command=Command(
            name="transactions partitions",
            examples=("orders-1",),
            columns=("topic", "partition", "start_offset", "last_timestamp_ms", "producer_epoch", "error?"),
        ),
    ),
    Operation(
        method="POST",
        path=f"{TRANSACTIONS}/{{transactional_id}}/abort",
        summary="Abort a transaction and fence its producer",
        handle=terminate_transaction,
        status=204,
        role=Role.OPERATE,
        parameters=(TRANSACTIONAL_ID,),
        command=Command(
            name="transactions force-terminate", examples=("orders-1",), done="{transactional_id} terminated"
        ),
    ),
    Operation.get(
        "/v1/topics/{topic}/partitions/{partition}/producers",
        "List the producers of a partition",
        list_producers,
        Producer,
        many=True,
        parameters=(TOPIC_NAME, PARTITION_INDEX, BROKER),
        command=Command(
            name="transactions describe-producers",
            examples=("orders 0", "orders 0 --broker 2"),
            columns=(
                "producer_id",
                "producer_epoch",
                "coordinator_epoch",
                "last_sequence",
                "last_timestamp_ms",
                "transaction_start_offset",
            ),
        ),
    ),
    Operation.get(
        "/v1/hanging-transactions",
        "Find hanging transactions",
        find_hanging,
        Hanging,
        many=True,
        parameters=(TOPIC, BROKER_TO_CHECK, OPEN_FOR_MINUTES),
        command=Command(
            name="transactions find-hanging",
            examples=("--topic orders", "--broker 1 --open-for-minutes 30"),
            text="Find open transactions on partitions that no coordinator will end (KIP-664).",
            columns=(
                "topic",
                "partition",
                "producer_id",
                "producer_epoch",
                "coordinator_epoch",
                "start_offset",
                "last_timestamp_ms",
            ),
        ),
    ),
    Operation(
        method="POST",
        path="/v1/hanging-transactions/abort",
        summary="Abort a hanging transaction",
        handle=abort_transaction,
        body=Abort,
        status=204,
        role=Role.OPERATE,
        command=Command(
            name="transactions abort",
            examples=(
                "orders 0 --start-offset 1200",
                "orders 0 --producer-id 7 --producer-epoch 3 --coordinator-epoch 1",
            ),
            arguments=("topic", "partition"),
            done="transaction on {topic}-{partition} aborted",
        ),
    ),
]
