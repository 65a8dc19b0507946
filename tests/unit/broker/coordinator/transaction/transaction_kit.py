"""A transaction coordinator on a log in memory, and the brokers it sends markers to."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rpds import HashTrieMap

from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.phase import Phase
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.coordinator import Home, TransactionCoordinator
from kvorum.broker.coordinator.transaction.sender import MarkerSender
from kvorum.broker.coordinator.transaction.shard import TransactionSettings, TransactionShard
from kvorum.broker.coordinator.transaction.state import State, TransactionMetadata
from kvorum.broker.coordinator.transaction.words import AddPartitions, Answer, EndTransaction, InitProducer
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.features import FeaturesImage
from tests.unit.broker.coordinator.runtime_kit import LoopClock, ModelLog, fault

HOME = TopicPartition("__transaction_state", 3)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
SETTINGS = TransactionSettings(
    timeout_ms_max=900_000, expiration_ms=7 * 86_400_000, abort_interval_ms=10_000, expiry_interval_ms=3_600_000
)
TIMEOUT_MS = 60_000


class Written(NamedTuple):
    """A marker in a partition's log."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


@dataclass
class Brokers:
    """The leaders of the data partitions: what they wrote, and how they misbehave."""

    leaders: dict[TopicPartition, int] = field(default_factory=lambda: {A0: 1, A1: 1, B0: 2})
    written: dict[TopicPartition, list[Written]] = field(default_factory=lambda: defaultdict(list))
    refusals: dict[TopicPartition, list[ErrorCode]] = field(default_factory=dict)
    """Codes to be answered first, one a request."""
    cut: set[int] = field(default_factory=set)
    """Brokers that cannot be reached."""
    deaf: set[int] = field(default_factory=set)
    """Brokers that write, and whose answers are lost."""
    requests: list[tuple[int, int]] = field(default_factory=list)
    """(broker, transactions in the request)"""

    def leader_of(self, key: TopicPartition) -> int | None:
        return self.leaders.get(key)

    async def write_txn_markers(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requests.append((broker_id, len(request.markers)))
        await asyncio.sleep(0.001)
        if broker_id in self.cut:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "cut")
        response = WriteTxnMarkersResponse()
        for sent in request.markers:
            row = WritableTxnMarkerResult(producer_id=sent.producer_id)
            for topic in sent.topics:
                codes = []
                for index in topic.partition_indexes:
                    key = TopicPartition(topic.name, index)
                    codes.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=self.code(key)))
                    if codes[-1].error_code == ErrorCode.NONE:
                        self.written[key].append(
                            Written(
                                sent.producer_id,
                                sent.producer_epoch,
                                sent.transaction_result,
                                sent.coordinator_epoch,
                                sent.transaction_version,
                            )
                        )
                row.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=codes))
            response.markers.append(row)
        if broker_id in self.deaf:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the answer was lost")
        return response

    def code(self, key: TopicPartition) -> ErrorCode:
        refusals = self.refusals.get(key)
        return refusals.pop(0) if refusals else ErrorCode.NONE


@dataclass
class Ids:
    """Producer ids from 1000 on."""

    next_id: int = 1_000
    refuse: bool = False

    async def next_producer_id(self) -> int:
        await asyncio.sleep(0.001)
        if self.refuse:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block")
        self.next_id += 1
        return self.next_id - 1


@dataclass
class OneHome:
    """A runtime with one partition."""

    partition: Home

    def active(self, key: str) -> Home:
        self.partition.require_active()
        return self.partition

    def all_active(self) -> Iterator[Home]:
        return iter([self.partition] if self.partition.phase is Phase.ACTIVE else [])

    @property
    def is_loading(self) -> bool:
        return self.partition.phase is Phase.LOADING


class Node:
    """One broker that coordinates HOME in one leader epoch of `log`."""

    def __init__(
        self, log: ModelLog, brokers: Brokers, ids: Ids, version: int = 2, settings: TransactionSettings = SETTINGS
    ) -> None:
        features = FeaturesImage(levels=HashTrieMap({"transaction.version": version}))
        self.log = log
        self.brokers = brokers
        self.ids = ids
        self.version = version
        self.sender = MarkerSender(brokers, brokers.leader_of)
        self.partition: Home = CoordinatorPartition(
            HOME,
            log,
            lambda: TransactionShard(HOME, self.sender, ids, settings),
            LoopClock(),
            image=lambda: replace(MetadataImage(), features=features),
            codec=Codec.NONE,
            write_timeout_ms=5_000,
            on_fault=fault,
        )
        self.coordinator = TransactionCoordinator(OneHome(self.partition), ids)

    async def lead(self) -> "Node":
        self.log.on_moved = self.partition.high_watermark_moved
        self.partition.lead(self.log.epoch)
        await asyncio.sleep(0.01)
        self.partition.require_active()
        return self

    async def fail_over(self, *, keeps_uncommitted: bool = True) -> "Node":
        """Die; another broker leads in the next epoch, with or without what was not committed."""
        self.partition.resign(self.log.epoch + 1)
        await self.sender.close()
        if not keeps_uncommitted:
            kept = [batch for batch in self.log.data if int.from_bytes(batch[:8], "big") < self.log.watermark]
            self.log.data, self.log.end = kept, self.log.watermark
        self.log.epoch += 1
        return await Node(self.log, self.brokers, self.ids, self.version).lead()

    # --- what clients do ---------------------------------------------------------------------------------------------

    async def init(self, name: str = "t", expected: Producer | None = None, timeout_ms: int = TIMEOUT_MS) -> Answer:
        request = InitProducer(transactional_id=name, timeout_ms=timeout_ms, expected=expected)
        return await self.coordinator.init_producer_id(request)

    async def producer(self, name: str = "t", timeout_ms: int = TIMEOUT_MS) -> Producer:
        answer = await self.init(name, timeout_ms=timeout_ms)
        assert answer.code is ErrorCode.NONE
        return Producer(answer.producer_id, answer.producer_epoch)

    async def add(
        self, producer: Producer, *keys: TopicPartition, name: str = "t", version: int | None = None
    ) -> ErrorCode:
        return await self.coordinator.add_partitions(self.adding(producer, *keys, name=name, version=version))

    def adding(
        self, producer: Producer, *keys: TopicPartition, name: str = "t", version: int | None = None
    ) -> AddPartitions:
        return AddPartitions(
            transactional_id=name,
            producer=producer,
            partitions=frozenset(keys),
            client_transaction_version=self.version if version is None else version,
        )

    async def end(self, producer: Producer, *, is_commit: bool, name: str = "t", version: int | None = None) -> Answer:
        request = EndTransaction(
            transactional_id=name,
            producer=producer,
            is_commit=is_commit,
            client_transaction_version=self.version if version is None else version,
        )
        return await self.coordinator.end_transaction(request)

    def at(self, name: str = "t") -> TransactionMetadata:
        found = self.partition.committed_state.get(name)
        assert found is not None
        return found

    def state(self, name: str = "t") -> State:
        return self.at(name).state


async def node(version: int = 2, *, commits_at_once: bool = True) -> Node:
    return await Node(ModelLog(commits_at_once=commits_at_once), Brokers(), Ids(), version).lead()
