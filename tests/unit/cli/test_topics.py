"""`kvorum topics` while partitions are reassigned."""

import json

import pytest

from kvorum.cli.connection.missing_topics import NAMED
from kvorum.cli.output import Exit
from tests.unit.cli.fake_cluster import FakeCluster, run


def test_replicas_that_are_only_added_are_neither_counted_nor_missed() -> None:
    """Partition 1 has the replicas 1 and 2, of which 1 is in sync."""
    cluster = FakeCluster(logs={("orders", 0): (0, 1, {}), ("orders", 1): (0, 1, {})})

    def listed() -> tuple[int, int]:
        (row,) = json.loads(run(cluster, "topics", "list", "-o", "json").out)
        return row["replication_factor"], row["under_replicated"]

    def described() -> list[tuple[object, object]]:
        found = json.loads(run(cluster, "topics", "describe", "orders", "-o", "json").out)
        return [(row["adding"], row["removing"]) for row in found["partitions"]]

    assert (listed(), described()) == ((2, 1), [([], []), ([], [])])
    cluster.moving["orders", 1] = ([1, 2], [2], [])
    assert (listed(), described()) == ((2, 0), [([], []), ([2], [])])
    cluster.moving["other", 1] = ([1, 2], [2], [])
    del cluster.moving["orders", 1]
    assert (listed(), described()) == ((2, 1), [([], []), ([], [])])


def test_a_topic_that_does_not_exist_is_named_with_the_one_that_may_be_meant() -> None:
    cluster = FakeCluster(logs={("orders", 0): (0, 1, {})})
    for verb in ("describe", "delete"):
        printed = run(cluster, "topics", verb, "ordres")
        assert (printed.code, printed.err) == (Exit.NOT_FOUND, "kvorum: no topic ordres; did you mean orders?\n")
    assert run(cluster, "topics", "delete", "ordres", "--if-exists").code == Exit.DONE


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The topic 'ordres' does not exist.", "ordres"),
        ("topic ordres does not exist", "ordres"),
        ("topic 'ordres'", "ordres"),
        ("ordres", "ordres"),
        ("The topic name is invalid", None),
    ],
)
def test_a_missing_topic_is_found_in_each_message_of_brokers(text: str, name: str | None) -> None:
    found = NAMED.fullmatch(text)
    assert (found and found["name"]) == name
