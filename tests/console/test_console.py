"""The web console in a real browser, in front of a cluster of real processes."""

import re
import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Producer
from playwright.sync_api import expect

from tests.cluster.clients import create_topic
from tests.console.console_kit import NARROW, WITH_BROWSER, Console, assert_accessible, fill, read_all

pytestmark = WITH_BROWSER


def test_a_topic_is_created_written_and_looked_through(console: Console) -> None:
    page = console.page("topics")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("made-here")
    page.get_by_label("Partitions").fill("3")
    page.get_by_label("Replicas").fill("4")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("replication factor")
    page.get_by_label("Replicas").fill("3")
    page.get_by_label("Configs").fill("retention.ms=3600000")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made-here")
    expect(page.locator("tbody tr")).to_have_count(3)

    page.get_by_role("link", name="Messages").click()
    page.get_by_role("button", name="Produce a record").click()
    page.get_by_role("textbox", name="Key").fill("a-key")
    page.get_by_role("textbox", name="Value").fill('{"amount": 5, "text": "<b>not markup</b>"}')
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.locator(".record")).to_have_count(1)
    expect(page.locator(".record")).to_contain_text("<b>not markup</b>")

    fill(console.cluster, "made-here", 40)
    page.get_by_label("Filter").fill("value.amount >= 380 && headers.source == 'web'")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".record")).to_have_count(2)
    assert "filter=value.amount" in page.url
    again = console.page(page.url.partition("#/")[2])
    expect(again.locator(".record")).to_have_count(2)
    again.get_by_label("Filter").fill("value.amount >")
    again.get_by_role("button", name="Search").click()
    expect(again.get_by_role("alert")).to_contain_text("character 15")


@pytest.mark.long
def test_the_newest_records_are_shown_whichever_partitions_they_are_in(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "many", 3, 3)
    producer = Producer({"bootstrap.servers": bootstrap})
    began_ms = int(time.time() * 1000) - 3000  # older ones would be deleted as such
    for number in range(3000):
        value = f'{{"number": {number}, "id": 1234567890123456789}}'
        producer.produce("many", value=value, partition=number % 3, timestamp=began_ms + number)
    assert producer.flush(30) == 0
    page = console.page("topics/many/messages")
    records = page.locator(".record summary")
    expect(records).to_have_count(50)
    expect(records.first).to_have_text('{"number": 2999, "id": 1234567890123456789}')
    expect(records.last).to_contain_text('"number": 2950')
    page.get_by_role("button", name="Older").click()
    expect(records.first).to_contain_text('"number": 2949')
    expect(records.last).to_contain_text('"number": 2900')
    page.get_by_label("Filter").fill("value.number < 10")
    page.get_by_role("button", name="Search").click()
    expect(records).to_have_count(10)
    expect(page.locator("main")).to_contain_text("The search is complete.")


@pytest.mark.long
def test_new_records_are_shown_live(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "watched", 2, 3)
    page = console.page("topics/watched/messages")
    expect(page.get_by_text("No record matches.")).to_be_visible()
    with page.expect_response(lambda answer: "/messages/stream" in answer.url):
        page.get_by_role("button", name="Follow new records").click()
    fill(console.cluster, "watched", 3)
    expect(page.locator(".card", has_text="New records").locator(".record")).to_have_count(3)
    page.get_by_role("button", name="Stop following").click()


