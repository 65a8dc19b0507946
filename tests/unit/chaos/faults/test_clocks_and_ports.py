"""A clock that is off while a process runs, and ports that nobody else has."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.chaos.faults.clocks import NodeClock
from kvorum.chaos.faults.ports import BLOCK_PORTS, FIRST_CHOSEN_PORT, NoPorts, PortBlock, is_free
from kvorum.runtime.clock import SystemClock, shared_offset

HOUR_MS = 3_600_000
SPEAKER = """
import sys
from kvorum.runtime.clock import SystemClock
clock = SystemClock()
for line in sys.stdin:
    print(clock.wall_ms() - clock.monotonic_ms(), flush=True)
"""


def test_a_running_process_follows_its_clock_s_offset(tmp_path: Path) -> None:
    clock = NodeClock(str(tmp_path / "offset"))
    clock.create()
    with subprocess.Popen(
        [sys.executable, "-c", SPEAKER],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as speaker:
        assert speaker.stdin is not None and speaker.stdout is not None

        def offset_of_speaker() -> int:
            assert speaker.stdin is not None and speaker.stdout is not None
            speaker.stdin.write("?\n")
            speaker.stdin.flush()
            return int(speaker.stdout.readline())

        base = offset_of_speaker()
        for offset in (HOUR_MS, -HOUR_MS, 0):
            clock.set(offset)
            assert clock.get() == offset
            assert abs(offset_of_speaker() - base - offset) < 1000
        speaker.stdin.close()


def test_without_the_variable_the_clock_is_the_machine_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KVORUM_TEST_CLOCK", raising=False)
    assert shared_offset("") is None
    true_ms = SystemClock().wall_ms()
    clock = NodeClock(str(tmp_path / "offset"))
    clock.create()
    clock.set(HOUR_MS)
    clock.create()
    assert clock.get() == HOUR_MS, "what is there is kept"
    monkeypatch.setenv("KVORUM_TEST_CLOCK", clock.path)
    assert HOUR_MS <= SystemClock().wall_ms() - true_ms < HOUR_MS + 10_000


def test_two_blocks_never_share_a_port_and_lie_below_the_kernel_s_range() -> None:
    first, second = PortBlock.take(), PortBlock.take()
    try:
        assert abs(first.first - second.first) >= BLOCK_PORTS
        found = [first.next() for _ in range(20)] + [second.next() for _ in range(20)]
        assert len(set(found)) == 40 and max(found) < FIRST_CHOSEN_PORT
    finally:
        first.release()
        second.release()
    first.release()


def test_a_port_in_use_is_not_returned(ports: PortBlock) -> None:
    taken = ports.next() + 1
    with socket.create_server(("127.0.0.1", taken)):
        assert not is_free(taken)
        assert ports.next() > taken


def test_a_block_ends(ports: PortBlock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvorum.chaos.faults.ports.is_free", lambda port: True)
    for _ in range(BLOCK_PORTS):
        ports.next()
    with pytest.raises(NoPorts):
        ports.next()
