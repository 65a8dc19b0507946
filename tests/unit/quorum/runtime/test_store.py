"""A controller's stored log and image, and how they are brought together with what Raft applies after a start."""

import asyncio
import random

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.quorum.batches import encode_batches
from kvorum.quorum.metadata_log_file import joined, open_metadata_log
from kvorum.quorum.metadata_store import MetadataMismatch, MetadataStore
from kvorum.quorum.raft.batches import placed
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.memory_log import MemoryLog, MemorySnapshot
from kvorum.quorum.records import BeginTransaction, EndTransaction, MetadataRecord
from kvorum.quorum.steps import STEP_COUNT, Steps, finish
from kvorum.runtime.clock import SystemClock
from sim.disk import SimDisk
from tests.unit.quorum.runtime.runtime_kit import World, change, names, settings, topic_record


def done(steps: Steps[None] | None) -> None:
    """Take what a listener returned to its end."""
    if steps is not None:
        finish(steps)


class Bench:
    """A store over a stored log on a simulated disk, fed batch by batch."""

    def __init__(self) -> None:
        self.disk = SimDisk(random.Random(1))
        self.history: list[bytes] = []
        self.end_offset = 0
        self.open()

    def open(self) -> None:
        self.stored = open_metadata_log(self.disk, "/data", settings(), SystemClock())
        self.store = MetadataStore(self.stored, SystemClock())

    def reopen(self) -> None:
        self.stored.close()
        self.open()

    def make(self, *records: MetadataRecord, epoch: int = 1) -> bytes:
        (batch,) = encode_batches(records, 5)
        data, header = placed(batch, self.end_offset, epoch)
        self.history.append(data)
        self.end_offset = header.next_offset
        return data

    def apply(self, batch: bytes) -> None:
        header = parse_header(batch)
        done(
            self.store.on_batch_applied(header.base_offset, header.partition_leader_epoch, header.max_timestamp, batch)
        )

    def write(self, *records: MetadataRecord, epoch: int = 1) -> None:
        self.apply(self.make(*records, epoch=epoch))

    def content(self) -> bytes:
        start, found = self.stored.log_start_offset, b""
        while start < self.stored.log_end_offset:
            data = joined(self.stored.read(start, 1 << 20).parts)
            found += data
            view = memoryview(data)
            position = 0
            while position < len(view):
                header = parse_header(view, position)
                start, position = header.next_offset, position + header.size
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def filled(bench: Bench, count: int = 5) -> Bench:
    for number in range(count):
        bench.write(topic_record(number))
    return bench


def test_the_stored_log_holds_the_committed_bytes(bench: Bench) -> None:
    filled(bench)
    assert bench.content() == b"".join(bench.history)
    assert names(bench.store.image) == [f"topic-{number}" for number in range(5)]
    assert (bench.store.end_offset, bench.store.epoch, bench.store.timestamp_ms) == (5, 1, 5)


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_a_restart_does_not_store_existing_records_again(bench: Bench, kept: int) -> None:
    """The stored log lost its tail, or nothing: Raft applies everything once more."""
    filled(bench)
    bench.stored.truncate_to(kept)
    bench.reopen()
    assert bench.stored.log_end_offset == kept
    for batch in bench.history:
        bench.apply(batch)
    assert bench.content() == b"".join(bench.history)
    assert len(names(bench.store.image)) == 5


def test_a_stored_log_serves_only_applied_records(bench: Bench) -> None:
    filled(bench)
    bench.reopen()
    for batch in bench.history[:3]:
        bench.apply(batch)
    assert bench.store.end_offset == 3
    assert joined(bench.store.read(0, 1 << 20).parts) == b"".join(bench.history[:3])


def test_another_history_in_the_stored_log_stops_the_node(bench: Bench) -> None:
    filled(bench)
    bench.reopen()
    first = bench.history[0]
    bench.end_offset, bench.history = 0, []
    with pytest.raises(MetadataMismatch, match=r"not the committed one.*`kvorum format -g`"):
        bench.apply(bench.make(topic_record(77)))
    assert first != bench.history[0]


def test_more_in_the_stored_log_than_was_ever_committed_stops_the_node(bench: Bench) -> None:
    filled(bench)
    bench.reopen()
    for batch in bench.history[:3]:
        bench.apply(batch)
    with pytest.raises(MetadataMismatch, match=r"move its metadata directory away.*`kvorum format -g`"):
        bench.store.on_active(2)


def test_a_gap_stops_the_node(bench: Bench) -> None:
    filled(bench, 1)
    bench.make(topic_record(1))
    with pytest.raises(MetadataMismatch):
        bench.apply(bench.make(topic_record(2)))


def snapshot_of(bench: Bench) -> MemorySnapshot:
    store = bench.store
    identity = SnapshotId(end_offset=store.end_offset, epoch=store.epoch)
    return MemorySnapshot(identity, b"".join(store.capture().chunks))


@pytest.mark.parametrize("kept", [0, 2, 4, 5])
def test_a_snapshot_and_the_log_behind_it_make_the_same_image(bench: Bench, kept: int) -> None:
    """The stored log reaches less far than the snapshot, or as far, or further."""
    filled(bench, 4)
    snapshot = snapshot_of(bench)
    bench.write(topic_record(4))
    digest = bench.store.image.digest()
    bench.stored.truncate_to(kept)
    bench.reopen()
    done(bench.store.on_snapshot_loaded(snapshot))
    assert bench.store.end_offset == 4
    bench.apply(bench.history[4])
    assert bench.store.image.digest() == digest
    assert bench.stored.log_end_offset == 5
    assert bench.stored.log_start_offset == (0 if kept >= 4 else 4)


