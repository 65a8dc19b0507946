"""Lines of a growing file into a topic and from it into another file, over kill -9 of both pipelines at any moment."""

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.clients import eventually
from tests.spark.conftest import TopicFactory
from tests.spark.run.test_commands import SECONDS, SMALL, Command, good, kvorum, wait

pytestmark = pytest.mark.long

__all__ = ["kvorum"]  # the fixture
KILLS = int(os.environ.get("KVORUM_ROUNDS", "3"))
BYTES_BETWEEN_KILLS_MAX = 300_000
"""Some micro-batches."""
WRITE_SECONDS = 0.02


@contextmanager
def growing(path: Path, chance: random.Random) -> Iterator[None]:
    """Append numbered lines until the end of the block, now and then a part of one."""
    stop = threading.Event()

    def append() -> None:
        number = 0
        with path.open("ab", buffering=0) as file:
            while not stop.wait(WRITE_SECONDS):
                count = chance.randrange(1, 200)
                text = "".join(
                    f"{each} zw\u00f6lf {'x' * chance.randrange(30)}\n" for each in range(number, number + count)
                )
                cut = chance.randrange(len(text.encode()))
                file.write(text.encode()[:cut])
                file.write(text.encode()[cut:])
                number += count

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def grown(path: Path, size: int) -> None:
    """Wait until a file has so many more bytes."""

    def found() -> int:
        return path.stat().st_size if path.exists() else 0

    wanted = found() + size
    eventually(lambda: found() >= wanted, lambda: f"{found()} of {wanted} bytes", SECONDS)


def test_each_line_is_in_the_file_once_over_kills_of_both_pipelines(
    kvorum: Command, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    chance, topic = random.Random(seed), make_topic(1)
    source, target = tmp_path / "in.log", tmp_path / "out.log"
    source.touch()
    cluster = {"type": "topics", "bootstrap": bootstrap}
    ends = {
        f"reading-{topic}": ({"type": "file-stream", "file": str(source)}, {**cluster, "topic": topic}),
        f"writing-{topic}": (
            {**cluster, "topics": [topic], "value": "string"},
            {"type": "file-stream", "file": str(target)},
        ),
    }
    for name, (start, end) in ends.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"name": name, "source": start, "sink": end}))
        kvorum("run", f"{name}.yaml", "--detach", *SMALL)
    with growing(source, chance):
        for _ in range(KILLS):
            pids = [wait(kvorum, name, lambda status: status["state"] == "RUNNING")["pid"] for name in ends]
            grown(target, chance.randrange(1, BYTES_BETWEEN_KILLS_MAX))
            for pid in chance.sample(pids, len(pids)):
                os.kill(pid, signal.SIGKILL)
            for name in ends:
                kvorum("restart", name)
    whole = source.read_bytes()
    eventually(
        lambda: target.stat().st_size >= len(whole), lambda: f"{target.stat().st_size} of {len(whole)} bytes", SECONDS
    )
    for name in ends:
        good(kvorum("stop", name))
    assert target.read_bytes() == whole, f"seed {seed}"
