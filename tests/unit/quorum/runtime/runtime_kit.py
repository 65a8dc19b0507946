"""A controller over a MemoryLog, in virtual time and on a simulated disk; requests go to its handlers directly."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from typing_extensions import Buffer

from kvorum.network.addresses import Address
from kvorum.network.context import RequestContext
from kvorum.network.router import error_response, is_message
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.features import SUPPORTED
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.raft.log import Dropped
from kvorum.quorum.raft.memory_log import MemoryLog
from kvorum.quorum.records import MetadataRecord, Topic
from kvorum.quorum.server import ControllerServer
from kvorum.runtime.config import Settings
from kvorum.runtime.metrics import Metrics
from kvorum.security.principal import ANONYMOUS, Principal
from sim.clock import SimClock
from sim.disk import SimDisk
from sim.loop import SimLoop

T = TypeVar("T")

CLUSTER_ID = "Y2x1c3RlcnRlc3RjbHVzdA"
SESSION_MS = 9_000


def settings(**changes: object) -> Settings:
    """Return the settings of controller 1; a key's dots are written as underscores."""
    given: dict[str, object] = {
        "node.id": 1,
        "process.roles": "controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:19093,2@127.0.0.1:19094",
        "listeners": "CONTROLLER://127.0.0.1:19093",
        "log.dirs": "/data",
        "metadata.max.idle.interval.ms": 0,
    }
    return Settings.of({**given, **{key.replace("_", "."): value for key, value in changes.items()}})


class BreakableLog(MemoryLog):
    """A log that can be made to refuse appends, and to drop what is open, as a real one may."""

    def __init__(self, *, commits_at_once: bool) -> None:
        super().__init__(node_id=1, commits_at_once=commits_at_once)
        self.refuse_after: int | None = None
        """So many appends are taken; further ones are refused. None: all are taken."""

    def append(self, batch: Buffer, expected_offset: int, controller_epoch: int) -> "asyncio.Future[int]":
        if self.refuse_after == 0:
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            future.set_exception(Dropped("too much in flight"))
            return future
        if self.refuse_after is not None:
            self.refuse_after -= 1
        return super().append(batch, expected_offset, controller_epoch)

    def drop_open(self) -> None:
        """Drop what is appended and not committed, while leading on."""
        lost = list(self._open)
        self._open.clear()
        self.log_end_offset = self.high_watermark
        for _, _, future in lost:
            future.set_exception(Dropped("compared and not appended"))


class Doors:
    """A Prober whose refusals the test decides."""

    def __init__(self) -> None:
        self.refusing = False
        self.requested: list[Address] = []

    async def refuses(self, address: Address) -> bool:
        self.requested.append(address)
        return self.refusing


def registration(broker_id: int, incarnation: int = 1) -> BrokerRegistrationRequest:
    """Return what a broker says of itself when it comes."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=Uuid((incarnation + 1000 * broker_id).to_bytes(16, "big")),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)],
        features=[
            Feature(name=name, min_supported_version=it.min_supported, max_supported_version=it.max_supported)
            for name, it in SUPPORTED.items()
        ],
        log_dirs=[Uuid((7000 + broker_id).to_bytes(16, "big"))],
        rack=None,
    )


class World:
    """See the module. `server` is started and not active; `run` runs a coroutine to its end in virtual time."""

    def __init__(self, *, commits_at_once: bool = True, **changes: object) -> None:
        self.loop = SimLoop(random.Random(1))
        self.clock = SimClock(self.loop)
        self.disk = SimDisk(random.Random(2))
        self.log = BreakableLog(commits_at_once=commits_at_once)
        self.faults: list[BaseException] = []
        self.doors = Doors()
        self.metrics = Metrics()
        self.settings = settings(**changes)
        self.server = self.make_server(self.log)
        self.run(self.server.start())

    def make_server(self, log: MemoryLog) -> ControllerServer:
        return ControllerServer(
            self.settings,
            self.disk,
            self.clock,
            random.Random(3),
            log,
            cluster_id=CLUSTER_ID,
            on_fault=self.faults.append,
            directory="/data",
            prober=self.doors,
            metrics=self.metrics,
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def advance(self, milliseconds: float) -> None:
        """Let virtual time pass."""
        self.loop.run_for(milliseconds / 1000)

    def act(self, action: Callable[[], T]) -> T:
        """Do something inside the running loop, and let what follows from it happen."""

        async def inside() -> T:
            return action()

        result = self.run(inside())
        self.advance(1)
        return result

    def elect(self) -> None:
        self.act(self.log.elect)

    @property
    def image(self) -> MetadataImage:
        return self.server.controller.image

    async def ask(
        self, request: Message, *, version: int | None = None, principal: Principal = ANONYMOUS, connection: str = "c-1"
    ) -> Any:
        """Hand a request to its handler, as the listener would, errors turned into answers."""
        version = request.VERSIONS[1] if version is None else version
        ctx = RequestContext(
            principal=principal, api_key=request.API_KEY, api_version=version, connection_id=connection
        )
        try:
            result = self.server.router._routes[request.API_KEY].handle(ctx, request)
            return result if result is None or is_message(result) else await result
        except KafkaError as error:
            answer = error_response(request, version, error.code, error.message)
            assert answer is not None, error
            return answer

    async def register(self, broker_id: int, incarnation: int = 1, **changes: Any) -> BrokerRegistrationResponse:
        request = registration(broker_id, incarnation)
        for name, value in changes.items():
            setattr(request, name, value)
        answer: BrokerRegistrationResponse = await self.ask(request, connection=f"broker-{broker_id}")
        return answer

    async def beat(self, broker_id: int, epoch: int, **changes: Any) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=self.server.store.end_offset
        )
        for name, value in changes.items():
            setattr(request, name, value)
        answer: BrokerHeartbeatResponse = await self.ask(request, connection=f"broker-{broker_id}")
        return answer

    async def join(self, *broker_ids: int) -> dict[int, int]:
        """Register brokers and unfence them; return their epochs."""
        epochs = {}
        for broker_id in broker_ids:
            answer = await self.register(broker_id)
            assert answer.error_code == ErrorCode.NONE
            epochs[broker_id] = answer.broker_epoch
            assert not (await self.beat(broker_id, answer.broker_epoch)).is_fenced
        return epochs

    async def create_topic(self, name: str, partitions: int = 1, replicas: int = 1) -> CreateTopicsResponse:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        answer: CreateTopicsResponse = await self.ask(CreateTopicsRequest(topics=[topic]))
        return answer

    def end(self) -> None:
        assert not self.faults, self.faults
        assert not self.loop.errors, self.loop.errors
        self.run(self.server.close())
        self.loop.close()


def topic_record(number: int) -> Topic:
    """Return a topic that differs from all other numbers'."""
    return Topic(name=f"topic-{number}", topic_id=Uuid((100_000 + number).to_bytes(16, "big")))


def change(response: T, *records: MetadataRecord) -> Callable[[MetadataImage], Result[T]]:
    """Return a decide function with this outcome."""
    return lambda image: Result(records=list(records), response=response)


def names(image: MetadataImage) -> Sequence[str]:
    """Return the names of all topics."""
    return [topic.name for topic in image.topics.sorted_topics()]
