"""A transactional producer by single requests: each may be sent late, twice, or to the wrong transaction."""

from dataclasses import dataclass
from typing import TypeVar

from kvorum.client.wire.coordinators import KeyType, find_coordinator
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kvorum.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Message
from kvorum.runtime.clock import SystemClock
from tests.cluster.clients import eventually, leader_of
from tests.cluster.transactional import Asker

M = TypeVar("M", bound=Message)
RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


@dataclass
class RawProducer:
    """Of transaction version 2 (Produce v12, EndTxn v5), or as before."""

    asker: Asker
    bootstrap: str
    transactional_id: str
    version: int = 2
    producer_id: int = -1
    epoch: int = -1

    def init(self) -> "RawProducer":
        """InitProducerId, until it is given."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout=60_000)

        def ask() -> InitProducerIdResponse | None:
            answer = self._coordinator(request, InitProducerIdResponse, 5 if self.version == 2 else 4)
            assert answer.error_code in RETRIED | {0}, ErrorCode(answer.error_code).name
            return None if answer.error_code else answer

        answer = eventually(ask, "a producer id")
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    def add(self, topic: str, partition: int) -> ErrorCode:
        """AddPartitionsToTxn, as producers before version 2 have to."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )

        def ask() -> list[ErrorCode]:
            answer = self._coordinator(request, AddPartitionsToTxnResponse, 3)
            code = ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
            return [] if code in RETRIED else [code]

        return eventually(ask, "partitions added")[0]

    def write(
        self, topic: str, partition: int, value: bytes, sequence: int, epoch: int | None = None
    ) -> PartitionProduceResponse:
        """Produce one record; retriable refusals are tried again."""
        request = produce_request(
            topic, partition, value, self.transactional_id, self.producer_id, self.epoch if epoch is None else epoch,
            sequence,
        )  # fmt: skip

        def ask() -> PartitionProduceResponse | None:
            leader = leader_of(self.bootstrap, topic, partition)
            answer = self.asker.ask(leader, request, ProduceResponse, 12 if self.version == 2 else 11)
            row = answer.responses[0].partition_responses[0]
            return None if row.error_code in RETRIED else row

        return eventually(ask, "an answer to Produce")

    def end(self, *, is_commit: bool, epoch: int | None = None, moves_on: bool = True) -> ErrorCode:
        """EndTxn; of version 2 go on with the id and epoch of the answer."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=is_commit,
        )

        def ask() -> EndTxnResponse | None:
            answer = self._coordinator(request, EndTxnResponse, 5 if self.version == 2 else 4)
            return None if answer.error_code in RETRIED else answer

        answer = eventually(ask, "an answer to EndTxn")
        if moves_on and self.version == 2 and answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def _coordinator(self, request: Message, response: type[M], version: int) -> M:
        broker_id, _ = self.asker.requested(
            lambda: find_coordinator(self.asker.cluster, KeyType.TRANSACTION, self.transactional_id)
        )
        return self.asker.ask(broker_id, request, response, version)


def produce_request(
    topic: str, partition: int, value: bytes, transactional_id: str, producer_id: int, epoch: int, sequence: int
) -> ProduceRequest:
    batch = build_batch(
        [Record(value, value, SystemClock().wall_ms())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def hang(asker: Asker, leader: int, topic: str) -> None:
    """Open a transaction on partition 0 of which no coordinator knows; the leader must not verify."""
    request = produce_request(topic, 0, b"hanging", "nobody", 1 << 40, 0, 0)
    answer = asker.ask(leader, request, ProduceResponse, 11)
    assert answer.responses[0].partition_responses[0].error_code == 0
