"""What is built is described, and cut where Spark needs it: without Spark, without a cluster."""

from datetime import timedelta

import pytest

from kvorum.pipelines.streams import (
    JoinWindows,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
)

SECOND = timedelta(seconds=1)
MINUTE = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
FINAL = Suppressed.until_window_closes()

WORD_COUNT = """\
Query KSTREAM-SINK-0000000005, output mode update
    KSTREAM-SOURCE-0000000000 (topics: lines)
    KSTREAM-FLATMAPVALUES-0000000001 <- KSTREAM-SOURCE-0000000000
    KSTREAM-KEY-SELECT-0000000002 <- KSTREAM-FLATMAPVALUES-0000000001
    KSTREAM-AGGREGATE-0000000003 <- KSTREAM-KEY-SELECT-0000000002 (store: counts-store)
    KTABLE-TOSTREAM-0000000004 <- KSTREAM-AGGREGATE-0000000003
    KSTREAM-SINK-0000000005 <- KTABLE-TOSTREAM-0000000004 (topic: counts)"""


def modes(topology: Topology) -> dict[str, str]:
    return {query.name: query.mode for query in topology.queries}


def test_a_word_count_is_described_with_kafka_streams_names() -> None:
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values("split(value, ' ')")
    words.group_by(lambda value: value).count(store="counts-store").to_stream().to("counts")
    assert builder.build().describe() == WORD_COUNT


def test_branches_and_global_tables_are_described() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", named="orders")
    shops = builder.global_table("shops", named="shops", store="shops-store")
    branches = orders.split(named="split").branch("value = 'a'", "a").default_branch("rest")
    branches["a"].join(shops, "right", key_selector="value", named="at").to("x", named="to-x")
    branches["rest"].to("y", named="to-y")
    described = builder.build().describe()
    assert "    shops (topics: shops, global)" in described
    assert "    split <- orders\n    split-rest <- split\n" in described
    assert "    at <- split-a <- shops (store: " in described


def test_a_table_that_changes_and_feeds_more_state_is_another_query() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().count(named="first").to_stream()
    counts.group_by("value").count(named="second").to_stream().to("out", named="end")
    topology = builder.build()
    (cut,) = [query.name for query in topology.queries if query.name != "end"]
    assert modes(topology) == {cut: "update", "end": "update"}
    assert cut.endswith("-repartition")
    assert [query.name for query in topology.queries] == [cut, "end"], "who reads the topic comes after who writes it"
    assert topology.describe().count(f"(internal topic: {cut})") == 2, "written by one query, read by the other"


def test_lookups_and_joins_of_tables_share_a_query_with_the_count_behind_them() -> None:
    builder = StreamsBuilder()
    rows = builder.table("a").left_join(builder.table("b"), "concat(left, right)")
    looked = builder.stream("in").join(rows, "right").to_table().join(builder.table("c"), "left")
    looked.to_stream().group_by_key().count().to_stream().to("out", named="end")
    assert modes(builder.build()) == {"end": "update"}


def test_what_needs_other_output_modes_is_parted_before_it_is_merged() -> None:
    builder = StreamsBuilder()
    records = builder.stream("in")
    changing = records.group_by_key().count(named="count").to_stream()
    final = records.group_by_key().windowed_by(MINUTE).count(named="window").suppress(FINAL).to_stream("key.key")
    changing.merge(final, named="both").to("out", named="end")
    found = modes(builder.build())
    assert sorted(found.values()) == ["append", "append", "update"] and found["end"] == "append"


def test_time_serves_one_operator_of_a_query() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("l"), builder.stream("r")
    pairs = left.join(right, "left", JoinWindows.of_time_difference_with_no_grace(SECOND), named="pairs")
    pairs.group_by_key().windowed_by(MINUTE).count().suppress(FINAL).to_stream().to("out", named="end")
    assert modes(builder.build()) == {"pairs-repartition": "append", "end": "append"}


