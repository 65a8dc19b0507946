"""A broker's maintenance and decommission in a real browser."""

from playwright.sync_api import expect

from tests.cluster.clients import create_topic
from tests.console.console_kit import WITH_BROWSER, Console, assert_accessible

pytestmark = WITH_BROWSER


def test_a_broker_is_taken_out_for_maintenance_and_comes_back(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "led", 6, 3)
    page = console.page("brokers/2")
    state = page.locator("[data-duty] .badge")
    expect(state).to_have_text("active")
    page.get_by_role("button", name="Begin maintenance").click()
    page.get_by_role("button", name="Begin", exact=True).click()
    expect(state).to_have_text("maintenance")
    expect(page.locator("[data-duty]")).to_contain_text("may be stopped")
    expect(page.locator(".figure", has_text="Leads").locator("dd")).to_have_text("0")
    assert_accessible(console, ["brokers/2"])
    page.get_by_role("button", name="End maintenance").click()
    page.get_by_role("button", name="End", exact=True).click()
    expect(state).to_have_text("active")
    expect(page.locator(".figure", has_text="Leads").locator("dd")).not_to_have_text("0")


def test_a_broker_is_decommissioned_in_the_console_and_comes_back(console: Console) -> None:
    page = console.page("brokers/3")
    page.get_by_role("button", name="Decommission").click()
    page.get_by_role("button", name="Decommission", exact=True).last.click()
    expect(page.get_by_role("alert")).to_contain_text("replica(s), and 2 broker(s) would be left")
    page.get_by_role("button", name="Cancel").click()
    create_topic(console.cluster.plan.bootstrap, "narrow", 4, 2)
    page.request.delete(f"{console.url}/v1/topics/led")
    page.get_by_role("button", name="Decommission").click()
    page.get_by_label("Throttle").fill("50000000")
    page.get_by_role("button", name="Decommission", exact=True).last.click()
    state = page.locator("[data-duty] .badge")
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
