"""The broker's view of the metadata: follows the log from the active controller by Fetch, publishes every image in
order.

    open the copy, replay it -> fetch up to the high watermark of the first response -> publish the whole image
                             -> fetch, replay, publish changes, forever

Nothing is published before the first high watermark is reached, so a restarted broker never acts on old state; nor
before the image is permitted as the first one: the controller that responds first may lag. `image` and
`offset` are those that every publisher has applied. A fault that leaves the image behind the log (an unknown record, a
copy that differs from the log, a failed publisher) ends the node through `on_fault`: a broker without current metadata
is harmful. Source: Kafka's MetadataLoader, KafkaRaftClient as an observer (KIP-595, 630).
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from kvorum.network.dial import ChannelError
from kvorum.network.traffic import Traffic
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kvorum.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.controller_channel import ControllerChannel, ControllerNodes
from kvorum.quorum.image import MetadataDelta, MetadataImage, delta_between
from kvorum.quorum.metadata_copy import MetadataCopy, MetadataCopyDiverged
from kvorum.quorum.publisher import LoaderManifest, ManifestKind, MetadataPublisher
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.slices import Slices
from kvorum.quorum.snapshot_fetch import fetch_snapshot
from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet
from kvorum.runtime.recent import Recent
from kvorum.storage.log import Log

log = get_logger("quorum")

FETCH_WAIT_MS_MAX: Final = 500
"""How long the controller may hold a Fetch without new records (Kafka's MAX_FETCH_WAIT)."""
FETCHED_SECONDS: Final = 60


class PublisherFailed(Exception):
    """A publisher did not take a change over: it would miss it for good, so the node ends."""


class MetadataLoader:
    """Replicates the metadata log and publishes its images. One per broker; `start` once, `close` once."""

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        clock: Clock,
        nodes: ControllerNodes,
        *,
        node_id: int,
        cluster_id: str,
        chance: Random,
        on_fault: Callable[[BaseException], None],
        directory: str | None = None,
        directory_id: Uuid = ZERO_UUID,
    ) -> None:
        """Prepare. The copy is stored below `directory` (default: metadata.log.dir), for exclusive use."""
        self._settings = settings
        self._disk = disk
        self._clock = clock
        self._nodes = nodes
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._directory = directory if directory is not None else settings.str("metadata.log.dir")
        self._directory_id = directory_id
        self._on_fault = on_fault
        self.traffic = Traffic()
        """Requests for the metadata, and their answers."""
        client_id = f"metadata-{node_id}"
        self._channel = ControllerChannel(nodes, settings, client_id=client_id, chance=chance, traffic=self.traffic)
        self._backoff = self._channel.search_backoff()
        self._publishers: list[MetadataPublisher] = []
        self._copy: MetadataCopy | None = None
        self._image = MetadataImage()
        self._published = False
        self._may_begin: Callable[[MetadataImage], bool] = lambda image: True
        self._task: asyncio.Task[None] | None = None
        self._waiters: OrderedSet[tuple[int, asyncio.Future[None]]] = OrderedSet()
        self.high_watermark = 0
        """High watermark in the active controller's last response."""
        self.fetched = Recent(FETCHED_SECONDS)
        """Recent records; called with the monotonic clock."""

    @property
    def image(self) -> MetadataImage:
        """The image last published; empty before the first."""
        return self._image

    @property
    def offset(self) -> int:
        """The last offset in `image`, -1 before the first."""
        return self._image.offset

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of the last batch that came (ms, wall), -1 before the first."""
        return -1 if self._copy is None else self._copy.timestamp_ms

    @property
    def log(self) -> Log | None:
        """The copy's storage log, for reading only; None before `start` and after `close`."""
        return None if self._copy is None else self._copy.stored

    @property
    def readable_log(self) -> Log | None:
        """Return `log`, None while a thread removes parts of it: for clients that read it."""
        return None if self._copy is None else self._copy.readable

    @property
    def log_end_epoch(self) -> int:
        """The epoch of the last record that came, -1 before the first."""
        return -1 if self._copy is None else self._copy.epoch

    @property
    def snapshot(self) -> tuple[int, int]:
        """Bytes of the last snapshot written here, 0 before the first, and how many milliseconds ago that was."""
        return (0, 0) if self._copy is None else self._copy.snapshot_written

    @property
    def leader_id(self) -> int | None:
        """The known active controller."""
        return self._nodes.leader_id

    def install(self, *publishers: MetadataPublisher) -> None:
        """Call these, behind those already there, with every image. Before `start`: they then see the first."""
        assert self._task is None, "publishers are installed before the loader starts"
        self._publishers.extend(publishers)

    async def start(self, may_begin: Callable[[MetadataImage], bool] = lambda image: True) -> None:
        """Open and replay the local copy, then follow the log; `may_begin`: whether an image may be the first one.

        Raises OSError, UnknownRecord.
        """
        assert self._task is None, "started once"
        self._may_begin = may_begin
        self._copy = await MetadataCopy.open(self._disk, self._directory, self._settings, self._clock)
        log.info("local metadata log opened", offset=self._copy.end_offset - 1, epoch=self._copy.epoch)
        self._nodes.learn(self._nodes.leader_id, self._copy.epoch)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait_for_offset(self, offset: int, timeout_ms: int | None = None) -> None:
        """Wait until every publisher has taken over an image that contains this offset, at most until the timeout.

        At `close` a wait with a timeout ends, one without is cancelled.
        """
        if (self._published and self._image.offset >= offset) or timeout_ms == 0:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (offset, future)
        self._waiters.add(waiter)
        try:
            if timeout_ms is None:
                await future
            else:
                await asyncio.wait((future,), timeout=timeout_ms / 1000)
        finally:
            self._waiters.discard(waiter)

    async def wait_published(self) -> None:
        """Wait for the first image."""
        await self.wait_for_offset(-1)

    async def close(self) -> None:
        """Stop following; see `wait_for_offset` for what waits. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        await self._channel.close()
        for _, future in self._waiters:
            future.cancel()
        if self._copy is not None:
            await self._copy.close()
            self._copy = None

    async def _run(self) -> None:
        try:
            while True:
                node_id = self._nodes.pick()
                known = (self._nodes.leader_id, self._nodes.epoch)
                end_offset = -1 if self._copy is None else self._copy.end_offset
                try:
                    followed = await self._fetch(node_id)
                except (ChannelError, KafkaError) as error:
                    # A retry is right if the answer had no effect: stored batches are not sent again.
                    if self._copy is None or self._copy.stored.failure is not None:
                        raise
                    if self._copy.end_offset != end_offset:
                        raise
                    log.debug("metadata fetch failed", node_id=node_id, reason=error)
                    followed = False
                if followed:
                    self._backoff.reset()
                    continue
                if self._nodes.leader_id is None or known == (self._nodes.leader_id, self._nodes.epoch):
                    self._nodes.deny(node_id)
                    await asyncio.sleep(self._backoff.next_ms() / 1000)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.error("metadata replication stopped", offset=self.offset, reason=repr(error))
            self._on_fault(error)

    async def _fetch(self, node_id: int) -> bool:
        """Fetch once from this node; return whether it responded as the leader. Raises ChannelError, KafkaError."""
        copy = self._copy
        assert copy is not None
        timeout_ms = max(self._settings.int("controller.quorum.fetch.timeout.ms"), FETCH_WAIT_MS_MAX + 1)
        answer = await self._channel.send_to(node_id, self._request(copy), timeout_ms=timeout_ms)
        assert isinstance(answer, FetchResponse)
        if answer.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(answer.error_code), "the metadata fetch was rejected")
        partition = _only_partition(answer)
        self._nodes.learn_from(answer)
        match ErrorCode(partition.error_code):
            case ErrorCode.NONE:
                self._nodes.confirm(node_id)
                await self._take(node_id, copy, partition)
                return True
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._start_over(copy, f"offset {copy.end_offset} is not in the controller's log")
                return True
            case code:
                raise KafkaError(code, "the metadata fetch was rejected")

    def _request(self, copy: MetadataCopy) -> FetchRequest:
        fetch_bytes_max = self._settings.int("controller.quorum.fetch.max.bytes")
        partition = FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._nodes.epoch,
            fetch_offset=copy.end_offset,
            last_fetched_epoch=copy.epoch,
            log_start_offset=copy.log_start_offset,
            partition_max_bytes=fetch_bytes_max,
            replica_directory_id=self._directory_id,
        )
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_id=self._node_id,
            replica_state=ReplicaState(replica_id=self._node_id),
            max_wait=FETCH_WAIT_MS_MAX,
            min_bytes=1,
            max_bytes=fetch_bytes_max,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, topic=METADATA_TOPIC, partitions=[partition])],
        )

    async def _take(self, node_id: int, copy: MetadataCopy, partition: PartitionData) -> None:
        """Apply a leader's response."""
        if partition.diverging_epoch.end_offset >= 0:
            reason = (
                f"the log of epoch {partition.diverging_epoch.epoch} ends at {partition.diverging_epoch.end_offset}"
            )
            await self._start_over(copy, reason)
            return
        if partition.snapshot_id.end_offset >= 0:
            await self._take_snapshot(node_id, copy, partition)
            return
        self.high_watermark = partition.high_watermark
        records = partition.records
        delta, batches_count, bytes_count = MetadataDelta(copy.image), 0, 0
        if records:
            assert isinstance(records, memoryview), "a decoded answer holds its records in one piece"
            bytes_count = len(records)
            end_offset = copy.end_offset
            delta, batches_count = await copy.append(records)
            self.fetched.add(copy.end_offset - end_offset, self._clock.monotonic_ms())
        if not self._published:
            if copy.end_offset >= self.high_watermark and self._may_begin(copy.image):
                await self._publish_whole(copy.image)
        elif batches_count:
            await self._publish(delta, copy.image, ManifestKind.LOG_DELTA, batches_count, bytes_count)
        await copy.snapshot_if_due(
            self._settings.int("metadata.log.max.record.bytes.between.snapshots"),
            self._settings.int("metadata.log.max.snapshot.interval.ms"),
        )

    async def _take_snapshot(self, node_id: int, copy: MetadataCopy, partition: PartitionData) -> None:
        """Fetch and load the snapshot the leader named, and show publishers how it differs."""
        snapshot_id = SnapshotId(end_offset=partition.snapshot_id.end_offset, epoch=partition.snapshot_id.epoch)
        if snapshot_id.end_offset < copy.end_offset:
            await self._start_over(copy, f"the log restarts at the snapshot of {snapshot_id.end_offset}")
            return
        log.info("fetching metadata snapshot", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
        loop = asyncio.get_running_loop()
        part = await blocking.run(loop, copy.partial, snapshot_id)
        with part:
            await fetch_snapshot(
                lambda message, timeout_ms: self._channel.send_to(node_id, message, timeout_ms=timeout_ms),
                part,
                snapshot_id,
                settings=self._settings,
                cluster_id=self._cluster_id,
                node_id=self._node_id,
                leader_epoch=self._nodes.epoch,
            )
            await copy.load_snapshot(snapshot_id, part)
        if self._published:
            await self._publish_whole(copy.image)

    async def _start_over(self, copy: MetadataCopy, reason: str) -> None:
        """Discard the copy if none of it was published. Raises MetadataCopyDiverged otherwise."""
        if self._published:
            raise MetadataCopyDiverged(f"{reason}; this broker has already published offset {self.offset}")
        log.warning("local metadata log discarded", reason=reason, end_offset=copy.end_offset)
        await copy.clear()

    async def _publish_whole(self, image: MetadataImage) -> None:
        """Publish an image that does not follow from the last one by records."""
        delta = await blocking.run(asyncio.get_running_loop(), delta_between, self._image, image)
        await self._publish(delta, image, ManifestKind.SNAPSHOT, 0, 0)

    async def _publish(
        self, delta: MetadataDelta, image: MetadataImage, kind: ManifestKind, batches_count: int, bytes_count: int
    ) -> None:
        leader_id = self._nodes.leader_id
        manifest = LoaderManifest(
            kind=kind,
            offset=image.offset,
            epoch=image.epoch,
            batches_count=batches_count,
            bytes_count=bytes_count,
            leader_id=-1 if leader_id is None else leader_id,
        )
        for publisher in self._publishers:
            try:
                done = publisher.on_metadata_update(delta, image, manifest)
                if done is not None:
                    await done
            except (ChannelError, KafkaError) as error:  # not a fetch that failed, though it looks like one
                raise PublisherFailed(f"{type(publisher).__name__} at offset {image.offset}: {error!r}") from error
        if not self._published:
            log.info("metadata caught up", offset=image.offset, epoch=image.epoch)
        self._image, self._published = image, True
        for offset, future in self._waiters:
            if offset <= image.offset and not future.done():
                future.set_result(None)
        await Slices().run(delta.let_go())


def _only_partition(answer: FetchResponse) -> PartitionData:
    """Return the one partition of an answer. Raises KafkaError if it holds anything else."""
    if len(answer.responses) != 1 or len(answer.responses[0].partitions) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the response to a metadata fetch must have one partition")
    return answer.responses[0].partitions[0]
