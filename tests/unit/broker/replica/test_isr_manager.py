"""AlterPartition on its way: batches, one in flight, tried again until there is an answer."""

import asyncio
from collections.abc import Callable, Coroutine

from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.isr_changes import record_follower_fetch
from kvorum.broker.replica.isr_manager import UNANSWERED_HOLD_MS, IsrManager
from kvorum.broker.replica.partition import Partition
from kvorum.protocol.codec import decode_request, encode_bytes
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.metrics import Metrics
from tests.unit.broker.replica.manager_kit import ModelController, grant, settled
from tests.unit.broker.replica.replica_kit import ModelCluster, ModelLog, registration

TOPICS = {name: Uuid(bytes([index]) * 16) for index, name in enumerate(("a", "b"), 1)}


class Sending:
    """A manager, its controller, and partitions led here of which 2 wants to join the ISR."""

    def __init__(self) -> None:
        self.controller = ModelController()
        self.now_ms = 0
        self.settled: list[TopicPartition] = []
        self.manager = IsrManager(
            broker_id=1,
            broker_epoch=lambda: 101,
            controller=self.controller,
            now_ms=lambda: self.now_ms,
            settle=lambda partition: self.settled.append(partition.topic_partition),
            figures=Figures(Metrics()),
        )

    def partition(self, topic: str = "a", index: int = 0) -> Partition:
        partition = Partition(
            topic_partition=TopicPartition(topic, index),
            topic_id=TOPICS[topic],
            broker_id=1,
            brokers=ModelCluster(),
            local_broker_epoch=lambda: 101,
            replica_lag_time_ms_max=1000,
        )
        partition.make_leader(registration(isr=(1,), replicas=(1, 2)), ModelLog(), 0)
        return partition

    def joins(self, partition: Partition) -> None:
        record_follower_fetch(
            partition,
            partition.followers[2],
            fetch_offset=0,
            log_start_offset=0,
            leader_end_offset=0,
            broker_epoch=102,
            now_ms=0,
        )
        effects = partition.take_effects()
        assert effects is not None and effects.proposal is not None
        self.manager.submit(partition, effects.proposal)


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


async def until_idle(sending: Sending) -> None:
    while sending.manager._task is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_proposals_wait_for_the_one_request_in_flight_and_then_go_together() -> None:
    async def test() -> None:
        sending = Sending()
        partitions = [sending.partition("a", 0), sending.partition("a", 1), sending.partition("b", 0)]
        sending.controller.gate.clear()
        for partition in partitions:
            sending.joins(partition)
            await settled()
        assert len(sending.controller.requests) == 1
        sending.controller.gate.set()
        await until_idle(sending)
        sizes = [[len(topic.partitions) for topic in each.topics] for each in sending.controller.requests]
        assert sizes == [[1], [1, 1]]
        assert all(partition.isr == {1, 2} for partition in partitions)
        assert len(sending.settled) == 3

    run(test)


def test_each_version_carries_the_members() -> None:
    async def test() -> None:
        sending = Sending()
        sending.joins(sending.partition())
        await until_idle(sending)
        request = sending.controller.requests[0]
        assert (request.broker_id, request.broker_epoch) == (1, 101)
        for version in (2, 3):
            read = decode_request(56, version, encode_bytes(request, version))
            assert isinstance(read, AlterPartitionRequest)
            row = read.topics[0].partitions[0]
            members = (
                row.new_isr
                if version == 2
                else [(each.broker_id, each.broker_epoch) for each in row.new_isr_with_epochs]
            )
            assert members == ([1, 2] if version == 2 else [(1, 101), (2, 102)])

    run(test)


def test_unanswered_proposals_are_sent_again() -> None:
    async def test() -> None:
        sending = Sending()
        sending.controller.answers = [
            KafkaError(ErrorCode.REQUEST_TIMED_OUT),
            lambda request: AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
            lambda request: AlterPartitionResponse(),
            lambda request: grant(request, ErrorCode.UNKNOWN_SERVER_ERROR),
        ]
        partition = sending.partition()
        sending.joins(partition)
        await until_idle(sending)
        assert len(sending.controller.requests) == 5
        assert partition.isr == {1, 2}

    run(test)


def test_a_refusal_for_good_is_not_sent_again() -> None:
    async def test() -> None:
        sending = Sending()
        sending.controller.answers = [lambda request: grant(request, ErrorCode.INELIGIBLE_REPLICA)]
        partition = sending.partition()
        sending.joins(partition)
        await until_idle(sending)
        assert len(sending.controller.requests) == 1
        assert partition.isr_state.maximal_isr == {1}

    run(test)


def test_a_rejection_is_not_final_while_an_unanswered_copy_may_be_applied() -> None:
    async def test() -> None:
        sending = Sending()
        refuse = lambda request: grant(request, ErrorCode.INELIGIBLE_REPLICA)  # noqa: E731
        sending.controller.answers = [KafkaError(ErrorCode.REQUEST_TIMED_OUT), refuse, refuse]
        partition = sending.partition()
        sending.joins(partition)
        await until_idle(sending)
        assert len(sending.controller.requests) == 4
        assert partition.isr == {1, 2}, "asked until it was granted"

    run(test)


def test_an_unanswered_copy_does_not_hold_a_dead_member_for_ever() -> None:
    async def test() -> None:
        sending = Sending()

        def refuse_late(request: AlterPartitionRequest) -> AlterPartitionResponse:
            sending.now_ms += UNANSWERED_HOLD_MS
            return grant(request, ErrorCode.INELIGIBLE_REPLICA)

        sending.controller.answers = [KafkaError(ErrorCode.REQUEST_TIMED_OUT), refuse_late]
        partition = sending.partition()
        sending.joins(partition)
        await until_idle(sending)
        assert partition.isr_state.maximal_isr == {1}

    run(test)


def test_a_proposal_overtaken_by_metadata_is_not_sent() -> None:
    async def test() -> None:
        sending = Sending()
        busy, overtaken = sending.partition("a", 0), sending.partition("a", 1)
        sending.controller.gate.clear()
        sending.joins(busy)
        await settled()
        sending.joins(overtaken)
        overtaken.make_follower(registration(leader=2, leader_epoch=1, partition_epoch=1), ModelLog())
        sending.controller.gate.set()
        await until_idle(sending)
        assert len(sending.controller.requests) == 1

    run(test)


def test_the_answer_to_an_overtaken_proposal_does_not_touch_the_one_after_it() -> None:
    async def test() -> None:
        sending = Sending()
        partition = sending.partition()
        sending.controller.gate.clear()
        sending.joins(partition)
        await settled()
        log = partition.log
        assert log is not None
        partition.make_leader(registration(isr=(1,), replicas=(1, 2), leader_epoch=1, partition_epoch=5), log, 0)
        sending.joins(partition)
        sending.controller.gate.set()
        await until_idle(sending)
        epochs = [each.topics[0].partitions[0].partition_epoch for each in sending.controller.requests]
        assert epochs == [0, 5]
        assert partition.partition_epoch == 6

    run(test)


def test_nothing_is_sent_after_close() -> None:
    async def test() -> None:
        sending = Sending()
        partition = sending.partition()
        await sending.manager.close()
        sending.joins(partition)
        await settled()
        assert sending.controller.requests == []

    run(test)
