"""The group's page in a real browser: members are removed after a question, and its lag is seen as it grows."""

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import expect

from tests.cluster.clients import create_topic, eventually
from tests.console.console_kit import WITH_BROWSER, Console, assert_accessible, fill, read_all

pytestmark = [WITH_BROWSER, pytest.mark.long]


def test_a_member_is_removed_after_a_question(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "worked-on", 2, 3)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "crew", "group.instance.id": "worker-1"})
    consumer.subscribe(["worked-on"])
    eventually(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "an assignment")
    consumer.close()  # a static member stays in its group
    page = console.page("groups/crew")
    members = page.locator("section", has=page.get_by_role("heading", name="Members"))
    row = members.locator("tbody tr")
    expect(row).to_contain_text("worker-1")
    row.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("worker-1")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row).to_have_count(1)
    row.get_by_role("button", name="Remove").click()
    page.get_by_label("Reason").fill("it is gone for good")
    dialog.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Member worker-1 removed.")).to_be_visible()
    expect(members.get_by_text("No members.")).to_be_visible()


def test_how_far_a_group_is_behind_is_seen_as_it_grows_and_its_offsets_are_forgotten(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "grows", 1, 3)
    fill(console.cluster, "grows", 5)
    read_all(console.cluster, "grows", "slow-readers", 5)
    page = console.page("groups/slow-readers")
    lag = page.locator(".figure", has_text="Lag").locator("dd")
    expect(lag).to_have_text("0")
    fill(console.cluster, "grows", 7)
    expect(lag).to_have_text("7")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option("offsets")
    page.get_by_label("grows-0").fill("3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Apply").click()
    expect(lag).to_have_text("9")
    page.get_by_role("button", name="Delete the offsets of grows").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No committed offsets.")).to_be_visible()


def test_axe_finds_nothing_on_a_page_with_members(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "looked-at", 2, 3)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "a-crew", "group.instance.id": "worker-2"})
    consumer.subscribe(["looked-at"])
    eventually(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "an assignment")
    consumer.close()
    assert_accessible(console, ("groups/a-crew",))
