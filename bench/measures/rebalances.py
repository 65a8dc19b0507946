"""Duration of a large group's rebalance after a join and after a leave, until every member has its new assignment.

Members are confluent-kafka's, all in this process, with their defaults: the wait for a member's next heartbeat
(3 s classic, 5 s KIP-848) is part of the time. The coordinator's own time is measured with members that send requests
at once (bench/members.py): a new member, and all others at the same time.
"""

import asyncio
import statistics
import time
from collections.abc import Mapping
from functools import partial

from bench.beds import Bed
from bench.links import Link
from bench.measures.consume import NO_DELAY
from bench.members import Member, find_coordinator, form
from bench.processes import cpu_seconds
from bench.rebalance import Group
from bench.rows import Case, Figures, Measure, less

MEMBERS, PARTITIONS, REPEATS = 50, 200, 3
QUIET_SECONDS, QUIET_SPREAD_SECONDS = 4.0, 5.0
"""Minimum and random extra time between two changes of a group: each begins at another time within the heartbeat
interval, since a rebalance synchronises the heartbeats."""
CLASSIC_INTERVAL_SECONDS = 3.0
AT_ONCE_WARM_UP, AT_ONCE_ROUNDS = 40, 40
JOINS, LEAVES = "one joins, until all have their share", "one leaves, until all have their share"
AT_ONCE = f"group of {MEMBERS}, classic, one joins and all ask at once, until all have their share"


def cpu_title(title: str) -> str:
    """Return the name of the row with the corresponding CPU time."""
    return f"{title}: CPU of all processes"


def paced(bed: Bed, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return a consumer's settings; of a run that is to be short, with heartbeats that follow sooner."""
    if bed.scale.factor >= 1 or settings["group.protocol"] != "classic":
        return settings
    return {**settings, "heartbeat.interval.ms": str(round(bed.scale.seconds(CLASSIC_INTERVAL_SECONDS) * 1000))}


def one_more(bed: Bed, title: str, settings: Mapping[str, str]) -> Figures:
    """Add and remove a member several times; return the medians."""
    repeats, pids = bed.scale.count(REPEATS), bed.system.pids()
    found: dict[str, list[float]] = {}

    def timed(change: str, used: float, began: float, ended: float) -> None:
        found.setdefault(f"{title}, {change}", []).append(ended - began)
        found.setdefault(cpu_title(f"{title}, {change}"), []).append(cpu_seconds(pids) - used)

    with bed.topic(PARTITIONS) as topic:
        group = Group(bed.system, topic, topic, PARTITIONS, paced(bed, settings))
        try:
            for _ in range(bed.scale.count(MEMBERS, 3)):
                group.add()
            group.settle()
            for repeat in range(repeats):
                quiet = bed.scale.seconds(QUIET_SECONDS + QUIET_SPREAD_SECONDS * repeat / repeats)
                group.poll(quiet)
                used, began = cpu_seconds(pids), time.perf_counter()
                group.add()
                timed(JOINS, used, began, group.settle())
                group.poll(quiet)
                used, began = cpu_seconds(pids), time.perf_counter()
                leaving = group.remove()
                timed(LEAVES, used, began, group.settle())
                leaving.join()
        finally:
            group.close()
    return {what: statistics.median(figures) for what, figures in found.items()}


async def rebalance_at_once(bed: Bed, topic: str) -> tuple[float, float]:
    """Make a new member join, and all others rejoin at the same time; then it leaves, and all rejoin.

    Return the median of the joins' seconds, and CPU seconds per rebalance.
    """
    address, count = bed.system.address(1), bed.scale.count(MEMBERS, 3)
    warm_up, rounds = bed.scale.count(AT_ONCE_WARM_UP), bed.scale.count(AT_ONCE_ROUNDS)
    links = [await Link.to(address) for _ in range(count + 1)]
    await find_coordinator(links[0], topic)
    members = [Member(topic, link, (topic,), PARTITIONS) for link in links[:count]]
    await form(members)
    pids = bed.system.pids()
    used, times = 0.0, list[float]()
    for number in range(warm_up + rounds):
        if number == warm_up:
            used, times = cpu_seconds(pids), []
        for member in members:
            member.user_data = b"%d" % number  # a member with a new subscription never gets the old generation
        newcomer = Member(topic, links[count], (topic,), PARTITIONS)
        await newcomer.introduce()  # the group waits for it from now on
        began = time.perf_counter()
        await form([newcomer, *members])
        times.append(time.perf_counter() - began)
        await newcomer.leave()
        await form(members)
    used = cpu_seconds(pids) - used
    for link in links:
        link.close()
    return statistics.median(times), used / rounds / 2


def at_once(bed: Bed) -> Figures:
    """Measure the coordinator's own time."""
    with bed.topic(PARTITIONS) as topic:
        seconds, used = asyncio.run(rebalance_at_once(bed, topic))
    return {AT_ONCE: seconds * 1000, cpu_title(AT_ONCE): used * 1000}


def case(name: str, settings: Mapping[str, str]) -> Case:
    """Return the case of a protocol."""
    title = f"group of {MEMBERS}, {name}"
    changes = [f"{title}, {change}" for change in (JOINS, LEAVES)]
    rows = tuple(less(what, "s") for change in changes for what in (change, cpu_title(change)))
    return Case(name=title, rows=rows, run=partial(one_more, title=title, settings=settings))


MEASURE = Measure(
    name="rebalances",
    settings=NO_DELAY,
    rounds_max=3,
    cases=(
        case("classic, range", {"group.protocol": "classic", "partition.assignment.strategy": "range"}),
        case("KIP-848, uniform", {"group.protocol": "consumer", "group.remote.assignor": "uniform"}),
        Case(name=AT_ONCE, rows=(less(AT_ONCE, "ms"), less(cpu_title(AT_ONCE), "ms/rebalance")), run=at_once),
    ),
)
