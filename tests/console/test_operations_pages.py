"""Quotas, reassignment, leaders, differences, a broker's parts and transactions in a real browser."""

import json
import re

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from tests.cluster.clients import create_topic, eventually, leader_of
from tests.console.console_kit import WITH_BROWSER, Console, assert_accessible, fill

pytestmark = [WITH_BROWSER, pytest.mark.long]


def test_a_leader_is_moved_from_the_topics_page(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "to-lead", 1, 3)
    before = leader_of(bootstrap, "to-lead", 0)
    after = max({1, 2, 3} - {before})
    page = console.page("topics/to-lead")
    page.get_by_role("button", name="Move the leader of partition 0").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio")).to_have_count(2)
    dialog.get_by_label(f"broker {after}").check()
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(page.locator("tbody td[data-label=Leader]")).to_have_text(str(after))
    eventually(lambda: leader_of(bootstrap, "to-lead", 0) == after, "as clients are told, too")
    expect(page.get_by_role("button", name="Move the leader of partition 0")).to_be_focused()


def test_a_quota_is_set_changed_and_removed(console: Console) -> None:
    page = console.page("quotas")
    expect(page.get_by_text("No quotas: clients are not throttled.")).to_be_visible()
    page.get_by_role("button", name="Set a quota").click()
    page.get_by_label("Entity", exact=True).last.select_option("user,client_id")
    page.get_by_label("Name of the client").fill("<b>app</b>")
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_label("Produce, bytes per second").fill("-5")
    page.get_by_label("Consume, bytes per second").fill("1048576.5")
    page.get_by_role("button", name="Set", exact=True).click()
    page.get_by_label("Produce, bytes per second").fill("1048576")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("fractional")
    page.get_by_label("Consume, bytes per second").fill("")
    page.get_by_role("button", name="Set", exact=True).click()
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("<b>app</b>")
    expect(row).to_contain_text("1.0 MiB/s produce")
    row.get_by_role("button", name="Change").click()
    page.get_by_label("Produce, bytes per second").fill("")
    page.get_by_label("Request time, % of a thread").fill("50")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(row).to_contain_text("50 % request time")
    expect(row).not_to_contain_text("produce")
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No quotas: clients are not throttled.")).to_be_visible()


def test_a_topic_is_moved_by_a_plan_and_looked_after(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "to-move", 2, 1)
    fill(console.cluster, "to-move", 50)
    page = console.page("topics/to-move")
    page.locator("details.menu > summary").click()
    page.get_by_role("link", name="Reassign replicas").click()
    expect(page.get_by_text("No reassignments in progress.")).to_be_visible()
    target = next(each for each in (1, 2, 3) if each != leader_of(bootstrap, "to-move", 0))
    for broker in {1, 2, 3} - {target}:
        page.get_by_label(str(broker), exact=True).uncheck()
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_role("heading", level=3)).to_contain_text("would change")
    assert leader_of(bootstrap, "to-move", 0) != target, "nothing moves before it is begun"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as file").click()
    assert '"log_dirs":["any"]' in saved.value.path().read_text()
    page.get_by_role("button", name="Start …").click()
    page.get_by_label("Throttle, MiB/s per broker").fill("50")
    page.get_by_role("button", name="Start", exact=True).click()
    watched = page.locator(".card", has_text="Plan started in this browser")
    expect(watched).to_contain_text("the throttle was removed")
    eventually(lambda: leader_of(bootstrap, "to-move", 0) == target, "the partition on its new broker")
    watched.get_by_role("button", name="Hide this plan").click()
    expect(watched).to_have_count(0)
    assert f"brokers={target}" in page.url and "topics=to-move" in page.url

    chosen = page.get_by_label("Or load a plan (JSON)")
    chosen.set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": b'{"version": 1}'})
    expect(page.get_by_role("alert")).to_contain_text("The file has no")
    chosen.set_input_files(saved.value.path())
    expect(page.get_by_text("already match the plan")).to_be_visible()
    back = {"topic": "to-move", "partition": 0, "replicas": [1 + target % 3], "log_dirs": ["any"]}
    text = json.dumps({"version": 1, "partitions": [back]}).encode()
    chosen.set_input_files({"name": "before.json", "mimeType": "application/json", "buffer": text})
    expect(page.get_by_role("heading", level=3)).to_contain_text("1 partition would change, 1 replica would be copied")


def test_slow_copies_are_shown_and_cancelled(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "slow", 1, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "none"})
    for _ in range(300):
        producer.produce("slow", bytes(10_000))
    assert producer.flush(30) == 0
    before = leader_of(bootstrap, "slow", 0)
    target = max({1, 2, 3} - {before})
    page = console.page(f"reassignment?topics=slow&brokers={target}")
    page.get_by_role("button", name="Propose").click()
    page.get_by_role("button", name="Start …").click()
    page.get_by_label("Throttle, MiB/s per broker").fill("0.001")
    page.get_by_role("button", name="Start", exact=True).click()
    row = page.locator(".card", has=page.get_by_role("heading", name="In progress")).locator("tbody tr")
    expect(row).to_contain_text("slow-0")
    expect(row.get_by_role("progressbar")).to_have_count(1)
    page.get_by_role("button", name="Cancel the move of slow-0").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the reassignment").click()
    expect(page.get_by_text("No reassignments in progress.")).to_be_visible()
    expect(page.locator(".card", has_text="Plan started in this browser")).to_contain_text("not as wanted")
    assert leader_of(bootstrap, "slow", 0) == before


