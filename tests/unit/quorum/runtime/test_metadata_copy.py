"""A broker's copy writes checkpoints by size and by age, lets go of the log below, and starts from the last one."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from kvorum.protocol.records import patch_place
from kvorum.quorum.batches import METADATA_FOLDER, encode_batches
from kvorum.quorum.metadata_copy import MetadataCopy
from kvorum.quorum.records import BeginTransaction, EndTransaction, MetadataRecord
from kvorum.runtime.disk import OsDisk
from tests.unit.quorum.runtime.runtime_kit import settings, topic_record

INTERVAL_MS = 60_000
NEVER_BY_SIZE = 1 << 40
EPOCH = 3


class StoppedClock:
    """Stands still but for what a test adds."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms


class World:
    """One copy on a real disk under a clock that stands still."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = StoppedClock()
        self.copy: MetadataCopy

    async def open(self) -> None:
        self.copy = await MetadataCopy.open(OsDisk(), str(self.path), settings(), self.clock)

    async def follow(self, *records: MetadataRecord) -> None:
        """Take one batch as a fetch brings it."""
        (batch,) = encode_batches(records, self.clock.wall_ms())
        view = memoryview(bytearray(batch))
        patch_place(view, 0, self.copy.end_offset, EPOCH)
        await self.copy.append(view)

    async def checkpoints_after(self, milliseconds: int, bytes_max: int = NEVER_BY_SIZE, interval_ms: int = 0) -> int:
        """Let time pass; return how many checkpoints one call has written."""
        self.clock.now_ms += milliseconds
        before = set(self.checkpoints)
        wrote = await self.copy.snapshot_if_due(bytes_max, interval_ms)
        new = set(self.checkpoints) - before
        assert wrote == bool(new)
        return len(new)

    @property
    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.path / METADATA_FOLDER).glob("*.checkpoint"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_checkpoint_is_written_if_the_last_one_is_old_and_there_are_new_records(world: World) -> None:
    async def go() -> None:
        await world.open()
        assert await world.checkpoints_after(10 * INTERVAL_MS, interval_ms=INTERVAL_MS) == 0, "there is nothing"
        assert world.copy.snapshot_written == (0, 10 * INTERVAL_MS)
        await world.follow(topic_record(1))
        assert await world.checkpoints_after(0, interval_ms=INTERVAL_MS) == 1, "long since the start"
        await world.follow(topic_record(2))
        assert await world.checkpoints_after(INTERVAL_MS - 1, interval_ms=INTERVAL_MS) == 0, "not old enough"
        assert await world.checkpoints_after(1, interval_ms=INTERVAL_MS) == 1
        assert await world.checkpoints_after(10 * INTERVAL_MS, interval_ms=INTERVAL_MS) == 0, "nothing came since"
        size = (world.path / METADATA_FOLDER / world.checkpoints[0]).stat().st_size
        assert world.copy.snapshot_written == (size, 10 * INTERVAL_MS)
        assert world.checkpoints == [f"{2:020d}-{EPOCH:010d}.checkpoint"], "the one before has gone"
        assert world.copy.log_start_offset == 2, "and so has the log below"
        image = world.copy.image
        await world.copy.close()

        await world.open()
        assert world.copy.image.digest() == image.digest()
        assert (world.copy.end_offset, world.copy.epoch, world.copy.image.offset) == (2, EPOCH, 1)
        await world.follow(topic_record(3))
        assert await world.checkpoints_after(INTERVAL_MS - 1, interval_ms=INTERVAL_MS) == 0, "age counts from the start"
        await world.copy.close()

    run(go())


def test_an_interval_of_zero_switches_checkpoints_by_age_off_and_those_by_size_stay(world: World) -> None:
    async def go() -> None:
        await world.open()
        await world.follow(topic_record(1))
        assert await world.checkpoints_after(1000 * INTERVAL_MS) == 0
        assert await world.checkpoints_after(0, bytes_max=10_000) == 0
        await world.follow(*(topic_record(number) for number in range(2, 200)))
        assert await world.checkpoints_after(0, bytes_max=10_000) == 1
        assert await world.checkpoints_after(0, bytes_max=10_000) == 0, "counted anew"
        await world.copy.close()

    run(go())


def test_no_checkpoint_cuts_a_transaction_in_two(world: World) -> None:
    async def go() -> None:
        await world.open()
        await world.follow(BeginTransaction(name="large"), topic_record(1))
        assert await world.checkpoints_after(2 * INTERVAL_MS, bytes_max=1, interval_ms=INTERVAL_MS) == 0
        await world.follow(topic_record(2), EndTransaction())
        assert await world.checkpoints_after(0, interval_ms=INTERVAL_MS) == 1
        assert world.copy.log_start_offset == world.copy.end_offset == 4
        await world.copy.close()

    run(go())
