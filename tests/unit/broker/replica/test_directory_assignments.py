"""What the controller is told of replicas' log directories: what differs, in few requests, until it has answered."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.replica import directory_assignments
from kvorum.broker.replica.delta import DeltaApplier
from kvorum.broker.replica.directory_assignments import DirectoryAssignments
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.storage.damage import Lack
from tests.unit.broker.replica.manager_kit import brokers, topic, until
from tests.unit.broker.replica.replica_kit import KEY, TOPIC_ID

A, B = Uuid(b"\x0a" * 16), Uuid(b"\x0b" * 16)
Told = list[tuple[Uuid, Uuid, int]]


class Controller:
    """Notes what it is told; `answers` come first: an error of the request, or the code of each replica."""

    def __init__(self) -> None:
        self.reported: list[Told] = []
        self.epochs: list[int] = []
        self.answers: list[KafkaError | ErrorCode] = []

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.reported.append(
            [
                (directory.id_, topic.topic_id, row.partition_index)
                for directory in request.directories
                for topic in directory.topics
                for row in topic.partitions
            ]
        )
        self.epochs.append(request.broker_epoch)
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if isinstance(answer, KafkaError):
            raise answer
        return AssignReplicasToDirsResponse(
            directories=[
                ResponseDirectoryData(
                    id_=directory.id_,
                    topics=[
                        ResponseTopicData(
                            topic_id=topic.topic_id,
                            partitions=[
                                ResponsePartitionData(partition_index=row.partition_index, error_code=answer)
                                for row in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )


class World:
    """Broker 1 with four partitions of a topic, of which the metadata do not know the directories."""

    def __init__(self) -> None:
        self.controller = Controller()
        self.cache = MetadataCache(1, lambda: None, None)  # type: ignore[arg-type]  # no choice by chance here
        self.replay(*brokers(), *topic(partitions=4, replicas=(1, 2)))
        self.assignments = DirectoryAssignments(
            broker_id=1, broker_epoch=lambda: 101, controller=self.controller, cluster=self.cache
        )

    def replay(self, *made: records.MetadataRecord) -> None:
        delta = MetadataDelta(self.cache.image if hasattr(self.cache, "image") else MetadataImage())
        for record in made:
            delta.replay(record)
        self.cache.image = delta.apply(self.cache.image.offset + 1, 1)

    def submit(self, index: int, directory: Uuid, topic_id: Uuid = TOPIC_ID) -> None:
        self.assignments.submit(TopicPartition("orders", index), topic_id, directory)

    async def reported(self, count: int) -> list[Told]:
        """Wait until nothing is left to tell, after so many requests."""
        await until(lambda: self.assignments._task is None)
        assert len(self.controller.reported) == count
        return self.controller.reported


def run(test: Callable[[World], Coroutine[None, None, None]]) -> None:
    async def story() -> None:
        world = World()
        try:
            await test(world)
        finally:
            await world.assignments.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_all_of_one_turn_goes_in_one_request() -> None:
    async def test(world: World) -> None:
        world.submit(0, A)
        world.submit(1, B)
        world.submit(2, A)
        world.submit(2, B)  # moved before it was told
        assert await world.reported(1) == [[(A, TOPIC_ID, 0), (B, TOPIC_ID, 1), (B, TOPIC_ID, 2)]]
        assert world.controller.epochs == [101]

    run(test)


def test_a_request_holds_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "ASSIGNMENTS_MAX", 3)

    async def test(world: World) -> None:
        for index in range(4):
            world.submit(index, A)
        assert [len(each) for each in await world.reported(2)] == [3, 1]

    run(test)


@pytest.mark.parametrize(
    "answer", [KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_rejected_assignments_are_sent_again(answer: KafkaError | ErrorCode) -> None:
    async def test(world: World) -> None:
        world.controller.answers.append(answer)
        world.submit(0, A)
        assert await world.reported(2) == [[(A, TOPIC_ID, 0)]] * 2

    run(test)


def test_outdated_values_are_not_reported() -> None:
    async def test(world: World) -> None:
        known = records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, directories=(A, B))
        moved = records.PartitionChange(topic_id=TOPIC_ID, partition_id=1, replicas=(2,), directories=(B,), isr=(2,))
        world.replay(known, moved)
        world.submit(0, A)
        world.submit(1, A)
        world.submit(2, A, Uuid(b"\x33" * 16))  # a topic of that name that was
        world.submit(9, A)
        assert await world.reported(0) == []

    run(test)


@pytest.mark.parametrize(
    ("registered", "lies_in", "reported"),
    [(A, A, []), (A, B, [B]), (A, Uuid(16), [])],
)
def test_a_replicas_directory_is_reported_if_it_differs_from_the_metadata(
    registered: Uuid, lies_in: Uuid, reported: list[Uuid]
) -> None:
    """One in a directory without an id, which is not formatted, is not."""
    submitted: list[Uuid] = []
    applier: Any = DeltaApplier.__new__(DeltaApplier)
    applier._broker_id = 1
    applier.moves = SimpleNamespace(is_on_its_way=lambda key, named: False)
    applier._log_manager = SimpleNamespace(
        dir_of=lambda key: SimpleNamespace(directory_id=lies_in),
        get_log=lambda key: object(),
        lack_of=lambda key: Lack.NOTHING,
    )
    applier.assignments = SimpleNamespace(submit=lambda key, topic_id, directory: submitted.append(directory))
    info = SimpleNamespace(topic_id=TOPIC_ID, partition=SimpleNamespace(directory=lambda broker_id: registered))
    applier._assign(KEY, info)
    assert submitted == reported