def test_two_readers_of_a_cut_share_its_topic() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().count(named="count").to_stream(named="changes")
    counts.group_by_key().count().to_stream().to("a", named="to-a")
    counts.group_by_key().reduce("max(value)").to_stream().to("b", named="to-b")
    assert modes(builder.build()) == {"changes-repartition": "update", "to-a": "update", "to-b": "update"}


def test_repartition_cuts_where_it_is_asked_to() -> None:
    builder = StreamsBuilder()
    builder.stream("in").select_key("value").repartition(named="by-value").to("out", named="end")
    assert modes(builder.build()) == {"by-value-repartition": "append", "end": "append"}


def test_a_query_comes_after_the_one_that_writes_what_it_reads() -> None:
    builder = StreamsBuilder()
    builder.stream("middle").to("last", named="second")
    builder.stream("first").to("middle", named="first")
    assert [query.name for query in builder.build().queries] == ["first", "second"]


def test_topics_in_a_circle_are_taken_as_they_come() -> None:
    builder = StreamsBuilder()
    builder.stream("a").to("b", named="to-b")
    builder.stream("b").to("a", named="to-a")
    assert len(builder.build().queries) == 2


def test_suppress_reaches_the_windows_through_filters_and_maps() -> None:
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().windowed_by(MINUTE).count().filter("value > 1").map_values("value + 1")
    table.suppress(FINAL).to_stream().to("out", named="end")
    table.to_stream().to("early", named="early")
    assert modes(builder.build()) == {"end": "append", "early": "update"}


@pytest.mark.parametrize("has_windows", [True, False])
def test_suppress_without_windows_that_close_is_refused(has_windows: bool) -> None:
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().count()
    if has_windows:
        table = builder.stream("in").group_by_key().windowed_by(MINUTE).count().join(builder.table("t"), "left")
    with pytest.raises(TopologyError, match="suppress follows a windowed aggregate"):
        table.suppress(FINAL)


def test_what_cannot_be_is_refused_when_it_is_written() -> None:
    builder = StreamsBuilder()
    stream, table = builder.stream("in", named="in"), builder.table("t")
    with pytest.raises(TopologyError, match="no sink"):
        builder.build()
    with pytest.raises(TopologyError, match="two nodes or stores are named in"):
        stream.filter("true", named="in")
    with pytest.raises(TopologyError, match="needs a window"):
        stream.join(builder.stream("other"), "left")
    with pytest.raises(TopologyError, match="for global tables"):
        stream.join(table, "left", key_selector="value")
    with pytest.raises(TopologyError, match="needs an initializer and a schema"):
        stream.group_by_key().aggregate(dict, lambda key, value, aggregate: aggregate)
    with pytest.raises(TopologyError, match="two branches"):
        stream.split().branch("true", "a").branch("false", "a")
    with pytest.raises(TopologyError, match="at least one topic"):
        builder.stream([""])
    with pytest.raises(TopologyError, match="at least one topic"):
        builder.stream([])


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeWindows.of_size_with_no_grace(timedelta()),
        lambda: TimeWindows.of_size_with_no_grace(SECOND).advance_by(2 * SECOND),
        lambda: TimeWindows.of_size_with_no_grace(SECOND).advance_by(timedelta()),
        lambda: TimeWindows.of_size_and_grace(SECOND, -SECOND),
        lambda: TimeWindows.of_size_with_no_grace(timedelta(microseconds=1)),
        lambda: SessionWindows.of_inactivity_gap_with_no_grace(timedelta()),
        lambda: JoinWindows.of_time_difference_with_no_grace(-SECOND),
    ],
)
def test_windows_that_cannot_be_are_refused(make: object) -> None:
    with pytest.raises(TopologyError):
        make()  # type: ignore[operator]


def test_join_windows_may_look_one_way_only() -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(SECOND).before(timedelta())
    assert (windows.before_by, windows.after_by) == (timedelta(), SECOND)


def test_serdes_have_the_names_of_formats() -> None:
    assert Serdes.json("a INT").options == {"schema": "a INT"} and Serdes.of("avro", schema="{}").format == "avro"
