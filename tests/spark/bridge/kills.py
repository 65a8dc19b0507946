"""What the tests that kill have in common: a driver in a process of its own, the middle of things, what came out.

KVORUM_ROUNDS (2) and KVORUM_RECORDS (50,000) make them longer.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException

from tests.cluster.clients import eventually
from tests.cluster.transactional import ends
from tests.spark.bridge.records import numbered, produce, read_all
from tests.spark.conftest import TopicFactory

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))
RECORDS = int(os.environ.get("KVORUM_RECORDS", "50000"))
SEED = int(os.environ.get("KVORUM_SEED", "6"))
BATCHES = 25  # micro-batches a run would take undisturbed
PROGRESS_SECONDS = 300.0
STARTS_MAX = 3
END_SECONDS = max(600.0, RECORDS / 500)
PYTHON_WORKER = "pyspark.daemon"
DRIVER = Path(__file__).parent / "driver.py"
ROOT = Path(__file__).parent.parent.parent.parent


class Driver:
    """A driver process, everything it starts, and the checkpoint that outlives it."""

    def __init__(self, told: Mapping[str, object], folder: Path) -> None:
        self.told = dict(told)
        self.checkpoint = folder / "checkpoint"
        self.log = (folder / "driver.log").open("ab")
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self, *, is_last: bool = False) -> None:
        told = self.told | {"checkpoint": str(self.checkpoint), "is_last": is_last}
        command = ["nice", "-n", "10", sys.executable, str(DRIVER), json.dumps(told)]
        # Who is killed cannot tidy up.
        scratch = {"TMPDIR": str(self.folder), "SPARK_LOCAL_DIRS": str(self.folder / "local")}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | scratch,
            stderr=self.log,
            stdout=self.log,
            start_new_session=True,
        )
        self.starts += 1

    def is_at_the_end(self) -> bool:
        """Take what is there, and end; False if the query failed (a machine too busy to start its processes)."""
        self.start(is_last=True)
        assert self.process is not None
        return self.process.wait(END_SECONDS) == 0

    def members(self) -> dict[int, str]:
        """Return {process id: command line} of the driver's session: itself, the JVM, the Python workers."""
        assert self.process is not None
        return session(self.process.pid)

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
        return [process for process, command in self.members().items() if PYTHON_WORKER in command]

    def commits(self) -> int:
        return max((int(f.name) for f in (self.checkpoint / "commits").glob("*") if f.name.isdecimal()), default=-1)

    def begun(self) -> int:
        folder = self.checkpoint / ("offsets" if self.told.get("jars") else "kvorum-sink/batches")
        return max((int(f.name) for f in folder.glob("*") if f.name.isdecimal()), default=-1)

    def written(self) -> int:
        """Return how many offsets the target has; -1 while a partition has no leader."""
        try:
            return sum(ends(str(self.told["bootstrap"]), str(self.told["target"]), "read_uncommitted").values())
        except KafkaException:
            return -1

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def everything(self) -> str:
        """Return what all the drivers of this checkpoint have said."""
        return (self.folder / "driver.log").read_text(errors="replace")

    def tail(self) -> str:
        return self.everything()[-3000:]


Drivers = Callable[..., Driver]


@contextmanager
def drivers_in(folder: Path) -> Iterator[Drivers]:
    """Give a function that prepares a driver; nothing of it is left at the end."""
    made: list[Driver] = []

    def make(**told: object) -> Driver:
        made.append(Driver(told, folder))
        return made[-1]

    try:
        yield make
    finally:
        for driver in made:
            if driver.process is not None:
                driver.kill()
            driver.log.close()


def session(leader: int) -> dict[int, str]:
    """Return {process id: command line} of what lives of a session."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[3] == str(leader) and fields[0] != "Z":
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def in_the_middle(driver: Driver, chance: random.Random) -> None:
    """Wait until a micro-batch is under way and has written a drawn part of its rows, or has ended meanwhile."""
    before = driver.commits()

    def is_under_way() -> bool:
        if not driver.is_running():
            driver.start()
        return driver.commits() > before and driver.begun() > driver.commits()

    eventually(is_under_way, driver.tail, PROGRESS_SECONDS)
    batch, wanted = driver.begun(), driver.written() + chance.randrange(int(str(driver.told["offsets_per_trigger"])))
    eventually(
        lambda: driver.written() >= wanted or driver.commits() >= batch or not driver.is_running(),
        driver.tail,
        PROGRESS_SECONDS,
    )


def to_the_end(driver: Driver) -> None:
    """Have the driver take what is there, and end."""
    driver.kill()
    assert any(driver.is_at_the_end() for _ in range(STARTS_MAX)), driver.tail()


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


def missed(bootstrap: str, target: str) -> tuple[int, int]:
    """Return how many records are not there, and how many are there again."""
    found = Counter(message.value() for message in read_all(bootstrap, target))
    return RECORDS - len(found), sum(count - 1 for count in found.values())
