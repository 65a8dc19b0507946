"""Joins of two streams within a window: equal to Spark's join of all pairs of a key, whatever the order of records."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.streams import JoinWindows, StreamsBuilder, Topology, TopologyError, dsl
from kvorum.pipelines.streams import functions as stream_functions
from kvorum.pipelines.streams.operators import timed
from kvorum.pipelines.streams.windows import milliseconds
from tests.spark.streams.folder_topics import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

GRACE_MS = 50
WINDOWS_MS = [(0, 0), (5, 13), (30, -10)]
"""Before and after; in the last one every match is older than the left record."""
HISTORIES = 20
"""Each is a key of its own. Time is common to all keys of a query."""
RUNS = 3
RUN_MS = 100

Pipes = dict[str, list[tuple[str | None, str, int]]]


def plain_join(
    left: DataFrame, right: DataFrame, *, joiner: str, windows: JoinWindows, kind: str, mode: str
) -> DataFrame:
    """Return the same join by the record key alone, as Spark does it by itself: the reference."""
    sides = []
    for name, frame, is_kept in (
        ("l", left, kind != "inner"),
        ("r", right, kind == "outer"),
    ):
        rows = frame.where("value IS NOT NULL")
        rows = timed(rows if is_kept else rows.where("key IS NOT NULL"), windows)
        sides.append(rows.select(*(F.col(each).alias(f"{name}_{each}") for each in ("key", "value", "timestamp"))))
    before, after = (milliseconds(each) for each in (windows.before_by, windows.after_by))
    near = (
        # A full outer join of Spark's takes null keys for equal, so they are replaced by keys that no record has.
        "coalesce(l_key, 'no left key') = coalesce(r_key, 'no right key')"
        f" AND r_timestamp >= l_timestamp - INTERVAL {before} MILLISECONDS"
        f" AND r_timestamp <= l_timestamp + INTERVAL {after} MILLISECONDS"
    )
    how = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}[kind]
    pairs = sides[0].join(sides[1], F.expr(near), how)
    pairs = pairs.selectExpr(
        "coalesce(l_key, r_key) AS key",
        "greatest(l_timestamp, r_timestamp) AS timestamp",
        "l_value AS left",
        "r_value AS right",
    )
    return record_frame(pairs, value=stream_functions.column(joiner, stream_functions.JOINED))


def joins(kind: str) -> Topology:
    """Return joins of all windows in one query: a query's start takes most of the time."""
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    joined = []
    for before, after in WINDOWS_MS:
        lengths = (timedelta(milliseconds=each) for each in (before, after, GRACE_MS))
        windows = JoinWindows(**dict(zip(("before_by", "after_by", "grace"), lengths, strict=True)))
        joiner = f"concat_ws(' ', '{before} {after}', coalesce(left, '-'), coalesce(right, '-'))"
        joined.append(join(right, joiner, windows))
    joined[0].merge(*joined[1:]).to("out", named="end")
    return builder.build()


def history(chance: random.Random) -> list[Pipes]:
    """Return records run by run: before and after 1970, at the borders of windows and buckets, some too late."""
    runs: list[Pipes] = []
    steps = [0, 1, 5, 7, 10, 13, 20, 30]
    for run in range(RUNS):
        pipes: Pipes = {"left": [], "right": []}
        for key in range(HISTORIES):
            # With the grace period, records of the run before are in time, older ones are too late.
            at = run * RUN_MS - RUN_MS - chance.choice([0, 0, 0, GRACE_MS, RUN_MS, 2 * RUN_MS])
            for number in range(chance.randrange(8)):
                at += chance.choice(steps) * chance.choice([1, 1, -1])
                side = chance.choice(["left", "right"])
                pipes[side].append((None if key == 0 else f"k{key}", f"{side[0]}{run}.{number}", at))
        runs.append(pipes)
    end = (RUNS + 5) * RUN_MS
    return [*runs, {"left": [("end", "l", end)], "right": [("end", "r", end)]}]


def outputs(topology: Topology, spark: "SparkSession", folder: Path, runs: list[Pipes]) -> Iterator[Counter[str]]:
    """Yield what each run writes."""
    with TopologyTestDriver(topology, spark, folder) as driver:
        for pipes in runs:
            for topic, records in pipes.items():
                driver.pipe(topic, *records)
            driver.run()
            yield Counter(f"{each.key} {each.value} {each.timestamp_ms}" for each in driver.read("out"))


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_joins_emit_what_a_join_of_all_pairs_of_a_key_emits(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    runs = history(random.Random(seed))
    found = list(outputs(joins(kind), spark, tmp_path / "buckets", runs))
    monkeypatch.setattr(dsl, "stream_join", plain_join)
    wanted = list(outputs(joins(kind), spark, tmp_path / "plain", runs))
    for number, (ours, plain) in enumerate(zip(found, wanted, strict=True)):
        assert ours == plain, f"seed {seed}, run {number}: {ours - plain} too many, {plain - ours} missing"
    total = sum(wanted, Counter())
    assert not [row for row in total if row.startswith("None ") and " - " not in row], "null keys match nothing"
    for before, after in WINDOWS_MS:
        rows = [row for row in total if f" {before} {after} " in row]
        assert any(" - " not in row for row in rows), f"seed {seed}: no pairs of {before} {after}"
        assert kind == "inner" or any(" - " in row for row in rows), f"seed {seed}: no unmatched records"


def test_state_of_joins_is_removed_and_state_of_other_windows_rejected(spark: "SparkSession", tmp_path: Path) -> None:
    def topology(seconds: int) -> Topology:
        builder = StreamsBuilder()
        windows = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=seconds))
        pairs = builder.stream("left").join(builder.stream("right"), "concat(left, right)", windows, named="pairs")
        pairs.to("out", named="end")
        return builder.build()

    driver = TopologyTestDriver(topology(1), spark, tmp_path)
    driver.pipe("left", ("a", "1", 1000))
    driver.pipe("right", ("b", "2", 1000))
    driver.run()
    driver.pipe("right", ("a", "2", 1500))
    message = r"query end cannot continue from checkpoint .*/end: its state has joins .*\[\[1000, 1000\]\], pairs now"
    with pytest.raises(TopologyError, match=message):
        TopologyTestDriver(topology(2), spark, tmp_path).run()
    joined = tmp_path / "checkpoints/end/kvorum-streams/joins"
    recorded = joined.read_text()
    joined.unlink()
    with pytest.raises(TopologyError, match="no time buckets in their state, which an earlier version of Kvorum wrote"):
        driver.run()
    joined.write_text(recorded)
    joined.with_name(".joins.crc").unlink(missing_ok=True)
    driver.run()
    assert [each.value for each in driver.read("out")] == ["12"]
    for at in (10_000, 10_001):
        for side in ("left", "right"):
            driver.pipe(side, ("z", "z", at))
        driver.run()
    for side in ("left", "right"):
        state = spark.read.format("statestore").option("joinSide", side).load(str(tmp_path / "checkpoints/end"))
        assert {row[0] for row in state.select(f"value._{side}_key").collect()} == {"z"}, "a and b are removed"
