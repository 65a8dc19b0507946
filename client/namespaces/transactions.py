"""Transactions, including the search and abort of hanging ones (KIP-664).

    list           every broker: ListTransactions
    describe       the id's coordinator: DescribeTransactions
    producers      a partition's leader, or another replica: DescribeProducers
    find_hanging   open for longer than any transaction may be, and unknown to its coordinator
    abort          the partition's leader: WriteTxnMarkers, with the producer's own epoch

Source: Kafka's Admin.listTransactions, describeTransactions, describeProducers, abortTransaction, and
TransactionsCommand.FindHangingTransactionsCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kvorum.client.values.transaction import (
    OpenTransaction,
    ProducerState,
    Transaction,
    TransactionListing,
    producer_state,
    transaction_listing,
    transaction_value,
)
from kvorum.client.wire import coordinators
from kvorum.client.wire.all_brokers import BrokerResponses, query_brokers
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.client.wire.coordinators import KeyType, with_retries
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kvorum.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.topic_partition import TopicPartition, by_topic
from kvorum.runtime.clock import SystemClock

PARTITIONS_PER_REQUEST: Final = 500
MAX_TIMEOUT_MS: Final = 15 * 60_000
"""transaction.max.timeout.ms: a transaction that is open for less may still be active."""
FENCING_TIMEOUT_MS: Final = 60_000
"""Maximum transaction timeout of the InitProducerId that fences a producer; less if its own is.

