"""Each operator on records, run after run from the checkpoints of the run before: state is kept over the restarts.

Many operators share a query (their streams are merged before the sink), since a query's start is what takes time.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from kvorum.pipelines.streams import (
    JoinWindows,
    KStream,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
)
from tests.spark.streams.folder_topics import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

TEN = timedelta(seconds=10)
FINAL = Suppressed.until_window_closes()
Driver = Callable[[StreamsBuilder], TopologyTestDriver]


@pytest.fixture
def drive(spark: "SparkSession", tmp_path: Path) -> Iterator[Driver]:
    """Return a function that makes a driver of what was built."""
    yield lambda builder: TopologyTestDriver(builder.build(), spark, tmp_path)


class Out:
    """Merges streams into one topic, each value under a name, and reads them apart again."""

    def __init__(self) -> None:
        self.streams: list[KStream] = []

    def put(self, name: str, stream: KStream) -> None:
        text = stream.map(
            lambda key, value: (
                F.lit(name),
                F.to_json(F.struct(key.alias("k"), value.alias("v")), {"ignoreNullFields": "false"}),
            )
        )
        self.streams.append(text)

    def write(self) -> None:
        first, *others = self.streams
        (first.merge(*others) if others else first).to("out")

    @staticmethod
    def read(driver: TopologyTestDriver) -> dict[str, list[tuple[Any, Any]]]:
        found: dict[str, list[tuple[Any, Any]]] = {}
        for each in driver.read("out"):
            pair = json.loads(each.value or "{}")
            found.setdefault(each.key or "", []).append((flat(pair["k"]), pair["v"]))
        return {name: sorted(pairs, key=str) for name, pairs in found.items()}


def flat(key: Any) -> Any:
    """Return a windowed key as (key, start, end) in seconds of 1970's first minute."""
    if not isinstance(key, dict):
        return key
    return (key["key"], *(float(key["window"][each][17:23]) for each in ("start", "end")))


def test_records_are_changed_filtered_parted_and_merged(drive: Driver) -> None:
    builder, out = StreamsBuilder(), Out()
    stream = builder.stream(["a", "b"], value_serde=Serdes.json("n INT, words ARRAY<STRING>"))
    out.put("filter", stream.filter("value.n > 1").map_values("value.n"))
    out.put("filter_not", stream.filter_not(lambda value: value.n > 1).map_values(lambda value: value.n))
    out.put("map", stream.map(lambda key, value: (value.n, key)))
    out.put("flat", stream.flat_map_values(lambda value: value.words).select_key("upper(value)"))
    out.put("key_and_value", stream.map_values(lambda key, value: F.concat(key, value.n.cast("string"))))
    out.put("time", stream.select_key("topic").map_values("unix_millis(timestamp)"))
    parts = stream.split(named="parts").branch("value.n < 2").branch("value.n > 0").no_default_branch()
    small, big = parts.values()
    rest = stream.split().branch("value.n < 2", "small").default_branch("rest")["rest"]
    out.put("small", small.map_values("value.n"))
    out.put("big", big.map_values("value.n"))
    out.put("rest", rest.map_values("value.n"))
    out.write()
    with drive(builder) as driver:
        driver.pipe("a", ("k", '{"n": 1, "words": ["x", "y"]}', 1000), ("k", '{"n": 2, "words": []}', 2000))
        driver.pipe("b", (None, '{"n": null, "words": ["z"]}', 3000))
        driver.run()
        found = out.read(driver)
    assert found == {
        "filter": [("k", 2)],
        "filter_not": [("k", 1), (None, None)],
        "map": [(1, "k"), (2, "k"), (None, None)],
        "flat": [("X", "x"), ("Y", "y"), ("Z", "z")],
        "key_and_value": [("k", "k1"), ("k", "k2"), (None, None)],
        "time": [("a", 1000), ("a", 2000), ("b", 3000)],
        "small": [("k", 1)],
        "big": [("k", 2)],
        "rest": [("k", 2), (None, None)],
    }


