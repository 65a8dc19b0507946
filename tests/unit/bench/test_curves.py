"""Curves: which points there are, in which order, how they are kept and drawn."""

import contextlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from bench.apache_kafka import controllers_of, node_config
from bench.beds import Bed
from bench.curves import at_rest
from bench.curves.__main__ import CURVES, measure, options_of
from bench.curves.curve import Curve, Drawn, Series
from bench.scale import Scale
from bench.stalled import StalledError
from bench.svg import Panel, across, ceiling, drawing, short
from bench.systems import System

SERIES = (Series(name="throughput", unit="MiB/s"), Series(name="CPU", unit="s/GB"))
NAMESPACE = "{http://www.w3.org/2000/svg}"


def curve(**changes: object) -> Curve:
    """Return a curve whose figures are its places; 13 comes to nothing."""

    def run(bed: Bed, place: int) -> Mapping[str, float]:
        if place == 13:
            raise StalledError("it stands still")
        return {"throughput": place, "CPU": 1 / place}

    fields: dict[str, object] = {
        "name": "c",
        "title": "A <curve>",
        "x": "x",
        "places": (1, 10, 13, 100),
        "series": SERIES,
    }
    return Curve(**{**fields, "run": run, **changes})  # type: ignore[arg-type]


class Fake:
    """A system of which nothing is asked but that it begins."""

    def start(self) -> None:
        pass

    wait_ready = start


@pytest.fixture
def message(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return which clusters were made and ended, as it comes."""
    found: list[str] = []

    @contextlib.contextmanager
    def formatted(kind: str, count: int, settings: Mapping[str, str]) -> Iterator[System]:
        found.append(f"{kind} {count}")
        yield cast(System, Fake())
        found.append("end")

    monkeypatch.setattr("bench.curves.__main__.formatted", formatted)
    monkeypatch.setattr("os.sync", lambda: None)
    return found


def test_points_are_stored_and_drawn_and_others_continue_after_a_failure(message: list[str], tmp_path: Path) -> None:
    measure(curve(), ["kvorum", "kafka"], options_of(["--out", str(tmp_path)]), lambda line: None)
    assert message == ["kvorum 1", "end", "kvorum 1", "end", "kafka 1", "end", "kafka 1", "end"]
    kept = json.loads((tmp_path / "c.json").read_text())
    assert [(each["system"], each["x"]) for each in kept["points"]] == [
        (kind, place) for kind in ("kafka", "kvorum") for place in (1, 10, 100)
    ]
    assert kept["points"][1]["runs"] == {"throughput": [10], "CPU": [0.1]} and len(kept["failures"]) == 2
    drawn = ElementTree.fromstring((tmp_path / "c.svg").read_text())
    assert len(drawn.findall(f".//{NAMESPACE}circle")) == 12
    assert "A <curve>" in [each.text for each in drawn.iter(f"{NAMESPACE}text")]


def test_a_cluster_is_made_for_each_size_or_for_each_place(message: list[str], tmp_path: Path) -> None:
    options = options_of(["--out", str(tmp_path)])
    measure(curve(places=(1, 2, 3), nodes=lambda place: place), ["kvorum"], options, lambda line: None)
    measure(curve(places=(1, 2), fresh=True), ["kvorum"], options, lambda line: None)
    assert message == ["kvorum 1", "end", "kvorum 2", "end", "kvorum 3", "end", *("kvorum 1", "end") * 2]


def test_places_that_are_counts_are_fewer_at_a_smaller_scale() -> None:
    assert curve(scaled=True).places_at(Scale(0.1)) == [1, 10]
    assert curve().places_at(Scale(0.1)) == [1, 10, 13, 100]


def test_the_median_of_the_rounds_is_drawn() -> None:
    drawn = Drawn(curve(), {})
    for figure in (9.0, 1.0, 2.0):
        drawn.add("kvorum", 5, {"throughput": figure, "CPU": 1.0})
    assert drawn.line("kvorum", "throughput") == [(5, 2.0)] and drawn.line("kafka", "CPU") == []


def test_each_curve_has_a_name_of_its_own_and_rising_places() -> None:
    assert len({each.name for each in CURVES}) == len(CURVES)
    assert all(list(each.places) == sorted(set(each.places)) for each in CURVES)


def test_a_drawing_is_valid_for_any_content() -> None:
    for lines in ({}, {"kvorum": []}, {"kvorum": [(1, 0.0)]}, {"kvorum": [(0, 1.0), (5, 1e9)], "kafka": [(5, 3.0)]}):
        ElementTree.fromstring(drawing("t & t", [Panel(title="a", x="b", y="c", lines=lines)] * 2))


def test_axes_have_round_numbers() -> None:
    assert [ceiling(value) for value in (0, 0.9, 1.0, 3, 41, 6e6)] == [1, 1, 1, 4, 50, 8e6]
    assert [short(value) for value in (0.25, 10, 1_000, 1_500_000, 2e9)] == ["0.25", "10", "1k", "1.5M", "2G"]
    assert [short(value) for value in (1_024, 102_400, 1_048_576)] == ["1Ki", "100Ki", "1Mi"]
    assert across(10, [1, 10, 100]) == pytest.approx((across(1, [1, 10, 100]) + across(100, [1, 10, 100])) / 2)


def test_metadata_are_changed_one_partition_after_the_other_and_live() -> None:
    found = at_rest.metadata(cast(Bed, type("B", (), {"scale": Scale(0.01)})), 200)
    assert set(found) == {series.name for series in at_rest.METADATA}
    del found[at_rest.LIFE["image"].name]  # so few may lie in memory that was there already
    assert min(found.values()) > 0


def test_nodes_of_apache_kafka_beyond_the_controllers_are_brokers_only(tmp_path: Path) -> None:
    assert [controllers_of(count) for count in (1, 2, 3, 4, 5, 8)] == [1, 1, 3, 3, 5, 5]
    own = node_config(6, 8, 1000, None, "1@127.0.0.1:1", tmp_path)
    assert (own["process.roles"], own["listeners"]) == ("broker", "PLAINTEXT://127.0.0.1:1000")
    both = node_config(1, 8, 1000, 2000, "1@127.0.0.1:2000", tmp_path)
    assert both["process.roles"] == "broker,controller" and both["listeners"].endswith(",CONTROLLER://127.0.0.1:2000")
