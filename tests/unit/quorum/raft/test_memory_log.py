"""The in-memory log behaves as the replicated one does, as far as one voter can."""

import asyncio
from collections.abc import Iterator

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft.log import (
    Dropped,
    MetadataLog,
    MetadataLogListener,
    NotController,
    SnapshotContent,
    SnapshotId,
    SnapshotView,
    UnknownOutcome,
)
from kvorum.quorum.raft.memory_log import MemoryLog


class Listener:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        header = parse_header(batch)
        assert (header.base_offset, header.partition_leader_epoch, header.max_timestamp) == (
            base_offset,
            epoch,
            timestamp_ms,
        )
        self.seen.append((base_offset, epoch))

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        self.seen.append(snapshot.snapshot_id)

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.seen.append(("leader", leader_id, epoch))

    def on_active(self, epoch: int) -> None:
        self.seen.append(("active", epoch))

    def on_inactive(self) -> None:
        self.seen.append("inactive")


def chunks() -> Iterator[bytes]:
    yield b"one"
    yield b"two"


class Source:
    def capture(self) -> SnapshotContent:
        return SnapshotContent(chunks=chunks())


def batch(count: int = 1) -> bytearray:
    return build_batch([Record(value=b"v", timestamp=3)] * count)


def test_it_is_a_metadata_log() -> None:
    async def run() -> None:
        log = MemoryLog()
        whole: MetadataLog = log
        listener = Listener()
        typed: MetadataLogListener = listener
        whole.add_listener(typed)
        assert isinstance(whole.append(batch(), 0, 1).exception(), NotController)
        epoch = log.elect()
        assert whole.append(batch(3), 0, epoch).result() == 0
        assert isinstance(whole.append(batch(), 0, epoch).exception(), Dropped)
        assert isinstance(whole.append(batch(), 3, epoch + 1).exception(), NotController)
        assert isinstance(whole.append(b"junk", 3, epoch).exception(), Dropped)
        assert whole.append(batch(), 3, epoch).result() == 3
        assert whole.read_index().result() == 4
        assert listener.seen == [("leader", 1, 1), ("active", 1), (0, 1), (3, 1)]
        assert [voter.node_id for voter in whole.voters()] == [1] and len(whole.replicas()) == 1

    asyncio.run(run())


def test_uncommitted_entries_are_lost_with_leadership() -> None:
    async def run() -> None:
        log = MemoryLog(commits_at_once=False)
        listener = Listener()
        log.add_listener(listener)
        epoch = log.elect()
        first, second = log.append(batch(), 0, epoch), log.append(batch(), 1, epoch)
        assert log.commit(1) == 1 and first.result() == 0 and not second.done()
        log.depose(leader_id=2)
        assert isinstance(second.exception(), UnknownOutcome)
        assert (log.high_watermark, log.log_end_offset, log.leader_id) == (1, 1, 2)
        assert isinstance(log.read_index().exception(), NotController)
        assert log.elect() == epoch + 2

    asyncio.run(run())


def test_snapshots_have_the_sources_content() -> None:
    async def run() -> None:
        log = MemoryLog()
        assert log.latest_snapshot() is None
        log.set_snapshot_source(Source())
        epoch = log.elect()
        assert log.take_snapshot().result() is None
        log.append(batch(), 0, epoch)
        assert log.take_snapshot().result() == SnapshotId(end_offset=1, epoch=epoch)
        view = log.latest_snapshot()
        assert view is not None and b"".join(view.chunks()) == b"onetwo" and view.read(2, 3) == b"etw"
        assert log.log_start_offset == 1 and log.take_snapshot().result() is None
        assert await log.resign() is None

    asyncio.run(run())


@pytest.mark.parametrize("count", [1, 10_000])
def test_the_limits_are_inclusive(count: int) -> None:
    async def run() -> None:
        log = MemoryLog()
        assert log.append(batch(count), 0, log.elect()).result() == 0

    asyncio.run(run())
