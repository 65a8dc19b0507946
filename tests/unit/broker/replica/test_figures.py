"""Counters by topic and over all of them."""

from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.types import PartitionFetch
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.protocol.uuids import ZERO_UUID
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics

ALL = ""


def values(metrics: Metrics, name: str) -> dict[str, float]:
    """Return {topic: count}."""
    return {topic: child.value for (topic,), child in metrics.counter(name).children()}


def target(topic: str) -> PartitionFetch:
    return PartitionFetch(topic=topic, partition=0, topic_id=ZERO_UUID, fetch_offset=0, partition_max_bytes=1)


def test_metrics_by_topic_are_also_summed() -> None:
    metrics = Metrics()
    figures = Figures(metrics)
    figures.appended("a", 100, 3)
    figures.appended("b", 20, 1)
    figures.append_refused("a", size_too_large=1_000_000)
    assert values(metrics, names.BYTES_REJECTED) == {ALL: 1_000_000, "a": 1_000_000, "b": 0}
    assert values(metrics, names.BYTES_IN) == {ALL: 120, "a": 100, "b": 20}
    assert values(metrics, names.MESSAGES_IN) == {ALL: 4, "a": 3, "b": 1}
    assert values(metrics, names.TOTAL_PRODUCE_REQUESTS) == {ALL: 3, "a": 2, "b": 1}
    assert values(metrics, names.FAILED_PRODUCE_REQUESTS) == {ALL: 1, "a": 1, "b": 0}


def test_a_topic_that_is_not_here_counts_over_all_topics_only() -> None:
    metrics = Metrics()
    figures = Figures(metrics)
    figures.append_refused("whatever a client names")
    error = PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    figures.fetched(False, [(target("whatever a client names"), error)])
    assert values(metrics, names.FAILED_PRODUCE_REQUESTS) == {ALL: 1}
    assert values(metrics, names.FAILED_FETCH_REQUESTS) == {ALL: 1}


def test_bytes_to_consumers_and_followers_are_separate_metrics() -> None:
    metrics = Metrics()
    figures = Figures(metrics)
    rows = [(target("a"), PartitionData(records=(b"12345", b"678"))), (target("b"), PartitionData(records=(b"9",)))]
    figures.fetched(False, rows)
    figures.fetched(True, rows)
    assert values(metrics, names.BYTES_OUT) == {ALL: 9, "a": 8, "b": 1}
    assert values(metrics, names.TOTAL_FETCH_REQUESTS) == {ALL: 2, "a": 1, "b": 1}
    assert metrics.counter(names.REPLICATION_BYTES_OUT).labels().value == 9


def test_a_deleted_topic_is_reported_no_longer_and_the_sum_stays() -> None:
    metrics = Metrics()
    figures = Figures(metrics)
    figures.appended("a", 100, 3)
    figures.forget("a")
    figures.forget("never seen")
    assert values(metrics, names.BYTES_IN) == {ALL: 100}
    figures.appended("a", 1, 1)
    assert values(metrics, names.BYTES_IN) == {ALL: 101, "a": 1}
