"""Metadata operations of a cluster's life, by the controller and a broker's loader, without network and voters.

    python -m bench.clients.metadata_life lived PARTITIONS FOLDER      creates them, kills a broker, writes a checkpoint
    python -m bench.clients.metadata_life restarted PARTITIONS FOLDER  loads the checkpoint as a broker that starts

Prints the costs as NAME=NUMBER, in seconds except `..._bytes` and `..._mib`. Each step also has its longest pause:
the maximum delay of a timer of the event loop. Five brokers are registered; the replica changes of one of them are
computed and not executed.
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import uvloop

from bench.child import follow_parent
from bench.processes import memory_mib
from kvorum.cluster.process.hosting import look_for_cycles_less
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.messages.fetch import FetchRequest, FetchResponse
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.api import create_topics, fetch
from kvorum.quorum.batches import METADATA_FOLDER
from kvorum.quorum.controller.features import SUPPORTED
from kvorum.quorum.controller.liveness import fence_refused_broker, heartbeat
from kvorum.quorum.controller.registration import register_broker
from kvorum.quorum.controller_channel import ControllerNodes
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.topics_delta import LocalReplicaChanges
from kvorum.quorum.loader import MetadataLoader
from kvorum.quorum.metadata_copy import MetadataCopy
from kvorum.quorum.metadata_log_file import joined
from kvorum.quorum.publisher import LoaderManifest
from kvorum.quorum.raft.memory_log import MemoryLog
from kvorum.quorum.server import ControllerServer
from kvorum.quorum.services import ControllerServices
from kvorum.quorum.slices import Slices
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.logs import Level, set_level
from kvorum.security.principal import ANONYMOUS

CLUSTER_ID = "Y2x1c3RlcnRlc3RjbHVzdA"
CONTROLLER, BROKERS, OBSERVED, KILLED = 100, 5, 1, 4
REPLICAS, TOPIC_PARTITIONS, REQUEST_TOPICS = 3, 10, 1_000
TICK_SECONDS, SETTLE_SECONDS = 0.001, 0.5
Figures = dict[str, float]


class Pauses:
    """A timer that notes how late it was."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._due = time.perf_counter()
        self._next()

    def _next(self) -> None:
        self._due = time.perf_counter() + TICK_SECONDS
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self.longest = max(self.longest, time.perf_counter() - self._due)
        self._next()

    @contextmanager
    def noted(self, name: str, found: Figures) -> Iterator[None]:
        """Add the work within to the figures of this name."""
        self.longest, began = 0.0, time.perf_counter()
        yield
        now = time.perf_counter()
        found[name] = found.get(name, 0.0) + now - began
        found[f"{name}_pause"] = max(found.get(f"{name}_pause", 0.0), self.longest, now - self._due)


class SlicedLog(MemoryLog):
    """A log of one voter that applies committed entries in slices of the loop's time, like Raft's."""

    def __init__(self) -> None:
        super().__init__(node_id=CONTROLLER, commits_at_once=False)
        self._applying: asyncio.Task[None] | None = None

    def append(self, batch: Any, expected_offset: int, controller_epoch: int) -> "asyncio.Future[int]":
        """See MetadataLog."""
        future = super().append(batch, expected_offset, controller_epoch)
        if self._applying is None:
            self._applying = asyncio.get_running_loop().create_task(self._apply())
        return future

    async def _apply(self) -> None:
        slices = Slices()
        while self._open:
            data, header, future = self._open.popleft()
            self.high_watermark = header.next_offset
            for listener in self._listeners:
                steps = listener.on_batch_applied(
                    header.base_offset, header.partition_leader_epoch, header.max_timestamp, data
                )
                if steps is not None:
                    await slices.run(steps)
            future.set_result(header.base_offset)
            await slices.breathe()
        self._applying = None


