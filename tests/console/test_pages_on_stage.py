"""Pages of the console in front of a stage: long lists, what is refused, what others changed meanwhile."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import WITH_BROWSER, in_menu
from tests.console.stage import Answer, Asked, partition, quorum, refusal, topic

pytestmark = WITH_BROWSER


def group(name: str, **options: Any) -> dict[str, Any]:
    base = {"group_id": name, "type": "consumer", "state": "Stable", "protocol_type": "consumer", "coordinator": 1}
    return base | options


def described(name: str, *offsets: tuple[str, int, int | None, int | None], **options: Any) -> dict[str, Any]:
    """Return a group with places: topic, partition, committed offset, end."""
    places = [
        {
            "topic": topic,
            "partition": index,
            "committed_offset": committed,
            "leader_epoch": None,
            "metadata": "",
            "end_offset": end,
            "lag": None if committed is None or end is None else end - committed,
            "member_id": None,
        }
        for topic, index, committed, end in offsets
    ]
    more = {"protocol": "range", "epoch": None, "assignment_epoch": None, "members": [], "offsets": places}
    return group(name, **more, **options)


def member(name: str, protocol: str = "classic") -> dict[str, Any]:
    base = {"instance_id": None, "client_id": f"client-{name}", "host": "/127.0.0.1", "rack": None, "epoch": None}
    base |= {"topics": [], "pattern": None, "assignment": {"orders": [0]}, "target_assignment": None}
    return {"member_id": name, "protocol": protocol, **base}


def test_groups_come_in_pages_and_are_narrowed_by_state_and_kind(scene: Scene) -> None:
    def page_of(requested: Asked) -> Any:
        first = not requested.query.get("after")
        rows = [group(f"g{number:03}") for number in (range(100) if first else range(100, 130))]
        return {"groups": rows, "next": "g099" if first else None, "unreachable": []}

    scene.stage.says("/v1/groups", page_of)
    page = scene.page("groups")
    expect(page.locator("tbody tr")).to_have_count(100)
    expect(page.locator(".pager")).to_contain_text("100 groups, more available")
    page.get_by_role("button", name="Next page").click()
    expect(page.locator("tbody tr")).to_have_count(30)
    assert "after=g099" in page.url
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(100)
    scene.stage.says("/v1/groups", {"groups": [], "next": None, "unreachable": []})
    page.get_by_label("State").select_option("Empty")
    page.get_by_label("Type").select_option("classic")
    expect(page.get_by_text("No group matches.")).to_be_visible()
    scene.stage.until(lambda: scene.stage.last("/v1/groups").query.get("type") == "classic", "by the kind")
    assert scene.stage.last("/v1/groups").query["state"] == "Empty" and "state=Empty" in page.url


@pytest.mark.long
def test_groups_are_shown_although_one_broker_does_not_respond(scene: Scene) -> None:
    scene.stage.says("/v1/groups", {"groups": [group("a")], "next": None, "unreachable": [3]})
    page = scene.page("groups")
    expect(page.locator(".banner")).to_contain_text("Broker 3 did not respond")
    expect(page.get_by_role("link", name="a", exact=True)).to_be_visible()


@pytest.mark.long
def test_an_unreported_lag_is_unknown(scene: Scene) -> None:
    scene.stage.says("/v1/groups/g", described("g", ("orders", 0, 3, 10), ("orders", 1, 5, None)))
    page = scene.page("groups/g")
    lag = page.locator(".figure", has_text="Lag")
    expect(lag).to_contain_text("7, unknown in 1 partition")
    assert "warn" in (lag.get_attribute("class") or "")
    expect(page.get_by_role("row", name=re.compile("orders-1"))).to_contain_text("unknown")


@pytest.mark.long
def test_a_topic_is_taken_out_of_a_group(scene: Scene) -> None:
    scene.stage.says("/v1/groups/g", described("g", ("orders", 0, 3, 10), ("a/b", 0, 1, 1), state="Empty"))
    page = scene.page("groups/g")
    lagging = page.get_by_role("table", name="Topics").get_by_role("row", name=re.compile("^orders"))
    expect(lagging.locator("[data-label=Lag]")).to_have_text("7")
    page.get_by_role("button", name="Delete the offsets of a/b").click()
    path = "/v1/groups/g/offsets/a/b"
    refused = [{"topic": "a/b", "partition": 0, "error": "GROUP_SUBSCRIBED_TO_TOPIC"}]
    scene.stage.says(path, refused, "DELETE")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("a/b-0: GROUP_SUBSCRIBED_TO_TOPIC")
    scene.stage.says(path, [{"topic": "a/b", "partition": 0, "error": None}], "DELETE")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Offsets of a/b deleted.")


@pytest.mark.long
def test_all_members_are_removed_with_a_reason(scene: Scene) -> None:
    scene.stage.says("/v1/groups/g", described("g") | {"members": [member("one"), member("two")]})
    page = scene.page("groups/g")
    page.get_by_role("button", name="Remove all …").click()
    page.get_by_label("Reason").fill("stuck")
    gone = [{"member_id": each, "instance_id": None, "error": None} for each in ("one", "two")]
    scene.stage.says("/v1/groups/g/members", gone, "DELETE")
    page.get_by_role("button", name="Remove all", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("2 members removed.")
    assert scene.stage.last("/v1/groups/g/members", "DELETE").query == {"all": "true", "reason": "stuck"}


def test_offsets_of_each_partition_are_set_from_the_current_ones(scene: Scene) -> None:
    path = "/v1/groups/g/offsets/reset"
    scene.stage.says("/v1/groups/g", described("g", ("orders", 0, 3, 10), ("orders", 1, None, 4), state="Empty"))

    def moved(requested: Asked) -> Any:
        rows = [
            {"topic": each["topic"], "partition": each["partition"], "before": 3, "after": each["offset"]}
            for each in requested.body["offsets"]
        ]
        return {"group_id": "g", "dry_run": True, "partitions": [row | {"note": None, "error": None} for row in rows]}

    scene.stage.says(path, moved, "POST")
    page = scene.page("groups/g")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option("offsets")
    expect(page.get_by_label("orders-0")).to_have_value("3")
    expect(page.get_by_text("committed 3, end 10")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_have_text("No offset was changed.")
    page.get_by_label("orders-0").fill("7")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("dialog tbody tr")).to_have_text(re.compile(r"orders-0\s*3\s*7"))
    requested = scene.stage.last(path, "POST")
    assert requested.query["dry_run"] == "true"
    assert requested.body == {"offsets": [{"topic": "orders", "partition": 0, "offset": 7}]}
    page.get_by_label("orders-1").fill("2")
    expect(page.locator("dialog tbody tr")).to_have_count(0)
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert scene.stage.last(path, "POST").query["dry_run"] == "false"


def test_ten_thousand_partitions_are_shown_a_page_at_a_time_and_in_any_order(scene: Scene) -> None:
    rows = [partition(index, latest_offset=10_000 - index) for index in range(10_000)]
    rows[7_777]["leader"] = -1
    scene.stage.says("/v1/topics/orders", topic("orders", *rows))
    page = scene.page("topics/orders")
    expect(page.locator("tbody tr")).to_have_count(100)
    expect(page.locator(".pager")).to_contain_text("1 to 100 of 10,000")
    page.get_by_role("button", name="Next page").click()
    expect(page.locator("tbody tr").first).to_contain_text("100")
    assert "page=2" in page.url
    page.go_back()
    expect(page.locator(".pager")).to_contain_text("1 to 100 of 10,000")
    page.get_by_role("button", name="Last page").click()
    expect(page.get_by_role("link", name="Partition 9999")).to_be_visible()
    page.get_by_role("button", name="End offset").click()
    expect(page.get_by_role("columnheader", name="End offset")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("tbody tr").first.get_by_role("link", name="Partition 9999")).to_be_visible()
    page.get_by_role("button", name="End offset").click()
    expect(page.locator("tbody tr").first.get_by_role("link", name="Partition 0", exact=True)).to_be_visible()
    page.get_by_label("Show").select_option("leaderless")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("no leader")
    again = scene.page(page.url.partition("#/")[2])
    expect(again.locator("tbody tr")).to_have_count(1)


@pytest.mark.long
def test_eligible_and_offline_replicas_are_shown(scene: Scene) -> None:
    rows = [
        partition(0, isr=[1], elr=[2, 3]),
        partition(1, leader=-1, isr=[], elr=[], last_known_elr=[3], offline_replicas=[1, 2], latest_offset=None),
    ]
    scene.stage.says("/v1/topics/orders", topic("orders", *rows))
    page = scene.page("topics/orders")
    cells = page.locator("td[data-label=ELR]")
    expect(cells).to_have_text(["2, 3", "last leader 3"])
    expect(page.locator("td[data-label=Offline]")).to_have_text([re.compile("^.$"), "1, 2"])
    expect(page.locator(".figure", has_text="Records, by offsets")).to_contain_text("at least 10")
    expect(page.locator(".figure", has_text="Without a leader")).to_contain_text("1")


def test_records_are_deleted_before_an_offset(scene: Scene) -> None:
    path = "/v1/topics/orders/records/delete"
    scene.stage.says("/v1/topics/orders", topic("orders", partition(0, earliest_offset=2), partition(1)))
    page = scene.page("topics/orders")
    in_menu(page, "Delete records …")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Partition 0")).to_have_value("2")
    dialog.get_by_label(re.compile("to confirm")).fill("orders")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing would be deleted")
    dialog.get_by_label("Partition 0").fill("7")
    scene.stage.says(path, [{"partition": 0, "low_watermark": 7, "error": None}], "POST")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.locator("#notes")).to_contain_text("Records deleted in 1 partition.")
    assert scene.stage.last(path, "POST").body == {"partitions": {"0": 7}}
    in_menu(page, "Delete records …")
    page.get_by_role("button", name="Select all records").click()
    expect(dialog.get_by_label("Partition 1")).to_have_value("10")


@pytest.mark.long
def test_a_partition_page_shows_replicas_and_producers(scene: Scene) -> None:
    replica = {"leader": False, "in_sync": True, "offline": False, "log_dir": "/data", "size_bytes": 2048}
    silent = {"offline": True, "in_sync": False, "log_dir": None, "size_bytes": None, "offset_lag": None}
    rows = [
        {"broker": 1, **replica, "leader": True, "offset_lag": 0},
        {"broker": 2, **replica, "in_sync": False, "offset_lag": 7},
        {"broker": 3, **replica, **silent},
    ]
    found = partition(1) | {"topic": "orders", "last_stable_offset": 4, "details": rows}
    scene.stage.says("/v1/topics/orders/partitions/1", found)
    producer = {"producer_id": 4000, "producer_epoch": 2, "coordinator_epoch": 1, "last_sequence": 9}
    producer |= {"last_timestamp_ms": 1_700_000_000_000, "transaction_start_offset": 4}
    scene.stage.says("/v1/topics/orders/partitions/1/producers", [producer])
    page = scene.page("topics/orders")
    page.get_by_role("link", name="Partition 1").click()
    expect(page.get_by_role("row", name=re.compile("broker 2"))).to_contain_text("not in sync")
    expect(page.get_by_role("row", name=re.compile("broker 3"))).to_contain_text("unknown")
    page.get_by_role("link", name="Show producers").click()
    expect(page.get_by_role("row", name=re.compile("4000"))).to_contain_text("open from 4")


def test_enter_does_not_clear_a_secret_and_cluster_wide_configs_are_set_on_their_page(scene: Scene) -> None:
    path = "/v1/brokers/1/configs"
    entry = {"read_only": False, "sensitive": False}
    rows = [
        {"name": "log.cleaner.threads", "value": "2", "source": "DYNAMIC_DEFAULT_BROKER_CONFIG", **entry},
        {"name": "plugin.password", "value": None, "source": "DYNAMIC_BROKER_CONFIG", **entry, "sensitive": True},
        {"name": "log.cleanup.policy", "value": "delete", "source": "DEFAULT_CONFIG", **entry}
        | {"type": "LIST", "documentation": "Handling of old segments.", "choices": ["compact", "delete"]},
        {"name": "log.retention.ms", "value": "604800000", "source": "DEFAULT_CONFIG", **entry},
    ]
    scene.stage.says(path, Answer(rows, headers={"ETag": '"1"'}))
    scene.stage.says(path, Answer(None, 204), "PATCH")
    page = scene.page("brokers/1")
    page.get_by_role("button", name="Change plugin.password").click()
    page.get_by_label("New value").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The value is empty")
    assert scene.stage.count(path, "PATCH") == 0
    page.get_by_label("New value").fill("secret")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    requested = scene.stage.last(path, "PATCH")
    assert requested.body == {"set": {"plugin.password": "secret"}} and requested.headers["If-Match"] == '"1"'

    page.get_by_role("button", name="Change log.cleaner.threads").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label(re.compile("Reset"))).to_be_hidden()
    dialog.get_by_label("Set for").select_option("all")
    dialog.get_by_label(re.compile("remove the value set for all brokers")).check()
    all_of_them = "/v3/clusters/stage/broker-configs/log.cleaner.threads"
    scene.stage.says(all_of_them, Answer(None, 204), "DELETE")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(dialog).to_have_count(0)
    assert scene.stage.count(all_of_them, "DELETE") == 1 and scene.stage.count(path, "PATCH") == 1

    expect(page.get_by_role("row", name=re.compile("log.retention.ms"))).to_contain_text("604800000 7 days")
    page.get_by_role("button", name="Change log.cleanup.policy").click()
    expect(dialog).to_contain_text("Handling of old segments.")
    assert scene.stage.last(path).query["documentation"] == "true"
    dialog.get_by_label("compact").check()
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(dialog).to_have_count(0)
    assert scene.stage.last(path, "PATCH").body == {"set": {"log.cleanup.policy": "compact,delete"}}


def test_a_concurrent_change_is_shown_before_it_is_overwritten(scene: Scene) -> None:
    path = "/v1/brokers/1/loggers"
    scene.stage.says(path, Answer([{"name": "network", "level": "INFO"}], headers={"ETag": '"1"'}))

    def change(requested: Asked) -> Any:
        if requested.headers["If-Match"] != '"2"':
            return refusal(412, "PRECONDITION_FAILED", "somebody changed it meanwhile")
        return Answer(None, 204)

    scene.stage.says(path, change, "PATCH")
    page = scene.page("brokers/1/loggers")
    page.get_by_role("button", name="Change the level of network").click()
    page.get_by_label("Minimum level").select_option("DEBUG")
    scene.stage.says(path, Answer([{"name": "network", "level": "ERROR"}], headers={"ETag": '"2"'}))
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Another change was made in the meantime")
    expect(page.locator("tbody tr")).to_contain_text("ERROR")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Log level of network set.")


@pytest.mark.long
def test_elections_have_one_confirmation(scene: Scene) -> None:
    row = {"topic": "t", "partition": 3, "leader": 2, "preferred": 1, "replicas": [1, 2], "isr": [1, 2]}
    lost = {**row, "topic": "lost", "leader": -1, "isr": []}
    found = {"partitions": 9_000, "unpreferred": 2, "leaderless": 1, "rows": [lost, row], "more": False}
    scene.stage.says("/v1/leaders", found)
    page = scene.page("leaders")
    expect(page.locator("main")).to_contain_text("2 of 9,000 partitions not led by the preferred replica")
    expect(page.get_by_role("button", name="Elect a leader for lost-3")).to_have_text("Unclean election …")
    scene.settled(page)
    looks = scene.stage.count("/v1/leaders")
    scene.stage.happens("quota_changed", after={"entity": {"user": "a"}})
    scene.stage.happens("leader_elected", topic="t", partition=3, after={"leader": 1}, before={"leader": 2})
    scene.stage.until(lambda: scene.stage.count("/v1/leaders") == looks + 1, "another look")
    requested = {each.path for each in scene.stage.requested if each.path.startswith("/v1/topics")}
    assert requested == set() and scene.stage.count("/v1/leaders") == looks + 1


@pytest.mark.long
def test_all_elections_and_all_cancellations_are_requested_as_such(scene: Scene) -> None:
    row = {"topic": "t", "partition": 3, "leader": 2, "preferred": 1, "replicas": [1, 2], "isr": [1, 2]}
    found = {"partitions": 9, "unpreferred": 1, "leaderless": 0, "rows": [row], "more": False}
    scene.stage.says("/v1/leaders", found)
    scene.stage.says("/v1/leaders/elect", [], "POST")
    page = scene.page("leaders")
    page.get_by_role("button", name="Elect all preferred").click()
    page.get_by_role("dialog").get_by_role("button", name="Elect").click()
    scene.stage.until(lambda: scene.stage.count("/v1/leaders/elect", "POST") == 1, "the election")
    assert scene.stage.last("/v1/leaders/elect", "POST").body == {"unclean": False, "all": True}
    scene.stage.says("/v1/reassignments", [{**entry(90), "partition": each} for each in (0, 1)])
    scene.stage.says("/v1/reassignments/cancel", [], "POST")
    page = scene.page("reassignment")
    page.get_by_role("button", name="Cancel all").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the reassignment").click()
    scene.stage.until(lambda: scene.stage.count("/v1/reassignments/cancel", "POST") == 1, "the cancellation")
    assert scene.stage.last("/v1/reassignments/cancel", "POST").body == {"all": True}


def test_transactions_come_in_pages_by_a_pattern_and_a_search_for_hanging_ones_is_in_the_address(scene: Scene) -> None:
    row = {"transactional_id": "pay/1", "state": "Ongoing", "producer_id": 4000, "coordinator": 1}
    scene.stage.says("/v1/transactions", {"transactions": [row], "next": "pay/1", "unreachable": [2, 3]})
    scene.stage.says("/v1/hanging-transactions", [])
    page = scene.page("transactions?pattern=pay.*&state=Ongoing&topic=orders&minutes=3")
    expect(page.get_by_text("No hanging transactions.")).to_be_visible()
    expect(page.locator(".banner")).to_contain_text("Brokers 2, 3 did not respond")
    assert scene.stage.last("/v1/hanging-transactions").query == {"topic": "orders", "open_for_minutes": "3"}
    assert scene.stage.last("/v1/transactions").query["pattern"] == "pay.*"
    expect(page.locator("tbody tr")).to_contain_text("4000")
    page.get_by_role("button", name="Next page").click()
    scene.stage.until(lambda: scene.stage.last("/v1/transactions").query.get("after") == "pay/1", "the next page")
    page.get_by_label("Transactional id").fill("other.*")
    scene.stage.until(lambda: scene.stage.last("/v1/transactions").query.get("pattern") == "other.*", "a pattern")
    assert "after" not in scene.stage.last("/v1/transactions").query


@pytest.mark.long
def test_a_throttle_that_was_left_over_is_shown_and_taken_off(scene: Scene) -> None:
    path = "/v1/reassignments/throttle"
    broker = {"broker": 2, "leader_rate": 1 << 20, "follower_rate": None, "log_dirs_rate": None}
    scene.stage.says(path, {"brokers": [broker], "unreachable": [3]})
    page = scene.page("reassignment")
    banner = page.locator(".banner")
    expect(banner).to_contain_text("broker 2 leader replication ≤ 1.0 MiB/s")
    expect(banner).to_contain_text("Unknown for brokers: 3")
    page.get_by_role("button", name="Remove throttle").click()
    scene.stage.says(path, {"brokers": [broker], "unreachable": []}, "DELETE")
    scene.stage.says(path, {"brokers": [], "unreachable": []})
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(banner).to_have_count(0)


def entry(lag: int) -> dict[str, Any]:
    progress = {"broker": 3, "in_sync": False, "size_bytes": 1000 - lag, "end_offset": 100 - lag, "lag": lag}
    return {
        **{"topic": "t", "partition": 0, "leader": 1, "isr": [1], "replicas": [3, 1], "target": [3], "adding": [3]},
        **{"removing": [1], "size_bytes": 1000, "end_offset": 100, "progress": [progress]},
    }


@pytest.mark.long
def test_progress_of_copies_is_shown_and_the_plan_is_checked_at_the_end(scene: Scene) -> None:
    live, verify = "/v1/live/reassignments", "/v1/reassignments/verify"
    scene.stage.says("/v1/reassignments", [entry(90)])
    watched = {"topic": "t", "partition": 0, "state": "in progress", "replicas": [1], "target": [3]}
    verified = {"completed": False, "partitions": [watched], "unthrottled_brokers": [], "unthrottled_topics": []}
    scene.stage.says(verify, verified, "POST")
    page = scene.page("reassignment")
    plan = '{"partitions":[{"topic":"t","partition":0,"replicas":[3]}],"throttled":true}'
    page.evaluate("plan => localStorage.setItem('kvorum.reassignment', plan)", plan)
    page.close()
    page = scene.page("reassignment", context=scene.browser.contexts[0])  # another tab: the plan is looked after there
    expect(page.get_by_text("90 records behind")).to_be_visible()
    scene.stage.until(lambda: scene.stage.readers(live) == 1, "somebody who follows")
    requested = scene.stage.count("/v1/reassignments")
    scene.stage.tells(live, "reassignments", {"reassignments": [entry(10)]})
    expect(page.get_by_text("10 records behind")).to_be_visible()
    assert scene.stage.count("/v1/reassignments") == requested
    done = {"completed": True, "partitions": [{**watched, "state": "completed"}]}
    scene.stage.says(verify, {**done, "unthrottled_brokers": [1, 3], "unthrottled_topics": ["t"]}, "POST")
    scene.stage.says("/v1/reassignments", [])
    scene.stage.tells(live, "reassignments", {"reassignments": []})
    expect(page.locator(".card", has_text="Plan started in this browser")).to_contain_text("the throttle was removed")
    assert scene.stage.last(verify, "POST").body["preserve_throttles"] is False


@pytest.mark.long
def test_a_viewer_sees_reassignments(scene: Scene) -> None:
    scene.stage.says("/v1/me", {"role": "read", "guarded": True})
    page = scene.page("topics")
    plan = '{"partitions":[{"topic":"t","partition":0,"replicas":[3]}],"throttled":false}'
    page.evaluate("plan => localStorage.setItem('kvorum.reassignment', plan)", plan)
    page.goto(f"{scene.stage.url}/#/reassignment")
    expect(page.get_by_text("No reassignments in progress.")).to_be_visible()
    assert scene.stage.count("/v1/reassignments/verify", "POST") == 0


@pytest.mark.long
def test_a_voter_is_added_from_the_observers_and_another_removed(scene: Scene) -> None:
    directory = "JEXY6aqzQY-32P5TStzaFg"
    follows = {"id": 104, "directory_id": directory, "log_end_offset": 100, "lag": 0, "last_caught_up_ms": 1}
    scene.stage.says("/v1/quorum", quorum(observers=[follows]))
    page = scene.page("quorum")
    page.get_by_role("button", name="Add a voter").click()
    page.get_by_role("dialog").get_by_label("Node").fill("104")
    expect(page.get_by_label("Directory id")).to_have_value(directory)
    page.get_by_label("Port").fill("9093")
    message = refusal(422, "INVALID_REQUEST", "no such listener", "listeners")
    scene.stage.says("/v1/quorum/voters", message, "POST")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("no such listener")
    scene.stage.says("/v1/quorum/voters", {"id": 104, "directory_id": directory}, "POST")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Node 104 is now a voter.")
    listener = {"name": "CONTROLLER", "host": "127.0.0.1", "port": 9093}
    body = {"id": 104, "directory_id": directory, "listeners": [listener]}
    assert scene.stage.last("/v1/quorum/voters", "POST").body == body
    page.get_by_role("button", name="Remove voter 1").click()
    expect(page.get_by_role("dialog")).to_contain_text("It is the active controller: another voter takes over first.")
    path = f"/v1/quorum/voters/1/{'d' * 22}"
    scene.stage.says(path, Answer(None, 204), "DELETE")
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Node 1 is no longer a voter.")


DESCRIPTION = {
    "paths": {
        "/v1/topics/{topic}": {
            "get": {
                "summary": "Describe a topic",
                "description": "Describe a topic.",
                "x-role": "read",
                "parameters": [{"name": "topic", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"content": {"application/json": {}}}},
            },
        },
        "/v1/topics": {
            "post": {
                "summary": "Create a topic",
                "description": "Create a topic.",
                "x-role": "admin",
                "parameters": [{"name": "validate_only", "in": "query", "schema": {"type": "boolean"}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/New"}}}},
                "responses": {"201": {"content": {"application/json": {}}}},
            },
        },
    },
    "components": {
        "schemas": {
            "New": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "examples": ["orders"]}, "partitions": {"type": "integer"}},
            }
        }
    },
}


@pytest.mark.long
def test_an_operation_is_found_by_a_word_and_called_from_its_description(scene: Scene) -> None:
    scene.stage.says("/openapi.json", DESCRIPTION)
    page = scene.page("api")
    page.get_by_label("Filter").fill("describe")
    expect(page.locator("details.operation")).to_have_count(1)
    page.locator("details.operation summary").click()
    page.get_by_label("topic (path)").fill("orders")
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.locator("pre.output")).to_contain_text('"name": "orders"')
    expect(page.locator("details.operation")).to_contain_text("200 OK")
    page.get_by_label("Filter").fill("topics create")
    page.locator("details.operation summary").first.click()
    body = page.get_by_label("Body")
    expect(body).to_have_value(re.compile('"name": "orders"'))
    scene.stage.refuses("/v1/topics", 422, "TOPIC_ALREADY_EXISTS", "it is there already", "POST")
    page.get_by_label("validate_only").select_option("true")
    page.get_by_role("button", name="Call (makes changes)").click()
    expect(page.locator("pre.output")).to_contain_text("it is there already")
    assert scene.stage.last("/v1/topics", "POST").query == {"validate_only": "true"}


def kinds(page: Page) -> list[str]:
    """Return what the dialog offers as targets."""
    return page.get_by_label("Target", exact=True).locator("option").all_inner_texts()


@pytest.mark.long
def test_only_nodes_are_offered_for_faults_of_nodes(scene: Scene) -> None:
    process = {"pid": 1, "stopped": False}
    node = {"id": 1, "name": "node-1", "roles": ["broker"], "running": True, "processes": {"broker": process}}
    state = {"nodes": [node], "faults": [], "links": [], "inside": {}, "bootstrap": "127.0.0.1:9092"}
    kind = {
        "about": "It ends",
        "needs": "processes",
        "of": "processes",
        "possible": True,
        "targets": {"from": 1, "to": 1},
        "options": {},
    }
    scene.stage.says("/v1/chaos/state", state)
    scene.stage.says("/v1/chaos/scenarios", [])
    scene.stage.says(
        "/v1/chaos/kinds",
        [
            {**kind, "fault": "kill", "title": "Kill (SIGKILL)"},
            {**kind, "fault": "restart", "title": "Restart", "of": "nodes"},
        ],
    )
    page = scene.page("chaos")
    expect(page.get_by_role("row", name=re.compile("^node-1 active controller running 2"))).to_be_visible()
    page.get_by_role("button", name="Inject a fault").click()
    expect(page.get_by_label("Fault", exact=True).locator("option").first).to_have_text("Kill (SIGKILL)")
    assert kinds(page) == ["node-1", "node-1/broker"]
    page.get_by_label("Fault", exact=True).select_option("restart")
    assert kinds(page) == ["node-1"]


@pytest.mark.long
def test_faults_are_on_the_pages_timeline(scene: Scene) -> None:
    """The clock of a broker may be the very one that was put wrong: its events are where this page heard of them."""
    scene.stage.says("/v1/chaos/state", {"nodes": [], "faults": [], "links": [], "inside": {}, "bootstrap": ""})
    scene.stage.says("/v1/chaos/scenarios", [])
    scene.stage.says("/v1/chaos/kinds", [])
    fault = {"id": 1, "fault": "clock_jump", "phase": "begin", "targets": ["node-3"], "lossy": False, "t": 0}
    began = {**fault, "story": "the clock of node-3 is off", "timestamp_ms": 1_700_000_000_000}
    scene.stage.tells("/v1/chaos/events", "fault", began, 1, kept=True)
    page = scene.page("chaos")
    expect(page.locator(".log li")).to_have_count(1)
    scene.stage.happens("broker_fenced", broker=3, timestamp_ms=1_000)
    expect(page.locator(".log li")).to_have_text([re.compile("broker 3 fenced"), re.compile("off")])
