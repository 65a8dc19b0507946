"""The page: its numbers are the verdict's, it needs nothing else, nothing in a history gets out of its text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from kvorum.chaos.checker import Verdict, Violation, check
from kvorum.chaos.checker.verdict import FaultFigures
from kvorum.chaos.history import AnyEvent, Fault, Finish, Invoke, Note, Ok, Start
from kvorum.chaos.report.aggregate import BUCKETS, aggregate
from kvorum.chaos.report.head import _in_force
from kvorum.chaos.report.markup import VOID
from kvorum.chaos.report.page import write_html
from tests.unit.chaos.report.made_history import KILLS, Plan, made

UNCLEAN = Plan(
    scenario="unclean-on",
    unclean_at=30.0,
    faults=[
        ("kill", ("node-3",), 24.0, 5.0),
        ("kill", ("node-2",), 27.0, 9.0),
        ("kill", ("node-1",), 28.0, 8.0),
    ],
)
PLANS = {"clean": Plan(faults=KILLS), "lost": Plan(faults=KILLS, lost=12), "unclean": UNCLEAN}
EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;"


class Page(HTMLParser):
    """A parsed page: elements with their attributes and text. Fails on end tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self.feed(html)
        assert not self._open, "elements are left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for place in self._open:
            self.texts[place] += data

    def by(self, attribute: str, value: str) -> tuple[dict[str, str | None], str]:
        """Return the one element that has this attribute, and its text."""
        found = [place for place, (_, attrs) in enumerate(self.elements) if attrs.get(attribute) == value]
        assert len(found) == 1, f"{attribute}={value}: {len(found)}"
        return self.elements[found[0]][1], self.texts[found[0]]

    def figure(self, name: str) -> int:
        return int(self.by("data-figure", name)[1].replace(",", ""))

    def all(self, tag: str, class_: str = "") -> list[tuple[dict[str, str | None], str]]:
        """Return the elements of a tag, and of a class."""
        return [
            (attrs, text)
            for (name, attrs), text in zip(self.elements, self.texts, strict=True)
            if name == tag and (not class_ or class_ in (attrs.get("class") or "").split())
        ]


def page_of(events: list[AnyEvent], verdict: Verdict, folder: Path, **more: object) -> Page:
    path = folder / "report.html"
    write_html(path, iter(events), verdict, **more)  # type: ignore[arg-type]
    return Page(path.read_text())


@pytest.mark.parametrize("name", PLANS)
def test_the_figures_are_the_verdicts(name: str, tmp_path: Path) -> None:
    events = made(PLANS[name])
    verdict = check(events)
    figures = verdict.figures
    page = page_of(events, verdict, tmp_path)
    assert page.figure("operations") == sum(sum(kinds.values()) for kinds in figures.operations.values())
    assert page.figure("acknowledged") == figures.acked
    assert page.figure("lost") == figures.lost - figures.lost_legally
    assert page.figure("explained") == figures.lost_legally
    assert page.figure("duplicated") == figures.duplicated
    assert page.figure("reordered") == figures.reordered
    worst = max((fault.unavailable for fault in figures.faults), default=0.0)
    gap = next(attrs for attrs, _ in page.all("p", "big") if "data-value" in attrs)
    assert float(gap["data-value"] or "") == pytest.approx(worst, abs=1e-6)
    kinds = {str(attrs["data-filter"]): int(text.split()[-1]) for attrs, text in page.all("button", "chip")}
    assert kinds == figures.faults_by_kind
    counts = [int(attrs["data-count"] or 0) for attrs, _ in page.all("details", "finding")]
    assert sum(counts) == sum(each.count for each in verdict.violations + verdict.explained)


def test_the_columns_of_the_partition_table_are_explained(tmp_path: Path) -> None:
    page = page_of(made(PLANS["clean"]), check(made(PLANS["clean"])), tmp_path)
    about = page.by("id", "partition-columns")[1].lower()
    assert all(f"{column}:" in about for column in ("unavailable", "longest gap", "consumer lag"))


def test_the_series_adds_up_to_the_acknowledged_sends(tmp_path: Path) -> None:
    events = made(PLANS["clean"])
    verdict = check(events)
    series = json.loads(page_of(events, verdict, tmp_path).by("id", "series")[1])
    assert sum(series["acks"]) == verdict.figures.acked
    assert [count > 0 for count in series["acks"]] == [value is not None for value in series["p50"]]
    assert all(p50 <= p99 for p50, p99 in zip(series["p50"], series["p99"], strict=True) if p50 is not None)


