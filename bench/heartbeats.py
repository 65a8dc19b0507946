"""Very many classic groups on one broker, formed wave by wave, and their heartbeats at the pace that is theirs."""

import asyncio
import time
from collections.abc import Sequence

from bench.links import Good, Link
from bench.members import HEARTBEAT_VERSION, Member, find_coordinator, form
from bench.systems import System
from kvorum.protocol.api import ApiKey

INTERVAL_SECONDS = 3.0
MEMBERS_PER_GROUP = 3
GROUPS_PER_WAVE = 200
TICK_SECONDS = 0.001


async def formed(system: System, groups: int) -> list[Member]:
    """Have groups of three members each, formed wave by wave, all over connections that are closed again."""
    address = system.address(1)
    async with await Link.to(address) as link:
        await find_coordinator(link, "group-0")
    members: list[Member] = []
    beating: list[asyncio.Task[None]] = []
    for first in range(0, groups, GROUPS_PER_WAVE):
        names = [f"group-{number}" for number in range(first, min(first + GROUPS_PER_WAVE, groups))]
        wave = [[Member(name, await Link.to(address)) for _ in range(MEMBERS_PER_GROUP)] for name in names]
        await asyncio.gather(*map(form, wave))
        new = [member for group in wave for member in group]
        for member in new:
            member.link.close()
        members += new
        beating.append(asyncio.create_task(keep_alive(address, new)))
    for task in beating:
        task.cancel()
    await asyncio.gather(*beating, return_exceptions=True)
    return members


async def keep_alive(address: tuple[str, int], members: Sequence[Member]) -> None:
    """Send heartbeats of a wave while others are formed, until it is cancelled."""
    async with await Link.to(address) as link:
        pace = Pace([(link, member.heartbeat()) for member in members], INTERVAL_SECONDS)
        await pace.run(float("inf"))


def good_heartbeats() -> Good:
    """Return the check that a heartbeat's response is NONE."""
    return Good(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, lambda answer: [answer.error_code])  # type: ignore[attr-defined]


class Pace:
    """Sends each heartbeat once an interval, evenly spread."""

    def __init__(self, beats: Sequence[tuple[Link, bytes]], interval: float) -> None:
        self._beats = beats
        self._rate = len(beats) / interval
        self._next = 0
        self._is_good = good_heartbeats()
        self.latencies: list[float] = []
        self.failed = 0

    async def run(self, seconds: float) -> None:
        """Continue for this time; discard earlier results."""
        self.latencies, self.failed = [], 0
        began, sent = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            due = int(elapsed * self._rate)
            for _ in range(due - sent):
                self._send()
            sent = due
            await asyncio.sleep(TICK_SECONDS)

    def _send(self) -> None:
        link, frame = self._beats[self._next % len(self._beats)]
        self._next += 1
        sent = time.perf_counter()

        def took(body: bytes) -> None:
            self.latencies.append(time.perf_counter() - sent)
            self.failed += not self._is_good(body)

        link.send(frame, [took])
