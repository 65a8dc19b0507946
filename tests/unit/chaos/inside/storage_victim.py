"""A process whose storage dies at a failpoint: `python storage_victim.py` forks one for each line it reads.

In:  {"folder": ..., "ledger": ..., "arm": "log.append.after=kill"} (arm "": run through; "prepare": true: the disk
     as a crash of an earlier process left it). Out: the exit code, a line each.
The ledger has, before and after each step, what must be there if the process dies in between, and what may be.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kvorum.broker.replica.future_copy import catch_up
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.runtime import failpoints
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.storage.cleaner import swap
from kvorum.storage.cleaner.cleaned_segment import CleanedSegment
from kvorum.storage.cleaner.hosts import ThreadHost
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_manager import LogManager

TOPIC_ID = Uuid(b"0123456789abcdef")
SMALL = LogConfig(segment_bytes=1200, index_interval_bytes=200, file_delete_delay_ms=0, retention_ms=-1)
PREALLOCATED = replace(SMALL, preallocate=True)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
MAIN, CUT, ANEW, GONE, FRESH = (TopicPartition(name, 0) for name in ("main", "cut", "anew", "gone", "fresh"))
KEYED, SWAPPED, MOVED = (TopicPartition(name, 0) for name in ("keyed", "swapped", "moved"))
LACKING = TopicPartition("lacking", 0)
"""Damaged in what was synced, and not used again: the mark of that must outlive every start."""
COPIED_BYTES_MAX = 1 << 20
KEYS = 5
"""Offsets of compacted logs have so many keys in turn."""
PADDING = "x" * 80


def config_of(topic: str) -> LogConfig:
    if topic in (KEYED.topic, SWAPPED.topic):
        return COMPACTED
    return PREALLOCATED if topic == MAIN.topic else SMALL


def other_directory(folder: str) -> str:
    """Return the second log directory, in which nothing lies but what was moved there."""
    return f"{folder}-other"


def manager_of(folder: str) -> LogManager:
    settings = Settings.of({"log.dirs": f"{folder},{other_directory(folder)}", "node.id": 1})
    manager = LogManager(OsDisk(), SystemClock(), settings, topic_config=config_of)
    manager.cordon([other_directory(folder)])
    return manager


@dataclass(slots=True)
class Content:
    """Of one log: {offset: value} that must be there, and that may be."""

    must: dict[int, str] = field(default_factory=dict)
    may: dict[int, str] = field(default_factory=dict)

    def below(self, offset: int) -> "Content":
        return Content(*({at: value for at, value in each.items() if at < offset} for each in (self.must, self.may)))


class Victim:
    """One process's storage, every step of it in the ledger."""

    def __init__(self, folder: str, ledger: str) -> None:
        self.folder = folder
        self.ledger = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.contents: dict[str, Content] = {}
        self.sequences: dict[str, tuple[int, int]] = {}
        self.producers = os.getpid() * 1000
        self.manager = manager_of(folder)

    def write(self, word: str, partition: TopicPartition, content: Content) -> None:
        line = {"word": word, "partition": str(partition), "must": content.must, "may": content.may}
        line["producer"] = self.sequences.get(str(partition))
        os.write(self.ledger, json.dumps(line).encode() + b"\n")

    def recalled(self, contents: dict[str, Content]) -> None:
        self.contents = contents

    def log(self, partition: TopicPartition) -> Log:
        return self.manager.get_or_create(partition, TOPIC_ID)

    def step(self, partition: TopicPartition, after: Content, action: Callable[[], Any]) -> Any:
        self.write("begin", partition, after)
        done = action()
        self.contents[str(partition)] = after
        self.write("done", partition, after)
        return done

    async def astep(self, partition: TopicPartition, after: Content, action: Callable[[], Awaitable[Any]]) -> None:
        self.write("begin", partition, after)
        await action()
        self.contents[str(partition)] = after
        self.write("done", partition, after)

    def content(self, partition: TopicPartition) -> Content:
        return self.contents.setdefault(str(partition), Content())

    def append(self, partition: TopicPartition, count: int, epoch: int = 1) -> None:
        for _ in range(count):
            before = self.content(partition)
            offset = self.log(partition).log_end_offset
            value = f"{partition} {offset} {os.getpid()}"
            own = {offset: value}
            after = Content(before.must | own, before.below(offset).may | own)
            producer, sequence = self.sequences.get(str(partition), (self.producers, -1))
            self.producers += str(partition) not in self.sequences
            record = Record(f"{value} {PADDING}".encode(), b"key %d" % (offset % KEYS), SystemClock().wall_ms())
            batch = build_batch([record], producer_id=producer, producer_epoch=0, base_sequence=sequence + 1)
            log = self.log(partition)
            self.sequences[str(partition)] = (producer, sequence + 1)
            self.step(partition, after, lambda log=log, batch=batch: log.append_as_leader(memoryview(batch), epoch))

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        self.sequences.pop(str(partition), None)
        after = self.content(partition).below(offset)
        self.step(partition, after, lambda: self.log(partition).truncate_to(offset))

    def restart(self, partition: TopicPartition, offset: int) -> None:
        self.sequences.pop(str(partition), None)
        self.step(partition, Content(), lambda: self.log(partition).truncate_fully_and_start_at(offset))

    def begin_at(self, partition: TopicPartition, offset: int) -> None:
        """Move the log start, and let go of what is below it."""
        before = self.content(partition)
        after = Content({at: value for at, value in before.must.items() if at >= offset}, before.may)

        def move() -> None:
            log = self.log(partition)
            log.high_watermark = log.log_end_offset
            log.maybe_increment_log_start_offset(offset)
            log.delete_old_segments(SystemClock().wall_ms())

        self.step(partition, after, move)

    async def clean(self, partition: TopicPartition) -> None:
        """Clean the dirtiest log, which is this one: of each key the last value must stay, the others may."""
        log = self.log(partition)
        log.high_watermark = log.log_end_offset
        log.roll()
        await self.manager.sync([partition])
        before = self.content(partition)
        last = {offset % KEYS: offset for offset in sorted(before.must)}
        after = Content({offset: before.must[offset] for offset in last.values()}, before.may)
        settings = Settings.of({"log.cleaner.dedupe.buffer.size": 10_000})
        cleaner = self.manager.make_cleaner(settings, Random(1), open_host=ThreadHost)
        await self.astep(partition, after, cleaner.clean_dirtiest)

    async def maintenance(self) -> None:
        """All that the broker has done by the clock."""
        later = SystemClock().wall_ms() + 10
        await self.manager.flush_dirty(later)
        await self.manager.checkpoint_recovery_points()
        await self.manager.checkpoint_log_start_offsets()
        await self.manager.checkpoint_high_watermarks()
        await self.manager.purge_deleted(later)


