"""kill -9 of a whole streams application, again and again: state and output stay together."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.cluster.clients import eventually
from tests.spark.conftest import TopicFactory
from tests.spark.streams.test_streams_cluster import consume, expected, produce

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
LINES = ["to be or not to be", "that is the question", "be quiet", "to the point"] * 500
SEED = int(os.environ.get("KVORUM_SEED", "6"))
ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))
OFFSETS_MAX = 30
"""Written before it dies: those of one to three micro-batches."""
PROGRESS_SECONDS = 300.0


@contextmanager
def running(told: dict[str, object], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the application; all of it is killed at the end, if it has not ended."""
    command = [sys.executable, "-m", "tests.unit.pipelines.streams.app", json.dumps(told)]
    with log.open("ab") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def end_of(bootstrap: str, topic: str) -> int:
    """Return how many offsets a topic has, markers of transactions, too."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(2)}
    return sum(int(future.result(30).offset) for future in admin.list_offsets(asked).values())


def test_each_word_is_counted_once_whenever_the_application_dies(
    bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    lines, counts = make_topic(prefix="lines"), make_topic(prefix="counts")
    produce(bootstrap, lines, LINES)
    told: dict[str, object] = {"bootstrap": bootstrap, "source": lines, "target": counts, "folder": str(tmp_path)}
    log = tmp_path / "app.log"

    chance = random.Random(SEED)

    def tail() -> str:
        return log.read_text(errors="replace")[-3000:]

    def has_written(process: "subprocess.Popen[bytes]", before: int) -> bool:
        assert process.poll() is None, tail()
        return end_of(bootstrap, counts) > before

    for _ in range(ROUNDS):
        with running({**told, "is_last": False}, log) as process:
            before = end_of(bootstrap, counts) + chance.randrange(OFFSETS_MAX)
            eventually(partial(has_written, process, before), tail, PROGRESS_SECONDS)
    with running({**told, "is_last": True}, log) as process:
        assert process.wait(PROGRESS_SECONDS) == 0, tail()
    found = consume(bootstrap, counts, lambda found: dict(found) == expected(LINES))
    for word in expected(LINES):
        numbers = [number for key, number in found if key == word]
        assert numbers == sorted(set(numbers)), "a count only rises, and none is written twice"
