"""What is made of figures: ratios, verdicts, the table, the file they are kept in."""

import json
import re
from pathlib import Path

import pytest

from bench.registry import MEASURES, chosen
from bench.results import MeasureResult, Results, RowResult, read, write
from bench.rows import less, more, reached, spread, value_of
from bench.table import BEGIN, END, lag_table, put_between, section, shown, table

RATE = more("produce", "records/s", 1.3, 2.0)
COST = less("memory", "MiB", 0.2, 0.1)
GAP = less("gap", "s", 1.0, 0.2, "own")
TOLD = more("commits", "commits/s")


def results() -> Results:
    """Return figures of two runs."""
    rows = [
        RowResult(RATE, {"kvorum": [100.0, 300.0], "kafka": [100.0, 100.0]}),
        RowResult(COST, {"kvorum": [15.0], "kafka": [100.0]}),
        RowResult(GAP, {"kvorum": [2.0]}),
        RowResult(TOLD, {"kafka": [1234.0]}),
        RowResult(more("never run", "MiB/s", 1.0, 2.0)),
    ]
    measure = MeasureResult(
        "all", rows, {"rounds": 2}, {"a case": [(1.5, 20.0), (2.5, 30.0)]}, ["x, round 2, kafka: StalledError: no end"]
    )
    return Results({"kafka": "4.3.0", "machine": "a machine", "kvorum": "abc"}, {"loopback, MiB/s": 2000.0}, [measure])


@pytest.mark.parametrize(
    ("of", "own", "other", "value"),
    [
        ("ratio", [1, 2, 9], [4, 1, 1], 2.0),
        ("ratio", [1], [], None),
        ("ratio", [], [1], None),
        ("ratio", [1], [0], None),
        ("own", [3, 1], [], 2.0),
        ("own", [], [1], None),
    ],
)
def test_a_ratio_is_of_medians(of: str, own: list[float], other: list[float], value: float | None) -> None:
    assert value_of(of, own, other) == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "value", "verdict"),
    [
        (RATE, 2.0, "aim"),
        (RATE, 1.99, "must"),
        (RATE, 1.3, "must"),
        (RATE, 1.29, "no"),
        (COST, 0.1, "aim"),
        (COST, 0.11, "must"),
        (COST, 0.21, "no"),
        (TOLD, 5.0, "-"),
        (RATE, None, "-"),
        (less("p50", "ms", 1.0), 0.1, "must"),
    ],
)
def test_the_reached_target_depends_on_the_direction(row, value, verdict) -> None:  # type: ignore[no-untyped-def]
    assert reached(row, value) == verdict


def test_the_spread_is_a_share_of_the_median() -> None:
    assert spread([90, 100, 120]) == pytest.approx(0.3)
    assert spread([0, 0]) == 0


def test_the_table_has_targets_and_results() -> None:
    assert table(results()).splitlines() == [
        "| what | Kvorum | Apache Kafka 4.3.0 | ratio | must | aim | reached |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| produce, records/s | 200 (100%) | 100 (0%) | 2.00 | ≥ 1.3 | ≥ 2 | aim |",
        "| memory, MiB | 15.0 | 100 | 0.15 | ≤ 0.2 | ≤ 0.1 | must |",
        "| gap, s | 2.00 | - | - | ≤ 1 s | ≤ 0.2 s | **no** |",
    ]
    assert table(results(), every=True).splitlines()[-1] == "| commits, commits/s | - | 1,234 | - | - | - | - |"
    assert shown([]) == "-"


def test_event_loop_lag_has_a_table_of_its_own() -> None:
    assert lag_table(results()).splitlines()[2:] == ["| a case | 2.00 (50%) | 25.0 (40%) |"]
    assert lag_table(Results()) == ""
    assert "a case" not in section(results())


def test_a_third_system_has_a_column_and_no_ratio() -> None:
    found = results()
    found.measures[0].facts["peer"] = "Tansu 0.6.0"
    found.measures[0].rows[0].runs["peer"] = [50.0]
    found.measures.append(MeasureResult("later", [RowResult(TOLD, {"kvorum": [1.0], "kafka": [2.0]})]))
    assert table(found, every=True).splitlines() == [
        "| what | Kvorum | Apache Kafka 4.3.0 | Tansu 0.6.0 | ratio | must | aim | reached |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| produce, records/s | 200 (100%) | 100 (0%) | 50.0 | 2.00 | ≥ 1.3 | ≥ 2 | aim |",
        "| memory, MiB | 15.0 | 100 | - | 0.15 | ≤ 0.2 | ≤ 0.1 | must |",
        "| gap, s | 2.00 | - | - | - | ≤ 1 s | ≤ 0.2 s | **no** |",
        "| commits, commits/s | - | 1,234 | - | - | - | - | - |",
        "| commits, commits/s | 1.00 | 2.00 | - | 0.50 | - | - | - |",
    ]