async def prepare(victim: Victim) -> None:
    """Leave a disk behind as a crash does: two logs synced, one of them and two others damaged."""
    manager = victim.manager
    await manager.start()
    for partition in (MAIN, CUT, ANEW, GONE, LACKING):
        victim.append(partition, 24)
    victim.log(MAIN).flush()
    victim.log(LACKING).flush()
    victim.append(MAIN, 8)
    await manager.checkpoint_recovery_points()
    anew = victim.log(ANEW)
    anew.high_watermark = anew.log_end_offset
    anew.maybe_increment_log_start_offset(18)
    await manager.checkpoint_log_start_offsets()
    damage(f"{victim.folder}/{ANEW}", 0)
    victim.sequences.clear()
    victim.step(ANEW, Content({}, victim.content(ANEW).may), lambda: None)
    for partition, segment in ((CUT, 1), (LACKING, -1)):
        lost_from = damage(f"{victim.folder}/{partition}", segment)
        content = victim.content(partition)
        victim.step(partition, Content(content.below(lost_from).must, content.may), lambda: None)
    await die_swapping(victim)


async def die_swapping(victim: Victim) -> None:
    """Leave a swap behind that is offered and not made, and what another one had just begun."""
    victim.append(SWAPPED, 30)
    victim.sequences.clear()
    stray = os.open(f"{victim.folder}/{SWAPPED}/{7:020d}.log.cleaned", os.O_CREAT | os.O_WRONLY)
    os.close(stray)
    victim.log(SWAPPED).roll()
    # Two segments become one: the second one's files are still there, whole, when it is offered.
    failpoints.arm("cleaner.swap.after=raise")
    joined = replace(COMPACTED, segment_bytes=100_000)
    victim.manager.update_topic_config(SWAPPED.topic, joined)
    await victim.clean(SWAPPED)
    assert any(name.endswith(".log.swap") for name in os.listdir(f"{victim.folder}/{SWAPPED}"))


