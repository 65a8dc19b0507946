"""The cleaner's worker process: what it does is what a thread does, and nothing is lost with it."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime import failpoints
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.process import identify
from kvorum.runtime.worker import WorkerLost
from kvorum.storage.cleaner import manager as manager_module
from kvorum.storage.cleaner.hosts import Host, OpenHost, ProcessHost, ThreadHost, open_host
from kvorum.storage.cleaner.manager import LogCleaner
from kvorum.storage.cleaner.work import Advanced, Begin, Map, Slice, Task, Write
from kvorum.storage.cleaner.worker import DiskFailed, Fault, Request, Unreadable, advanced, encoded
from kvorum.storage.log import Log
from kvorum.storage.log_manager import LogManager
from kvorum.storage.segment import CorruptSegment
from tests.unit.storage.cleaner.kit import PARTITION, compacted, end_transaction, put, records_of
from tests.unit.storage.kit import NOW_MS, StillClock, new_disk
from tests.unit.storage.test_log_manager import TOPIC_ID

SETTINGS = {"log.cleaner.dedupe.buffer.size": 24 * 1000}


@dataclass(slots=True)
class Node:
    """A log of a real disk, and its cleaner."""

    folder: Path
    open_host: OpenHost = open_host
    offline: list[Exception] = field(default_factory=list)
    manager: LogManager = field(init=False)
    cleaner: LogCleaner = field(init=False)
    log: Log = field(init=False)

    async def start(self) -> "Node":
        settings = Settings.of({"log.dirs": str(self.folder), "node.id": 1, **SETTINGS})
        self.manager = LogManager(
            OsDisk(),
            StillClock(),
            settings,
            topic_config=lambda _: compacted(segment_bytes=3000, delete_retention_ms=1000),
            on_offline=lambda _, error: self.offline.append(error),
        )
        await self.manager.start()
        self.cleaner = self.manager.make_cleaner(settings, random.Random(1), self.open_host)
        self.log = self.manager.get_or_create(PARTITION, TOPIC_ID)
        return self

    async def settle(self) -> None:
        self.log.high_watermark = self.log.log_end_offset
        self.log.roll()
        await self.manager.flush_dirty(NOW_MS)

    @property
    def host(self) -> ProcessHost:
        found = self.cleaner._hosts[0]
        assert isinstance(found, ProcessHost)
        return found

    async def close(self) -> None:
        await self.cleaner.close()
        await self.manager.shutdown()


def fill(log: Log) -> None:
    """All that a cleaner has an eye on."""
    rng = random.Random(3)
    for number in range(150):
        pairs = [(b"k%d" % rng.randrange(30), rng.randbytes(20) if rng.random() < 0.9 else None) for _ in range(4)]
        codec = list(Codec)[number % len(Codec)]
        put(log, *pairs, timestamp=NOW_MS + number, codec=codec, producer_id=number % 3, producer_epoch=0,
            base_sequence=(number // 3) * 4)  # fmt: skip
        if number % 9 == 0:
            put(log, (b"t", b"%d" % number), producer_id=50, producer_epoch=0, base_sequence=number // 9,
                is_transactional=True)  # fmt: skip
            end_transaction(log, 50, is_commit=number % 2 == 0)


def run(folder: Path, story: Callable[[Node], Awaitable[None]], open_host: OpenHost = open_host) -> Node:
    """Start, do it, close."""
    node = Node(folder, open_host)

    async def whole() -> None:
        await node.start()
        try:
            await story(node)
        finally:
            await node.close()

    folder.mkdir(exist_ok=True)
    asyncio.run(whole())
    return node


async def fill_and_clean(node: Node) -> None:
    for _ in range(2):
        fill(node.log)
        await node.settle()
        assert await node.cleaner.clean_dirtiest()


def test_a_worker_process_gives_the_same_result_as_a_thread(tmp_path: Path) -> None:
    """The same bytes, whoever writes them."""
    found: list[dict[str, bytes]] = []
    for name, host in (("process", open_host), ("thread", ThreadHost)):
        run(tmp_path / name, fill_and_clean, host)
        folder = tmp_path / name / str(PARTITION)
        files = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".deleted")}
        found.append({name: data for name, data in files.items() if name.partition(".")[2] in ("log", "txnindex")})
    assert found[0] == found[1]
    assert any(name.endswith(".txnindex") for name in found[0])


def test_the_disk_determines_the_worker() -> None:
    assert isinstance(open_host(OsDisk(), StillClock()), ProcessHost)
    assert isinstance(open_host(new_disk(), StillClock()), ThreadHost)


def test_the_worker_ends_with_the_cleaner(tmp_path: Path) -> None:
    pids: list[int] = []

    async def story(node: Node) -> None:
        await fill_and_clean(node)
        assert node.host.pid is not None and node.host.pid != os.getpid()
        pids.append(node.host.pid)

    run(tmp_path / "data", story)
    assert identify(pids[0]) is None


def test_a_worker_with_nothing_to_do_ends_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "IDLE_SECONDS", 0.05)

    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        node.cleaner.configure(Settings.of({**SETTINGS, "log.cleaner.backoff.ms": 10}))
        node.cleaner.start()
        pids: set[int] = set()
        async with asyncio.timeout(20):
            while not pids or any(map(identify, pids)):
                pids |= {
                    host.pid for host in node.cleaner._hosts.values() if isinstance(host, ProcessHost) and host.pid
                }
                await asyncio.sleep(0.005)
        assert not node.cleaner._hosts
        assert node.log.cleaning.cleaned_offset is not None

    run(tmp_path / "data", story)


class Deadly:
    """A host whose worker is killed before it does its `at`-th slice."""

    def __init__(self, at: list[int]) -> None:
        self.at, self.count, self.host = at, 0, ProcessHost()

    async def advance(self, task: Task | None, bytes_max: int) -> Advanced:
        self.count += 1
        if self.count in self.at and self.host.pid is not None:
            os.kill(self.host.pid, signal.SIGKILL)
        return await self.host.advance(task, 1)

    async def close(self) -> None:
        await self.host.close()


@pytest.mark.parametrize("at", [2, 3, 5, 9])
def test_a_killed_worker_leaves_the_log_unchanged(at: int, tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        before = {record.key: record for record in records_of(node.log)}
        assert not await node.cleaner.clean_dirtiest()
        assert {record.key: record for record in records_of(node.log)} == before
        assert not node.cleaner.uncleanable and not node.offline
        assert not [path for path in (tmp_path / "data").rglob("*") if path.suffix in (".cleaned", ".swap")]
        assert await node.cleaner.clean_dirtiest(), "another worker does it"
        assert {record.key: record for record in records_of(node.log)}.items() <= before.items()

    hosts = iter([Deadly([at]), Deadly([])])
    run(tmp_path / "data", story, lambda *_: next(hosts))


def test_a_log_of_which_workers_keep_dying_is_left_alone(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        for _ in range(manager_module.LOST_MAX):
            assert not node.cleaner.uncleanable
            assert not await node.cleaner.clean_dirtiest()
        assert node.cleaner.uncleanable == [node.log]
        assert node.log.failure is None and not node.offline

    run(tmp_path / "data", story, lambda *_: Deadly([2]))


@pytest.fixture
def armed() -> Iterator[Callable[[str], None]]:
    yield failpoints.arm
    failpoints.arm("")


@pytest.mark.parametrize("place", ["cleaner.create.after", "cleaner.write.before", "cleaner.sync.log.after"])
def test_a_disk_that_fails_the_worker_takes_the_directory_offline(
    place: str, tmp_path: Path, armed: Callable[[str], None]
) -> None:
    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        armed(f"{place}=raise")
        assert not await node.cleaner.clean_dirtiest()
        assert [str(error) for error in node.offline] == [f"[Errno 5] failpoint {place}"]

    run(tmp_path / "data", story)


def test_bytes_that_the_worker_cannot_read_are_the_logs_fault(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        fill(node.log)
        await node.settle()
        path = tmp_path / "data" / str(PARTITION) / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)
        assert not await node.cleaner.clean_dirtiest()
        assert node.cleaner.uncleanable == [node.log] and not node.offline

    run(tmp_path / "data", story)


def test_tasks_and_results_are_transferred_unchanged(tmp_path: Path) -> None:
    tasks: list[Task] = []

    class Watching:
        def __init__(self, host: Host) -> None:
            self.host = host

        async def advance(self, task: Task | None, bytes_max: int) -> Advanced:
            if task is not None:
                tasks.append(task)
            return await self.host.advance(task, bytes_max)

        async def close(self) -> None:
            await self.host.close()

    run(tmp_path / "data", fill_and_clean, lambda disk, clock: Watching(ThreadHost(disk, clock)))
    limit = Slice(steps_max=1, ms_max=2, bytes_max=3)
    for task in tasks:
        request = Request(task=task, limit=limit, failpoints="a=kill")
        assert msgspec.msgpack.decode(encoded(request), type=Request) == request
    assert {type(task) for task in tasks} >= {Begin, Map, Write}
    answer = Advanced(size=5, is_done=True, source_counts=(1, 2), latest_offset=2**62)
    assert advanced(encoded(answer)) == answer


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (DiskFailed(number=28, text="full", path="/x"), OSError),
        (Unreadable(text="no batch"), CorruptSegment),
        (Unreadable(text="bad", code=int(ErrorCode.INVALID_RECORD)), KafkaError),
        (Fault(text="ours"), AssertionError),
    ],
)
def test_the_workers_exception_is_raised_in_the_caller(
    answer: DiskFailed | Unreadable | Fault, error: type[Exception]
) -> None:
    with pytest.raises(error, match=getattr(answer, "text", "")) as raised:
        advanced(encoded(answer))
    if isinstance(raised.value, OSError):
        assert (raised.value.errno, raised.value.filename) == (28, "/x")


def test_a_worker_without_responses_is_abandoned() -> None:
    async def story() -> None:
        host = ProcessHost()
        with pytest.raises(AssertionError, match="a cleaning has begun"):
            await host.advance(Map(), 1)
        assert host.pid is not None
        os.kill(host.pid, signal.SIGKILL)
        with pytest.raises(WorkerLost):
            await host.advance(Map(), 1)
        await host.close()
        assert host.pid is None

    asyncio.run(story())
