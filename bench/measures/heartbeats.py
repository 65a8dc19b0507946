"""Very many classic groups on one broker: what their heartbeats cost, and how many it could serve."""

import asyncio
import time
from collections.abc import Sequence

from bench.beds import Bed
from bench.heartbeats import INTERVAL_SECONDS, MEMBERS_PER_GROUP, Pace, formed, good_heartbeats
from bench.links import Link, Window
from bench.members import Member
from bench.processes import cpu_seconds, memory_mib
from bench.quantiles import quantile
from bench.rows import Case, Figures, Measure, less, more
from bench.stalled import StalledError

GROUPS = 1_000
WARM_UP_SECONDS, SECONDS = 20.0, 30.0
DEPTH, FLAT_OUT_CONNECTIONS = 8, 32
TITLE = f"{GROUPS:,} groups of {MEMBERS_PER_GROUP}"
PACED = f"{TITLE}, a heartbeat every {INTERVAL_SECONDS:g} s over a connection each"
FLAT_OUT = f"{TITLE}, heartbeats as fast as answered, {FLAT_OUT_CONNECTIONS} connections"
FORMED = f"{TITLE}: forming them, CPU of all processes"


def heartbeats(bed: Bed) -> Figures:
    """Form the groups on a fresh node; send their heartbeats as due, then as fast as they are answered."""
    bed.system.start()
    bed.system.wait_ready()
    return asyncio.run(stages(bed))


async def stages(bed: Bed) -> Figures:
    """Go through the stages."""
    pids = bed.system.pids()
    before = cpu_seconds(pids)
    members = await formed(bed.system, bed.scale.count(GROUPS, 4))
    forming = cpu_seconds(pids) - before
    return {FORMED: forming, **await paced(bed, members), **await flat_out(bed, members)}


async def paced(bed: Bed, members: Sequence[Member]) -> Figures:
    """Make each member send its heartbeats at their times, over its own connection."""
    pids, seconds = bed.system.pids(), bed.scale.seconds(SECONDS)
    links = await asyncio.gather(*(Link.to(bed.system.address(1)) for _ in members))
    beats = [(link, member.heartbeat()) for link, member in zip(links, members, strict=True)]
    pace = Pace(beats, bed.scale.seconds(INTERVAL_SECONDS))
    await pace.run(bed.scale.seconds(WARM_UP_SECONDS))
    before = cpu_seconds(pids)
    await pace.run(seconds)
    used = cpu_seconds(pids) - before
    _, memory = memory_mib(pids)
    if pace.failed or not pace.latencies:
        raise StalledError(f"{pace.failed} heartbeats of {len(pace.latencies)} were answered with an error")
    for link in links:
        link.close()
    return {
        f"{PACED}: CPU of all processes": used / seconds,
        f"{PACED}, p50": quantile(pace.latencies, 0.5) * 1000,
        f"{PACED}, p99": quantile(pace.latencies, 0.99) * 1000,
        f"{PACED}: memory": memory,
    }


async def flat_out(bed: Bed, members: Sequence[Member]) -> Figures:
    """Keep some requests of some connections unanswered, all the time."""
    pids, count = bed.system.pids(), FLAT_OUT_CONNECTIONS
    links = await asyncio.gather(*(Link.to(bed.system.address(1)) for _ in range(count)))
    frames = [member.heartbeat() for member in members]
    windows = [
        Window(link, frames[place::count], DEPTH, good_heartbeats())
        for place, link in enumerate(links)
        if frames[place::count]
    ]
    await asyncio.sleep(bed.scale.seconds(WARM_UP_SECONDS / 2))
    before, answered, began = cpu_seconds(pids), sum(window.answered for window in windows), time.perf_counter()
    await asyncio.sleep(bed.scale.seconds(SECONDS / 2))
    served = sum(window.answered for window in windows) - answered
    elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - before
    await asyncio.gather(*(window.stop() for window in windows))
    for link in links:
        link.close()
    if not served or any(window.failed for window in windows):
        raise StalledError("heartbeats were answered with an error, or not at all")
    return {FLAT_OUT: served / elapsed, f"{FLAT_OUT}: CPU of all processes": used / served * 1e6}


MEASURE = Measure(
    name="heartbeats",
    settings={},
    fresh=True,
    rounds_max=3,
    cases=(
        Case(
            name=TITLE,
            rows=(
                less(FORMED, "s"),
                less(f"{PACED}: CPU of all processes", "cores"),
                less(f"{PACED}, p50", "ms"),
                less(f"{PACED}, p99", "ms"),
                less(f"{PACED}: memory", "MiB"),
                more(FLAT_OUT, "heartbeats/s"),
                less(f"{FLAT_OUT}: CPU of all processes", "us/heartbeat"),
            ),
            run=heartbeats,
        ),
    ),
)
