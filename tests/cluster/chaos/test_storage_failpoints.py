"""Storage, killed with -9 at each of its failpoints under load: recovery loses nothing, and brings nothing back."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvorum.protocol.parts import FileSlice
from kvorum.protocol.records import Record, batches, build_batch, decode_records
from kvorum.storage.damage import Lack
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_manager import LogManager
from tests.unit.chaos.inside.places import ROOT, places_in
from tests.unit.chaos.inside.storage_victim import LACKING, MOVED, TOPIC_ID, Content, manager_of, other_directory

PLACES = sorted(places_in("storage") | places_in("runtime"))
OFTEN = (
    *("index.", "file.replace.", "log.append.", "log.roll.", "log.create-segment.", "durable-length.write."),
    *("cleaner.write.", "cleaner.sync.", "cleaner.swap.index.", "cleaner.replace."),
)
LATER_HIT = 5
"""Places that are reached often are tried there too."""
SHORT = {
    *("checkpoint.write.before", "clean-shutdown.write.before", "cleaner.swap.prepared", "file.replace.written"),
    *("index.write.after", "log.append.after", "log.create-segment.created", "log.flush.sync.before"),
    *("log.promote.renamed", "log.recover.cut.before", "log.truncate.renamed", "producer-snapshot.write.before"),
}
"""The failpoints of the default run, at their first hit; the others are long."""
HITS = [(place, 1) for place in PLACES] + [(place, LATER_HIT) for place in PLACES if place.startswith(OFTEN)]
CASES = [pytest.param(place, hit, marks=() if place in SHORT and hit == 1 else pytest.mark.long) for place, hit in HITS]


@dataclass(slots=True)
class Victims:
    """The process that forks the ones that die."""

    process: "subprocess.Popen[str]"
    template: Path

    def run(self, folder: Path, ledger: Path, arm: str = "", *, prepare: bool = False) -> int:
        """Run one to its end; return its exit code."""
        assert self.process.stdin is not None and self.process.stdout is not None
        case = {"folder": str(folder), "ledger": str(ledger), "arm": arm, "prepare": prepare}
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    """One process for all, and a disk as a crash left it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.chaos.inside.storage_victim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=ROOT,
    )
    with process:
        found = Victims(process, tmp_path_factory.mktemp("template"))
        folder = found.template / "data"
        for path in (str(folder), other_directory(str(folder))):
            Path(path).mkdir()
        assert found.run(folder, found.template / "ledger", prepare=True) == 0
        yield found
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


@dataclass(slots=True)
class Expected:
    """What the ledger says of one log: the content before and after the step that was under way, if one was."""

    before: Content
    after: Content
    producer: tuple[int, int] | None

    @property
    def must(self) -> dict[int, str]:
        return {at: value for at, value in self.before.must.items() if self.after.must.get(at) == value}

    @property
    def may(self) -> set[tuple[int, str]]:
        return {*self.before.may.items(), *self.after.may.items()}


def expected(ledger: Path) -> dict[str, Expected]:
    found: dict[str, Expected] = {}
    for line in map(json.loads, ledger.read_text().splitlines()):
        content = Content(*({int(at): value for at, value in line[side].items()} for side in ("must", "may")))
        producer = None if line["producer"] is None else (line["producer"][0], line["producer"][1])
        last = found.setdefault(line["partition"], Expected(Content(), Content(), None))
        last.after = content
        if line["word"] == "done":
            last.before = content
        last.producer = producer
    return found


def content_of(log: Log) -> dict[int, str]:
    """{offset: value} from the log start to the log end, every batch in its place; of a compacted log, those left."""
    found: dict[int, str] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        parts = log.read(offset, 1 << 20).parts
        data = b"".join(p.file.pread(p.size, p.position) if isinstance(p, FileSlice) else bytes(p) for p in parts)
        assert data, f"nothing at {offset}"
        for position, header in batches(memoryview(data)):
            records = decode_records(memoryview(data), position)
            assert len(records) == 1 or log.config.is_compacted
            for record in records:
                assert record.value is not None
                found[record.offset] = bytes(record.value).decode().rpartition(" ")[0]
            is_in_place = header.base_offset == offset or header.base_offset < log.log_start_offset
            assert is_in_place or (log.config.is_compacted and header.base_offset > offset)
            offset = header.next_offset
    return found


def is_assigned(log: Log, directory: LogDir) -> bool:
    """Say what the metadata say: the move was told before the copy took the log's place."""
    return directory.path.endswith(other_directory("")) is (log.partition == MOVED)


async def recovered(folder: Path, ledger: Path) -> None:
    """Open what is left, and hold it against the ledger."""
    manager = manager_of(str(folder))
    await manager.start()
    await manager.settle_rivals(lambda log: False, is_assigned)
    try:
        assert all(directory.is_online for directory in manager.dirs)
        assert manager.lack_of(LACKING) is Lack.END, "the start forgot that synced records are missing"
        for name, wanted in expected(ledger).items():
            judge(manager, name, wanted)
    finally:
        await manager.shutdown()


def judge(manager: LogManager, name: str, wanted: Expected) -> None:
    logs = {str(log.partition): log for log in manager.logs()}
    log = logs.get(name)
    found = {} if log is None else content_of(log)
    assert wanted.must.items() <= found.items(), f"{name} lost what was acknowledged"
    assert {*found.items()} <= wanted.may, f"{name} brought back what was taken away, or made something up"
    if log is None:
        return
    assert log.topic_id == TOPIC_ID or not wanted.must
    end = log.log_end_offset
    last = max(wanted.must, default=None)
    if wanted.producer is not None and last is not None and last == end - 1 and wanted.before.must == wanted.after.must:
        producer, sequence = wanted.producer
        again = build_batch(
            [Record(b"again", b"key", 1)], producer_id=producer, producer_epoch=0, base_sequence=sequence
        )
        info = log.append_as_leader(memoryview(again), 9)
        assert info.is_duplicate and info.last_offset == last, f"{name} forgot its producer"
    log.append_as_leader(memoryview(build_batch([Record(b"new " + b"x" * 80, b"key", 1)])), 9)
    assert log.log_end_offset == end + 1


@pytest.mark.parametrize(("place", "hit"), CASES)
def test_nothing_acknowledged_is_lost_when_storage_dies_at(
    place: str, hit: int, victims: Victims, tmp_path: Path
) -> None:
    folder, ledger = tmp_path / "data", tmp_path / "ledger"
    template = str(victims.template / "data")
    shutil.copytree(template, folder)
    shutil.copytree(other_directory(template), other_directory(str(folder)))
    shutil.copy(victims.template / "ledger", ledger)
    code = victims.run(folder, ledger, f"{place}=kill@{hit}")
    assert code == -signal.SIGKILL, "the place was never reached"
    asyncio.run(recovered(folder, ledger))
