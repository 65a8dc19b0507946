"""Acceptance 2: three read-process-write workers, killed -9 in turn as the brokers are: each record once, in order."""

import itertools
import os
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import DEADLINE_SECONDS, Sender, create_topic, eventually, read_all
from tests.cluster.conftest import ROOT, Start
from tests.cluster.copier import GROUP, INPUT, OUTPUT, PARTITIONS
from tests.cluster.nodes import restart
from tests.cluster.transactional import ends

COUNT = int(os.environ.get("KVORUM_EXACTLY_ONCE_RECORDS", "7500"))
"""Records to be copied; `make acceptance` has 100,000."""
DEATHS = int(os.environ.get("KVORUM_EXACTLY_ONCE_DEATHS", "5"))
"""So many workers are killed, and as many brokers; `make acceptance`: 100 of each."""
DEATHS_MIN = 3
"""Fewer show nothing."""
SHORTER = 3
"""By this factor with aiokafka."""
WORKERS = 3
CHUNK = 20
"""Records that are sent before the next ones wait for their acknowledgement: some are on their way at each death."""
SEED = 1
DRAIN_SECONDS = 180.0


class Workers:
    """The worker processes; whoever ends is started again."""

    def __init__(self, client: str, bootstrap: str, folder: Path) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.killed = 0
        self.ended: list[int] = []

    def tend(self) -> None:
        """Start those that do not run."""
        for number in range(WORKERS):
            process = self._processes.get(number)
            if process is None or process.poll() is not None:
                if process is not None and process.returncode != -9:
                    self.ended.append(number)
                self._start(number)

    def _start(self, number: int) -> None:
        words = [sys.executable, "-m", "tests.cluster.copier", self._client, self._bootstrap, str(number)]
        with (self._folder / f"{self._client}-{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen([*words, str(WORKERS)], stdout=log, stderr=log, cwd=ROOT)

    def kill(self, number: int) -> None:
        """kill -9."""
        self._processes[number].kill()
        self._processes[number].wait(DEADLINE_SECONDS)
        self.killed += 1

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(DEADLINE_SECONDS)

    def logs(self) -> str:
        """Return the last words of each."""
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-12:])
            for path in sorted(self._folder.glob("*.log"))
        )


@pytest.mark.parametrize(("client", "factor"), [("confluent", 1), ("aiokafka", SHORTER)])
def test_each_record_is_copied_once_and_in_order_despite_failures(
    start_cluster: Start, tmp_path: Path, client: str, factor: int
) -> None:
    cluster = start_cluster(
        "three-nodes.yaml",
        "broker.session.timeout.ms=3000",
        "broker.heartbeat.interval.ms=500",
        "group.initial.rebalance.delay.ms=500",
    )
    bootstrap = cluster.plan.bootstrap
    deaths = max(DEATHS // factor, DEATHS_MIN)
    count = COUNT // factor // deaths * deaths
    for topic in (INPUT, OUTPUT):
        create_topic(bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
    workers = Workers(client, bootstrap, tmp_path)
    # One request at a time: of two, the first refused by who does not lead yet, the second out of order at who does,
    # librdkafka begins a new epoch and sends again what other partitions may have (its issue 4953).
    sender = Sender(bootstrap, INPUT, **{"max.in.flight.requests.per.connection": 1})
    try:
        brokers_killed = kill_in_turn(cluster, workers, sender, deaths, count // deaths)
        sender.flush_acked(count)
        eventually(
            lambda: is_drained(bootstrap, workers), lambda: f"{progress(bootstrap)}\n{workers.logs()}", DRAIN_SECONDS
        )
    finally:
        workers.close()
    copied = read_all(bootstrap, OUTPUT, PARTITIONS, **{"isolation.level": "read_committed"})
    assert_copied_exactly_once(copied, set(sender.sent.acked))
    print(f"{client}: {count} records, {workers.killed} workers and {brokers_killed} brokers killed, {workers.ended}")
    assert workers.killed == brokers_killed == deaths


@contextmanager
def feeding(sender: Sender, count: int) -> Iterator[None]:
    """Send so many records meanwhile, CHUNK by CHUNK; all are acknowledged at the end."""

    def feed() -> None:
        for first in range(0, count, CHUNK):
            sender.send(min(CHUNK, count - first), PARTITIONS)
            sender.flush()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        thread.join(2 * DEADLINE_SECONDS)
        assert not thread.is_alive()


def kill_in_turn(cluster: LocalCluster, workers: Workers, sender: Sender, deaths: int, count: int) -> int:
    """Send so many records and meanwhile kill a worker and a broker, for each death; return how many brokers died.

    A drawn number of the records comes before; both die when some of them are copied and the others are coming in.
    """
    bootstrap, nodes, rng = cluster.plan.bootstrap, [node.name for node in cluster.plan.nodes], random.Random(SEED)
    for killed in range(deaths):
        workers.tend()
        copied, before = copied_count(bootstrap), rng.randrange(CHUNK, count // 2)
        sender.send(before, PARTITIONS)
        sender.flush()
        eventually(lambda: copied_count(bootstrap) > copied, workers.logs)  # noqa: B023
        acked = len(sender.sent.acked)
        with feeding(sender, count - before):
            eventually(lambda: len(sender.sent.acked) > acked, "more records are acknowledged")  # noqa: B023
            workers.kill(killed % WORKERS)
            name = nodes[killed % len(nodes)]
            cluster.kill(name)
            workers.tend()
            restart(cluster, name)
    return deaths


def copied_count(bootstrap: str) -> int:
    """Return how many offsets the output has; markers of transactions count, too."""

    def found() -> list[int] | None:
        try:
            return list(ends(bootstrap, OUTPUT, "read_uncommitted").values())
        except KafkaException:
            return None  # a partition has no leader at the moment

    return sum(eventually(found, f"the ends of {OUTPUT}"))


def progress(bootstrap: str) -> dict[int, tuple[int, int]]:
    """Return {partition: (committed offset of the workers, end)} of the input."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "isolation.level": "read_committed"})
    try:
        found = consumer.committed([TopicPartition(INPUT, each) for each in range(PARTITIONS)], DEADLINE_SECONDS)
        reported = ends(bootstrap, INPUT, "read_uncommitted")
        return {each.partition: (each.offset, reported[each.partition]) for each in found}
    finally:
        consumer.close()


def is_drained(bootstrap: str, workers: Workers) -> bool:
    """Whether all input has been copied and committed; a worker that ended goes on."""
    workers.tend()
    try:
        return all(offset == end for offset, end in progress(bootstrap).values())
    except KafkaException:
        return False  # a transaction is open: its offsets are not stable


def assert_copied_exactly_once(copied: dict[int, list[object]], expected: set[bytes]) -> None:
    """Every value is there once, and those of a partition are in the order in which they were sent."""
    order: dict[int, list[bytes]] = defaultdict(list)
    for partition, messages in copied.items():
        order[partition] = [message.value() for message in messages]  # type: ignore[attr-defined]
    times = Counter(itertools.chain.from_iterable(order.values()))
    twice = sorted(value for value, count in times.items() if count > 1)
    assert not twice, f"{len(twice)} records are there more than once: {twice[:5]}"
    missing = sorted(expected - set(times))
    assert not missing, f"{len(missing)} of {len(expected)} records are not there: {missing[:5]}"
    assert set(times) == expected, "records that nobody sent"
    for partition, values in order.items():
        assert values == sorted(values), f"partition {partition} is out of order"