def test_waits_and_gaps_agree_with_the_checkers() -> None:
    """Two ways to the same figure: the strip under a partition, and the checker's meter."""
    for plan in PLANS.values():
        events = made(plan)
        figures = check(events).figures
        picture = aggregate(events, figures.duration, figures.acked)
        for name, waiting in picture.waiting.items():
            longest = max((span.length for span in waiting.spans.in_order()), default=0.0)
            if figures.partitions[name].unavailable >= 0.1:
                assert longest == pytest.approx(figures.partitions[name].unavailable)


def test_latencies_are_right_to_five_percent() -> None:
    events = made(Plan(seconds=20.0, rate=400.0))
    figures = check(events).figures
    picture = aggregate(events, figures.duration, figures.acked)
    begun = {event.op: event.t for event in events if event.__class__.__name__ == "Invoke"}
    sends = [event for event in events if event.__class__.__name__ == "Ok" and getattr(event, "f", "") == "send"]
    bucket = picture.bucket(10.0)
    took = sorted(e.t - begun[e.op] for e in sends if picture.bucket(e.t) == bucket)  # type: ignore[union-attr]
    assert len(took) > 10
    assert picture.latency(bucket, 0.5) == pytest.approx(took[(len(took) + 1) // 2 - 1], rel=0.06)
    assert picture.latency(bucket, 1.0) == pytest.approx(took[-1], rel=0.06)


@pytest.mark.parametrize(("name", "heading"), [("clean", "Held"), ("lost", "Violated"), ("unclean", "Held")])
def test_the_outcome_is_reported_in_words(name: str, heading: str, tmp_path: Path) -> None:
    events = made(PLANS[name])
    verdict = check(events)
    page = page_of(events, verdict, tmp_path)
    assert page.by("id", "outcome")[1] == heading
    first = page.by("id", "first")[1]
    if name == "lost":
        assert "12 acknowledged records lost" in page.by("id", "sentence")[1]
        assert "an acknowledged record is lost (orders-0)" in first
        assert verdict.violations[0].reason in first
        for sentence in verdict.violations[0].story:
            assert sentence in page.by("id", "violations")[1]
    else:
        assert first.startswith("No violation")
    if name == "unclean":
        assert "79 acknowledged records lost, all legally" in page.by("id", "sentence")[1]
        assert any("UNCLEAN election of node 3 for orders-0" in (attrs["data-tip"] or "") for attrs, _ in rects(page))


def rects(page: Page) -> list[tuple[dict[str, str | None], str]]:
    return [each for each in page.all("rect") if "data-tip" in each[0]]


def test_missed_expectations_are_no_violation_and_no_success(tmp_path: Path) -> None:
    events = made(PLANS["clean"])
    failures = ["no acknowledged record was lost, expected an explained loss"]
    page = page_of(events, check(events), tmp_path, failures=failures)
    assert page.by("id", "outcome")[1] == "Expectation missed"
    assert "expected an explained loss" in page.by("id", "sentence")[1]


def test_a_run_without_operations_or_without_its_end_could_not_run(tmp_path: Path) -> None:
    empty: list[AnyEvent] = [Start(t=0.0, scenario="broken"), Note(t=1.0, text="no broker came up"), Finish(t=2.0)]
    page = page_of(empty, check(empty), tmp_path, could_not_run="no broker came up within 30 s")
    assert page.by("id", "outcome")[1] == "Could not run"
    assert "No broker came up within 30 s" in page.by("id", "sentence")[1]
    cut = made(PLANS["clean"])[:-2000]
    page = page_of(cut, check(cut), tmp_path)
    assert page.by("id", "outcome")[1] == "Could not run"
    assert "no finish event" in page.by("id", "sentence")[1]
    nothing: list[AnyEvent] = []
    assert page_of(nothing, check(nothing), tmp_path).by("id", "outcome")[1] == "Could not run"


def test_every_fault_is_in_its_lane_and_in_the_table(tmp_path: Path) -> None:
    events = made(PLANS["clean"])
    verdict = check(events)
    page = page_of(events, verdict, tmp_path)
    labels = [text for _, text in page.all("div", "label")]
    for lane in ("node-1", "node-2", "node-3", "node-2 \u2194 node-3", "clients \u2194 node-3"):
        assert lane in labels
    rows = [text for attrs, text in page.all("tr") if "data-kind" in attrs]
    assert len(rows) == len(KILLS)
    bars = [attrs for attrs, _ in rects(page) if "data-kind" in attrs]
    begin, length = 8.0, 4.0
    killed = next(attrs for attrs in bars if (attrs["data-tip"] or "").startswith("kill, 8.000 s"))
    assert float((killed["x"] or "").rstrip("%")) == pytest.approx(begin / 60 * 100, abs=0.01)
    assert float((killed["width"] or "").rstrip("%")) == pytest.approx(length / 60 * 100, abs=0.01)


def test_the_result_of_an_end_is_part_of_its_faults_story() -> None:
    picture = aggregate(
        [
            Fault(t=1.0, fault="lose_tail", id=1, phase="begin", targets=["node-1"], story="power loss of node-1"),
            Fault(t=2.0, fault="lose_tail", id=1, phase="end", story="power loss of node-1: 5 bytes lost"),
            Fault(t=3.0, fault="pause", id=2, phase="begin", targets=["node-1"], story="SIGSTOP to node-1"),
            Fault(t=4.0, fault="pause", id=2, phase="end", story="SIGCONT"),
        ],
        4.0,
        0,
    )
    assert picture.outcomes == {0: "power loss of node-1: 5 bytes lost", 1: "SIGSTOP to node-1"}


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    events = made(PLANS["lost"])
    html = page_of(events, check(events), tmp_path).html
    page = Page(html)
    assert "http://" not in html and "https://" not in html and "url(" not in html and "@import" not in html
    assert not [attrs for _, attrs in page.elements if "src" in attrs]
    assert not page.all("link") and not page.all("img")
    assert all((attrs.get("href") or "#").startswith("#") for _, attrs in page.elements)
    policy = page.by("http-equiv", "Content-Security-Policy")[0]["content"] or ""
    assert policy.startswith("default-src 'none'")


def test_links_lead_somewhere_and_ids_are_unique(tmp_path: Path) -> None:
    events = made(PLANS["unclean"])
    page = page_of(events, check(events), tmp_path)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {(attrs["href"] or "")[1:] for attrs, _ in page.all("a")} <= set(ids)


def test_nothing_in_a_history_gets_out_of_its_text(tmp_path: Path) -> None:
    """Names, stories, notes and clients are markup; the page has as many scripts and images as ever."""
    plan = Plan(scenario=EVIL, faults=[(EVIL, (EVIL,), 5.0, 2.0), *KILLS[1:2]], story=EVIL, client=EVIL, seconds=20.0)
    events = made(plan)
    events.insert(3, Note(t=0.02, text=EVIL))
    verdict = check(events)
    page = page_of(events, verdict, tmp_path, failures=[EVIL], remarks=[EVIL])
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert "alert(1)" not in page.by("id", "series")[1]
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert page.all("h1")[0][1] == EVIL
    assert EVIL in page.by("id", "again")[1]


def test_the_command_runs_it_again(tmp_path: Path) -> None:
    events = made(Plan(scenario="random; rm -rf x", seed=9, seconds=10.0))
    assert page_of(events, check(events), tmp_path).by("id", "command")[1] == (
        "kvorum chaos run 'random; rm -rf x' --seed 9"
    )
    events = made(Plan(scenario="simulation", seed=9, seconds=10.0))
    assert page_of(events, check(events), tmp_path).by("id", "command")[1] == "python -m sim --seed 9"


def test_the_strips_show_leaders_and_isrs(tmp_path: Path) -> None:
    events = made(PLANS["clean"])
    page = page_of(events, check(events), tmp_path)
    tips = [attrs["data-tip"] or "" for attrs, _ in rects(page)]
    assert "from 8.350 s: node 2 leads, epoch 1, ISR [2, 3]" in tips
    assert any(tip.startswith("active controller: node-2") for tip in tips)
    assert any(tip.startswith("election at 8.350 s: orders-0: node 2 in epoch 1") for tip in tips)
    assert any(re.match(r"orders-0 acknowledged none of its pending sends for 3\d\d ms", tip) for tip in tips)


def test_sends_that_wait_to_the_end_make_a_gap_to_the_end(tmp_path: Path) -> None:
    """Nobody answers any more: the checker's gap ends with the last attempt, the page's goes on."""
    events: list[AnyEvent] = [
        Start(t=0.0),
        Invoke(t=1.0, op=1, process=1, f="send", value=[["send", "orders-0", 1]]),
        Ok(t=1.5, op=1, process=1, f="send", value=[["send", "orders-0", 1, 0]]),
        Invoke(t=2.0, op=2, process=1, f="send", value=[["send", "orders-0", 2]]),
        Invoke(t=9.0, op=3, process=2, f="poll", value=[["poll"]]),
        Ok(t=9.1, op=3, process=2, f="poll", value=[["poll", {}]]),
        Finish(t=9.5),
    ]
    verdict = check(events)
    assert verdict.figures.longest_gap == 0.5
    assert aggregate(events, 9.5, 1).longest_gap(1.5, 0.5) == pytest.approx((1.5, 7.6))
    assert (
        "Longest time without any acknowledgement, faults or not: 7.6\xa0s"
        in page_of(events, verdict, tmp_path).by("id", "gap")[1]
    )


def test_many_faults_are_drawn_over_the_whole_run(tmp_path: Path) -> None:
    faults = [("kill", (f"node-{n % 12}",), n * 0.01, 0.009) for n in range(5_000)]
    events = made(Plan(seconds=60.0, rate=10.0, faults=faults, unclean_at=55.0))
    page = page_of(events, check(events), tmp_path)
    bars = [attrs for attrs, _ in rects(page) if attrs.get("data-kind") == "kill"]
    assert 1_500 < len(bars) <= 3_000
    assert min(float((bar["x"] or "").rstrip("%")) for bar in bars) < 1
    assert max(float((bar["x"] or "").rstrip("%")) for bar in bars) > 78
    labels = [text for _, text in page.all("div", "label") if text.startswith("node-")]
    assert labels == [f"node-{n}" for n in range(12)]


def test_there_are_never_more_buckets_than_a_screen_shows() -> None:
    assert aggregate([], 1000.0, 10_000_000).buckets == BUCKETS
    assert aggregate([], 1000.0, 40).buckets == 10
    assert aggregate([], 0.0, 0).buckets == 1


def test_disorder_after_a_legal_loss_is_reported_as_legal(tmp_path: Path) -> None:
    events = made(PLANS["clean"])
    figures = check(events).figures
    found = Violation(
        anomaly="realtime-order", partition="orders-0", values=[1], count=1, story=[], reason="it came early", t=1.0
    )
    page = page_of(events, Verdict(violations=[], explained=[found], figures=figures), tmp_path)
    assert any("not in order, legally" in text for _, text in page.all("div", "tile"))
    assert not page.all("div", "bad")
    page = page_of(events, Verdict(violations=[found], explained=[], figures=figures), tmp_path)
    assert not any("not in order, legally" in text for _, text in page.all("div", "tile"))
    (bad,) = [text for _, text in page.all("div", "bad")]
    assert "reordered" in bad


def test_a_gap_is_reported_with_its_first_fault_and_later_events(tmp_path: Path) -> None:
    faults = [("kill", ("node-2",), 20.0, 10.0), ("pause", ("node-3",), 23.0, 2.0), ("kill", ("node-1",), 26.0, 2.0)]
    verdict = check(made(Plan(faults=[("kill", ("node-1",), 2.0, 1.0)])))
    verdict.figures.faults = [
        FaultFigures(id=number, fault=kind, targets=list(targets), begin=begin, end=begin + length)
        for number, (kind, targets, begin, length) in enumerate(faults)
    ]
    reported = _in_force(verdict.figures, 19.9, 27.0)
    assert reported == ", with kill of node-2, then pause of node-3 and 1 more fault in force"
    assert _in_force(verdict.figures, 24.0, 24.5) == ", with pause of node-3 in force"
    assert _in_force(verdict.figures, 1.0, 2.0) == ""


def test_unjudged_rules_and_the_recorder_are_on_the_page(tmp_path: Path) -> None:
    events = made(PLANS["clean"])
    start = events[0]
    assert isinstance(start, Start)
    events[0] = msgspec.structs.replace(start, software={"kvorum": "0.1.0", "librdkafka": "2.5.0"})
    verdict = check(events)
    page = page_of(events, verdict, tmp_path)
    assert "kvorum 0.1.0, librdkafka 2.5.0" in page.by("id", "software")[1]
    verdict.figures.not_judged[:] = ["The moon was not asked.", "Nor was the sun."]
    page = page_of(events, verdict, tmp_path)
    assert "Nor was the sun." in page.by("id", "not-judged")[1]
    assert "Not judged: The moon was not asked. And 1 more." in page.by("id", "first")[1]
