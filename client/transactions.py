"""Transaction requests of tools, including the search and abort of hanging transactions (KIP-664).

    list       every broker: ListTransactions           describe   the id's coordinator: DescribeTransactions
    producers  a partition's leader, or a named replica: DescribeProducers
    hanging    open for longer than any transaction may be, and its coordinator knows nothing of it
    abort      the partition's leader: WriteTxnMarkers, with the producer's own epoch

Source: Kafka's Admin.listTransactions, describeTransactions, describeProducers, abortTransaction, and
TransactionsCommand.FindHangingTransactionsCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvorum.client.wire import coordinators
from kvorum.client.wire.all_brokers import Reached, of_all
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.client.wire.coordinators import KeyType, with_retries
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from kvorum.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.topic_partition import TopicPartition

PARTITIONS_PER_REQUEST: Final = 500
NO_COORDINATOR_EPOCH: Final = -1
NO_OFFSET: Final = -1


class Listed(NamedTuple):
    """A transactional id with its coordinator."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filter of transactions; the defaults match all."""

    duration_ms: int = -1
    pattern: str | None = None
    producer_ids: Sequence[int] = ()
    states: Sequence[str] = ()


class OpenTransaction(NamedTuple):
    """An open transaction on a partition, in its leader's producer state."""

    place: TopicPartition
    producer: ProducerState