async def compaction(victim: Victim) -> None:
    """Clean twice, and cut what is clean, with a cleaned segment offered."""
    victim.append(KEYED, 40)
    await victim.clean(KEYED)
    victim.append(KEYED, 30, epoch=2)
    await victim.clean(KEYED)
    log = victim.log(KEYED)
    assert log.cleaning.cleaned_offset == log.log_end_offset == 70
    target = CleanedSegment(OsDisk(), log.folder, 0, index_interval_bytes=200, buffer_size=1000, has_txn_file=False)
    target.finish()
    target.close()
    swap.prepare(OsDisk(), log.folder, 0)
    swap.offer(OsDisk(), log.folder, 0)
    log.cleaning.is_offered = True
    victim.truncate(KEYED, 67)
    assert not any(".swap" in name for name in os.listdir(log.folder))
    victim.append(KEYED, 5, epoch=3)


async def move(victim: Victim) -> None:
    """Have a log lie in the other directory from now on: a copy takes its place."""
    victim.append(MOVED, 20)
    futures, target = victim.manager.futures, victim.manager.directory(other_directory(victim.folder))
    assert target is not None
    await futures.create(MOVED, TOPIC_ID, target)

    async def promote() -> None:
        done = await futures.promote(
            MOVED, lambda log, future: catch_up(log, future, COPIED_BYTES_MAX), lambda future: None
        )
        assert done and victim.manager.dir_of(MOVED) is target

    await victim.astep(MOVED, victim.content(MOVED), promote)
    victim.append(MOVED, 5)


def damage(folder: str, number: int) -> int:
    """Flip a byte in the first batch of a segment; return the offset from which on nothing can be trusted."""
    name = sorted(each for each in os.listdir(folder) if each.endswith(".log"))[number]
    with open(f"{folder}/{name}", "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    return int(name.removesuffix(".log"))


async def live(victim: Victim) -> None:
    """Recover, do everything that a broker does to its logs, stop in order, start once more."""
    await victim.manager.start()
    victim.append(MAIN, 3, epoch=2)
    await victim.maintenance()
    victim.append(MAIN, 9, epoch=2)
    victim.write("begin", MAIN, victim.content(MAIN))
    await victim.manager.sync([MAIN])
    await victim.manager.checkpoint_recovery_points()
    end = victim.log(MAIN).log_end_offset
    victim.truncate(MAIN, end - 1)
    victim.truncate(MAIN, end - 12)
    victim.append(MAIN, 10, epoch=3)
    victim.log(MAIN).flush()
    victim.begin_at(MAIN, victim.log(MAIN).log_end_offset - 4)
    await victim.maintenance()
    await victim.manager.sync_topic_id(victim.log(FRESH))
    victim.append(FRESH, 10)
    victim.restart(FRESH, 100)
    victim.append(FRESH, 10)
    victim.log(FRESH).flush()
    await victim.manager.checkpoint_recovery_points()
    victim.truncate(FRESH, 103)
    victim.append(CUT, 12, epoch=2)
    await compaction(victim)
    await move(victim)
    gone = Content({}, victim.content(GONE).may)
    victim.sequences.pop(str(GONE), None)
    await victim.astep(GONE, gone, lambda: victim.manager.delete(GONE))
    victim.step(GONE, Content(), lambda: None)
    await victim.maintenance()
    await victim.manager.shutdown(broker_epoch=7)
    victim.manager = manager_of(victim.folder)
    await victim.manager.start()
    victim.append(MAIN, 3, epoch=4)


def recalled(ledger: str) -> dict[str, Content]:
    """What an earlier process left in its ledger."""
    found: dict[str, Content] = {}
    with open(ledger) as file:
        for line in map(json.loads, file):
            sides = ({int(at): value for at, value in line[side].items()} for side in ("must", "may"))
            found[line["partition"]] = Content(*sides)
    return found


def child(folder: str, ledger: str, arm: str, *, is_first: bool) -> None:
    """Be the process."""
    victim = Victim(folder, ledger)
    if not is_first:
        victim.recalled(recalled(ledger))
    failpoints.arm(arm)
    asyncio.run(prepare(victim) if is_first else live(victim))


def main() -> None:
    """Fork one for each line; each ends without a word to its files, as a process that dies does."""
    for line in sys.stdin:
        case = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                child(case["folder"], case["ledger"], case.get("arm", ""), is_first=case.get("prepare", False))
                os._exit(0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
