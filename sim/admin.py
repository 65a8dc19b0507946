"""A client in the simulator that changes topics: makes them, writes to them, grows them, deletes them, again.

It reads its own writes: the broker that answered a change has published it, unless the wait reached its limit.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from kvorum.chaos.history import HistoryWriter, Info, MicroOp, Ok
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import ZERO_UUID
from kvorum.quorum.image import MetadataImage
from sim.client import NoAnswer, SimClient
from sim.ledger import Violation
from sim.workload import ACKS_ALL, OnAck, Producer, Recorder

M = TypeVar("M", bound=Message)

NAMES: Final = 5
PARTITIONS_GROWN: Final = 4
READ_WITHIN_S: Final = 1.0
"""Default of kvorum.metadata.read.your.writes.max.ms: an answer that took longer may have come at the limit."""
OLDER: Final[tuple[int | None, ...]] = (5, 4, 2)
"""The newest versions of CreateTopics, DeleteTopics and CreatePartitions without THROTTLING_QUOTA_EXCEEDED."""


class Admin:
    """Creates topics, writes to them, adds partitions, deletes them, and creates them again with the same names."""

    def __init__(
        self,
        client: SimClient,
        recorder: Recorder,
        replication_factor: int,
        on_ack: OnAck,
        *,
        image_at: Callable[[str], MetadataImage | None] = lambda host: None,
        older: bool = False,
    ) -> None:
        """Start without topics.

        Records of these topics are not in the history, which has no deletions.

        `image_at` returns the published image of a host's broker, None if it is not ready. `older`: use versions from
        before KIP-599.
        """
        self._image_at = image_at
        self._create_newest, self._delete_newest, self._grow_newest = OLDER if older else (None,) * 3
        self._on_ack = on_ack
        self._unrecorded = Recorder(HistoryWriter(), recorder.now)
        self._names = [f"extra-{number}" for number in range(1, NAMES + 1)]
        self._client = client
        self._recorder = recorder
        self._replication_factor = replication_factor
        self._topics: list[str] = []
        self.created: set[str] = set()
        """Certainly created, and no deletion tried."""

    async def run(self, every_s: float, until: Callable[[], bool]) -> None:
        """Change something now and then."""
        process = self._recorder.process("admin", 0, idempotent=False)
        while not until():
            await asyncio.sleep(every_s * (0.5 + self._client.rng.random()))
            choice = self._client.rng.random()
            if (choice < 0.5 or not self._topics) and self._names:
                await self._create(process, until)
            elif not self._topics:
                return
            elif choice < 0.8:
                await self._delete(process)
            else:
                await self._grow(process)

    async def _create(self, process: int, until: Callable[[], bool]) -> None:
        name = self._names.pop(self._client.rng.randrange(len(self._names)))
        partitions = self._client.rng.choice((1, 2, 3))
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=self._replication_factor)],
            timeout=2_000,
        )
        op = self._recorder.invoke(process, "admin", ["create", name])
        try:
            response, image = await self._change(request, CreateTopicsResponse, self._create_newest)
        except NoAnswer as error:
            self._recorder.complete(Info, op, process, ["create", name], str(error))
            self._topics.append(name)
            return
        self._complete(process, op, ["create", name], response.topics[0].error_code)
        self._topics.append(name)
        if response.topics[0].error_code == ErrorCode.NONE:
            check_published(image, lambda image: image.topics.topic(name) is not None, f"creation of {name}")
            self.created.add(name)
            asyncio.get_running_loop().create_task(self._write(name, partitions, until))

    async def _write(self, name: str, partitions: int, until: Callable[[], bool]) -> None:
        """Write a few records to a topic while it exists."""
        producer = Producer(
            name,
            self._client,
            self._unrecorded,
            acks=ACKS_ALL,
            idempotent=self._client.rng.random() < 0.5,
            in_flight=2,
            topic=name,
            partitions=partitions,
            on_ack=self._on_ack,
        )
        for _ in range(self._client.rng.randint(1, 20)):
            if until() or name not in self._topics:
                return
            await producer.round()
            await asyncio.sleep(0.1)

    async def _delete(self, process: int) -> None:
        name = self._client.rng.choice(self._topics)
        self._topics.remove(name)
        self.created.discard(name)
        op = self._recorder.invoke(process, "admin", ["delete", name])
        try:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout=2_000)
            response, image = await self._change(request, DeleteTopicsResponse, self._delete_newest)
        except NoAnswer as error:
            self._recorder.complete(Info, op, process, ["delete", name], str(error))
            return
        self._complete(process, op, ["delete", name], response.responses[0].error_code)
        if response.responses[0].error_code == ErrorCode.NONE:
            topic_id = response.responses[0].topic_id

            def is_gone(image: MetadataImage) -> bool:
                topic = image.topics.topic(name)
                # A creation of before that was not answered may be carried out behind the deletion.
                return topic is None or (topic_id != ZERO_UUID and topic.topic_id != topic_id)

            check_published(image, is_gone, f"deletion of {name}")
            # Deleted for certain, once: no pending request can delete the next topic of this name.
            self._names.append(name)

    async def _grow(self, process: int) -> None:
        name = self._client.rng.choice(self._topics)
        op = self._recorder.invoke(process, "admin", ["grow", name])
        try:
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=PARTITIONS_GROWN, assignments=None)], timeout=2_000
            )
            response, image = await self._change(request, CreatePartitionsResponse, self._grow_newest)
        except NoAnswer as error:
            self._recorder.complete(Info, op, process, ["grow", name], str(error))
            return
        self._complete(process, op, ["grow", name], response.results[0].error_code)
        if response.results[0].error_code == ErrorCode.NONE:
            check_published(image, lambda image: partitions_in(image, name) == PARTITIONS_GROWN, f"growth of {name}")

    async def _change(self, request: Message, response: type[M], newest: int | None) -> tuple[M, MetadataImage | None]:
        """Send to some broker; return its answer and its published image then, None if it may be behind."""
        loop = asyncio.get_running_loop()
        address, began_s = self._client.any_address(), loop.time()
        answer = await self._client.ask(address, request, response, newest=newest)
        return answer, self._image_at(address[0]) if loop.time() - began_s < READ_WITHIN_S else None

    def _complete(self, process: int, op: int, what: list[str | int | MicroOp | None], error_code: int) -> None:
        code = ErrorCode(error_code)
        # A rejected change may have happened before: an earlier controller's decision may still be committed.
        kind = Ok if code is ErrorCode.NONE else Info
        self._recorder.complete(kind, op, process, what, None if kind is Ok else code.name)


def partitions_in(image: MetadataImage, name: str) -> int:
    """Return how many partitions a topic has, 0 for one that does not exist."""
    topic = image.topics.topic(name)
    return 0 if topic is None else len(topic.partitions)


def check_published(image: MetadataImage | None, contains_change: Callable[[MetadataImage], bool], change: str) -> None:
    """Check that the broker that answered has published the change. Raises Violation."""
    if image is not None and not contains_change(image):
        raise Violation("ReadYourWrites", f"{change} was answered by a broker that is at offset {image.offset}")
