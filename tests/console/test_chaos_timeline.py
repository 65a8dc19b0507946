"""A finished run as a chart: faults against broken promises on one line of time, in front of a stage."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import NARROW, WIDE, WITH_BROWSER
from tests.console.stage import Stage

pytestmark = WITH_BROWSER
RUN = "/v1/chaos/scenarios/7"


def fault(kind: str, target: str, begin: float, end: float | None, **options: Any) -> dict[str, Any]:
    base = {"id": int(begin), "lossy": False, "first_ack": 0.4, "unavailable": 1.2, "unavailable_partition": "orders-0"}
    return {"fault": kind, "targets": [target], "begin": begin, "end": end} | base | options


def found(anomaly: str, partition: str, t: float, **options: Any) -> dict[str, Any]:
    base = {"values": [1], "count": 1, "reason": f"{anomaly}: a promise of acks=all is broken"}
    return {"anomaly": anomaly, "partition": partition, "t": t, "story": [f"{t} s: it was seen"], **base, **options}


def verdict() -> dict[str, Any]:
    """Return that of a minute with four faults."""
    faults = [
        fault("kill", "node-1", 10, 20),
        fault("kill", "node-2", 40, 50.5),
        fault("cut", "node-3", 30, None),
        fault("wipe", "node-2", 35, 35, lossy=True),
    ]
    pace = {
        "width": 0.5,
        "ok": [200 if not 20 <= each < 24 else 0 for each in range(120)],
        "fail": [0] * 120,
        "info": [30 if 20 <= each < 24 else 0 for each in range(120)],
    }
    figures = {"acked": 23_200, "lost": 2, "lost_legally": 1, "duplicated": 0, "reordered": 0, "longest_gap": 2.0}
    figures |= {"duration": 60.0, "faults": faults, "pace": pace, "not_judged": ["No disk was read."]}
    broken = [found("lost-write", "orders-0", 12.5), found("lost-write", "orders-1", 12.9), found("stale", "t-3", 45.0)]
    return {"valid": False, "violations": broken, "explained": [found("lost-write", "t-1", 36)], "figures": figures}


def furnish_run(stage: Stage) -> None:
    """Have a run that is over, with two cells."""
    run = {"id": 7, "scenario": "soak", "seed": 1, "state": "violated", "began_ms": 1_700_000_000_000, "lines": 1}
    quiet = verdict() | {"valid": True, "violations": [], "explained": []}
    quiet["figures"] = quiet["figures"] | {"faults": [], "lost": 0}
    run |= {"output": ["done"], "folder": "/runs/7", "exit_code": 1, "verdicts": {"mixed": verdict(), "quiet": quiet}}
    stage.says(RUN, run)


def cell(page: Page, name: str = "mixed") -> Any:
    return page.locator(".card", has=page.get_by_role("heading", name=re.compile(f"^{name} ")))


def middle(page: Page, title: str, drawn: str) -> float:
    """Return where something is drawn, as a share of its lane."""
    lane = cell(page).locator(".lane", has=page.locator(".title", has_text=re.compile(f"^{title}")))
    line, box = lane.locator("> svg").bounding_box(), lane.locator(drawn).first.bounding_box()
    assert line is not None and box is not None
    return float((box["x"] + box["width"] / 2 - line["x"]) / line["width"])


def test_faults_and_broken_promises_are_on_one_line_of_time(scene: Scene) -> None:
    furnish_run(scene.stage)
    for width in (WIDE, NARROW):
        page = scene.page("chaos/runs/7", width)
        lane = cell(page).locator(".lane", has_text="kill")
        expect(lane.locator("rect.fault")).to_have_count(2)
        assert abs(middle(page, "kill", "rect.fault") - 15 / 60) < 0.02
        assert abs(middle(page, "Violations", ".mark.violation path") - 12.5 / 60) < 0.02
        assert abs(middle(page, "Allowed anomalies", ".mark.legal path") - 36 / 60) < 0.02
        box = cell(page).locator(".lane", has_text="cut").locator("rect.fault").bounding_box()
        lane_box = cell(page).locator(".lane", has_text="cut").locator("> svg").bounding_box()
        assert box is not None and lane_box is not None
        assert abs(box["x"] + box["width"] - lane_box["x"] - lane_box["width"]) < 2, (
            "what never ended goes on to the end"
        )
        expect(cell(page).locator(".lane", has_text="Operations")).to_contain_text("up to 400 acknowledged per second")
        expect(cell(page, "quiet").locator(".lane", has_text="Violations")).to_contain_text("none")


@pytest.mark.long
def test_the_chart_is_reported_as_a_table_too(scene: Scene) -> None:
    furnish_run(scene.stage)
    page = scene.page("chaos/runs/7")
    cell(page).get_by_text("Show as table").click()
    rows = cell(page).get_by_role("table", name="Timeline").locator("tbody tr")
    expect(rows).to_have_count(11)
    expect(rows.nth(1)).to_contain_text("12.5 s")
    expect(rows.nth(1)).to_contain_text("lost-write orders-0")
    expect(rows.nth(1)).to_contain_text("kill of node-1")
    expect(rows.first.locator("td").last).to_have_text("0")


@pytest.mark.long
def test_a_mark_and_its_url_open_the_checkers_finding(scene: Scene) -> None:
    furnish_run(scene.stage)
    page = scene.page("chaos/runs/7")
    mark = page.get_by_role("link", name="lost-write in orders-0 at 12.5 s, and 1 more at about the same time")
    mark.focus()
    mark.press("Enter")
    first = page.locator(".finding", has_text="orders-0").first
    expect(first).to_be_focused()
    assert "cell=mixed" in page.url and "violation=0" in page.url
    expect(first).to_contain_text("Faults at that time: kill of node-1, 10.0 s to 20.0 s.")
    page.get_by_role("link", name=re.compile("lost-write in orders-0 at 12.5")).press("Enter")
    expect(page.locator(".finding", has_text="orders-1").first).to_be_focused()
    page.go_back()
    expect(page.locator(".finding.chosen")).to_contain_text("orders-0")
    page.goto(f"{scene.stage.url}/#/topics")
    page.goto(f"{scene.stage.url}/#/chaos/runs/7?cell=mixed&legal=0")
    legal = page.locator(".finding", has_text="t-1")
    expect(legal).to_be_focused()
    expect(legal).to_be_visible()
    assert scene.stage.count(RUN) >= 2
