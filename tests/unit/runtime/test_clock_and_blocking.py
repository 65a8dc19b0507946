"""The machine's clock, and work off the event loop."""

import asyncio
import threading
import time

import pytest

from kvorum.runtime import blocking
from kvorum.runtime.clock import Clock, SystemClock


def test_monotonic_time_never_goes_back_and_counts_milliseconds() -> None:
    clock: Clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1_000)]
    assert readings == sorted(readings)
    before_ms = int(time.monotonic() * 1000)
    assert before_ms <= clock.monotonic_ms() <= time.monotonic() * 1000 + 1


def test_wall_time_is_milliseconds_since_the_epoch_and_can_be_shifted() -> None:
    plain, shifted = SystemClock(), SystemClock(wall_offset_ms=-3_600_000)
    before_ms = int(time.time() * 1000)
    assert before_ms <= plain.wall_ms() <= time.time() * 1000 + 1
    before_ms = plain.wall_ms()
    assert before_ms <= shifted.wall_ms() + 3_600_000 <= plain.wall_ms()
    before_ms = plain.monotonic_ms()
    assert before_ms <= shifted.monotonic_ms() <= plain.monotonic_ms()


def test_blocking_work_runs_in_another_thread_and_brings_back_its_result() -> None:
    async def work() -> tuple[int, int]:
        return await blocking.run(asyncio.get_running_loop(), lambda x: (x * 2, threading.get_ident()), 21)

    result, thread = asyncio.run(work())
    assert result == 42
    assert thread != threading.get_ident()


def test_blocking_work_brings_back_its_exception() -> None:
    def fail() -> None:
        raise OSError("disk is gone")

    async def work() -> None:
        await blocking.run(asyncio.get_running_loop(), fail)

    with pytest.raises(OSError, match="disk is gone"):
        asyncio.run(work())
