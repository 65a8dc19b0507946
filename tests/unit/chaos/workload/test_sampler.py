"""Samples of several brokers become one account; a real broker is sampled, and one that does not know of ELR."""

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import pytest

from kvorum.chaos.faults.observer import PartitionView
from kvorum.chaos.history import HistoryWriter, Metadata, Note
from kvorum.chaos.workload import sampler as module
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.sampler import MetadataSampler, partition_view
from kvorum.chaos.workload.samples import Samples
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kvorum.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kvorum.protocol.schema import Message

P = "orders-0"


def view(leader: int, epoch: int, *isr: int) -> PartitionView:
    return PartitionView(leader, epoch, (1, 2, 3), isr)


def test_the_highest_leader_epoch_counts_and_then_the_leaders_response() -> None:
    samples = Samples()
    assert samples.take(1, {P: view(2, 5, 1, 2, 3)}) == [(P, view(2, 5, 1, 2, 3))]
    assert samples.take(3, {P: view(2, 5, 1, 2, 3)}) == []
    assert samples.take(2, {P: view(2, 5, 2)}) == [(P, view(2, 5, 2))], "the leader knows its ISR first"
    assert samples.take(1, {P: view(2, 5, 1, 2, 3)}) == [], "others tell of yesterday"
    assert samples.take(3, {P: view(3, 6, 3)}) == [(P, view(3, 6, 3))]
    assert samples.take(2, {P: view(2, 5, 1, 2)}) == [], "a deposed leader"
    assert samples.count == 6


def test_unresponsive_brokers_do_not_count_and_the_state_never_goes_back() -> None:
    samples = Samples()
    samples.take(2, {P: view(2, 5, 2)})
    samples.silent(2)
    assert samples.take(1, {P: view(2, 4, 1, 2)}) == [], "an earlier epoch"
    assert samples.take(1, {P: view(-1, 5, 2)}) == [(P, view(-1, 5, 2))]
    samples.silent(9)


def test_eligible_leader_replicas_are_sampled() -> None:
    row = DescribeTopicPartitionsResponsePartition(
        leader_id=-1,
        leader_epoch=4,
        replica_nodes=[3, 1, 2],
        isr_nodes=[],
        eligible_leader_replicas=[2, 1],
        last_known_elr=[3],
    )
    assert partition_view(row) == PartitionView(-1, 4, (1, 2, 3), (), (1, 2), (3,))


class Broker:
    """A channel to a broker that answers from here: in two pages, or by Metadata alone."""

    knows_elr = True
    requested: threading.Event

    def __init__(self, *address: object, **settings: object) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, request: Message, response: type[Message], timeout_ms: int) -> Message:
        await asyncio.sleep(0)
        Broker.requested.set()
        if response is MetadataResponse:
            row = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=7, replica_nodes=[1, 2])
            return MetadataResponse(topics=[MetadataResponseTopic(name="orders", partitions=[row])])
        if not Broker.knows_elr:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "it does not")
        assert isinstance(request, DescribeTopicPartitionsRequest)
        number = 0 if request.cursor is None else request.cursor.partition_index
        partition = DescribeTopicPartitionsResponsePartition(
            partition_index=number, leader_id=1, leader_epoch=7, isr_nodes=[1], eligible_leader_replicas=[2]
        )
        answer = DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(name="orders", partitions=[partition])]
        )
        answer.next_cursor = ResponseCursor(topic_name="orders", partition_index=1) if number == 0 else None
        return answer


@pytest.mark.parametrize(("knows_elr", "partitions", "elr"), [(True, [0, 1], [2]), (False, [0], None)])
def test_the_request_to_a_broker_matches_its_supported_versions(
    monkeypatch: pytest.MonkeyPatch, knows_elr: bool, partitions: list[int], elr: list[int] | None
) -> None:
    monkeypatch.setattr(module, "Channel", Broker)
    Broker.knows_elr, Broker.requested = knows_elr, threading.Event()
    writer = HistoryWriter()
    sampler = MetadataSampler({1: ("nowhere", 1)}, {"orders"}, Recorder(writer))
    sampler.start()
    eventually(lambda: sampler._samples.count > 1)
    sampler.stop()
    sampler.stop()
    records = [event.record for event in writer.events if isinstance(event, Metadata)]
    assert [record["type"] for record in records] == ["Topic", *("Partition" for _ in partitions)]
    assert [record["partition_id"] for record in records[1:]] == partitions
    assert all(record["sampled"] and record.get("elr") == elr and record["leader_epoch"] == 7 for record in records[1:])
    notes = [cast(Note, event).text for event in writer.events if isinstance(event, Note)]
    assert len(notes) == 2 and ("with eligible" if knows_elr else "without eligible") in notes[1]


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    waiting = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        waiting.wait(0.02)
    raise AssertionError("not in time")
