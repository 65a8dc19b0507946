"""A real process, killed with -9 before and after each persistence step: what it acknowledged is there afterwards.

Run as a script this file forks one such process for each line it reads: importing takes longer than all they do.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft.log import SnapshotContent, SnapshotView
from kvorum.quorum.raft.opening import format_raft, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.runtime import failpoints
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.disk import OsDisk

SEGMENT_BYTES = 4096
SETTINGS = RaftSettings(
    election_timeout_min_s=0.02,
    election_timeout_max_s=0.04,
    heartbeat_s=0.005,
    snapshot_bytes=3000,
    retained_entries=0,
    segment_bytes=SEGMENT_BYTES,
)
POINTS = (
    "journal.write.before",
    "journal.write.after",
    "journal.sync.after",
    "journal.spare.before",
    "journal.spare.after",
    "journal.roll.before",
    "journal.roll.written",
    "journal.roll.renamed",
    "journal.roll.after",
    "journal.drop.before",
    "journal.drop.after",
    "snapshot.write.before",
    "snapshot.write.after",
    "snapshot.sync.after",
    "snapshot.rename.before",
    "snapshot.rename.after",
    "snapshot.durable",
    "snapshot.drop.before",
    "snapshot.drop.after",
)


class Nobody:
    """A link to nobody: one voter."""

    def send(self, peer: int, frame: bytes) -> None:
        raise AssertionError("one voter sends nothing")

    def reset(self, peer: int) -> None:
        raise AssertionError("one voter has no links")


class State:
    """A listener and snapshot source whose state is nothing but its length."""

    def __init__(self) -> None:
        self.active = asyncio.Event()

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        pass

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        pass

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        pass

    def on_active(self, epoch: int) -> None:
        self.active.set()

    def on_inactive(self) -> None:
        pass

    def capture(self) -> SnapshotContent:
        return SnapshotContent(chunks=iter((b"state",)))


def die(error: BaseException) -> None:
    """End as a process does after a fault of its own, and say which."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(3)


async def run(path: str, count: int) -> None:
    """Print the high watermark at the start, then each acknowledged offset."""
    log = RaftMetadataLog(
        open_raft(OsDisk(), path, segment_bytes=SEGMENT_BYTES),
        link=Nobody(),
        settings=SETTINGS,
        clock=SystemClock(),
        rng=random.Random(1),
        on_fatal=die,
    )
    state = State()
    log.add_listener(state)
    log.set_snapshot_source(state)
    log.start()
    await state.active.wait()
    print(log.high_watermark, flush=True)
    for _ in range(count):
        batch = build_batch([Record(value=bytes(150), timestamp=1)])
        print(await log.append(batch, log.log_end_offset, log.epoch), flush=True)
    log.stop()


class Children:
    """The process that forks the ones that die."""

    def __init__(self, script: "subprocess.Popen[str]", folder: Path) -> None:
        self.script = script
        self.output = folder / "output"

    def run(self, path: str, count: int, failpoint: str = "") -> tuple[list[int], int]:
        """Run one to its end; return the numbers it printed and its exit code."""
        assert self.script.stdin is not None and self.script.stdout is not None
        self.script.stdin.write(json.dumps([path, count, failpoint, str(self.output)]) + "\n")
        self.script.stdin.flush()
        code = int(self.script.stdout.readline())
        return [int(line) for line in self.output.read_text().split()], code


@pytest.fixture(scope="module")
def children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    """One process for all tests of this file."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as script:
        yield Children(script, tmp_path_factory.mktemp("children"))
        assert script.stdin is not None
        script.stdin.close()
        assert script.wait(30) == 0


@pytest.mark.parametrize("point", POINTS)
def test_nothing_acknowledged_is_lost_when_the_process_dies_at(point: str, tmp_path: Path, children: Children) -> None:
    path = str(tmp_path / "raft")
    format_raft(
        OsDisk(),
        path,
        cluster_id="c",
        node_id=1,
        directory_id=bytes(16),
        voter_ids=[1],
        segment_bytes=SEGMENT_BYTES,
    )
    printed, code = children.run(path, 120, f"{point}=kill@2")
    assert code == -signal.SIGKILL, "the failpoint was never reached"
    acked = printed[1:]
    printed, code = children.run(path, 10)
    assert code == 0
    assert printed[0] >= (acked[-1] + 1 if acked else 0)
    assert printed[1:] == list(range(printed[0], printed[0] + 10))


def forked(path: str, count: int, failpoint: str, output: str) -> int:
    """Run a process of its own to its end, what it prints into a file; return its exit code."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stdout.fileno())
        try:
            failpoints.arm(failpoint)
            asyncio.run(run(path, count))
        except BaseException as error:
            die(error)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(forked(*json.loads(line)), flush=True)
