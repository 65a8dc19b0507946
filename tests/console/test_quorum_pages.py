"""Quorum, metadata and batches in a real browser; and the chaos page where there is no chaos server."""

import re

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import create_topic
from tests.console.console_kit import WITH_BROWSER, Console, assert_accessible, fill

pytestmark = [WITH_BROWSER, pytest.mark.long]


def commit_and_abort(cluster: LocalCluster, topic: str) -> None:
    """Write two transactions: one is committed, one is not."""
    producer = Producer(
        {"bootstrap.servers": cluster.plan.bootstrap, "transactional.id": "t", "compression.type": "zstd"}
    )
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"x" * 2000)
        producer.flush(30)
        end(30)


def test_the_log_of_a_partition_is_looked_through_batch_by_batch(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "batched", 1, 3)
    fill(console.cluster, "batched", 5)
    commit_and_abort(console.cluster, "batched")
    page = console.page("topics/batched")
    page.get_by_role("link", name="Partition 0").click()
    page.get_by_role("link", name="Batches").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("batched-0 · batches")
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="commit marker")).to_have_count(1)
    expect(rows.filter(has_text="abort marker")).to_have_count(1)
    expect(rows.filter(has_text="zstd")).to_have_count(2)
    page.get_by_label("From offset").fill("7")
    page.get_by_label("From offset").press("Enter")
    expect(rows).to_have_count(2)
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("batched · messages")


def test_metadata_are_walked_through_at_any_offset(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "walked", 2, 3)
    page = console.page("metadata")
    for name in ("image/", "topics/", "byName/", "walked/", "0/"):
        page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("row", name=re.compile(r"^replicas \[\d,\d,\d\]"))).to_be_visible()
    assert "path=%2Fimage%2Ftopics%2FbyName%2Fwalked%2F0" in page.url
    page.get_by_label("At offset").fill("0")
    page.get_by_label("At offset").press("Enter")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    page.get_by_role("link", name="Records").click()
    topic = page.get_by_role("row", name=re.compile("Topic .*walked"))
    topic.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Metadata · changes")
    added = page.locator("tbody tr", has_text="/image/topics/byName/walked/id").filter(has_text="absent")
    expect(added).to_have_count(1)


def test_the_active_controller_dies_and_the_timeline_shows_its_successor(console: Console) -> None:
    page = console.page("quorum")
    active = page.locator(".figure", has_text="Active controller").locator("dd")
    expect(page.locator(".timeline")).to_be_visible()
    first = active.inner_text()
    victim = next(node for node in console.cluster.plan.nodes if node.properties["node.id"] == first)
    if console.cluster.plan.nodes[0] is victim:  # its admin server serves this page: it is asked elsewhere
        page = Console(console.cluster, console.browser, console.cluster.plan.admin_urls()[1]).page("quorum")
        active = page.locator(".figure", has_text="Active controller").locator("dd")
        expect(page.locator(".timeline")).to_be_visible()
    console.cluster.kill(victim.name)
    expect(active).to_have_text(re.compile(rf"^(?!{first}$)\d+$"))
    expect(page.locator(".legend li", has_text=re.compile(rf"node {first}, epoch"))).to_have_count(1)
    expect(page.locator(".legend li").last).to_have_text(re.compile(rf"node {active.inner_text()}, epoch"))
    known = page.get_by_role("row", name=re.compile(rf"node {active.inner_text()}$"))
    expect(known.first).to_be_visible()
    assert set(console.cluster.start(victim.name).values()) == {"ready"}


def test_without_a_chaos_server_the_page_explains_how_to_start_one(console: Console) -> None:
    page = console.page("chaos")
    expect(page.get_by_text("kvorum chaos serve -d lab --create")).to_be_visible()
    expect(page.get_by_role("button", name="Heal all")).to_be_hidden()


PAGES = ("quorum", "metadata", "metadata/diff?since=1", "metadata/records", "topics/axe-log/batches/0", "chaos")


def test_the_pages_are_accessible(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "axe-log", 1, 3)
    fill(console.cluster, "axe-log", 3)
    commit_and_abort(console.cluster, "axe-log")
    assert_accessible(console, PAGES)