def test_aggregates_go_out_as_they_change_and_are_kept_over_a_restart(drive: Driver) -> None:
    """Records without key or value take no part; late records are dropped once the grace is over."""
    builder, out = StreamsBuilder(), Out()
    numbers = builder.stream("in", value_serde=Serdes.json("n INT"))
    groups = numbers.group_by_key()
    out.put("count", groups.count().to_stream())
    out.put("sum", groups.aggregate("named_struct('sum', sum(value.n), 'max', max(value.n))").to_stream())
    out.put("reduce", numbers.map_values("value.n").group_by_key().reduce(F.max).to_stream())
    out.put("filter", groups.count().filter("value < 3").map_values("-value").to_stream())
    windows = TimeWindows.of_size_and_grace(TEN, timedelta(seconds=5))
    out.put("window", groups.windowed_by(windows).count().to_stream())
    out.write()
    with drive(builder) as driver:
        driver.pipe(
            "in", ("a", '{"n": 5}', 1000), ("a", '{"n": 7}', 12000), (None, '{"n": 1}', 2000), ("a", None, 3000)
        )
        driver.pipe("in", ("b", '{"n": 1}', 2000))
        driver.run()
        assert out.read(driver) == {
            "count": [("a", 2), ("b", 1)],
            "sum": [("a", {"sum": 12, "max": 7}), ("b", {"sum": 1, "max": 1})],
            "reduce": [("a", 7), ("b", 1)],
            "filter": [("a", -2), ("b", -1)],
            "window": [(("a", 0.0, 10.0), 1), (("a", 10.0, 20.0), 1), (("b", 0.0, 10.0), 1)],
        }
        driver.pipe("in", ("a", '{"n": 3}', 9000), ("a", '{"n": 4}', 16000))
        driver.run()
        second = out.read(driver)
        assert second["count"] == [("a", 4)] and second["sum"] == [("a", {"sum": 19, "max": 7})]
        assert second["filter"] == [("a", None)], "a row that no longer fulfils the predicate is ended"
        assert second["window"] == [(("a", 0.0, 10.0), 2), (("a", 10.0, 20.0), 2)]
        driver.pipe("in", ("a", '{"n": 1}', 9000), ("a", '{"n": 1}', 17000))
        driver.run()
        third = out.read(driver)
        assert third["count"] == [("a", 6)], "what has no window is never late"
        assert third["window"] == [(("a", 10.0, 20.0), 3)], "the watermark is at 16 - 5 s: the first window is closed"


def test_final_results_of_windows_sessions_and_joins_of_streams(drive: Driver) -> None:
    builder, out = StreamsBuilder(), Out()
    left, right = builder.stream("left"), builder.stream("right")
    groups = left.group_by_key()
    tumbling = TimeWindows.of_size_with_no_grace(TEN)
    out.put("tumbling", groups.windowed_by(tumbling).count().suppress(FINAL).to_stream())
    hopping = tumbling.advance_by(timedelta(seconds=5))
    out.put("hopping", groups.windowed_by(hopping).count().suppress(FINAL).to_stream().filter("key.key = 'b'"))
    sessions = SessionWindows.of_inactivity_gap_with_no_grace(TEN)
    out.put("session", groups.windowed_by(sessions).aggregate("array_sort(collect_list(value))").to_stream())
    near = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=4))
    out.put("inner", left.join(right, "concat(left, right)", near))
    out.put("left", left.left_join(right, "concat(left, coalesce(right, '-'))", near.before(timedelta())))
    out.put("outer", left.outer_join(right, "concat(coalesce(left, '-'), coalesce(right, '-'))", near))
    out.write()
    with drive(builder) as driver:
        driver.pipe(
            "left", ("a", "1", 1000), ("a", "2", 11000), ("b", "3", 12000), ("a", "4", 21001), ("b", "5", 22001)
        )
        driver.pipe("right", ("a", "A", 5000), ("b", "B", 7999), ("a", "C", 21001), (None, "D", 9000))
        driver.run()
        first = out.read(driver)
        driver.pipe("left", ("z", "-", 59000))
        driver.pipe("right", ("y", "-", 59000))
        driver.run()
        second = out.read(driver)
    both = {name: sorted(first.get(name, []) + second.get(name, []), key=str) for name in first | second}
    assert both["tumbling"] == [
        (("a", 0.0, 10.0), 1),
        (("a", 10.0, 20.0), 1),
        (("a", 20.0, 30.0), 1),
        (("b", 10.0, 20.0), 1),
        (("b", 20.0, 30.0), 1),
    ]
    assert both["hopping"] == [(("b", start, start + 10.0), 1) for start in (10.0, 15.0, 20.0, 5.0)]
    assert both["session"] == [
        (("a", 1.0, 11.0), ["1", "2"]),
        (("a", 21.001, 21.001), ["4"]),
        (("b", 12.0, 12.0), ["3"]),
        (("b", 22.001, 22.001), ["5"]),
    ], "the gap is inclusive: 1 s and 11 s are one session, 11 s and 21.001 s are two"
    assert both["inner"] == [("a", "1A"), ("a", "4C")], "4 s apart is near enough, 4.001 s is not"
    assert both["left"] == [("a", "1A"), ("a", "2-"), ("a", "4C"), ("b", "3-"), ("b", "5-")]
    assert both["outer"] == [("a", "1A"), ("a", "2-"), ("a", "4C"), ("b", "-B"), ("b", "3-"), ("b", "5-"), (None, "-D")]


