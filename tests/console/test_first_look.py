"""What a person sees at a first look at each page: what is loud, what a count includes, what a filter means."""

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import NARROW, WITH_BROWSER
from tests.console.stage import BROKERS, DUTY, broker, quorum

pytestmark = WITH_BROWSER
LOUD = re.compile("^(danger)?$")
"""Class of a primary or a dangerous button."""
NODE = {"id": 3, "name": "node-3", "roles": ["broker"], "running": True}
NODE |= {"processes": {"broker": {"pid": 1, "stopped": False}}}
LAB = {"nodes": [NODE], "faults": [], "links": [], "inside": {}, "bootstrap": "127.0.0.1:9092"}


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def test_a_button_stands_out_only_where_there_is_something_to_do(scene: Scene) -> None:
    for path, data in (("state", LAB), ("scenarios", []), ("kinds", [])):
        scene.stage.says(f"/v1/chaos/{path}", data)
    page = scene.page("chaos")
    expect(button(page, "Heal all")).to_have_class("plain")
    scene.stage.says("/v1/chaos/state", LAB | {"nodes": [NODE | {"running": False}]})
    button(page, "Refresh").click()
    expect(button(page, "Heal all")).to_have_class(LOUD)

    page = scene.page("leaders")
    expect(button(page, "Elect all preferred leaders")).to_be_disabled()
    expect(page.get_by_text("Every partition is led by its preferred replica.")).to_be_visible()
    expect(page.get_by_text("6 partitions.", exact=True)).to_be_visible()

    page = scene.page("brokers/1")
    expect(button(page, "Decommission")).to_have_class("plain")
    duty = {"requested": "decommissioned", "state": "decommissioned", "message": "It has no replicas."}
    scene.stage.says("/v1/brokers/1/maintenance", {**DUTY, **duty})
    button(page, "Refresh").click()
    expect(button(page, "Unregister")).to_have_class(LOUD)


def test_each_tab_of_a_topic_has_the_same_actions(scene: Scene) -> None:
    scene.stage.says("/v1/topics/orders/groups", {"groups": [], "next": None, "unreachable": []})
    page = scene.page("topics/orders")
    for tab in ("Partitions", "Consumers", "Analysis"):
        page.get_by_role("link", name=tab, exact=True).click()
        expect(page.get_by_role("link", name=tab, exact=True)).to_have_attribute("aria-current", "true")
        expect(button(page, "Add partitions")).to_be_visible()
    page.locator("details.menu > summary").click()
    button(page, "Delete topic").click()
    expect(page.get_by_role("dialog", name="Delete orders")).to_contain_text("All records are lost.")


def test_filters_of_lists_mean_the_same(scene: Scene) -> None:
    for path in ("topics", "groups"):
        page = scene.page(path)
        page.get_by_placeholder("part of a name, or * and ?").fill("rder")
        scene.stage.until(lambda path=path: scene.stage.last(f"/v1/{path}").query.get("filter") == "*rder*", path)


def test_the_overview_of_a_cluster_without_problems_raises_no_alarm(scene: Scene) -> None:
    page = scene.page()
    expect(page.get_by_text("healthy", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Problems")).to_have_count(0)
    expect(page.locator(".figure.warn, .figure.bad, .banner")).to_have_count(0)
    topics = page.locator(".figure", has_text="Topics, internal ones included")
    expect(topics.get_by_role("link")).to_have_attribute("href", "#/topics?internal=true")


def test_brokers_are_listed_with_disk_usage_and_the_controller(scene: Scene) -> None:
    dirs = [{"log_dir": "/data", "error": None, "size_bytes": 3 * 2**20, "usable_bytes": 2**30, "total_bytes": 2**31}]
    for each in BROKERS:
        scene.stage.says(f"/v1/brokers/{each['id']}/log-dirs", dirs)
    scene.stage.says("/v1/brokers", [broker(1), broker(2)])
    page = scene.page("brokers")
    expect(page.get_by_role("row", name=re.compile("^broker 1 controller alive"))).to_contain_text("3.0 MiB1.0 GiB")
    expect(page.get_by_role("row", name=re.compile("^broker 2 alive"))).to_be_visible()
    button(page, "Log size").click()
    expect(page.get_by_role("columnheader", name="Log size")).to_have_attribute("aria-sort", "ascending")


def test_a_node_that_is_broker_and_controller_is_listed_as_a_voter_only(scene: Scene) -> None:
    voters = quorum()["voters"]
    other = {**voters[0], "id": 9}
    scene.stage.says("/v1/quorum", quorum(observers=[*voters, other]))
    page = scene.page("quorum")
    expect(page.locator(".figure", has_text="Observers")).to_contain_text("1")
    expect(page.get_by_role("row", name=re.compile("^9 "))).to_have_count(1)
    expect(page.get_by_role("row", name=re.compile("^2 "))).to_have_count(1)


def test_changes_of_the_metadata_are_the_recent_ones_unless_others_are_wanted(scene: Scene) -> None:
    node = {"value": None, "entries": [], "next": None, "first": 10, "last": 5000, "at": 5000}
    entries = [{"name": name, "value": None, "entries": 5} for name in ("image", "local")]
    scene.stage.says("/v1/metadata/tree", {**node, "entries": entries})
    found = {"since": 4000, "at": 5000, "more": False, "changes": [{"path": "/image/a", "before": None, "after": "1"}]}
    scene.stage.says("/v1/metadata/diff", found)
    page = scene.page("metadata")
    expect(page.get_by_role("row", name="image/ state of the cluster at this offset: 5 entries")).to_be_visible()
    page.get_by_role("link", name="Changes", exact=True).click()
    expect(page.get_by_role("row", name="/image/a absent 1")).to_be_visible()
    assert scene.stage.last("/v1/metadata/diff").query == {"since": "4000"}


def test_a_phone_shows_what_a_table_is_sorted_by_and_where_the_shortcuts_are(scene: Scene) -> None:
    page = scene.page("brokers", NARROW)
    head = page.locator("main thead tr")
    assert head.evaluate("each => getComputedStyle(each, '::before').content") == '"Sort by"'
    expect(button(page, "Keyboard shortcuts")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
