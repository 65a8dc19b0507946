"""Which records of internal topics no query needs any more."""

import json

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.streams import StreamsBuilder, StreamsConfig, Suppressed, TimeWindows
from kvorum.pipelines.streams.run import processed, readers
from tests.unit.pipelines.streams.test_streams_topology import SECOND

TOPIC = "app-x-repartition"
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="b:9092", state_dir="/nowhere")


def starts(**offsets: int) -> str:
    return json.dumps(
        {TOPIC: {number.removeprefix("p"): offset for number, offset in offsets.items()}, "other": {"0": 9}}
    )


def test_an_internal_topic_is_read_by_the_query_behind_it() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(SECOND)
    counts = builder.stream("lines").group_by("value").windowed_by(windows).count()
    final = counts.suppress(Suppressed.until_window_closes()).to_stream("'all'")
    final.group_by_key().reduce("max(value)").to_stream().to("out")
    queries = builder.build().queries
    assert len(queries) == 2
    ((topic, names),) = readers(queries, CONFIG).items()
    assert topic.startswith("app-") and topic.endswith("-repartition") and names == {queries[1].name}


def test_records_are_needed_until_all_queries_have_processed_them() -> None:
    two = {TOPIC: {"a", "b"}}
    found = processed(two, {"a": [starts(p0=5, p1=7)], "b": [starts(p0=3, p1=9)]})
    assert found == {TopicPartition(TOPIC, 0): 3, TopicPartition(TOPIC, 1): 7}
    assert processed(two, {"a": [starts(p0=5)]}) == {}, "query b has not begun"
    assert processed(two, {"a": [starts(p0=5)], "b": [None]}) == {}
    assert processed(two, {"a": [starts(p0=5)], "b": ["null"]}) == {}, "its first micro-batch"
    assert processed(two, {"a": [starts(p0=5)], "b": [starts(p1=5)]}) == {}


def test_a_query_with_two_sources_needs_what_the_slower_one_needs() -> None:
    one = {TOPIC: {"a"}}
    assert processed(one, {"a": [starts(p0=5), starts(p0=2)]}) == {TopicPartition(TOPIC, 0): 2}
    assert processed(one, {"a": [starts(p0=5), None]}) == {}
    assert processed(one, {"a": [starts(p0=0)]}) == {}, "nothing to delete"
