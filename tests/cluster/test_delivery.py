"""The loops of docs/examples/delivery.py do what docs/delivery.md says, killed -9 between their two steps."""

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import DEADLINE_SECONDS, Sender, create_topic, eventually, read_all
from tests.cluster.conftest import ROOT, clusters_in

EXAMPLE = ROOT / "docs" / "examples" / "delivery.py"
COUNT = 5
DYING = """
import os, sys
sys.argv = ["delivery.py", *sys.argv[2:]]
namespace = {{"__name__": "delivery"}}
exec(compile(open({path!r}).read(), {path!r}, "exec"), namespace)
done = []

def dies(method):
    def called(self, *given, **named):
        done.append(method)
        if len(done) == {calls}:
            os.kill(os.getpid(), 9)
        return getattr(super(type(self), self), method)(*given, **named)
    return called

producer, consumer = namespace["Producer"], namespace["Consumer"]
namespace["Producer"] = type("Producer", (producer,), {{{produced!r}: dies({produced!r})}})
namespace["Consumer"] = type("Consumer", (consumer,), {{"commit": dies("commit")}})
namespace["LOOPS"][sys.argv[1]](sys.argv[2], sys.argv[3])
"""
"""Runs the example, and dies by kill -9 in place of a call: the `calls`-th of those that do one of its two steps."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with clusters_in(tmp_path_factory.mktemp("delivery")) as start:
        cluster = start("three-nodes.yaml", "group.initial.rebalance.delay.ms=0")
        bootstrap = cluster.plan.bootstrap
        create_topic(bootstrap, "orders", 1, 3)
        sender = Sender(bootstrap, "orders")
        sender.send(COUNT)
        sender.flush_acked(COUNT)
        yield cluster


@pytest.mark.parametrize(
    ("loop", "step", "calls", "expected"),
    [
        ("at-most-once", "produce", 4, {0: 1, 2: 1, 3: 1, 4: 1}),  # the second record is committed, and not done
        ("at-least-once", "produce", 4, {0: 1, 1: 2, 2: 1, 3: 1, 4: 1}),  # it is done, and not committed
        ("exactly-once", "commit_transaction", 1, {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}),  # all is written, and not committed
    ],
)
def test_a_loop_killed_between_its_steps_has_its_delivery_guarantee(
    cluster: LocalCluster, tmp_path: Path, loop: str, step: str, calls: int, expected: dict[int, int]
) -> None:
    """In the first two loops each record takes two of the counted calls: the fourth is the second step of record 1."""
    bootstrap = cluster.plan.bootstrap
    topic = f"invoices-{loop}"
    create_topic(bootstrap, topic, 1, 3)
    copy = tmp_path / "delivery.py"
    copy.write_text(EXAMPLE.read_text().replace('"invoices"', f'"{topic}"').replace('"enable.auto', SHORT_SESSION))
    code = DYING.format(path=str(copy), produced=step, calls=calls)
    words = [loop, bootstrap, loop]
    died = subprocess.run([sys.executable, "-c", code, "-", *words], timeout=2 * DEADLINE_SECONDS, check=False)
    assert died.returncode == -9
    successor = subprocess.Popen([sys.executable, str(copy), *words])
    try:
        wanted = sum(expected.values())
        eventually(lambda: len(seen(bootstrap, topic)) >= wanted, lambda: str(seen(bootstrap, topic)))
    finally:
        successor.kill()
        successor.wait(DEADLINE_SECONDS)
    counted = Counter(int(value.removeprefix(b"invoice for ")) for value in seen(bootstrap, topic))
    assert counted == expected


SHORT_SESSION = '"session.timeout.ms": 6_000,\n            "heartbeat.interval.ms": 500,\n            "enable.auto'
"""So that the dead member's place is free soon. The heartbeats keep the session of the living one on a busy machine."""


def seen(bootstrap: str, topic: str) -> list[bytes]:
    """Return what a reader of read_committed sees."""
    found = read_all(bootstrap, topic, 1, **{"isolation.level": "read_committed"})
    return [message.value() for message in found[0]]


def test_the_example_can_be_imported_and_names_its_loops() -> None:
    spec = importlib.util.spec_from_file_location("delivery", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.LOOPS) == {"at-most-once", "at-least-once", "exactly-once"}
    assert all(name in (ROOT / "docs" / "delivery.md").read_text() for name in ("at most once", "exactly once"))
    assert os.access(EXAMPLE, os.R_OK)
