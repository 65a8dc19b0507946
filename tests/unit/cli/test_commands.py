"""configs, offsets, partitions, log-dirs, features against a cluster in memory."""

import json

import pytest

from kvorum.cli.output import Exit
from kvorum.cli.topics.offset_filter import FilterError, by_rules, by_topic_and_partitions, parse_time
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.cli.fake_cluster import FakeCluster, Printed, run


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(logs={("orders", 0): (10, 100, {500: 30}), ("orders", 1): (0, 50, {})})
    made.configs[2, "orders"] = {"retention.ms": "1000"}
    made.configs[4, ""] = {"log.retention.ms": "7"}
    made.quotas[("user", "alice"),] = {"producer_byte_rate": 1024.0}
    made.quotas[("user", "alice"), ("client-id", None)] = {"consumer_byte_rate": 5.0}
    return made


def rows(printed: Printed) -> list[dict[str, object]]:
    assert printed.code == Exit.DONE, printed.err
    found = json.loads(printed.out)
    assert isinstance(found, list)
    return found


def test_configs_are_those_that_were_set_or_all(cluster: FakeCluster) -> None:
    (row,) = rows(run(cluster, "configs", "describe", "topics", "orders", "-o", "json"))
    assert (row["name"], row["value"], row["source"]) == ("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG")
    everything = rows(run(cluster, "configs", "describe", "topics", "orders", "--all", "-o", "json"))
    assert [row["name"] for row in everything] == ["retention.ms", "zz.default"]
    brokers = rows(run(cluster, "configs", "describe", "cluster", "-o", "json"))
    assert [row["name"] for row in brokers] == ["log.retention.ms", "zz.default"]
    assert run(cluster, "configs", "describe", "topics", "nope").code == Exit.NOT_FOUND


def test_configs_are_set_deleted_and_tried(cluster: FakeCluster) -> None:
    words = ["configs", "alter", "topics", "orders", "--set", "a=b=c", "--delete", "retention.ms"]
    assert run(cluster, *words).out == "orders changed\n"
    assert cluster.configs[2, "orders"] == {"a": "b=c"}
    dry = run(cluster, "configs", "alter", "cluster", "--set", "x=1", "--dry-run")
    assert dry.out == "valid; nothing was changed\n" and "x" not in cluster.configs[4, ""]


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "nonsense"],
        ["describe", "topics"],
        ["describe", "topics", "orders", "--client", "c"],
        ["describe", "brokers", "one"],
        ["alter", "topics", "--set", "a=b"],
        ["alter", "topics", "orders", "--set", "a"],
        ["alter", "topics", "", "--set", "a=b"],
    ],
    ids=" ".join,
)
def test_entities_without_such_configs_are_wrong_usage(cluster: FakeCluster, words: list[str]) -> None:
    printed = run(cluster, "configs", *words)
    assert (printed.code, "Error: " in printed.err) == (Exit.USAGE, True), printed.err


def test_offsets_of_patterns_and_times(cluster: FakeCluster) -> None:
    assert [row["offset"] for row in rows(run(cluster, "offsets", "-o", "json"))] == [100, 50]
    at = rows(run(cluster, "offsets", "ord.*", "--time", "400", "-o", "json"))
    assert [row["offset"] for row in at] == [30, None], "no record is as new as that"
    one = rows(run(cluster, "offsets", "--topic-partitions", "orders:1", "--time", "earliest", "-o", "json"))
    assert [(row["partition"], row["offset"]) for row in one] == [(1, 0)]
    assert run(cluster, "offsets", "nope").code == Exit.NOT_FOUND
    assert run(cluster, "offsets", "a", "--topic-partitions", "b").code == Exit.USAGE


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        ("a", [("a", 0), ("a", 1), ("a", 2)]),
        ("a:1", [("a", 1)]),
        ("a:1-2", [("a", 1)]),
        ("a:1-", [("a", 1), ("a", 2)]),
        ("a:-1,b:2", [("a", 0), ("b", 2)]),
        (":0", [("a", 0), ("b", 0)]),
        ("[ab]:2", [("a", 2), ("b", 2)]),
    ],
)
def test_rules_choose_partitions(rules: str, chosen: list[tuple[str, int]]) -> None:
    there = [TopicPartition(topic, partition) for topic in "ab" for partition in range(3)]
    assert [place for place in there if by_rules(rules)(place)] == chosen


def test_invalid_rules_patterns_and_times_are_refused() -> None:
    for text in ("a:b", "a:1:2", "(", "a:1--2"):
        with pytest.raises(FilterError):
            by_rules(text)
    with pytest.raises(FilterError, match="numeric"):
        by_topic_and_partitions("a", "0,one")
    with pytest.raises(FilterError, match="earliest-pending-upload"):
        parse_time("noon")
    assert [parse_time(text) for text in ("latest", "-2", "max-timestamp", "17")] == [-1, -2, -3, 17]


def test_records_are_deleted_up_to_an_offset_or_all(cluster: FakeCluster) -> None:
    printed = run(cluster, "partitions", "delete-records", "orders", "0=20", "1=-1", "-o", "json")
    assert [row["low_watermark"] for row in rows(printed)] == [20, 50]
    assert (cluster.logs["orders", 0][0], cluster.logs["orders", 1][0]) == (20, 50)
    failed = run(cluster, "partitions", "delete-records", "orders", "0=30", "1=51")
    assert failed.code == Exit.FAILED and cluster.logs["orders", 0][0] == 30
    assert [line.split()[-1] for line in failed.lines[1:]] == ["-", "OFFSET_OUT_OF_RANGE"]
    assert failed.err == "kvorum: 1 of 2 failed\n"
    for words in ([], ["orders"], ["orders", "0"], ["orders", "0=x"], ["orders", "-1=5"], ["", "0=1"]):
        assert run(cluster, "partitions", "delete-records", *words).code == Exit.USAGE


def test_log_directories_elections_and_features(cluster: FakeCluster) -> None:
    (found,) = rows(run(cluster, "log-dirs", "list", "1", "--topic", "orders", "-o", "json"))
    assert found["size_bytes"] == 200 and "orders  0" in run(cluster, "log-dirs", "list", "1").out
    assert run(cluster, "log-dirs", "list", "one").code == Exit.USAGE
    elected = rows(run(cluster, "partitions", "elect-leaders", "orders", "-o", "json"))
    assert [row["error"] for row in elected] == ["ELECTION_NOT_NEEDED", None]
    assert run(cluster, "partitions", "elect-leaders", "orders:5").code == Exit.FAILED
    assert run(cluster, "partitions", "elect-leaders").code == Exit.USAGE
    levels = {row["name"]: row["level"] for row in rows(run(cluster, "features", "describe", "-o", "json"))}
    assert levels == {"metadata.version": 30, "transaction.version": 1}
    assert run(cluster, "features", "alter", "transaction.version=2").out == "features changed\n"
    assert run(cluster, "features", "alter", "transaction.version=9", "--kind", "safe_downgrade").code == Exit.FAILED
    assert cluster.features["transaction.version"] == 2
    for words in ([], ["a"], ["a=b"], ["a=1", "--kind", "sideways"], ["a=32768"]):
        assert run(cluster, "features", "alter", *words).code == Exit.USAGE


def test_reassignments_are_listed(cluster: FakeCluster) -> None:
    cluster.moving["orders", 1] = ([1, 2], [2], [])
    (row,) = rows(run(cluster, "reassign", "list", "-o", "json"))
    assert (row["topic"], row["partition"], row["adding"]) == ("orders", 1, [2])