def test_a_difference_of_configs_is_found_and_linked_to(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "different", 1, 1, segment_bytes="2097152")
    page = console.page("configs")
    expect(page.get_by_text("No differences.")).to_be_visible()
    page.get_by_label("Show per-broker configs").check()
    expect(page.locator("tbody")).to_contain_text("node.id")
    page.get_by_label("Compare").select_option("topic-broker")
    expect(page.get_by_text("Enter the resources to compare.")).to_be_visible()
    page.get_by_label("Topic", exact=True).fill("different")
    expect(page.locator("tbody")).to_contain_text("segment.bytes")
    expect(page.locator("tbody")).to_contain_text("1073741824")
    again = console.page(page.url.partition("#/")[2])
    expect(again.locator("tbody tr", has_text="segment.bytes")).to_contain_text("2097152")


def test_a_brokers_directories_loggers_and_features_are_shown_and_changed(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "kept", 1, 3)
    page = console.page("brokers/2")
    page.get_by_role("link", name="Log directories").click()
    expect(page.get_by_text("online")).to_be_visible()
    expect(page.get_by_role("link", name="kept-0")).to_be_visible()
    page.get_by_role("link", name="Loggers").click()
    page.get_by_role("button", name="Change the level of network").click()
    page.get_by_label("Minimum level").select_option("DEBUG")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("tbody tr", has_text="network")).to_contain_text("DEBUG")
    page.get_by_role("button", name="Change the level of network").click()
    page.get_by_label(re.compile("level of the root logger")).check()
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("tbody tr", has_text="network")).to_contain_text("INFO")
    page.get_by_role("link", name="Features").click()
    page.get_by_role("button", name="Change the level of transaction.version").click()
    page.get_by_label("Level, 0 to 2").fill("1")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("level 1 is valid")
    expect(page.locator("tbody tr", has_text="transaction.version").locator("td").nth(1)).to_have_text("2")


def test_a_transaction_is_looked_at_and_aborted(console: Console) -> None:
    bootstrap = console.cluster.plan.bootstrap
    create_topic(bootstrap, "part-of", 1, 3)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "left/open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("part-of", b"x")
    assert producer.flush(30) == 0
    page = console.page("transactions")
    page.get_by_role("link", name="left/open").click()
    expect(page.get_by_role("link", name="part-of-0")).to_be_visible()
    expect(page.locator(".figure", has_text="State")).to_contain_text("Ongoing")
    page.get_by_role("button", name="Abort and fence").click()
    page.get_by_role("dialog").get_by_role("button", name="Abort and fence").click()

    def ended() -> bool:
        page.keyboard.press("r")
        return re.search("Empty|CompleteAbort", page.locator(".figure", has_text="State").inner_text()) is not None

    eventually(ended, "the end of the transaction")
    page.goto(f"{console.url}/#/transactions")
    page.get_by_label("Topic").fill("part-of")
    page.get_by_role("button", name="Find hanging transactions").click()
    expect(page.get_by_text("No hanging transactions.")).to_be_visible()


def test_axe_finds_nothing_on_these_pages(console: Console) -> None:
    create_topic(console.cluster.plan.bootstrap, "looked-at", 2, 3)
    parts = ("brokers/1/log-dirs", "brokers/1/loggers", "brokers/1/features", "topics/looked-at")
    assert_accessible(console, ("quotas", "reassignment?topics=looked-at", "configs?own=true", "transactions", *parts))


def test_a_failed_directory_is_reported_first_and_a_fenced_broker_is_shown_all_the_same(console: Console) -> None:
    """The answers are given by the test: disks that fail are tests/cluster/test_log_directories.py's business."""
    page = console.page("brokers")
    replica = {"topic": "kept", "partition": 0, "size_bytes": 5 << 20, "offset_lag": 3, "future": False}
    good = {"log_dir": "/a", "error": None, "size_bytes": 5 << 20, "total_bytes": 1 << 30, "usable_bytes": 1 << 29}
    failed = {**good, "log_dir": "/b", "error": "KAFKA_STORAGE_ERROR", "total_bytes": None, "usable_bytes": None}
    answers = [{**good, "partitions": [replica]}, {**failed, "partitions": []}]
    page.route("**/v1/brokers/2/log-dirs", lambda route: route.fulfill(json=answers))
    page.goto(f"{console.url}/#/brokers/2/log-dirs")
    cards = page.locator("main .card")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("/b offline: KAFKA_STORAGE_ERROR")
    expect(cards.last).to_contain_text("512 MiB of 1.0 GiB free")
    cards.last.get_by_text("Replicas, largest first").click()
    expect(cards.last.locator("tbody tr")).to_contain_text("5.0 MiB")

    fenced = {"id": 3, "host": "", "port": 0, "rack": None, "fenced": True, "leaders": 0, "replicas": 4}
    page.route("**/v1/brokers/3", lambda route: route.fulfill(json=fenced))
    refused = {"status": 503, "error": "CLUSTER_UNREACHABLE", "message": "nobody answers", "title": "x", "detail": "x"}
    page.route("**/v1/brokers/3/loggers", lambda route: route.fulfill(status=503, json=refused))
    page.goto(f"{console.url}/#/brokers/3/loggers")
    expect(page.get_by_text("The broker is fenced and does not respond: nobody answers")).to_be_visible()
    page.route("**/v1/quotas", lambda route: route.fulfill(status=503, json=refused))
    page.goto(f"{console.url}/#/quotas")
    expect(page.get_by_role("alert")).to_contain_text("nobody answers (CLUSTER_UNREACHABLE)")
    page.unroute("**/v1/quotas")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("No quotas: clients are not throttled.")).to_be_visible()
