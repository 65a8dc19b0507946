"""Very many classic groups on one broker: what their heartbeats cost, and how many it could serve."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.links import Good, Link, Window
from bench.members import HEARTBEAT_VERSION, Member, find_coordinator, form
from bench.processes import cpu_seconds, memory_mib
from bench.quantiles import quantile
from bench.report import Report
from bench.stalled import StalledError
from bench.systems import System, formatted
from kvorum.protocol.api import ApiKey

INTERVAL_SECONDS = 3.0
MEMBERS_PER_GROUP = 3
GROUPS_PER_WAVE = 200
TICK_SECONDS = 0.001
WINDOW = 8
FLAT_OUT_CONNECTIONS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much of it; times in seconds."""

    groups: int = 1000
    connections: int = 3000
    """Over which the members' heartbeats go: one for each, as their clients have, or fewer."""
    warm_up: float = 20.0
    seconds: float = 30.0


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
    """Return what tells that a heartbeat was answered with NONE."""
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
        """Go on for so long; forget what was found before."""
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


def measure_heartbeats(kind: str, load: Load, report: Report) -> None:
    """Form the groups on a fresh node; send their heartbeats as due, then as fast as they are answered."""
    with formatted(kind, 1) as system:
        system.start()
        system.wait_ready()
        asyncio.run(run(system, kind, load, report))


async def run(system: System, kind: str, load: Load, report: Report) -> None:
    """Go through the stages; see measure_heartbeats."""
    pids = system.pids()
    title = f"{load.groups:,} groups of {MEMBERS_PER_GROUP}"
    before = cpu_seconds(pids)
    members = await formed(system, load.groups)
    report.add(f"{title}: forming them, CPU of all processes, s", kind, cpu_seconds(pids) - before)
    links = await asyncio.gather(*(Link.to(system.address(1)) for _ in range(load.connections)))
    beats = [(links[number % len(links)], member.heartbeat()) for number, member in enumerate(members)]
    pace = Pace(beats, INTERVAL_SECONDS)
    await pace.run(load.warm_up)
    title = f"{title}, a heartbeat every {INTERVAL_SECONDS:g} s over {load.connections:,} connections"
    before = cpu_seconds(pids)
    await pace.run(load.seconds)
    used = cpu_seconds(pids) - before
    if pace.failed:
        raise StalledError(f"{pace.failed} heartbeats were answered with an error")
    served = len(pace.latencies) / load.seconds
    report.add(f"{title}: heartbeats answered a second", kind, served)
    report.add(f"{title}: CPU of all processes, share of a core", kind, used / load.seconds)
    report.add(f"{title}: median latency, ms", kind, quantile(pace.latencies, 0.5) * 1000)
    report.add(f"{title}: 99th percentile latency, ms", kind, quantile(pace.latencies, 0.99) * 1000)
    resident, proportional = memory_mib(pids)
    report.add(f"{title}: resident memory of all processes, MiB", kind, resident)
    report.add(f"{title}: the same, shared pages once (PSS), MiB", kind, proportional)
    await flat_out(system, kind, load, members, report)
    for link in links:
        link.close()


async def flat_out(system: System, kind: str, load: Load, members: Sequence[Member], report: Report) -> None:
    """Keep some requests of some connections unanswered, all the time."""
    pids, count = system.pids(), FLAT_OUT_CONNECTIONS
    links = await asyncio.gather(*(Link.to(system.address(1)) for _ in range(count)))
    frames = [member.heartbeat() for member in members]
    windows = [
        Window(link, frames[place::count], WINDOW, good_heartbeats())
        for place, link in enumerate(links)
        if frames[place::count]
    ]
    await asyncio.sleep(load.warm_up / 2)
    before, answered, began = cpu_seconds(pids), sum(window.answered for window in windows), time.perf_counter()
    await asyncio.sleep(load.seconds / 2)
    count_now = sum(window.answered for window in windows) - answered
    elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - before
    await asyncio.gather(*(window.stop() for window in windows))
    for link in links:
        link.close()
    if any(window.failed for window in windows):
        raise StalledError("heartbeats were answered with an error")
    title = f"{load.groups:,} groups of {MEMBERS_PER_GROUP}, heartbeats as fast as answered, {count} connections"
    report.add(f"{title}: heartbeats a second", kind, count_now / elapsed)
    report.add(f"{title}: CPU of all processes, us a heartbeat", kind, used / count_now * 1e6)
