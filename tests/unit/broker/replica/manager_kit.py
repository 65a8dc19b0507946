"""A ReplicaManager on real logs, with a hand-moved clock, a model controller and metadata made of records."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random

from kvorum.broker.fetch_session import FetchSessionCache
from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.replica.fetches import error_row
from kvorum.broker.replica.manager import ReplicaManager
from kvorum.broker.replica.selector import selector_of
from kvorum.broker.replica.types import FetchParams, PartitionFetch
from kvorum.network.channel import Channel
from kvorum.network.dial import ConnectionLost
from kvorum.protocol.codec import decode_request, decode_response, encode, encode_bytes
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kvorum.protocol.messages.produce import PartitionProduceResponse
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.records import decode_records, next_batch_size
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.metrics import Metrics
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_manager import LogManager
from tests.unit.broker.replica.replica_kit import KEY, TOPIC_ID, batch

WAIT_S = 30.0


class HandClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms


class LoopClock(HandClock):
    """The running loop's own time."""

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


class ModelController:
    """Says yes to every AlterPartition; `answers` puts other answers first."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.answers: list[Callable[[AlterPartitionRequest], AlterPartitionResponse] | KafkaError] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else grant
        if isinstance(answer, KafkaError):
            raise answer
        return answer(request)


def grant(request: AlterPartitionRequest, error_code: int = 0) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            ResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    ResponsePartitionData(
                        partition_index=row.partition_index,
                        error_code=error_code,
                        leader_id=request.broker_id,
                        leader_epoch=row.leader_epoch,
                        isr=row.new_isr,
                        partition_epoch=row.partition_epoch + 1,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def no_channel(broker_id: int) -> Channel:
    raise AssertionError(f"nobody is to be fetched from, least of all {broker_id}")


class World:
    """One broker's replicas and the metadata they follow."""

    def __init__(
        self,
        folder: Path,
        *,
        broker_id: int = 1,
        settings: Mapping[str, object] | None = None,
        open_channel: Callable[[int], Channel] = no_channel,
        clock: HandClock | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.clock = clock or HandClock()
        self.sessions = FetchSessionCache(100, 120_000, Random(broker_id))
        self.controller = ModelController()
        self.metrics = Metrics()
        self.settings = Settings.of(
            {"node.id": broker_id, "log.dirs": str(folder), "replica.fetch.wait.max.ms": 50, **(settings or {})}
        )
        self.cache = MetadataCache(broker_id, lambda: None, Random(1))
        self.topic_configs = self.cache.image.configs
        self.logs = LogManager(
            OsDisk(),
            self.clock,
            self.settings,
            topic_config=self.topic_config,
            on_offline=lambda path, error: self.manager.log_dir_failed(path),
        )
        self.manager = ReplicaManager(
            broker_id=broker_id,
            settings=self.settings,
            clock=self.clock,
            log_manager=self.logs,
            cluster=self.cache,
            controller=self.controller,
            broker_epoch=lambda: 100 + broker_id,
            open_channel=open_channel,
            topic_config=self.topic_config,
            metrics=self.metrics,
            select=selector_of(self.settings, self.cache.live_rack),
        )

    def topic_config(self, topic: str) -> LogConfig:
        return LogConfig.from_overrides(dict(self.topic_configs.topic(topic)), self.settings)

    async def start(self) -> "World":
        await self.logs.start()
        return self

    async def close(self) -> None:
        await self.manager.shutdown()
        await self.logs.shutdown()

    async def metadata(self, *made: records.MetadataRecord) -> None:
        """Publish records as the broker's publisher does."""
        delta = MetadataDelta(self.cache.image)
        for record in made:
            delta.replay(record)
        image = delta.apply(self.cache.image.offset + len(made), 1)
        self.topic_configs = image.configs
        await self.manager.prepare_delta(delta)
        self.cache.image = image
        await self.manager.apply_delta(delta, image)

    def image(self) -> MetadataImage:
        return self.cache.image


class Link:
    """A channel to another World: requests go through the wire's bytes. `cut` breaks it, `held` keeps answers back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requested: list[Message] = []
        self.closing = asyncio.Event()
        self.cut = False
        self.held: asyncio.Event | None = None

    @property
    def is_closed(self) -> bool:
        return self.closing.is_set()

    async def ask(self, message: Message, response: type[Message], *, timeout_ms: int) -> Message:
        """As Channel does: who waits for an answer is told that the channel has been closed."""
        asking = asyncio.ensure_future(self._ask(message, response))
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait([asking, closing], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise ConnectionLost("the channel is closed", maybe_sent=True)
        finally:
            asking.cancel()
            closing.cancel()

    async def _ask(self, message: Message, response: type[Message]) -> Message:
        if self.cut or self.is_closed:
            raise ConnectionLost("cut", maybe_sent=False)
        version = 17 if isinstance(message, FetchRequest) else 9
        request = decode_request(message.API_KEY, version, encode_bytes(message, version))
        self.requested.append(request)
        answer = await (self._fetch(request) if isinstance(request, FetchRequest) else self._list_offsets(request))
        if self.held is not None:
            await self.held.wait()
        if self.cut:
            raise ConnectionLost("cut", maybe_sent=True)
        decoded = decode_response(message.API_KEY, version, memoryview(encode_joined(answer, version)))
        assert isinstance(decoded, response)
        return decoded

    async def close(self) -> None:
        self.closing.set()

    async def _fetch(self, request: FetchRequest) -> FetchResponse:
        world = self.world
        now_ms = world.clock.monotonic_ms()
        try:
            context = world.sessions.context(
                request,
                17,
                is_from_follower=True,
                topic_name=world.cache.topic_name,
                now_ms=now_ms,
                asker=request.replica_state.replica_epoch,
            )
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        done: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        unknown = [
            (each, error_row(each.partition, ErrorCode.UNKNOWN_TOPIC_ID)) for each in context.targets if not each.topic
        ]
        state = request.replica_state
        params = FetchParams(
            replica_id=state.replica_id,
            replica_epoch=state.replica_epoch,
            max_wait_ms=request.max_wait,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
        )
        parked = world.manager.fetch_records(
            params,
            [each for each in context.targets if each.topic],
            lambda rows: done.set_result(
                context.respond([*unknown, *rows], now_ms, partial(world.manager.rest, params))
            ),
            context.has_resting,
        )
        if parked is not None:
            context.waits(parked)
        try:
            return await done
        except asyncio.CancelledError:
            if parked is not None:
                parked.cancel()
            raise

    async def _list_offsets(self, request: Message) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        response = ListOffsetsResponse()
        for requested in request.topics:
            rows = []
            for each in requested.partitions:
                try:
                    found = self.world.manager.offsets.fetch_offset_for_timestamp(
                        TopicPartition(requested.name, each.partition_index),
                        each.timestamp,
                        current_leader_epoch=each.current_leader_epoch,
                        replica_id=request.replica_id,
                    )
                    rows.append(ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=found.offset))
                except KafkaError as error:
                    rows.append(
                        ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=error.code)
                    )
            response.topics.append(ListOffsetsTopicResponse(name=requested.name, partitions=rows))
        return response


def encode_joined(message: Message, version: int) -> bytes:
    """The bytes a socket would carry."""
    return b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part)
        for part in encode(message, version)
    )


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, within a limit."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # whatever the condition is about
            await asyncio.sleep(0.001)


def brokers(*broker_ids: int, racks: Mapping[int, str] | None = None) -> list[records.MetadataRecord]:
    return [
        records.RegisterBroker(
            broker_id=broker_id,
            broker_epoch=100 + broker_id,
            incarnation_id=Uuid(bytes([broker_id]) * 16),
            endpoints=(records.Endpoint("PLAINTEXT", "localhost", 9000 + broker_id),),
            rack=(racks or {}).get(broker_id),
            fenced=False,
        )
        for broker_id in broker_ids or (1, 2, 3)
    ]


def topic(
    name: str = "orders",
    *,
    topic_id: Uuid = TOPIC_ID,
    partitions: int = 1,
    replicas: tuple[int, ...] = (1,),
    isr: tuple[int, ...] | None = None,
    leader: int = 1,
) -> list[records.MetadataRecord]:
    return [
        records.Topic(name=name, topic_id=topic_id),
        *(
            records.Partition(
                topic_id=topic_id,
                partition_id=index,
                replicas=replicas,
                isr=replicas if isr is None else isr,
                leader=leader,
            )
            for index in range(partitions)
        ),
    ]


def produce(
    world: World,
    *values: bytes,
    key: TopicPartition = KEY,
    acks: int = -1,
    timeout_ms: int = 1000,
) -> "asyncio.Future[PartitionProduceResponse]":
    """The row of one produce, when it comes."""
    done: asyncio.Future[PartitionProduceResponse] = asyncio.get_running_loop().create_future()
    world.manager.append_records(timeout_ms, acks, {key: batch(*values)}, lambda rows: done.set_result(rows[key]))
    return done


def target(
    offset: int = 0,
    *,
    topic: str = "orders",
    partition: int = 0,
    topic_id: Uuid = ZERO_UUID,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    max_bytes: int = 1 << 20,
    log_start_offset: int = 0,
) -> PartitionFetch:
    return PartitionFetch(
        topic=topic,
        partition=partition,
        topic_id=topic_id,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
    )


def fetch(
    world: World, *targets: PartitionFetch, params: FetchParams | None = None
) -> "asyncio.Future[list[PartitionData]]":
    """The rows of one fetch, when they come."""
    done: asyncio.Future[list[PartitionData]] = asyncio.get_running_loop().create_future()
    world.manager.fetch_records(
        params or FetchParams(), targets or (target(),), lambda rows: done.set_result([row for _, row in rows])
    )
    return done


def follower_params(broker_id: int = 2, max_wait_ms: int = 0, **others: int) -> FetchParams:
    return FetchParams(replica_id=broker_id, replica_epoch=100 + broker_id, max_wait_ms=max_wait_ms, **others)


def joined(row: PartitionData) -> bytes:
    """The bytes of a row's records."""
    parts = row.records
    assert isinstance(parts, tuple)
    return b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )


def values(row: PartitionData) -> list[bytes | None]:
    """What the records of a row say."""
    data = memoryview(joined(row))
    found: list[bytes | None] = []
    position = 0
    while size := next_batch_size(data, position):
        found += [record.value for record in decode_records(data, position)]
        position += size
    return found


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)