class Door:
    """Replaces the loader's channel: the controller's handler, open or closed."""

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self.open = asyncio.Event()

    async def send_to(self, node_id: int, message: FetchRequest, *, timeout_ms: int) -> FetchResponse:
        """Fetch, as over the wire."""
        answer = await fetch.handle(context_of(ApiKey.FETCH, 17), message, self._services)
        await self.open.wait()
        (partition,) = answer.responses[0].partitions
        partition.records = memoryview(joined(partition.records or ()))
        return answer

    async def close(self) -> None:
        """See ControllerChannel."""


class Replicas:
    """A publisher that computes a broker's replica changes."""

    def __init__(self) -> None:
        self.changes = 0

    async def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher."""
        if not delta.topics_delta.is_empty:
            found = LocalReplicaChanges()
            await Slices().run(delta.topics_delta.add_local_changes(OBSERVED, found))
            self.changes += len(found.leaders) + len(found.followers)


def settings_of(folder: str) -> Settings:
    """Return what controller and brokers need."""
    return Settings.of(
        {
            "node.id": CONTROLLER,
            "process.roles": "controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:19093",
            "listeners": "CONTROLLER://127.0.0.1:19093",
            "log.dirs": folder,
            "metadata.max.idle.interval.ms": 0,
            "broker.session.timeout.ms": 1_000_000,
        }
    )


def context_of(key: ApiKey, version: int) -> RequestContext:
    """Return the context of a request."""
    return RequestContext(principal=ANONYMOUS, api_key=key, api_version=version, connection_id="c")


def fail(error: BaseException) -> None:
    """End: a figure of what failed is none."""
    print(repr(error), file=sys.stderr, flush=True)
    os._exit(1)


def server_of(folder: str, log: MemoryLog) -> ControllerServer:
    """Return the controller."""
    return ControllerServer(
        settings_of(folder),
        OsDisk(),
        SystemClock(),
        Random(1),
        log,
        cluster_id=CLUSTER_ID,
        on_fault=fail,
        directory=f"{folder}/controller",
    )


def loader_of(folder: str, services: ControllerServices, replicas: Replicas) -> tuple[MetadataLoader, Door]:
    """Return the observed broker's loader, and the door by which it fetches."""
    loader = MetadataLoader(
        settings_of(folder),
        OsDisk(),
        SystemClock(),
        ControllerNodes({CONTROLLER: ("127.0.0.1", 19093)}, CLUSTER_ID),
        node_id=OBSERVED,
        cluster_id=CLUSTER_ID,
        chance=Random(2),
        on_fault=fail,
        directory=f"{folder}/broker",
    )
    loader.install(replicas)
    loader._channel = door = Door(services)  # type: ignore[assignment]
    return loader, door


async def register(services: ControllerServices) -> None:
    """Register the brokers and unfence them."""
    for broker_id in range(BROKERS):
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid((1_000 + broker_id).to_bytes(16, "big")),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)],
            features=[
                Feature(name=name, min_supported_version=each.min_supported, max_supported_version=each.max_supported)
                for name, each in SUPPORTED.items()
            ],
            log_dirs=[Uuid((2_000 + broker_id).to_bytes(16, "big"))],
            rack=None,
        )
        answer = await services.submit(None, register_broker, request, name="register")
        beat = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=answer.broker_epoch,
            current_metadata_offset=services.store.end_offset,
        )
        assert not (await services.submit(None, heartbeat, beat, name="beat")).is_fenced