def test_tables_are_looked_up_and_joined(drive: Driver) -> None:
    builder, out = StreamsBuilder(), Out()
    views, users = builder.stream("views"), builder.table("users", value_serde=Serdes.json("name STRING"))
    regions = builder.global_table("regions")
    out.put("inner", views.join(users, "concat(left, ' by ', right.name)"))
    out.put("left", views.left_join(users, lambda key, left, right: F.concat_ws(" ", key, left, right["name"])))
    out.put("global", views.join(regions, "right", key_selector="left(value, 1)"))
    ages = builder.table("ages", value_serde=Serdes.long())
    out.put("table", users.outer_join(ages, "struct(left.name AS name, right AS age)").to_stream())
    out.write()
    with drive(builder) as driver:
        driver.pipe("users", ("u", '{"name": "Ada"}', 1000), ("v", '{"name": "Bo"}', 5000))
        driver.pipe("views", ("u", "/a", 2000), ("v", "/b", 4000), ("w", "/c", 6000), (None, "/d", 1))
        driver.pipe("regions", ("/", "root", 9000))
        driver.pipe("ages", ("u", (36).to_bytes(8, "big"), 3000))
        driver.run()
        assert out.read(driver) == {
            "inner": [("u", "/a by Ada")],
            "left": [("u", "u /a Ada"), ("v", "v /b"), ("w", "w /c"), (None, "/d")],
            "global": [("u", "root"), ("v", "root"), ("w", "root"), (None, "root")],
            "table": [
                ("u", {"name": "Ada", "age": 36}),
                ("u", {"name": "Ada", "age": None}),
                ("v", {"name": "Bo", "age": None}),
            ],
        }
        driver.pipe("users", ("v", None, 7000), ("u", None, 9000))
        driver.pipe("views", ("u", "/e", 8000), ("v", "/f", 8000))
        driver.run()
        second = out.read(driver)
        assert second["inner"] == [("u", "/e by Ada")], "the row was kept, and its tombstone is a second younger"
        assert second["left"] == [("u", "u /e Ada"), ("v", "v /f")]
        assert second["table"] == [("u", {"name": None, "age": 36}), ("v", None)]


def test_python_functions_keep_their_state(drive: Driver) -> None:
    builder, out = StreamsBuilder(), Out()
    numbers = builder.stream("in", value_serde=Serdes.json("n INT"))
    groups = numbers.group_by_key()
    added = groups.aggregate(
        list, lambda key, value, aggregate: [*aggregate, f"{key}{value['n']}"], schema="ARRAY<STRING>"
    )
    out.put("aggregate", added.to_stream())
    window = groups.windowed_by(TimeWindows.of_size_with_no_grace(TEN))
    summed = window.reduce(lambda one, other: {"n": one["n"] + other["n"]}, python=True)
    out.put("window", summed.suppress(FINAL).to_stream().map_values("value.n"))
    out.write()
    with drive(builder) as driver:
        driver.pipe("in", ("a", '{"n": 1}', 1000), ("a", '{"n": 2}', 500), ("b", '{"n": 3}', 3000))
        driver.run()
        first = out.read(driver)
        assert first == {
            "aggregate": [("a", ["a1", "a2"]), ("b", ["b3"])],
        }
        driver.pipe("in", ("a", '{"n": 4}', 2000), ("b", '{"n": 5}', 12000))
        driver.run()
        assert out.read(driver) == {
            "aggregate": [("a", ["a1", "a2", "a4"]), ("b", ["b3", "b5"])],
            "window": [(("a", 0.0, 10.0), 7), (("b", 0.0, 10.0), 3)],
        }


def test_groups_of_a_table_and_a_query_that_is_cut(drive: Driver) -> None:
    """The count of a table's groups follows its rows; the largest of the counts is another query."""
    builder = StreamsBuilder()
    counts = builder.table("homes").group_by(lambda key, value: (value, key)).count().to_stream()
    counts.to("counts", value_serde=Serdes.string())
    counts.map(lambda key, value: (F.lit("all"), value)).group_by_key().reduce(F.max).to_stream().to("largest")
    with drive(builder) as driver:
        driver.pipe("homes", ("a", "rome", 1), ("b", "rome", 2), ("c", "bonn", 3))
        driver.run()
        assert [each[:2] for each in driver.read("counts")] == [("bonn", "1"), ("rome", "2")]
        assert [each[:2] for each in driver.read("largest")] == [("all", "2")]
        driver.pipe("homes", ("c", "rome", 4), ("a", None, 5))
        driver.run()
        assert [each[:2] for each in driver.read("counts")] == [("bonn", "0"), ("rome", "2")]


def test_serdes_timestamps_and_bad_records(spark: "SparkSession", tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value_serde=Serdes.json("at TIMESTAMP"), timestamp_extractor="value.at")
    stream.to(lambda key, value: F.concat(F.lit("out-"), key), value_serde=Serdes.string())
    topology = builder.build()
    with TopologyTestDriver(topology, spark, tmp_path / "skip", on_bad_record="skip") as driver:
        driver.pipe("in", ("a", '{"at": "1970-01-01T00:00:07Z"}', 1), ("a", "no json", 2), ("b", None, 3))
        driver.run()
        assert [tuple(each) for each in driver.read("out-a")] == [("a", '{"at":"1970-01-01T00:00:07.000000Z"}', 7000)]
        assert [tuple(each) for each in driver.read("out-b")] == [("b", None, 3)]
    with TopologyTestDriver(topology, spark, tmp_path / "fail") as driver:
        driver.pipe("in", ("a", "no json", 2))
        with pytest.raises(StreamingQueryException, match="VALUE_CONVERTER"):
            driver.run()


def test_streams_of_different_types_are_not_merged(drive: Driver) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.merge(stream.map_values("length(value)"), named="both").to("out")
    driver = drive(builder)
    with pytest.raises(TopologyError, match="both: the values of merged streams must have one type, found int, string"):
        driver.run()