def test_failures_are_reported_below_the_table() -> None:
    reported = section(results())
    assert "3 rows, of which 1 reach the aim and 1 not the must" in reported
    assert reported.endswith("Failed: x, round 2, kafka: StalledError: no end")


def test_the_table_has_the_measured_commits_and_their_measures() -> None:
    found = results()
    found.measures[0].facts["commit"] = "abc"
    assert "Commits: abc. Machine: a machine." in section(found)
    found.measures.append(MeasureResult("later", [], {"commit": "def", "rounds": 2}))
    assert "Commits: abc (all); def (later)." in section(found)


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    write(results(), path)
    assert read(path) == results()
    first = json.loads(path.read_text())["measures"][0]["rows"][0]
    assert first["runs"] == {"kvorum": [100.0, 300.0], "kafka": [100.0, 100.0]}
    assert (first["ratio"], first["reached"]) == (2.0, "aim")


def test_a_later_run_takes_the_place_of_an_earlier_one() -> None:
    kept = Results(measures=[MeasureResult("b", []), MeasureResult("a", [])])
    newer = MeasureResult("b", [], failures=["later"])
    kept.put(newer, ["a", "b"])
    assert [each.name for each in kept.measures] == ["a", "b"] and kept.of("b") is newer


ROOT = Path(__file__).parent.parent.parent.parent


def test_the_page_has_the_figures_that_were_kept() -> None:
    kept = table(read(ROOT / "docs" / "benchmark.json"))
    text = (ROOT / "docs" / "benchmark.md").read_text()
    between = text.partition(BEGIN)[2].partition(END)[0].strip()
    assert between.startswith(kept + "\n\n"), "python -m bench.table docs/benchmark.json --page docs/benchmark.md"
    counts = re.search(r"(\d+)\s+rows, of which (\d+) reach the aim and (\d+) not the must", between)
    assert counts is not None
    verdicts = [line.split("|")[-2].strip() for line in kept.splitlines()[2:]]
    assert list(map(int, counts.groups())) == [len(verdicts), verdicts.count("aim"), verdicts.count("**no**")]


@pytest.mark.parametrize(
    ("what", "begins", "unit"),
    [
        ("produce into one node", "produce, 1 node", "records/s"),
        ("produce into three nodes", "produce, 3 nodes", "records/s"),
        ("consume,", "consume, one consumer", "records/s"),
        ("requests of one record", "requests of one record", "requests/s"),
        ("end-to-end latency, p50", "end-to-end latency", "p50, ms"),
        ("end-to-end latency, p99", "end-to-end latency", "p99, ms"),
        ("processor time", "CPU of 3 nodes", "s/GB"),
        ("start to the first", "start to first", ", s"),
    ],
)
def test_the_readme_summary_matches_the_rows(what: str, begins: str, unit: str) -> None:
    rows = [line.split("|") for line in table(read(ROOT / "docs" / "benchmark.json")).splitlines()[2:]]
    ratios = sorted({cells[4].strip() for cells in rows if cells[1].strip().startswith(begins) and unit in cells[1]})
    (line,) = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith(f"| {what}")]
    reported = re.findall(r"\d+\.\d\d", line)
    assert reported == list(dict.fromkeys((ratios[0], ratios[-1])))


def test_only_the_text_between_the_markers_is_replaced() -> None:
    assert put_between(f"a\n{BEGIN}\nold\n{END}\nz\n", "new") == f"a\n{BEGIN}\nnew\n{END}\nz\n"
    for text in ("a", BEGIN, END):
        with pytest.raises(ValueError, match="there is no"):
            put_between(text, "new")


def test_each_row_has_a_unique_name_and_a_target_above_its_requirement() -> None:
    rows = [row for measure in MEASURES for row in measure.rows]
    assert len({row.what for row in rows}) == len(rows)
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    for row in rows:
        if row.must is not None and row.aim is not None:
            assert row.aim > row.must if row.better == "more" else row.aim < row.must, row.what


def test_measures_are_chosen_by_name_in_the_order_of_the_table() -> None:
    assert chosen(None) == list(MEASURES) == chosen("")
    assert [measure.name for measure in chosen("memory,produce")] == ["produce", "memory"]
    with pytest.raises(ValueError, match="there is no measure speed"):
        chosen("speed")