A broker rejects one above its transaction.max.timeout.ms.
"""


class Transactions:
    """Transactions of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> Sequence[TransactionListing]:
        """Return the transactional ids of all coordinators, by id. Raises Unreachable if one does not respond.

        `open_for_ms`: only transactions that are open for longer. `pattern`: RE2, only ids that match completely.
        """
        request = list_request(states, producer_ids, open_for_ms, pattern)
        return sort_by_id((await self._list(request, self._client.timeout_ms)).whole())

    async def list_available(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> tuple[Sequence[TransactionListing], Sequence[int]]:
        """Return the transactional ids of coordinators that respond, and the ids of the brokers that do not."""
        request = list_request(states, producer_ids, open_for_ms, pattern)
        responses = await self._list(request, self._client.part_ms)
        return sort_by_id(responses.answers), responses.unreachable

    async def _list(
        self, request: ListTransactionsRequest, timeout_ms: int
    ) -> BrokerResponses[Sequence[TransactionListing]]:
        async def of(broker_id: int, address: Address) -> Sequence[TransactionListing]:
            async def ask() -> ListTransactionsResponse:
                return await self._client.ask(request, ListTransactionsResponse, address, timeout_ms=timeout_ms)

            answer = await with_retries(ask, lambda answer: answer.error_code)
            refuse(answer.error_code, "list transactions")
            if answer.unknown_state_filters:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown state: {', '.join(answer.unknown_state_filters)}")
            return [transaction_listing(each, broker_id) for each in answer.transaction_states]

        brokers = (await self._client.describe_cluster(fenced=False)).brokers
        return await query_brokers({each.broker_id: (each.host, each.port) for each in brokers}, of)

    async def describe(self, transactional_id: str) -> Transaction:
        """Return a transactional id in its coordinator's state. Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def ask() -> tuple[int, DescribeTransactionsResponse]:
            coordinator_id, address = await self._coordinator(transactional_id)
            return coordinator_id, await self._client.ask(request, DescribeTransactionsResponse, address)

        coordinator_id, answer = await with_retries(ask, lambda found: found[1].transaction_states[0].error_code)
        row = answer.transaction_states[0]
        refuse(row.error_code, f"transactional id {transactional_id!r}")
        return transaction_value(row, coordinator_id)

    async def producers(self, partition: TopicPartition, *, broker_id: int | None = None) -> Sequence[ProducerState]:
        """Return the producers with state on a partition, from its leader or from another replica."""
        chosen_id = await self._leader(partition) if broker_id is None else broker_id
        return (await self._producers_on(chosen_id, [partition]))[partition]

    async def find_hanging(
        self,
        topic: str | None = None,
        partition: int | None = None,
        *,
        broker_id: int | None = None,
        open_for_ms: int = MAX_TIMEOUT_MS,
        now_ms: int | None = None,
    ) -> Sequence[OpenTransaction]:
        """Return open transactions that no coordinator will end, on a partition, a topic, or all (internal ones too).

        `broker_id`: only on this broker's replicas. `open_for_ms`: only transactions that are open for longer.
        """
        now_ms = SystemClock().wall_ms() if now_ms is None else now_ms
        partitions = await self._partitions(topic, partition, broker_id)
        candidates = [
            OpenTransaction(topic=each.topic, partition=each.partition, start_offset=start_offset, producer=producer)
            for each, producers in (await self._all_producers(partitions, broker_id)).items()
            for producer in producers
            if (start_offset := producer.transaction_start_offset) is not None
            and now_ms - producer.last_timestamp_ms > open_for_ms
        ]
        if not candidates:
            return []
        expected: dict[int, set[TopicPartition]] = {}
        for row in await self.list(producer_ids=sorted({each.producer.producer_id for each in candidates})):
            expected[row.producer_id] = await self._partitions_of(row.transactional_id)
        return [each for each in candidates if each.topic_partition not in expected.get(each.producer.producer_id, ())]

    async def abort(self, partition: TopicPartition, start_offset: int) -> None:
        """Abort the transaction that starts at an offset on one partition. Raises KafkaError INVALID_TXN_STATE.

        A transaction that a coordinator knows ends by itself; find hanging ones first.
        """
        for producer in await self.producers(partition):
            if producer.transaction_start_offset == start_offset:
                await self.abort_producer(
                    partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
                )
                return
        text = f"no open transaction starts at offset {start_offset} on {partition}"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)

    async def abort_producer(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Abort a producer's transaction on one partition, at its leader."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            # A producer whose first transaction hangs has seen no coordinator: 0 is no later one's epoch.
            coordinator_epoch=max(0, coordinator_epoch),
        )
        address = await self._client.broker_address(await self._leader(partition))
        answer = await self._client.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, address)
        refuse(answer.markers[0].topics[0].partitions[0].error_code, str(partition))

    async def force_terminate(self, transactional_id: str) -> None:
        """Fence the producer of an id and abort its open transaction, whatever its timeout (KIP-939).

        Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND: a name with a mistake does not create a new id.
        """
        timeout_ms = min((await self.describe(transactional_id)).timeout_ms, FENCING_TIMEOUT_MS)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout=timeout_ms)

        async def ask() -> InitProducerIdResponse:
            _, address = await self._coordinator(transactional_id)
            return await self._client.ask(request, InitProducerIdResponse, address)

        answer = await with_retries(ask, lambda answer: answer.error_code)
        refuse(answer.error_code, f"transactional id {transactional_id!r}")

    async def _partitions(
        self, topic: str | None, partition: int | None, broker_id: int | None
    ) -> Sequence[TopicPartition]:
        """Return the partitions of a topic, or of all; with a broker those with a replica there."""
        if topic is not None and partition is not None:
            return [TopicPartition(topic, partition)]
        found = (await self._client.metadata(None if topic is None else [topic])).topics
        for each in found:
            refuse(each.error_code, f"topic {each.name!r}")
        return sorted(
            TopicPartition(each.name or "", row.partition_index)
            for each in found
            for row in each.partitions
            if broker_id is None or broker_id in row.replica_nodes
        )

    async def _partitions_of(self, transactional_id: str) -> set[TopicPartition]:
        """Return the partitions on which a coordinator will end a transaction; none for a missing id."""
        try:
            return {*(await self.describe(transactional_id)).partitions}
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return set()

    async def _all_producers(
        self, partitions: Sequence[TopicPartition], broker_id: int | None
    ) -> dict[TopicPartition, Sequence[ProducerState]]:
        by_broker: dict[int, list[TopicPartition]] = {}
        if broker_id is not None:
            by_broker[broker_id] = [*partitions]
        else:
            leaders = await self._leaders({each.topic for each in partitions})
            for each in partitions:
                by_broker.setdefault(leader_of(each, leaders), []).append(each)
        found: dict[TopicPartition, Sequence[ProducerState]] = {}
        for broker, wanted in by_broker.items():
            for start in range(0, len(wanted), PARTITIONS_PER_REQUEST):
                found |= await self._producers_on(broker, wanted[start : start + PARTITIONS_PER_REQUEST])
        return found

    async def _producers_on(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Sequence[ProducerState]]:
        topics = [TopicRequest(name=name, partition_indexes=each) for name, each in by_topic(partitions).items()]
        address = await self._client.broker_address(broker_id)
        answer = await self._client.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse, address)
        found: dict[TopicPartition, Sequence[ProducerState]] = {}
        for topic in answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                refuse(row.error_code, row.error_message or str(partition))
                found[partition] = [producer_state(each) for each in row.active_producers]
        return found

    async def _leader(self, partition: TopicPartition) -> int:
        return leader_of(partition, await self._leaders({partition.topic}))

    async def _leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        found = (await self._client.metadata(sorted(topics))).topics
        for topic in found:
            refuse(topic.error_code, f"topic {topic.name!r}")
        return {
            TopicPartition(topic.name or "", row.partition_index): row.leader_id
            for topic in found
            for row in topic.partitions
        }

    async def _coordinator(self, transactional_id: str) -> tuple[int, Address]:
        return await coordinators.find_coordinator(self._client, KeyType.TRANSACTION, transactional_id)


def list_request(
    states: Iterable[str], producer_ids: Iterable[int], open_for_ms: int | None, pattern: str | None
) -> ListTransactionsRequest:
    """Return the request for a list."""
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=-1 if open_for_ms is None else open_for_ms,
        transactional_id_pattern=pattern,
    )


def sort_by_id(listings: Mapping[int, Sequence[TransactionListing]]) -> list[TransactionListing]:
    """Return the transactional ids of all responses, by id."""
    return sorted((row for rows in listings.values() for row in rows), key=lambda row: row.transactional_id)


def leader_of(partition: TopicPartition, leaders: Mapping[TopicPartition, int]) -> int:
    """Return a partition's leader. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
    leader = leaders.get(partition)
    if leader is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
    if leader < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
    return leader
