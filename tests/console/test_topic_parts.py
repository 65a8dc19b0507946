"""A topic's consumers, analysis and copies; a partition's segments, history and checksums: in front of a stage."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import WITH_BROWSER, in_menu
from tests.console.stage import HEALTH, Answer, Asked, Stage, partition, refusal, topic
from tests.console.test_pages_on_stage import group

pytestmark = WITH_BROWSER
ORDERS = "/v1/topics/orders"
FIRST = f"{ORDERS}/partitions/0"
NOW_MS = 1_700_000_000_000


def reader(name: str, **options: Any) -> dict[str, Any]:
    base = {"type": "consumer", "state": "Stable", "members": 2, "partitions": 2, "lag": 7, "partitions_unknown": 0}
    return {"group_id": name, **base, **options}


def sizes(count: int, mean: float) -> dict[str, Any]:
    return {"count": count, "total_bytes": int(count * mean), "min": 1, "max": 4096, "mean": mean} | dict.fromkeys(
        ("p50", "p75", "p95", "p99", "p999"), int(mean)
    )


def analysis(**options: Any) -> dict[str, Any]:
    """Return what comes of one."""
    row = {"partition": 0, "records": 1200, "bytes": 48_000, "null_keys": 3, "tombstones": 2, "disordered": 1}
    row |= {"first_offset": 0, "last_offset": 1199, "first_timestamp_ms": NOW_MS, "last_timestamp_ms": NOW_MS + 5}
    hours = [
        {"start_ms": NOW_MS // 3_600_000 * 3_600_000 + each * 3_600_000, "records": 100 * each, "bytes": 4000 * each}
        for each in (1, 2, 4, 5)
    ]
    base = {"topic": "orders", "stopped_by": "end", "next": "0:1200", "elapsed_ms": 1500, "hours": hours}
    base |= {"distinct_keys": 5000, "distinct_values": 1100, "keys": sizes(1197, 6.0), "values": sizes(1198, 34.0)}
    return {**{key: value for key, value in row.items() if key in TOTALS}, **base, "partitions": [row], **options}


TOTALS = ("records", "bytes", "null_keys", "tombstones", "disordered")


def replica(broker: int, **options: Any) -> dict[str, Any]:
    base = {"leader": broker == 1, "in_sync": True, "error": None, "start_offset": 0, "end_offset": 10, "batches": 4}
    base |= {"bytes": 2048, "damaged": 0, "missing": 0, "different": 0, "surplus": 0}
    return {"broker": broker, **base, **options}


def furnish_parts(stage: Stage) -> None:
    """Have something in each of them."""
    kinds = ("partition_created", "leader_elected", "isr_changed")
    afters = ({"replicas": [1, 2, 3], "leader": 1, "isr": [1, 2, 3]}, {"leader": 2, "isr": [2, 3]}, {"isr": [1, 2, 3]})
    befores = ({}, {"leader": 1, "isr": [1, 2, 3]}, {"isr": [2, 3]})
    events = [
        {"type": kind, "offset": 40 + 3 * at, "timestamp_ms": NOW_MS + 1000 * at, "before": befores[at]}
        | {"after": afters[at], "topic": "orders", "topic_id": "A" * 22, "partition": 0, "broker": None}
        for at, kind in enumerate(kinds)
    ]
    segment = {"size_bytes": 1 << 30, "modified_ms": NOW_MS, "max_timestamp_ms": NOW_MS, "index_bytes": 4096}
    segment |= {"time_index_bytes": 2048, "txn_index_bytes": None}
    where = {"topic": "orders", "partition": 0}
    epochs = [{"epoch": 4, "start_offset": 7, "end_offset": 10}, {"epoch": 1, "start_offset": 0, "end_offset": 7}]
    for path, data in {
        f"{ORDERS}/groups": {"groups": [reader("billing"), reader("audit", lag=0, partitions_unknown=1, state="Empty")]}
        | {"next": "billing", "unreachable": [3]},
        FIRST: partition(0) | {"topic": "orders", "last_stable_offset": 10, "details": []},
        f"{FIRST}/history": where | {"topic_id": "A" * 22, "first": 12, "last": 90, "events": events, "more": True},
        f"{FIRST}/epochs": where
        | {"leader": 1, "leader_epoch": 4, "log_start_offset": 0, "epochs": epochs, "next": None},
        f"{FIRST}/segments": where
        | {"broker": 1, "log_dir": "/var/lib/kvorum/data", "future_log_dir": None, "segment_count": 2}
        | {"size_bytes": 1 << 31, "next": None}
        | {
            "segments": [
                segment | {"base_offset": 0, "next_offset": 7},
                segment | {"base_offset": 7, "next_offset": None, "max_timestamp_ms": None, "size_bytes": 4_000_000},
            ]
        },
    }.items():
        stage.says(path, data)
    stage.tells(f"{ORDERS}/analysis", "progress", {"scanned": 600, "bytes": 24_000, "share": 0.5}, kept=True)
    stage.tells(f"{FIRST}/verify", "progress", {"offset": 5, "end_offset": 10, "bytes": 1024}, kept=True)


def reported(stage: Stage, path: str, *events: tuple[str, Any]) -> None:
    """Tell a stream to its end, to whoever comes."""
    for kind, data in (*events, ("end", {"stopped_by": "end"})):
        stage.tells(path, kind, data, kept=True)


def test_the_groups_of_a_topic_are_a_part_of_its_page(scene: Scene) -> None:
    furnish_parts(scene.stage)
    page = scene.page("topics/orders")
    page.get_by_role("link", name="Consumers").click()
    row = page.get_by_role("row", name=re.compile("^billing"))
    expect(row).to_contain_text("7")
    expect(page.get_by_role("row", name=re.compile("^audit"))).to_contain_text("0, unknown in 1")
    expect(page.locator(".banner")).to_contain_text("Broker 3 did not respond")
    page.get_by_role("button", name="Next page").click()
    scene.stage.until(lambda: scene.stage.last(f"{ORDERS}/groups").query.get("after") == "billing", "the next page")
    expect(row.get_by_role("link")).to_have_attribute("href", "#/groups/billing")
    scene.stage.says(f"{ORDERS}/groups", {"groups": [], "next": None, "unreachable": []})
    page.goto(f"{scene.stage.url}/#/topics/orders/consumers")
    expect(page.get_by_text("No group reads this topic.")).to_be_visible()


@pytest.mark.long
def test_a_topic_is_analysed_on_demand_and_reports_how_far_it_is(scene: Scene) -> None:
    furnish_parts(scene.stage)
    path = f"{ORDERS}/analysis"
    page = scene.page("topics/orders/analysis?partitions=0")
    assert scene.stage.count(path) == 0, "it is dear: nobody has asked for it yet"
    page.get_by_role("button", name="Analyse").click()
    expect(page.get_by_role("status").filter(has_text="50 %, 600 records, 23 KiB")).to_be_visible()
    assert scene.stage.last(path).query == {"partitions": "0"}
    page.get_by_role("button", name="Stop").click()
    scene.stage.until(lambda: scene.stage.readers(path) == 0, "the end of the analysis")
    expect(page.get_by_role("button", name="Analyse")).to_be_visible()
    reported(scene.stage, path, ("result", analysis(stopped_by="time")))
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator(".figure", has_text="Distinct keys")).to_contain_text("≈ 1,200")  # never more than records
    expect(page.locator(".banner")).to_contain_text("the time limit of an analysis")
    expect(page.get_by_role("row", name=re.compile("^values 1,198"))).to_be_visible()
    expect(page.locator(".hours rect")).to_have_count(4)
    scene.stage.refuses(path, 400, "INVALID_REQUEST", "filter: an operator is missing")
    page.get_by_role("button", name="Analyse again").click()
    expect(page.get_by_role("alert")).to_contain_text("an operator is missing")


def clone_dialog(page: Page) -> Any:
    in_menu(page, "Clone")
    return page.get_by_role("dialog", name="Clone orders")


@pytest.mark.long
def test_a_topic_is_cloned_with_other_configs(scene: Scene) -> None:
    path = f"{ORDERS}/clone"
    scene.stage.says(path, refusal(409, "TOPIC_ALREADY_EXISTS", "orders-copy is there already", "name"), "POST")
    page = scene.page("topics/orders")
    dialog = clone_dialog(page)
    expect(dialog.get_by_label("Name")).to_have_value("orders-copy")
    dialog.get_by_label("Other configs").fill("retention.ms=1000\ncleanup.policy=")
    dialog.get_by_role("button", name="Clone").click()
    expect(dialog.get_by_role("alert")).to_contain_text("there already")
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    made = {"name": "orders-2", "topic_id": "B" * 22, "partitions": 2, "replication_factor": 3, "validated_only": False}
    scene.stage.says(path, {**made, "configs": {}}, "POST")
    scene.stage.says("/v1/topics/orders-2", topic("orders-2", partition(0), partition(1)))
    dialog.get_by_label("Name").fill("orders-2")
    dialog.get_by_role("button", name="Clone").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders-2")
    assert scene.stage.last(path, "POST").body == {
        "name": "orders-2",
        "partitions": None,
        "replication_factor": None,
        "configs": {"retention.ms": "1000", "cleanup.policy": None},
    }


def test_replicas_are_compared_and_differences_are_named(scene: Scene) -> None:
    furnish_parts(scene.stage)
    path = f"{FIRST}/verify"
    wrong = {"broker": 2, "kind": "damaged", "base_offset": 4, "last_offset": 6, "message": "its CRC is another"}
    scene.stage.tells(path, "fault", wrong, kept=True)
    page = scene.page("topics/orders/partitions/0")
    page.get_by_role("link", name="Checksums").click()
    page.get_by_role("button", name="Compare replicas").click()
    expect(page.get_by_role("row", name=re.compile("broker 2 damaged 4 to 6 its CRC is another"))).to_be_visible()
    result = {"topic": "orders", "partition": 0, "sound": False, "stopped_by": "end", "compared": True, "reference": 1}
    replicas = [replica(1), replica(2, damaged=1), replica(3, error="REQUEST_TIMED_OUT", in_sync=False)]
    end = ("result", result | {"end_offset": 10, "replicas": replicas})
    reported(scene.stage, path, end)
    expect(page.locator(".figure", has_text="Replicas").first).to_contain_text("different")
    expect(page.locator(".banner")).to_contain_text("Broker 3 was not read completely: REQUEST_TIMED_OUT")
    expect(page.get_by_role("row", name=re.compile("^broker 2 differences"))).to_be_visible()


@pytest.mark.long
def test_segments_are_shown_where_this_server_sees_them(scene: Scene) -> None:
    furnish_parts(scene.stage)
    page = scene.page("topics/orders/partitions/0/segments")
    expect(page.get_by_role("link", name="0 to 6")).to_have_attribute("href", "#/topics/orders/batches/0?offset=0")
    expect(page.get_by_role("row", name=re.compile("^from 7 active"))).to_contain_text("not indexed yet")
    elsewhere = "broker 1 has no replica of orders-0; 2, 3 have"
    scene.stage.says(f"{FIRST}/segments", refusal(421, "MISDIRECTED_REQUEST", elsewhere))
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("Broker 1 has no replica of orders-0; 2, 3 have.")).to_be_visible()


@pytest.mark.long
def test_a_partitions_history_is_shown_without_its_leaders_response(scene: Scene) -> None:
    furnish_parts(scene.stage)
    page = scene.page("topics/orders/partitions/0/history")
    rows = page.get_by_role("table", name="History").locator("tbody tr")
    expect(rows.first).to_contain_text("orders-0: ISR 1, 2, 3 (was 2, 3)")
    expect(rows.last).to_contain_text("created with replicas 1, 2, 3")
    expect(page.get_by_role("row", name=re.compile("^1 0: the records from there 6 7"))).to_be_visible()
    scene.stage.says(f"{FIRST}/epochs", refusal(503, "LEADER_NOT_AVAILABLE", "orders-0 has no leader now"))
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("Not available: orders-0 has no leader now")).to_be_visible()
    assert scene.stage.last(f"{FIRST}/history").query["before"] == "40" and "before=40" in page.url
    scene.stage.says(f"{FIRST}/history", refusal(503, "CLUSTER_UNREACHABLE", "nobody answers"))
    page.get_by_role("button", name="Newest").click()
    expect(page.locator(".banner")).to_contain_text("nobody answers")


@pytest.mark.long
def test_the_lag_of_groups_comes_by_the_stream_of_those_in_view(scene: Scene) -> None:
    rows = [group("a"), group("b")]
    scene.stage.says("/v1/groups", {"groups": rows, "next": "b", "unreachable": []})
    page = scene.page("groups")
    row = page.get_by_role("row", name=re.compile("^Favourite: a|a Stable"))
    expect(row).to_contain_text("…")
    path = "/v1/live/groups"
    scene.stage.until(lambda: scene.stage.readers(path) == 1, "a reader of the groups")
    assert scene.stage.last(path).query["lag"] == "true" and scene.stage.last(path).query["limit"] == "100"
    lagging = [
        {**rows[0], "lag": 1234, "lag_partitions": 3, "lag_unknown": 1, "members": 2, "topics": ["orders"]},
        {**rows[1], "lag": None, "lag_partitions": None, "lag_unknown": None},
    ]
    scene.stage.tells(path, "groups", {"groups": lagging, "next": "b", "unreachable": []})
    expect(row).to_contain_text("1,234, unknown in 1")
    expect(row.locator("[data-label=Members]")).to_have_text("2")
    expect(row.get_by_role("link", name="orders")).to_have_attribute("href", "#/topics/orders")
    page.get_by_role("button", name="Refresh").click()
    expect(row).to_contain_text("1,234, unknown in 1")
    page.get_by_role("button", name="Next page").click()
    scene.stage.until(lambda: scene.stage.last(path).query.get("after") == "b", "the lag of the next page")


@pytest.mark.long
def test_the_overview_links_to_partitions_under_min_isr(scene: Scene) -> None:
    health = {**HEALTH, "healthy": False, "under_replicated_partitions": 3, "under_min_isr_partitions": 1}
    scene.stage.says("/v1/health", {**health, "at_min_isr_partitions": 2, "partitions": ["orders-0"]})
    page = scene.page()
    under = page.locator(".figure", has_text="Under min ISR")
    expect(under).to_have_class(re.compile("bad"))
    expect(page.get_by_text("1 partition has fewer in-sync replicas than min.insync.replicas")).to_be_visible()
    expect(page.locator(".figure", has_text="At min ISR")).to_contain_text("2")

    def ill(requested: Asked) -> Any:
        found = [topic("orders", under_replicated=1)] if requested.query.get("under_replicated") else []
        return {"topics": found, "next": None}

    scene.stage.says("/v1/topics", ill)
    under.get_by_role("link", name="1").click()
    expect(page.get_by_label("Only under-replicated")).to_be_checked()
    expect(page.get_by_role("link", name="orders", exact=True)).to_have_attribute(
        "href", "#/topics/orders?which=unsynced"
    )
    scene.stage.says("/v1/health", {**HEALTH, "under_min_isr_partitions": None, "at_min_isr_partitions": None})
    page.goto(f"{scene.stage.url}/#/")
    expect(under).to_contain_text("unknown")


def test_a_dead_broker_is_a_banner_across_the_overview(scene: Scene) -> None:
    health = {**HEALTH, "healthy": False, "under_replicated_partitions": 69, "brokers_fenced": [3]}
    scene.stage.says("/v1/health", health)
    banner = scene.page().locator(".banner.alarm")
    expect(banner).to_have_text("Broker 3 is fenced. 69 partitions under-replicated.")
    scene.stage.says("/v1/health", HEALTH)
    scene.stage.happens("broker_unfenced", broker=3)
    expect(banner).to_have_count(0)


def test_the_overview_shows_events_of_before_the_page_was_opened(scene: Scene) -> None:
    page = scene.page()
    expect(page.get_by_text("No recent events.")).to_be_visible()
    scene.stage.happens("broker_fenced", broker=3, past=True)
    scene.stage.happens("topic_created", topic="new")
    times = page.locator(".log li", has_text="broker 3 fenced").locator("time")
    expect(times).to_have_count(1)
    assert times.evaluate("each => each.getClientRects().length") == 1, "the time is on one line"


def test_topics_are_sorted_as_chosen(scene: Scene) -> None:
    def listed(requested: Asked) -> Any:
        names = ["large", "small"] if requested.query.get("order") == "size" else ["a", "b"]
        configs = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
        return {"topics": [topic(name, size_bytes=2048, configs=configs) for name in names], "next": None}

    scene.stage.says("/v1/topics", listed)
    page = scene.page("topics")
    expect(page.get_by_role("link", name="a", exact=True)).to_be_visible()
    expect(page.locator("tbody tr").first).to_contain_text("2.0 KiBdelete7 days")
    page.get_by_label("Sort by").select_option("size")
    expect(page.get_by_role("link", name="large", exact=True)).to_be_visible()


def test_selected_topics_get_a_config_and_are_deleted_after_a_preview(scene: Scene) -> None:
    stage = scene.stage
    names = ["a", "b", "c"]
    stage.says("/v1/topics", lambda _: {"topics": [topic(name) for name in names], "next": None})
    entry = {"name": "retention.ms", "value": "1000", "source": "DEFAULT_CONFIG", "read_only": False}
    entry |= {"sensitive": False, "documentation": "Age of the oldest record."}
    for name in names:
        stage.says(f"/v1/topics/{name}", topic(name, partition(0, latest_offset=1234)))
        stage.says(f"/v1/topics/{name}/configs", [entry])
        stage.says(f"/v1/topics/{name}/configs", Answer(status=204), "PATCH")
    stage.says("/v1/topics/b/configs", refusal(422, "INVALID_CONFIG", "Invalid value x", "set.retention.ms"), "PATCH")
    page = scene.page("topics")
    page.get_by_label("Select all topics on this page").check()
    page.get_by_label("Select c", exact=True).uncheck()
    expect(page.get_by_text("2 topics selected")).to_be_visible()
    page.get_by_role("button", name="Set config …").click()
    dialog = page.get_by_role("dialog", name="Set a config of 2 topics")
    expect(dialog).to_contain_text("Age of the oldest record.")
    dialog.get_by_label("New value").fill("x")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("alert")).to_have_text("Invalid value x (1 topic). Nothing was changed.")
    assert [each.query for each in stage.requested if each.method == "PATCH"] == [{"validate_only": "true"}] * 2
    stage.says("/v1/topics/b/configs", Answer(status=204), "PATCH")
    dialog.get_by_label("New value").fill("60000")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("row", name="a 1000 60000")).to_be_visible()
    assert all(each.query for each in stage.requested if each.method == "PATCH"), "nothing is changed by a preview"
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    changed = [(each.path, each.body) for each in stage.requested if each.method == "PATCH" and not each.query]
    assert changed == [(f"/v1/topics/{name}/configs", {"set": {"retention.ms": "60000"}}) for name in ("a", "b")]

    for name in names[1:]:
        page.get_by_label(f"Select {name}", exact=True).check()
    stage.says("/v1/topics/b", Answer(status=204), "DELETE")
    stage.refuses("/v1/topics/c", 403, "TOPIC_DELETION_DISABLED", "deletion is disabled", "DELETE")
    page.get_by_role("button", name="Delete topics …").click()
    dialog = page.get_by_role("dialog", name="Delete 2 topics")
    dialog.get_by_label("Number of topics").fill("3")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("row", name="b 1 1,234")).to_be_visible()
    expect(dialog.get_by_role("alert")).to_contain_text("2 topics would be deleted: enter 2.")
    dialog.get_by_label("Number of topics").fill("2")
    dialog.get_by_role("button", name="Preview").click()
    names.remove("b")
    dialog.get_by_role("button", name="Delete permanently").click()
    expect(dialog.get_by_role("alert")).to_have_text("c: deletion is disabled")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("1 topic selected")).to_be_visible()
    expect(page.get_by_label("Select c", exact=True)).to_be_checked()
    assert [each.path for each in stage.requested if each.method == "DELETE"] == ["/v1/topics/b", "/v1/topics/c"]


def test_names_of_topics_are_completed_where_they_are_typed(scene: Scene) -> None:
    def named(asked: Asked) -> Any:
        part = asked.query.get("filter", "*").strip("*")
        return {"topics": [topic(name) for name in ("orders", "payments") if part in name], "next": None}

    scene.stage.says("/v1/topics", named)
    for path, label, typed, offered in (
        ("reassignment", "Topics", "orders, pay", ["orders, payments"]),
        ("transactions", "Topic", "rder", ["orders"]),
    ):
        page = scene.page(path)
        page.get_by_label(label, exact=True).fill(typed)
        options = page.locator("datalist option")
        expect(options).to_have_count(len(offered))
        assert options.evaluate_all("all => all.map((each) => each.value)") == offered
