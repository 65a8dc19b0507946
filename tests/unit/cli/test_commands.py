"""configs, offsets, delete-records, log-dirs, leader-election, features against a cluster in memory."""

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
    assert (row["config"], row["value"], row["source"]) == ("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG")
    everything = rows(run(cluster, "configs", "describe", "topics", "orders", "--all", "-o", "json"))
    assert [row["config"] for row in everything] == ["retention.ms", "zz.default"]
    brokers = rows(run(cluster, "configs", "describe", "brokers", "-o", "json"))
    assert [(row["name"], row["config"]) for row in brokers] == [("<default>", "log.retention.ms")]
    assert run(cluster, "configs", "describe", "topics", "nope").code == Exit.NOT_FOUND


def test_configs_are_set_deleted_and_tried(cluster: FakeCluster) -> None:
    words = ["configs", "alter", "topics", "orders", "--set", "a=b=c", "--delete", "retention.ms"]
    assert run(cluster, *words).out == "topics orders: changed\n"
    assert cluster.configs[2, "orders"] == {"a": "b=c"}
    dry = run(cluster, "configs", "alter", "brokers", "--default", "--set", "x=1", "--dry-run")
    assert dry.out == "brokers <default>: would be changed\n" and "x" not in cluster.configs[4, ""]


def test_quotas_of_users_and_of_their_clients_are_distinguished(cluster: FakeCluster) -> None:
    (row,) = rows(run(cluster, "configs", "describe", "users", "-o", "json"))
    assert (row["user"], row["client"], row["quota"], row["value"]) == ("alice", None, "producer_byte_rate", 1024.0)
    (row,) = rows(run(cluster, "configs", "describe", "users", "alice", "--client-default", "-o", "json"))
    assert (row["client"], row["quota"]) == ("<default>", "consumer_byte_rate")
    words = ["configs", "alter", "users", "alice", "--client", "app", "--set", "consumer_byte_rate=10"]
    assert run(cluster, *words).code == Exit.DONE
    assert cluster.quotas[("user", "alice"), ("client-id", "app")] == {"consumer_byte_rate": 10.0}


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "nonsense"],
        ["describe", "topics", "orders", "--default"],
        ["describe", "topics", "--default"],
        ["describe", "topics", "orders", "--client", "c"],
        ["describe", "brokers", "one"],
        ["alter", "topics", "orders"],
        ["alter", "topics", "--set", "a=b"],
        ["alter", "topics", "orders", "--set", "a"],
        ["alter", "users", "alice", "--set", "producer_byte_rate=x"],
        ["alter", "users", "alice", "--delete", "request_percentage"],
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
    printed = run(cluster, "delete-records", "orders:0:20", "orders:1:-1", "-o", "json")
    assert [row["low_watermark"] for row in rows(printed)] == [20, 50]
    assert (cluster.logs["orders", 0][0], cluster.logs["orders", 1][0]) == (20, 50)
    failed = run(cluster, "delete-records", "orders:0:30", "orders:1:51", "nope:0:1")
    assert failed.code == Exit.FAILED and cluster.logs["orders", 0][0] == 30
    assert [line.split()[-1] for line in failed.lines[1:]] == ["-", "OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION"]
    for words in ([], ["orders:0"], [":0:1"], ["orders:0:x"]):
        assert run(cluster, "delete-records", *words).code == Exit.USAGE


def test_log_directories_elections_and_features(cluster: FakeCluster) -> None:
    found = rows(run(cluster, "log-dirs", "orders", "--brokers", "1", "-o", "json"))
    assert [(row["partition"], row["size"]) for row in found] == [("orders-0", 100), ("orders-1", 100)]
    assert run(cluster, "log-dirs", "--brokers", "one").code == Exit.USAGE
    elected = rows(run(cluster, "leader-election", "orders", "-o", "json"))
    assert [row["outcome"] for row in elected] == ["not needed", "elected"]
    assert run(cluster, "leader-election", "orders", "--partition", "5").code == Exit.FAILED
    assert run(cluster, "leader-election").code == Exit.USAGE
    levels = {row["feature"]: row["finalized"] for row in rows(run(cluster, "features", "describe", "-o", "json"))}
    assert levels == {"metadata.version": 30, "transaction.version": 1}
    assert run(cluster, "features", "upgrade", "-f", "transaction.version=2").code == Exit.DONE
    assert run(cluster, "features", "downgrade", "-f", "transaction.version=9").code == Exit.FAILED
    assert cluster.features["transaction.version"] == 2
    for words in ([], ["-f", "a"], ["-f", "a=b"], ["-f", "a=1", "-f", "a=2"], ["-f", "a=1", "--release", "4.3"]):
        assert run(cluster, "features", "upgrade", *words).code == Exit.USAGE
