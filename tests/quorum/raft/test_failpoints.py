"""A real process, killed with -9 before and after each persistence step: what it acknowledged is there afterwards."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft.log import SnapshotContent, SnapshotView
from kvorum.quorum.raft.opening import format_raft, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings
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
    "journal.sync.before",
    "journal.sync.after",
    "journal.roll.before",
    "journal.roll.written",
    "journal.roll.renamed",
    "journal.roll.after",
    "journal.drop.before",
    "journal.drop.after",
    "snapshot.write.before",
    "snapshot.sync.before",
    "snapshot.rename.before",
    "snapshot.rename.after",
    "snapshot.durable",
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


def child(path: str, count: int, failpoint: str = "") -> tuple[list[int], int]:
    """Run the process; return the numbers it printed and its exit code."""
    environment = {**os.environ, "KVORUM_FAILPOINTS": failpoint}
    done = subprocess.run(
        [sys.executable, __file__, path, str(count)], capture_output=True, text=True, env=environment, timeout=60
    )
    assert not done.stderr, done.stderr
    return [int(line) for line in done.stdout.split()], done.returncode


@pytest.mark.parametrize("point", POINTS)
def test_nothing_acknowledged_is_lost_when_the_process_dies_at(point: str, tmp_path: Path) -> None:
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
    printed, code = child(path, 120, f"{point}=kill@2")
    assert code == -signal.SIGKILL, "the failpoint was never reached"
    acked = printed[1:]
    printed, code = child(path, 10)
    assert code == 0
    assert printed[0] >= (acked[-1] + 1 if acked else 0)
    assert printed[1:] == list(range(printed[0], printed[0] + 10))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], int(sys.argv[2])))
