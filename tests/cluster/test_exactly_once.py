"""Acceptance 2: three read-process-write workers, killed -9 in turn as the brokers are: each record once, in order."""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kvorum.cluster.local import LocalCluster
from tests.cluster.clients import DEADLINE_SECONDS, Sender, create_topic, eventually, read_all
from tests.cluster.conftest import ROOT, Start
from tests.cluster.copier import GROUP, INPUT, OUTPUT, PARTITIONS
from tests.cluster.nodes import restart
from tests.cluster.transactional import ends

COUNT = int(os.environ.get("KVORUM_EXACTLY_ONCE_RECORDS", "4000"))
"""Records to be copied; `make acceptance` has 100,000."""
SECONDS = float(os.environ.get("KVORUM_EXACTLY_ONCE_SECONDS", "17"))
"""How long records come in, and processes die; `make acceptance`: ten minutes."""
WORKERS = 3
PAUSE_SECONDS = 1.0
"""Between two deaths, on top of what the dead need to be back."""
DEATHS_MIN = 3
"""Of workers and of brokers; fewer show nothing."""
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


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_each_record_is_copied_once_and_in_order_whoever_dies(
    start_cluster: Start, tmp_path: Path, client: str
) -> None:
    cluster = start_cluster(
        "three-nodes.yaml", "broker.session.timeout.ms=3000", "group.initial.rebalance.delay.ms=500"
    )
    bootstrap = cluster.plan.bootstrap
    for topic in (INPUT, OUTPUT):
        create_topic(bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
    workers = Workers(client, bootstrap, tmp_path)
    # One request at a time: of two, the first refused by who does not lead yet, the second out of order at who does,
    # librdkafka begins a new epoch and sends again what other partitions may have (its issue 4953).
    sender = Sender(bootstrap, INPUT, **{"max.in.flight.requests.per.connection": 1})
    try:
        with feeding(sender, COUNT, SECONDS):
            brokers_killed = kill_in_turn(cluster, workers, SECONDS)
        sender.flush_acked(COUNT)
        eventually(
            lambda: is_drained(bootstrap, workers), lambda: f"{progress(bootstrap)}\n{workers.logs()}", DRAIN_SECONDS
        )
    finally:
        workers.close()
    copied = read_all(bootstrap, OUTPUT, PARTITIONS, **{"isolation.level": "read_committed"})
    assert_copied_exactly_once(copied, set(sender.sent.acked))
    print(f"{client}: {COUNT} records, {workers.killed} workers and {brokers_killed} brokers killed, {workers.ended}")
    assert workers.killed == brokers_killed >= DEATHS_MIN


@contextmanager
def feeding(sender: Sender, count: int, seconds: float) -> Iterator[None]:
    """Send so many records meanwhile, evenly over the time; all are sent at the end."""

    def feed() -> None:
        began = time.monotonic()
        for number in range(count):
            sender.send(1, PARTITIONS)
            ahead = began + number * seconds / count - time.monotonic()
            if ahead > 0.01:
                time.sleep(ahead)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        thread.join(seconds + 2 * DEADLINE_SECONDS)
        assert not thread.is_alive()


def kill_in_turn(cluster: LocalCluster, workers: Workers, seconds: float) -> int:
    """Kill a worker, then a broker, then the next ones, until the time is over; return how many brokers died."""
    workers.tend()
    deadline = time.monotonic() + seconds
    nodes = [node.name for node in cluster.plan.nodes]
    for killed in itertools.count():
        if time.monotonic() > deadline and killed >= DEATHS_MIN:
            return killed
        time.sleep(PAUSE_SECONDS)
        workers.tend()
        workers.kill(killed % WORKERS)
        name = nodes[killed % len(nodes)]
        cluster.kill(name)
        workers.tend()
        restart(cluster, name)
    raise AssertionError("a count has no end")


def progress(bootstrap: str) -> dict[int, tuple[int, int]]:
    """Return {partition: (committed offset of the workers, end)} of the input."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "isolation.level": "read_committed"})
    try:
        found = consumer.committed([TopicPartition(INPUT, each) for each in range(PARTITIONS)], DEADLINE_SECONDS)
        told = ends(bootstrap, INPUT, "read_uncommitted")
        return {each.partition: (each.offset, told[each.partition]) for each in found}
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
