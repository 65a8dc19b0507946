"""How long a large group takes to rebalance when one joins, and when one leaves, until everyone has its new share.

Members are confluent-kafka's, all in this process, with their defaults: what a member hears of when it sends its next
heartbeat (3 s classic, 5 s KIP-848) is part of the time. What the coordinator alone takes is shown by members that ask
at once (bench/members.py): a newcomer, and everybody else at the same moment.
"""

import asyncio
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer

from bench.links import Link
from bench.members import Member, find_coordinator, form
from bench.processes import cpu_seconds
from bench.report import Report
from bench.stalled import StalledError
from bench.systems import System, formatted
from bench.topics import make_topic

TOPIC = "load"
PARTITIONS = 200
DEADLINE_SECONDS = 120.0
LOOK_SECONDS = 0.01
QUIET_SECONDS = 4.0
QUIET_SPREAD_SECONDS = 5.0
"""How long a group is let be between two changes, and up to how much longer: each begins at another place of the
interval between heartbeats, which a rebalance has brought into step."""
AT_ONCE_WARM_UP = 40
AT_ONCE_ROUNDS = 40
PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "classic, range": {"group.protocol": "classic", "partition.assignment.strategy": "range"},
    "KIP-848, uniform": {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalances:
    """How large the group is, and how often one joins and leaves."""

    members: int = 50
    repeats: int = 3


def measure_rebalances(kind: str, rebalances: Rebalances, report: Report) -> None:
    """Measure on a fresh node: both protocols, and the coordinator alone."""
    with formatted(kind, 1) as system:
        system.start()
        system.wait_ready()
        make_topic(system, TOPIC, PARTITIONS)
        for name, settings in PROTOCOLS.items():
            one_more(system, kind, name, settings, rebalances, report)
        asyncio.run(at_once(system, kind, rebalances, report))


def is_shared_out(shares: Sequence[Sequence[int]], partitions: int) -> bool:
    """Tell whether everyone has its share: each partition is one member's, and no member has two more than another."""
    sizes = [len(share) for share in shares]
    everything = sorted(partition for share in shares for partition in share)
    return everything == list(range(partitions)) and max(sizes) - min(sizes) <= 1 and min(sizes) > 0


class Group:
    """Consumers of one group, polled in turn by whoever waits."""

    def __init__(self, system: System, group_id: str, settings: Mapping[str, str]) -> None:
        self._config = {
            "bootstrap.servers": system.bootstrap,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 0,
            **settings,
        }
        self.consumers: list[Consumer] = []

    def add(self) -> None:
        """Have one more subscribe."""
        consumer = Consumer(self._config)
        consumer.subscribe([TOPIC])
        self.consumers.append(consumer)

    def remove(self) -> threading.Thread:
        """Have the newest leave; it does so while the others are polled."""
        leaving = threading.Thread(target=self.consumers.pop().close)
        leaving.start()
        return leaving

    def poll(self, seconds: float) -> None:
        """Serve all for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._poll_once()

    def settle(self) -> float:
        """Serve all until everyone has its share; return when that was (perf_counter). Raises StalledError."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            self._poll_once()
            shares = [[row.partition for row in consumer.assignment()] for consumer in self.consumers]
            if is_shared_out(shares, PARTITIONS):
                return time.perf_counter()
        raise StalledError(f"{len(self.consumers)} members have no shares that fit")

    def _poll_once(self) -> None:
        for consumer in self.consumers:
            message = consumer.poll(0)
            if message is not None and message.error():
                raise StalledError(str(message.error()))
        time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Have all leave."""
        closing = [threading.Thread(target=consumer.close) for consumer in self.consumers]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


def one_more(
    system: System, kind: str, name: str, settings: Mapping[str, str], rebalances: Rebalances, report: Report
) -> None:
    """Have one join a group and leave it again, some times."""
    title, pids = f"group of {rebalances.members}, {name}", system.pids()
    group = Group(system, f"rebalance-{name[:3]}", settings)
    try:
        for _ in range(rebalances.members):
            group.add()
        group.settle()
        for repeat in range(rebalances.repeats):
            quiet = QUIET_SECONDS + QUIET_SPREAD_SECONDS * repeat / rebalances.repeats
            group.poll(quiet)
            used, began = cpu_seconds(pids), time.perf_counter()
            group.add()
            report.add(f"{title}: one joins, until all have their share, s", kind, group.settle() - began)
            report.add(f"{title}: one joins, CPU of all processes, s", kind, cpu_seconds(pids) - used)
            group.poll(quiet)
            used, began = cpu_seconds(pids), time.perf_counter()
            leaving = group.remove()
            report.add(f"{title}: one leaves, until all have their share, s", kind, group.settle() - began)
            report.add(f"{title}: one leaves, CPU of all processes, s", kind, cpu_seconds(pids) - used)
            leaving.join()
    finally:
        group.close()


async def at_once(system: System, kind: str, rebalances: Rebalances, report: Report) -> None:
    """Have a newcomer join, and everybody else ask again in the same moment; then it leaves, and all ask again."""
    address, count = system.address(1), rebalances.members
    links = [await Link.to(address) for _ in range(count + 1)]
    await find_coordinator(links[0], "at-once")
    members = [Member("at-once", link, (TOPIC,), PARTITIONS) for link in links[:count]]
    await form(members)
    pids = system.pids()
    used, times = 0.0, list[float]()
    for number in range(AT_ONCE_WARM_UP + AT_ONCE_ROUNDS):
        if number == AT_ONCE_WARM_UP:
            used, times = cpu_seconds(pids), []
        for member in members:
            member.user_data = b"%d" % number  # who says something new is never answered with the old generation
        newcomer = Member("at-once", links[count], (TOPIC,), PARTITIONS)
        await newcomer.introduce()  # the group waits for it from now on
        began = time.perf_counter()
        await form([newcomer, *members])
        times.append(time.perf_counter() - began)
        await newcomer.leave()
        await form(members)
    used = cpu_seconds(pids) - used
    for link in links:
        link.close()
    title = f"group of {count}, classic, one joins and all ask at once"
    report.add(f"{title}: until all have their share, ms", kind, statistics.median(times) * 1000)
    report.add(f"{title}: CPU of all processes, ms a rebalance", kind, used / AT_ONCE_ROUNDS / 2 * 1000)
