"""Reading `__cluster_metadata` through a broker while the loader lets go of a part of its copy in a thread.

The copy and its reader are the real ones; at every step that the thread takes on the disk, and before its first and
behind its last, somebody reads. Whatever comes of a read, it is an answer a client knows what to do with.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from kvorum.broker.metadata.metadata_log import MetadataLogReader
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.parts import FileSlice, Part
from kvorum.protocol.records import patch_place
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.batches import METADATA_FOLDER, encode_batches
from kvorum.quorum.metadata_copy import MetadataCopy
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.records import Topic
from kvorum.quorum.snapshots import encode_snapshot
from kvorum.runtime.config import Settings
from sim.clock import SimClock
from sim.disk import SimDisk
from sim.loop import SimLoop

BATCHES = 40
EPOCH = 3
OFFSETS = (0, 20, BATCHES)


class WatchedDisk(SimDisk):
    """Tells of every step before it is taken, while somebody watches."""

    watcher: Callable[[], None] | None = None

    def _step(self) -> None:
        watcher, self.watcher = self.watcher, None  # what the watcher itself does is not watched
        if watcher is not None:
            try:
                watcher()
            finally:
                self.watcher = watcher

    def open(self, path: str, *, create: bool = False) -> Any:
        self._step()
        return super().open(path, create=create)

    def write_atomic(self, path: str, data: Any, *, private: bool = False) -> None:
        self._step()
        super().write_atomic(path, data, private=private)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self._step()
        super().sync_dir(path)


class World:
    """A copy of BATCHES batches, one record each, and a reader of it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimLoop(random.Random(seed))
        self.disk = WatchedDisk(random.Random(seed))
        self.clock = SimClock(self.loop)
        self.reads: list[ErrorCode | bytes] = []

    def run(self, story: Callable[["World"], Coroutine[Any, Any, None]]) -> None:
        self.loop.run_until_complete(story(self))
        self.loop.close()

    async def open(self) -> MetadataCopy:
        copy = await MetadataCopy.open(self.disk, "/data", Settings.of({"log.dirs": "/data"}), self.clock)
        self.reader = MetadataLogReader(lambda: copy.readable)
        return copy

    async def filled(self) -> MetadataCopy:
        copy = await self.open()
        for offset in range(BATCHES):
            await copy.append(batch_at(offset))
            if offset % 10 == 9:
                copy.stored.roll()
        return copy

    def batches_from(self, offset: int) -> bytes:
        return joined(self.reader.read(offset, 1_000, -1, True).parts)

    def read_everything(self) -> None:
        """Ask all that a client can ask for, and note its answers; what is no KafkaError is a fault of ours."""
        reader = self.reader
        assert reader.leader_epoch == EPOCH
        requested: list[Callable[[], object]] = [
            lambda: reader.log(-1).offset_for_timestamp(1),
            lambda: reader.log(-1).offset_of_max_timestamp(),
            lambda: reader.log(-1).end_offset_for_epoch(EPOCH),
            *(partial(self.batches_from, offset) for offset in OFFSETS),
        ]
        for ask in requested:
            try:
                found = ask()
            except KafkaError as error:
                self.reads.append(error.code)
            else:
                if isinstance(found, bytes):
                    self.reads.append(found)


def batch_at(offset: int) -> memoryview:
    topic = Topic(name=f"t{offset}", topic_id=Uuid(bytes([1, offset]) * 8))
    (batch,) = encode_batches([topic], 1000 + offset)
    view = memoryview(bytearray(batch))
    patch_place(view, 0, offset, EPOCH)
    return view


def joined(parts: tuple[Part, ...]) -> bytes:
    return b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )


def stray_files(disk: SimDisk) -> list[str]:
    """Index files without their log: what a read of a segment that goes leaves behind."""
    names = disk.listdir(f"/data/{METADATA_FOLDER}")
    bases = {name.removesuffix(".log") for name in names if name.endswith(".log")}
    return [name for name in names if name.endswith("index") and name.partition(".")[0] not in bases]


async def trim(copy: MetadataCopy) -> None:
    assert await copy.snapshot_if_due(bytes_max=1, interval_ms=0)


async def take_snapshot(copy: MetadataCopy) -> None:
    """Load a snapshot from beyond the copy's end, as a broker that was away for long does."""
    snapshot_id = SnapshotId(end_offset=BATCHES + 100, epoch=EPOCH)
    with copy.partial(snapshot_id) as part:
        for chunk in encode_snapshot(copy.image.to_records(), EPOCH, 1000):
            part.append(memoryview(chunk))
        await copy.load_snapshot(snapshot_id, part)


async def clear(copy: MetadataCopy) -> None:
    await copy.clear()


@pytest.mark.parametrize(("change", "start", "end"), [(trim, 40, 40), (take_snapshot, 140, 140), (clear, 0, 0)])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_read_in_the_middle_of_a_change_of_the_copy_is_answered_and_harms_nothing(
    change: Callable[[MetadataCopy], Coroutine[Any, Any, None]], start: int, end: int, reopened: bool
) -> None:
    async def story(world: World) -> None:
        copy = await world.filled()
        if reopened:  # files are opened and indexes read when they are needed
            await copy.close()
            copy = await world.open()
        whole = {offset: world.batches_from(offset) for offset in OFFSETS}
        world.reads.clear()
        world.disk.watcher = world.read_everything
        await change(copy)
        world.disk.watcher = None
        assert ErrorCode.OFFSET_NOT_AVAILABLE in world.reads
        for found in world.reads:
            assert found in (*whole.values(), ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE)
        assert copy.stored.failure is None
        assert stray_files(world.disk) == []
        assert (copy.stored.log_start_offset, copy.stored.high_watermark) == (start, end)
        assert world.batches_from(end) == b""
        with pytest.raises(KafkaError) as refused:
            world.batches_from(20)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        await copy.append(batch_at(end))
        assert len(world.batches_from(end)) == len(batch_at(end))

    World().run(story)


def test_a_stop_in_the_middle_of_a_change_closes_the_copy_after_it() -> None:
    async def story(world: World) -> None:
        copy = await world.filled()
        world.reader.wake()
        changing = asyncio.ensure_future(trim(copy))
        while copy.readable is not None:
            assert not changing.done()
            await asyncio.sleep(0.000_05)
        changing.cancel()
        await asyncio.wait([changing])
        assert changing.cancelled()
        assert copy.readable is None
        assert world.reader.leader_epoch == EPOCH
        await copy.close()
        assert copy.stored.log_start_offset == BATCHES
        assert (await world.open()).end_offset == BATCHES

    World().run(story)
