"""A broker's maintenance, decommission and process in a real browser."""

import json
import re
import zipfile
from importlib.metadata import version

import pytest
from playwright.sync_api import expect

from tests.cluster.clients import create_topic, eventually
from tests.console.console_kit import WITH_BROWSER, Console, assert_accessible

pytestmark = [WITH_BROWSER, pytest.mark.long]


def test_a_broker_enters_maintenance_and_returns(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "led", 6, 3)
    page = console.page("brokers/2")
    state = page.locator("[data-admin-state] .badge")
    expect(state).to_have_text("active")
    page.get_by_role("button", name="Begin maintenance").click()
    page.get_by_role("button", name="Begin", exact=True).click()
    expect(state).to_have_text("maintenance")
    expect(page.locator("[data-admin-state]")).to_contain_text("can be stopped")
    expect(page.locator(".figure", has_text="Leaders").locator("dd")).to_have_text("0")
    assert_accessible(console, ["brokers/2"])
    page.get_by_role("button", name="End maintenance").click()
    page.get_by_role("button", name="End", exact=True).click()
    expect(state).to_have_text("active")
    expect(page.locator(".figure", has_text="Leaders").locator("dd")).not_to_have_text("0")


def test_a_broker_is_decommissioned_in_the_console_and_reactivated(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "wide", 6, 3)
    page = console.page("brokers/3")
    page.get_by_role("button", name="Decommission").click()
    page.get_by_role("button", name="Decommission", exact=True).last.click()
    expect(page.get_by_role("alert")).to_contain_text("replica(s), and 2 broker(s) would remain")
    page.get_by_role("button", name="Cancel").click()
    create_topic(bootstrap, "narrow", 4, 2)
    for topic in ("led", "wide"):
        page.request.delete(f"{console.url}/v1/topics/{topic}")
    page.get_by_role("button", name="Decommission").click()
    page.get_by_label("Throttle").fill("50000000")
    page.get_by_role("button", name="Decommission", exact=True).last.click()
    state = page.locator("[data-admin-state] .badge")
    expect(state).to_have_text("decommissioned")
    expect(page.locator(".figure", has_text="Replicas").locator("dd")).to_have_text("0")
    page.get_by_role("button", name="Unregister").click()
    page.get_by_role("button", name="Unregister", exact=True).last.click()
    expect(page.get_by_role("alert")).to_contain_text("stop it first")
    page.get_by_role("button", name="Cancel").click()
    assert_accessible(console, ["brokers/3"])
    page.get_by_role("button", name="Recommission").click()
    page.get_by_role("button", name="Recommission", exact=True).last.click()
    expect(state).to_have_text("active")


def test_processes_are_looked_at_and_one_is_shut_down(console: Console) -> None:
    """Last in this file: node 3 is stopped."""
    page = console.page("brokers")
    expect(page.get_by_role("row", name="broker 3").locator("[data-label=Version]")).to_have_text(version("kvorum"))
    page = console.page("brokers/3/connections")
    expect(page.locator("tbody tr [data-label=Software]", has_text=re.compile("kvorum")).first).to_be_visible()
    page = console.page("brokers/3/log")
    expect(page.locator("main ol.log li", has_text="INFO").first).to_be_visible()
    page = console.page("quorum")
    page.get_by_role("link", name="Log of controller 2").click()
    expect(page.locator("main ol.log li", has_text="INFO").first).to_be_visible()
    page.get_by_role("button", name="Write snapshot now").click()
    expect(page.locator(".note")).to_contain_text("Controller 2 wrote a snapshot")
    page = console.page("")
    page.get_by_role("button", name="Debug bundle …").click()
    with page.expect_download() as found:
        page.get_by_role("button", name="Download").click()
    with zipfile.ZipFile(found.value.path()) as bundle:
        assert json.loads(bundle.read("manifest.json"))
    page = console.page("brokers/3")
    page.get_by_role("button", name="Controlled shutdown …").click()
    page.get_by_role("button", name="Shut down", exact=True).click()
    expect(page.locator(".note")).to_contain_text("Broker 3 is shutting down")
    expect(page.locator(".figure", has_text="State").locator("dd")).to_have_text("fenced")
    # It is fenced before it ends, and of that there is no event.
    eventually(lambda: page.request.get(f"{console.url}/v1/brokers/3").json()["process_error"], "it gone")
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".card", has_text="Registration and process")).to_contain_text("NODE_UNREACHABLE")
