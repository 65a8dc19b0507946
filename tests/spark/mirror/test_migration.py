"""docs/migration.md, typed: a move from one cluster to another, and the way back, by the page's own shell."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.unit.pipelines.mirror.kit import commit, committed, everything, produce, produce_transactions

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("java") is None, reason="missing tool: java (17 or 21)"),
]
PAGE = Path(__file__).parents[3] / "docs" / "migration.md"
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PARTITIONS = {"orders": 3, "payments": 1}
SECONDS = 300


class Shell:
    """The page's blocks, in their order; what one of them exports the next ones have."""

    def __init__(self, folder: Path, names: dict[str, str]) -> None:
        command = folder / "bin" / "kvorum"
        command.parent.mkdir()
        # One core and little memory for Spark, whatever the machine has.
        small = 'case "$1 $2" in "pipelines mirror") set -- "$@" --master "local[1]";; esac'
        command.write_text(f'#!/bin/sh\n{small}\nexec {sys.executable} -m kvorum.cli.main "$@"\n')
        command.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "KVORUM_"))}
        self.environment = kept | {"PATH": f"{command.parent}:{os.environ['PATH']}"}
        self.folder = folder
        text = PAGE.read_text()
        self.exports = ""
        self.blocks = []
        for _, written in BLOCK.findall(text):
            block = textwrap.dedent(written)
            for old, new in names.items():
                block = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])", new, block)
            self.blocks.append(block)

    def up_to(self, word: str) -> str:
        """Run the next blocks, the last of which has this word in it; return what that one printed."""
        while True:
            block = self.blocks.pop(0)
            self.exports += "".join(re.findall(r"^export .*\n", block, re.MULTILINE))
            done = subprocess.run(
                ["bash", "-euo", "pipefail"],
                input=self.exports + block,
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            if word in block:
                return done.stdout


def test_a_move_and_the_way_back(bootstrap: str, other: str, tmp_path: Path) -> None:
    """Old is a cluster of three nodes, new one of a single node; all of Spark is in the page's own processes."""
    tag = uuid.uuid4().hex[:6]
    names = {name: f"{name}-{tag}" for name in (*PARTITIONS, "billing")}
    orders, group = names["orders"], names["billing"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(names[each], count, 1) for each, count in PARTITIONS.items()])
    for future in made.values():
        future.result(60)
    produce(bootstrap, orders, PARTITIONS["orders"], 300)
    produce_transactions(bootstrap, orders, 6)
    produce(bootstrap, names["payments"], 1, 50)
    commit(bootstrap, group, {(orders, 0): 40, (orders, 1): 100, (orders, 2): 0})
    shell = Shell(tmp_path, names | {"old-1:9092": bootstrap, "127.0.0.1:9092": other})

    shell.up_to("move.yaml --check")
    produce(bootstrap, orders, PARTITIONS["orders"], 30, start=300)
    shell.up_to("min.insync.replicas")
    produce(bootstrap, orders, PARTITIONS["orders"], 30, start=330)
    commit(bootstrap, group, {(orders, 0): 60})
    told = shell.up_to("sha256sum")
    assert group in told
    starts = [(orders, number, 0) for number in range(PARTITIONS["orders"])]
    old, new = everything(bootstrap, starts), everything(other, starts)
    assert {place: [record for _, record in found] for place, found in old.items()} == {
        place: [record for _, record in found] for place, found in new.items()
    }
    assert unread(other, group, orders) == unread(bootstrap, group, orders)

    shell.up_to("move.yaml.done")
    before = committed(bootstrap, group)
    produce(other, orders, PARTITIONS["orders"], 60, start=360)
    shell.up_to("back.yaml")
    assert committed(bootstrap, group) == before, "who stands before the first mark is not moved"
    again = everything(bootstrap, starts)
    assert {place: len(found) for place, found in again.items()} == {
        place: len(found) + 20 for place, found in old.items()
    }
    assert not shell.blocks


def unread(address: str, group: str, topic: str) -> dict[tuple[str, int], list[object]]:
    """Return the records a group has before it."""
    places = committed(address, group)
    starts = [(topic, number, places[topic, number]) for number in range(PARTITIONS["orders"])]
    return {place: [record for _, record in found] for place, found in everything(address, starts).items()}