@dataclass(frozen=True, slots=True)
class Transactions:
    """A cluster's, through a client of it."""

    cluster: ClusterClient

    async def listed(self, filters: Filters) -> list[Listed]:
        """Return those of all coordinators, by id. Raises KafkaError; Unreachable if one does not answer."""
        return by_id((await self._list_transactions(filters, self.cluster.timeout_ms)).whole())

    async def listed_if_reached(self, filters: Filters) -> tuple[list[Listed], list[int]]:
        """Return the transactions of responding coordinators, and the others. Raises KafkaError, Unreachable."""
        reached = await self._list_transactions(filters, self.cluster.part_ms)
        return by_id(reached.answers), reached.unreachable

    async def _list_transactions(self, filters: Filters, timeout_ms: int) -> Reached[list[Listed]]:
        request = ListTransactionsRequest(
            state_filters=list(filters.states),
            producer_id_filters=list(filters.producer_ids),
            duration_filter=filters.duration_ms,
            transactional_id_pattern=filters.pattern,
        )

        async def of(broker_id: int, address: Address) -> list[Listed]:
            async def ask() -> ListTransactionsResponse:
                return await self.cluster.ask(request, ListTransactionsResponse, address, timeout_ms=timeout_ms)

            answer = await with_retries(ask, lambda answer: answer.error_code)
            refuse(answer.error_code, "list transactions")
            if answer.unknown_state_filters:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown state: {', '.join(answer.unknown_state_filters)}")
            return [
                Listed(broker_id, each.transactional_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ]

        brokers = (await self.cluster.describe_cluster(fenced=False)).brokers
        return await of_all({each.broker_id: (each.host, each.port) for each in brokers}, of)

    async def describe(self, transactional_id: str) -> tuple[int, TransactionState]:
        """Return an id's coordinator and its state. Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def ask() -> tuple[int, TransactionState]:
            coordinator_id, address = await self.coordinator(transactional_id)
            answer = await self.cluster.ask(request, DescribeTransactionsResponse, address)
            return coordinator_id, answer.transaction_states[0]

        coordinator_id, row = await with_retries(ask, lambda found: found[1].error_code)
        refuse(row.error_code, f"transactional id {transactional_id!r}")
        return coordinator_id, row

    async def producers(self, place: TopicPartition, broker_id: int | None = None) -> list[ProducerState]:
        """Return the producers of a partition as its leader, or another replica, knows them. Raises KafkaError."""
        chosen_id = await self._leader(place) if broker_id is None else broker_id
        return (await self._producers_on(chosen_id, [place]))[place]

    async def hanging(
        self, places: Sequence[TopicPartition], *, timeout_ms: int, now_ms: int, broker_id: int | None = None
    ) -> list[OpenTransaction]:
        """Return the transactions on these partitions that no coordinator will end. Raises KafkaError."""
        candidates = [
            OpenTransaction(place, producer)
            for place, producers in (await self._all_producers(places, broker_id)).items()
            for producer in producers
            if producer.current_txn_start_offset != NO_OFFSET and now_ms - producer.last_timestamp > timeout_ms
        ]
        if not candidates:
            return []
        listed = await self.listed(Filters(producer_ids=sorted({each.producer.producer_id for each in candidates})))
        expected: dict[int, set[TopicPartition]] = {}
        for row in listed:
            expected[row.producer_id] = await self._places_of(row.transactional_id)
        return [each for each in candidates if each.place not in expected.get(each.producer.producer_id, ())]

    async def abort(self, place: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """End a producer's transaction on a partition, at its leader. Raises KafkaError."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
            # A producer whose first transaction hangs has seen no coordinator: 0 is no later one's epoch.
            coordinator_epoch=max(0, coordinator_epoch),
        )
        address = await self.cluster.broker_address(await self._leader(place))
        answer = await self.cluster.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, address)
        row = answer.markers[0].topics[0].partitions[0]
        refuse(row.error_code, f"{place.topic}-{place.partition}")

    async def open_at(self, place: TopicPartition, start_offset: int) -> ProducerState:
        """Return the producer whose open transaction began at an offset. Raises KafkaError INVALID_TXN_STATE."""
        for producer in await self.producers(place):
            if producer.current_txn_start_offset == start_offset != NO_OFFSET:
                return producer
        message = f"no open transaction starts at offset {start_offset} on {place.topic}-{place.partition}"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)

    async def force_terminate(self, transactional_id: str) -> None:
        """Fence the producer of an id and abort its transaction, whatever its timeout (KIP-939). Raises KafkaError."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout=60_000)

        async def ask() -> InitProducerIdResponse:
            _, address = await self.coordinator(transactional_id)
            return await self.cluster.ask(request, InitProducerIdResponse, address)

        answer = await with_retries(ask, lambda answer: answer.error_code)
        refuse(answer.error_code, f"transactional id {transactional_id!r}")

    async def places(self, topic: str | None, partition: int | None, broker_id: int | None) -> list[TopicPartition]:
        """Return the partitions of a topic, or of all (internal ones too); with a broker those with a replica there."""
        if topic is not None and partition is not None:
            return [TopicPartition(topic, partition)]
        names = None if topic is None else [topic]
        found = (await self.cluster.metadata(names)).topics
        for each in found:
            refuse(each.error_code, f"topic {each.name!r}")
        return sorted(
            TopicPartition(each.name or "", row.partition_index)
            for each in found
            for row in each.partitions
            if broker_id is None or broker_id in row.replica_nodes
        )

    async def _places_of(self, transactional_id: str) -> set[TopicPartition]:
        """Return the partitions on which a coordinator will end a transaction; none for a missing id."""
        try:
            _, row = await self.describe(transactional_id)
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return set()
        return {TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions}

    async def _all_producers(
        self, places: Sequence[TopicPartition], broker_id: int | None
    ) -> dict[TopicPartition, list[ProducerState]]:
        by_broker: dict[int, list[TopicPartition]] = {}
        if broker_id is not None:
            by_broker[broker_id] = list(places)
        else:
            leaders = await self._leaders({place.topic for place in places})
            for place in places:
                by_broker.setdefault(led(place, leaders), []).append(place)
        found: dict[TopicPartition, list[ProducerState]] = {}
        for broker, wanted in by_broker.items():
            for start in range(0, len(wanted), PARTITIONS_PER_REQUEST):
                found |= await self._producers_on(broker, wanted[start : start + PARTITIONS_PER_REQUEST])
        return found

    async def _producers_on(
        self, broker_id: int, places: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        topics: dict[str, TopicRequest] = {}
        for place in places:
            topics.setdefault(place.topic, TopicRequest(name=place.topic)).partition_indexes.append(place.partition)
        address = await self.cluster.broker_address(broker_id)
        request = DescribeProducersRequest(topics=list(topics.values()))
        answer = await self.cluster.ask(request, DescribeProducersResponse, address)
        found: dict[TopicPartition, list[ProducerState]] = {}
        for topic in answer.topics:
            for row in topic.partitions:
                refuse(row.error_code, row.error_message or f"{topic.name}-{row.partition_index}")
                found[TopicPartition(topic.name, row.partition_index)] = row.active_producers
        return found

    async def _leader(self, place: TopicPartition) -> int:
        return led(place, await self._leaders([place.topic]))

    async def _leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        found = (await self.cluster.metadata(sorted(topics))).topics
        for topic in found:
            refuse(topic.error_code, f"topic {topic.name!r}")
        return {
            TopicPartition(topic.name or "", row.partition_index): row.leader_id
            for topic in found
            for row in topic.partitions
        }

    async def coordinator(self, transactional_id: str) -> tuple[int, Address]:
        """Return the coordinator of an id. Raises KafkaError COORDINATOR_NOT_AVAILABLE after a timeout."""
        return await coordinators.find_coordinator(self.cluster, KeyType.TRANSACTION, transactional_id)


def led(place: TopicPartition, leaders: dict[TopicPartition, int]) -> int:
    """Return a partition's leader. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
    leader = leaders.get(place)
    if leader is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{place.topic}-{place.partition}")
    if leader < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place.topic}-{place.partition} has no leader")
    return leader


def by_id(listed: Mapping[int, list[Listed]]) -> list[Listed]:
    """Return the transactions of all responses, by transactional id."""
    return sorted((row for rows in listed.values() for row in rows), key=lambda row: row.transactional_id)
