"""A broker with two log directories goes on with one when the other fails: leaders move, and only those (KIP-858)."""

import shutil
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.clients import (
    Sender,
    all_led,
    assert_all_there_once_in_order,
    eventually,
    isr_of,
    leader_of,
    read_all,
)
from tests.cluster.conftest import ROOT, Start

PARTITIONS = 4
RECORDS = 400


def two_directories(folder: Path) -> str:
    """Write the configuration of three nodes, the first with two log directories, and return its path."""
    text = (ROOT / "configs" / "three-nodes.yaml").read_text()
    directories = ", ".join(str(folder / name) for name in ("a", "b"))
    path = folder / "directories.yaml"
    path.write_text(text.replace("node.id: 1\n", f"node.id: 1\n    log.dirs: [{directories}]\n"))
    return str(path)


def partitions_in(folder: Path) -> set[int]:
    """Return which partitions of the topic lie there."""
    return {int(path.name.rpartition("-")[2]) for path in folder.glob("orders-*")}


def test_a_failed_directory_takes_its_own_leaders_with_it_only(start_cluster: Start, tmp_path: Path) -> None:
    """A directory that vanishes fails when a segment is rolled in it."""
    cluster = start_cluster(two_directories(tmp_path))
    bootstrap = cluster.plan.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("orders", PARTITIONS, replica_assignment=[[1, 2, 3]] * PARTITIONS, config={"segment.ms": "50"})
    admin.create_topics([topic], operation_timeout=30)["orders"].result(30)
    eventually(lambda: all_led(admin, "orders", PARTITIONS), "leaders")
    kept, lost = partitions_in(tmp_path / "a"), partitions_in(tmp_path / "b")
    assert kept and lost and len(kept) + len(lost) == PARTITIONS

    sender = Sender(bootstrap, "orders")
    sender.send(RECORDS, PARTITIONS)
    sender.flush_acked(RECORDS)
    shutil.rmtree(tmp_path / "b")
    sender.send(4 * RECORDS, PARTITIONS)
    sender.flush_acked(5 * RECORDS)

    for index in sorted(lost):
        eventually(lambda index=index: leader_of(bootstrap, "orders", index) in (2, 3), f"another leader of {index}")
        eventually(lambda index=index: isr_of(bootstrap, "orders", index) == [2, 3], f"the ISR of {index}")
    for index in sorted(kept):
        assert leader_of(bootstrap, "orders", index) == 1
        assert isr_of(bootstrap, "orders", index) == [1, 2, 3]
    assert_all_there_once_in_order(read_all(bootstrap, "orders", PARTITIONS), sender.sent.acked)