def test_a_group_is_set_back(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "read-here", 1, 3)
    fill(console.cluster, "read-here", 20)
    read_all(console.cluster, "read-here", "readers", 20)
    page = console.page("groups")
    page.get_by_role("link", name="readers").click()
    lag = page.locator(".figure", has_text="Lag").locator("dd")
    expect(lag).to_have_text("0")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option("shift_by")
    page.get_by_label("Value").fill("-5")
    page.get_by_role("button", name="Preview").click()
    row = page.locator("dialog tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("15")
    expect(lag).to_have_text("0")
    page.get_by_role("button", name="Apply").click()
    expect(lag).to_have_text("5")


@pytest.mark.long
def test_a_topics_readers_and_replicated_offsets_are_requested(console: Console) -> None:
    """The streams that the stage only pretends to have: an analysis, checksums, the lag of a list."""
    create_topic(console.cluster.plan.bootstrap, "gone-through", 1, 3)
    fill(console.cluster, "gone-through", 20)
    read_all(console.cluster, "gone-through", "thorough", 20)
    fill(console.cluster, "gone-through", 5)
    page = console.page("groups")
    expect(page.get_by_role("row", name=re.compile("thorough"))).to_contain_text("5")
    page.goto(f"{console.url}/#/topics/gone-through/consumers")
    expect(page.get_by_role("row", name=re.compile("^thorough Empty"))).to_contain_text("5")
    page.get_by_role("link", name="Analysis").click()
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator(".figure", has_text="Distinct keys")).to_contain_text("20")
    page.goto(f"{console.url}/#/topics/gone-through/partitions/0/checksums")
    page.get_by_role("button", name="Compare replicas").click()
    expect(page.locator(".figure", has_text="Replicas").first).to_contain_text("identical")
    page.get_by_role("link", name="Segments").click()
    expect(page.get_by_role("link", name="from 0")).to_be_visible()
    page.get_by_role("link", name="History").click()
    expect(page.get_by_text("created with replicas")).to_be_visible()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("row", name=re.compile("^0 0: the records from there 24 25"))).to_be_visible()


def test_a_broker_dies_and_the_election_is_seen_and_its_leadership_moved_back(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "led", 6, 3)
    page = console.page()
    expect(page.locator("#live")).to_have_text("live")
    victim = console.cluster.plan.nodes[2]
    console.cluster.kill(victim.name)
    happened = page.locator(".log")
    expect(happened).to_contain_text(re.compile(r"broker \d+ fenced: new leaders for \d+ partitions, \d+ ISRs shrunk"))
    expect(page.get_by_text("needs attention", exact=True)).to_be_visible()
    assert set(console.cluster.start(victim.name).values()) == {"ready"}
    expect(page.get_by_text("healthy")).to_be_visible()
    page.goto(f"{console.url}/#/leaders")
    page.get_by_role("button", name="Elect all preferred leaders").click()
    page.get_by_role("button", name="Elect", exact=True).click()
    expect(page.get_by_text("Every partition is led by its preferred replica.")).to_be_visible()


@pytest.mark.long
def test_keys_go_to_pages_and_to_the_filter(console: Console) -> None:
    page = console.page()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.keyboard.press("/")
    page.keyboard.type("nothing-has-this")
    expect(page.get_by_text("No topic matches the filter.")).to_be_visible()
    assert "filter=nothing-has-this" in page.url


PAGES = (
    *("", "brokers", "brokers/1?all=true", "groups", "transactions", "quorum", "leaders", "no/such/page/at/all"),
    *("topics", "topics/axe", "topics/axe/configs", "topics/axe/messages"),
)


@pytest.mark.long
def test_axe_finds_nothing_and_nothing_is_wider_than_a_phone(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "axe", 2, 3)
    fill(console.cluster, "axe", 5)
    assert_accessible(console, PAGES)
    page = console.page("api", NARROW)
    page.get_by_role("link", name="Reference on one page").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Kvorum admin API")
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="in the console").click()
    page.get_by_label("Filter").fill("/v1/cluster")
    page.get_by_text("Describe the cluster").click()
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.locator("pre.output")).to_contain_text('"cluster_id"')


@pytest.mark.long
def test_the_page_one_is_on_is_seen_among_all_pages_on_a_phone(console: Console) -> None:
    page = console.page("chaos", NARROW)
    expect(page.locator("nav a[aria-current=page]")).to_be_in_viewport(ratio=1)
    page.goto(f"{console.url}/#/")
    expect(page.locator("nav a[aria-current=page]")).to_be_in_viewport(ratio=1)


def test_it_loads_nothing_from_elsewhere(console: Console) -> None:
    page = console.page()
    answer = page.request.get(f"{console.url}/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    tag = answer.headers["etag"]
    assert page.request.get(f"{console.url}/", headers={"If-None-Match": tag}).status == 304
    folder = Path(__file__).parent.parent.parent / "admin" / "console"
    for file in folder.iterdir():
        assert not re.search(r"(?:src|href|from|import|url\()\s*[=(]?\s*[\"']?https?://", file.read_text()), file.name


@pytest.mark.long
def test_an_address_with_a_broken_escape_shows_a_page(console: Console) -> None:
    expect(console.page("topics/%").locator(".trouble")).to_contain_text("INVALID_TOPIC_EXCEPTION")
