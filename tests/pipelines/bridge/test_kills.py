"""kill -9 of the driver, of Python workers and of brokers in turn: what comes out is what went in, each row once.

KVORUM_ROUNDS (2) and KVORUM_RECORDS (50,000) make it longer.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvorum.cluster.local import LocalCluster
from tests.cluster.clients import eventually
from tests.cluster.nodes import restart
from tests.pipelines.bridge.records import numbered, produce, read_all
from tests.pipelines.conftest import TopicFactory

pytestmark = pytest.mark.pipelines

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))
RECORDS = int(os.environ.get("KVORUM_RECORDS", "50000"))
SEED = int(os.environ.get("KVORUM_SEED", "6"))
BATCHES = 25  # micro-batches a run would take undisturbed
PROGRESS_SECONDS = 300.0
STARTS_MAX = 3
END_SECONDS = 600.0
DRIVER = Path(__file__).parent / "driver.py"
ROOT = Path(__file__).parent.parent.parent.parent


class Driver:
    """A driver process, everything it starts, and the checkpoint that outlives it."""

    def __init__(self, told: dict[str, object], folder: Path) -> None:
        self.told = told
        self.checkpoint = folder / "checkpoint"
        self.log = (folder / "driver.log").open("ab")
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, is_last: bool = False) -> None:
        told = self.told | {"checkpoint": str(self.checkpoint), "is_last": is_last}
        command = ["nice", "-n", "10", sys.executable, str(DRIVER), json.dumps(told)]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=self.log, stdout=self.log, start_new_session=True)

    def is_at_the_end(self) -> bool:
        """Take what is there, and end; False if the query failed (a machine too busy to start its processes)."""
        self.start(is_last=True)
        assert self.process is not None
        return self.process.wait(END_SECONDS) == 0

    def members(self) -> dict[int, str]:
        """Return {process id: command line} of the driver's session: itself, the JVM, the Python workers."""
        assert self.process is not None
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if fields[3] == str(self.process.pid) and fields[0] != "Z":
                        found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
                except OSError:
                    continue
        return found

    def kill(self) -> None:
        """kill -9 everything at once, in any order."""
        for process in self.members():
            kill(process)
        if self.process is not None:
            self.process.wait(30)

    def kill_driver_only(self) -> None:
        """kill -9 the driver's Python; the JVM and the workers find out by themselves, and may still write."""
        assert self.process is not None
        kill(self.process.pid)
        self.process.wait(30)

    def workers(self) -> list[int]:
        return [process for process, command in self.members().items() if "pyspark.daemon" in command]

    def commits(self) -> int:
        return max((int(f.name) for f in (self.checkpoint / "commits").glob("*") if f.name.isdecimal()), default=-1)

    def begun(self) -> int:
        folder = self.checkpoint / ("offsets" if self.told.get("jars") else "kvorum-sink/batches")
        return max((int(f.name) for f in folder.glob("*") if f.name.isdecimal()), default=-1)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tail(self) -> str:
        return (self.folder / "driver.log").read_text(errors="replace")[-3000:]


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Return a function that prepares a driver; nothing of it is left at the end."""
    made: list[Driver] = []

    def make(**told: object) -> Driver:
        made.append(Driver(told, tmp_path))
        return made[-1]

    yield make
    for driver in made:
        if driver.process is not None:
            driver.kill()
        driver.log.close()


def in_the_middle(driver: Driver, chance: random.Random) -> None:
    """Wait until a micro-batch is under way, and a little."""
    before = driver.commits()

    def is_under_way() -> bool:
        if not driver.is_running():
            driver.start()
        return driver.commits() > before and driver.begun() > driver.commits()

    eventually(is_under_way, driver.tail, PROGRESS_SECONDS)
    time.sleep(chance.random() * 0.3)


def filled(bootstrap: str, make_topic: TopicFactory) -> tuple[str, str]:
    """Return a topic with the records, and one for them."""
    source, target = make_topic(partitions=4), make_topic(partitions=3)
    produce(bootstrap, source, numbered(RECORDS))
    return source, target


def told(bootstrap: str, source: str, target: str) -> dict[str, object]:
    """Return what every driver is told."""
    size = max(1, RECORDS // BATCHES // ROUNDS)
    where = {"bootstrap": bootstrap, "source": source, "target": target}
    return {**where, "query": f"kills-{target}", "offsets_per_trigger": size}


@pytest.mark.parametrize("shuffle", [False, True], ids=["each task writes what it read", "staged"])
def test_output_equals_input(
    shuffle: bool,
    kvorum_cluster: LocalCluster,
    bootstrap: str,
    make_topic: TopicFactory,
    drivers: Callable[..., Driver],
) -> None:
    """Each round kills the driver (with its workers, or alone), a worker, and one broker, in the middle of things."""
    source, target = filled(bootstrap, make_topic)
    driver = drivers(**told(bootstrap, source, target), shuffle=shuffle)
    killed = survive(driver, kvorum_cluster, max(1, ROUNDS // 2) if shuffle else ROUNDS)
    lost, doubled = missed(bootstrap, target)
    assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled after {dict(killed)}"
    print(f"{RECORDS} records, {dict(killed)}: none lost, none doubled")


def test_sparks_own_connector_loses_nothing_and_doubles_what_a_killed_batch_wrote(
    spark_jars: str,
    kvorum_cluster: LocalCluster,
    bootstrap: str,
    make_topic: TopicFactory,
    drivers: Callable[..., Driver],
) -> None:
    """The same beside it: at least once is what it promises. How much is doubled is chance, so it is told only."""
    source, target = filled(bootstrap, make_topic)
    driver = drivers(**told(bootstrap, source, target), shuffle=False, jars=spark_jars)
    killed = survive(driver, kvorum_cluster, ROUNDS)
    lost, doubled = missed(bootstrap, target)
    assert lost == 0
    print(f"{RECORDS} records, {dict(killed)}, Spark's connector: none lost, {doubled} doubled")


def survive(driver: Driver, kvorum_cluster: LocalCluster, rounds: int) -> Counter[str]:
    """Kill round by round, then have the driver come to its end; return how many of what were killed."""
    chance = random.Random(SEED)
    driver.start()
    names = [node.name for node in kvorum_cluster.plan.nodes]
    killed: Counter[str] = Counter()
    for number in range(rounds):
        in_the_middle(driver, chance)
        if number % 2:
            driver.kill_driver_only()
        else:
            driver.kill()
        killed["drivers"] += 1
        driver.start()
        in_the_middle(driver, chance)
        for worker in chance.sample(driver.workers(), k=min(1, len(driver.workers()))):
            kill(worker)
            killed["workers"] += 1
        in_the_middle(driver, chance)
        kvorum_cluster.kill(names[number % len(names)])
        killed["brokers"] += 1
        time.sleep(1 + chance.random())
        restart(kvorum_cluster, names[number % len(names)])
    driver.kill()
    assert any(driver.is_at_the_end() for _ in range(STARTS_MAX)), driver.tail()
    return killed


def missed(bootstrap: str, target: str) -> tuple[int, int]:
    """Return how many records are not there, and how many are there again."""
    found = Counter(message.value() for message in read_all(bootstrap, target))
    return RECORDS - len(found), sum(count - 1 for count in found.values())