def requests(partitions: int) -> Iterator[CreateTopicsRequest]:
    """Yield requests that create this number of partitions, ten per topic, with the most topics per request."""
    names = [f"topic-{number}" for number in range(max(1, partitions // TOPIC_PARTITIONS))]
    for start in range(0, len(names), REQUEST_TOPICS):
        yield CreateTopicsRequest(
            topics=[creatable(name, partitions) for name in names[start : start + REQUEST_TOPICS]]
        )


def creatable(name: str, partitions: int) -> CreatableTopic:
    """Return a topic that the controller is to place."""
    return CreatableTopic(
        name=name,
        num_partitions=min(TOPIC_PARTITIONS, partitions),
        replication_factor=REPLICAS,
        assignments=[],
        configs=[],
    )


async def lived(partitions: int, folder: str) -> Figures:
    """Create partitions, have a broker die, write a checkpoint."""
    found: Figures = {}
    log, replicas = SlicedLog(), Replicas()
    server = server_of(folder, log)
    await server.start()
    log.elect()
    await asyncio.sleep(0.01)
    services = server.services
    await register(services)
    loader, door = loader_of(folder, services, replicas)
    door.open.set()
    await loader.start()
    await loader.wait_for_offset(services.store.image.offset)
    door.open.clear()
    pauses = Pauses()
    for request in requests(partitions):
        with pauses.noted("create", found):
            answer = await create_topics.handle(context_of(ApiKey.CREATE_TOPICS, 7), request, services)
        check_created(answer)
    await follow(loader, door, services, pauses, "create", found)
    killed = services.store.image.cluster.brokers[KILLED]
    replicas.changes = 0
    with pauses.noted("elect", found):
        fenced = await services.submit(
            None, lambda context, epoch: fence_refused_broker(context, KILLED, epoch), killed.broker_epoch, name="fence"
        )
    assert fenced and not services.store.image.topics.index.has_leaderships(KILLED)
    await follow(loader, door, services, pauses, "elect", found)
    assert replicas.changes, "the death of one concerns the others"
    assert loader.image.digest() == services.store.image.digest()
    await loader.close()
    copy = await MetadataCopy.open(OsDisk(), f"{folder}/broker", settings_of(folder), SystemClock())
    gc.collect()
    await asyncio.sleep(0.1)
    with pauses.noted("write", found):
        assert await copy.snapshot_if_due(1, 0)
    await copy.close()
    await server.close()
    return found | {"snapshot_bytes": sum(path.stat().st_size for path in checkpoints(folder))}


def check_created(answer: CreateTopicsResponse) -> None:
    """Assert that all topics were."""
    assert all(each.error_code == ErrorCode.NONE for each in answer.topics)


async def follow(
    loader: MetadataLoader, door: Door, services: ControllerServices, pauses: Pauses, name: str, found: Figures
) -> None:
    """Make the broker load the controller's metadata."""
    with pauses.noted(f"{name}_followed", found):
        door.open.set()
        await loader.wait_for_offset(services.store.image.offset)
        door.open.clear()


def checkpoints(folder: str) -> Iterable[Path]:
    """Return the broker's."""
    return Path(folder, "broker", METADATA_FOLDER).glob("*.checkpoint")


class Nothing:
    """A door behind which there is nothing new."""

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader

    async def send_to(self, node_id: int, message: FetchRequest, *, timeout_ms: int) -> FetchResponse:
        """Answer that the copy's end is the log's, once."""
        if self._loader.offset >= 0:
            await asyncio.Event().wait()
        partition = message.topics[0].partitions[0]
        data = fetch.PartitionData(high_watermark=partition.fetch_offset, records=b"")
        return FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[data])])

    async def close(self) -> None:
        """See ControllerChannel."""


async def restarted(partitions: int, folder: str) -> Figures:
    """Start a broker's loader on a checkpoint, up to its first image."""
    found: Figures = {}
    loader, _ = loader_of(folder, None, Replicas())  # type: ignore[arg-type]
    loader._channel = Nothing(loader)  # type: ignore[assignment]
    pauses = Pauses()
    gc.collect()
    before, _ = memory_mib([os.getpid()])
    with pauses.noted("restart", found):
        await loader.start()
        await loader.wait_published()
    await asyncio.sleep(SETTLE_SECONDS)  # the input of the image is released
    gc.collect()
    after, _ = memory_mib([os.getpid()])
    assert loader.image.topics.partition_count >= partitions // TOPIC_PARTITIONS * TOPIC_PARTITIONS
    await loader.close()
    return found | {"image_mib": after - before}


def main() -> None:
    """Run the requested steps, and print their cost."""
    follow_parent()
    set_level(Level.WARNING)
    look_for_cycles_less()
    work = {"lived": lived, "restarted": restarted}[sys.argv[1]]
    found = uvloop.run(work(int(sys.argv[2]), sys.argv[3]))
    print(*(f"{name}={value!r}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