def test_a_snapshot_of_another_history_replaces_the_stored_log(bench: Bench) -> None:
    filled(bench, 3)
    snapshot = snapshot_of(bench)
    other = Bench()
    for number in range(5):
        other.write(topic_record(50 + number), epoch=9)
    other.reopen()
    done(other.store.on_snapshot_loaded(snapshot))
    assert (other.stored.log_start_offset, other.stored.log_end_offset) == (3, 3)


def test_a_snapshot_inside_a_large_change_keeps_it_open_and_hidden(bench: Bench) -> None:
    filled(bench, 1)
    bench.write(BeginTransaction(name="large"), topic_record(10))
    bench.write(topic_record(11))
    assert bench.store.in_transaction
    snapshot = snapshot_of(bench)
    rest = bench.make(topic_record(12), EndTransaction())
    for store in (bench.store, Bench().store):
        if store is not bench.store:
            done(store.on_snapshot_loaded(snapshot))
        assert names(store.image) == ["topic-0"]
        header = parse_header(rest)
        done(store.on_batch_applied(header.base_offset, 1, 5, rest))
        assert names(store.image) == ["topic-0", "topic-10", "topic-11", "topic-12"]


def test_a_second_transaction_in_one_batch_is_the_one_that_is_open(bench: Bench) -> None:
    bench.write(BeginTransaction(), topic_record(1), EndTransaction(), topic_record(2), BeginTransaction())
    bench.write(topic_record(3))
    other = Bench().store
    done(other.on_snapshot_loaded(snapshot_of(bench)))
    assert other.in_transaction
    assert names(other.image) == ["topic-1", "topic-2"]


def test_an_append_wakes_the_waiters_for_its_offset() -> None:
    world = World()
    world.elect()

    async def go() -> None:
        controller, store = world.server.controller, world.server.store
        waiting = asyncio.ensure_future(store.wait_for_offset(store.end_offset + 2))
        await controller.submit(change(None, topic_record(1)))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await controller.submit(change(None, topic_record(2)))
        await waiting

    world.run(go())
    world.end()


def test_the_stored_log_is_trimmed_one_snapshot_behind() -> None:
    world = World()
    world.elect()

    async def go() -> None:
        starts, snapshots = [], []
        for number in range(30):
            await world.server.controller.submit(change(None, topic_record(number)))
            if number % 10 == 5:
                snapshot_id = await world.log.take_snapshot()
                assert snapshot_id is not None
                snapshots.append(snapshot_id.end_offset)
                await world.server.controller.submit(change(None, topic_record(100 + number)))
                await asyncio.sleep(0.1)
                starts.append(world.server.store.log_start_offset)
        assert starts == [0, *snapshots[:-1]]

    world.run(go())
    world.end()


def test_a_restarted_controller_has_the_same_image(world: World) -> None:
    world.elect()
    world.run(world.join(11))
    world.run(world.create_topic("t"))
    digest = world.image.digest()
    world.run(world.server.close())
    log = MemoryLog(node_id=1)
    world.server = world.make_server(log)

    async def go() -> None:
        await world.server.start()
        for batch in world.log.batches:
            header = parse_header(batch)
            for listener in log._listeners:
                done(listener.on_batch_applied(header.base_offset, 1, header.max_timestamp, batch))
        assert world.image.digest() == digest

    world.run(go())


def test_a_large_change_is_applied_in_steps_and_seen_at_once(bench: Bench) -> None:
    filled(bench, 1)
    records = [topic_record(100 + number) for number in range(STEP_COUNT + 1)]
    bench.write(BeginTransaction(name="large"), *records[:100])
    before = bench.store.end_offset
    last = bench.make(*records[100:], EndTransaction())
    steps = bench.store.on_batch_applied(before, 1, 5, last)
    assert steps is not None, "that many are not replayed in one go"
    seen = [(len(bench.store.image.topics.by_id), bench.store.end_offset)]
    for _ in steps:
        seen.append((len(bench.store.image.topics.by_id), bench.store.end_offset))
    assert seen[0] == (1, before) and seen[-1] == (1 + len(records), bench.end_offset)
    assert set(seen) == {seen[0], seen[-1]} and len(seen) > 4
    assert bench.store.image.offset == bench.end_offset - 1


def test_a_small_batch_is_applied_at_once(bench: Bench) -> None:
    batch = bench.make(*[topic_record(number) for number in range(STEP_COUNT)])
    assert bench.store.on_batch_applied(0, 1, 5, batch) is None
    assert len(names(bench.store.image)) == STEP_COUNT


def test_a_controller_whose_snapshot_is_not_loaded_yet_is_not_ready(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.elect()
    assert world.server.not_ready() is None
    monkeypatch.setattr(MemoryLog, "log_start_offset", property(lambda log: log.high_watermark + 1))
    assert world.server.not_ready() == "the metadata snapshot is not loaded yet"
    monkeypatch.undo()
