"""How pages of the console keep up with what happens, in front of a stage: looks, streams, what stays, what is told."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import WITH_BROWSER
from tests.console.stage import BROKERS, HEALTH, Asked, Stage, partition, quorum, topic

pytestmark = WITH_BROWSER
EVENTS, QUORUM = "/v1/events", "/v1/quorum/stream"


def live(scene: Scene, page: Page) -> None:
    """Wait until the page hears what happens."""
    scene.settled(page)
    scene.stage.until(lambda: scene.stage.readers(EVENTS) >= 1, "a reader of the events")


@pytest.mark.long
def test_the_overview_is_shown_while_there_is_no_controller(scene: Scene) -> None:
    scene.stage.refuses("/v1/quorum", 503, "CLUSTER_UNREACHABLE", "no controller answers")
    ill = {**HEALTH, "healthy": False, "controller_id": -1, "controller_error": "REQUEST_TIMED_OUT"}
    scene.stage.says("/v1/health", ill)
    page = scene.page()
    expect(page.get_by_text("No controller responds (REQUEST_TIMED_OUT)")).to_be_visible()
    expect(page.locator(".figure", has_text="Brokers").first).to_contain_text("3 of 3")
    expect(page.locator(".figure", has_text="Active controller")).to_contain_text("not reachable")
    expect(page.get_by_text("needs attention", exact=True)).to_be_visible()


def test_a_failed_refresh_keeps_the_page_and_is_retried(scene: Scene) -> None:
    page = scene.page("brokers")
    scene.stage.refuses("/v1/brokers", 503, "CLUSTER_UNREACHABLE", "a failover is under way")
    page.get_by_role("button", name="Refresh").click()
    banner = page.get_by_role("alert")
    expect(banner).to_contain_text("a failover is under way")
    expect(banner).to_contain_text("Showing data from")
    expect(page.get_by_role("link", name="broker 3")).to_be_visible()
    scene.stage.says("/v1/brokers", BROKERS[:2])
    expect(banner).to_have_count(0)
    expect(page.get_by_role("link", name="broker 2")).to_be_visible()
    expect(page.get_by_role("link", name="broker 3")).to_have_count(0)


@pytest.mark.long
def test_a_first_look_that_failed_is_made_again_at_growing_distances(scene: Scene) -> None:
    scene.stage.refuses("/v1/brokers", 503, "CLUSTER_UNREACHABLE", "nobody answers")
    page = scene.page("brokers")
    expect(page.locator(".trouble")).to_contain_text("Retrying automatically")
    page.clock.install()
    requested = scene.stage.count("/v1/brokers")
    page.get_by_role("button", name="Try again").click()
    scene.stage.until(lambda: scene.stage.count("/v1/brokers") >= requested + 1, "the next look")
    expect(page.locator("main [aria-busy=false]")).to_have_count(1)
    page.clock.run_for(60_000)
    scene.stage.until(lambda: scene.stage.count("/v1/brokers") >= requested + 2, "another one, by itself")
    assert scene.stage.count("/v1/brokers") <= requested + 4, "not one a second"


@pytest.mark.long
def test_deleted_resources_disappear_and_are_not_requested_again(scene: Scene) -> None:
    page = scene.page("topics/orders")
    live(scene, page)
    scene.stage.refuses("/v1/topics/orders", 404, "UNKNOWN_TOPIC_OR_PARTITION", "there is no topic orders")
    scene.stage.happens("topic_deleted", topic="orders")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(0)
    expect(page.locator(".trouble")).not_to_contain_text("Retrying automatically")


def test_a_slow_page_is_drawn_while_things_happen_all_the_time(scene: Scene) -> None:
    """One look at a time, and one more for all that happened meanwhile."""
    page = scene.page("brokers")
    live(scene, page)
    begun: list[float] = []

    def slowly(requested: Asked) -> Any:
        begun.append(time.monotonic())
        return [*BROKERS[:2], {**BROKERS[2], "leaders": 100 + len(begun)}]

    scene.stage.says("/v1/brokers", slowly)
    scene.stage.holds("/v1/brokers")
    requested = scene.stage.count("/v1/brokers")
    scene.stage.happens("broker_fenced", broker=3)
    scene.stage.until(lambda: scene.stage.count("/v1/brokers") == requested + 1, "the first look")
    for number in range(50):
        scene.stage.happens("leader_elected", topic="t", partition=number, before={"leader": 3}, after={"leader": 1})
    page.wait_for_function("document.querySelector('main .page').getAttribute('aria-busy') === 'true'")
    page.evaluate("new Promise((done) => setTimeout(done, 600))")
    assert scene.stage.count("/v1/brokers") == requested + 1, "nobody asks again while one question is open"
    scene.stage.release()
    leads = page.locator("tbody tr").last.locator("td[data-label=Leaders]")
    expect(leads).to_have_text("102")
    assert scene.stage.count("/v1/brokers") == requested + 2


@pytest.mark.long
def test_a_search_shows_progress_and_a_new_search_cancels_the_old_one(scene: Scene) -> None:
    page = scene.page("topics/orders/messages")
    path = "/v1/topics/orders/messages/newest"
    scene.stage.holds(path)
    ended: list[str] = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    page.get_by_label("Filter").fill("value.a == 1")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("main .page")).to_have_attribute("aria-busy", "true")
    scene.stage.until(lambda: scene.stage.count(path) == 2, "the first search")
    page.get_by_label("Filter").fill("value.a == 2")
    page.get_by_role("button", name="Search").click()
    scene.stage.until(lambda: scene.stage.count(path) == 3, "the second one")
    scene.stage.release()
    expect(page.locator("main .page")).to_have_attribute("aria-busy", "false")
    assert len(ended) == 1 and "a+%3D%3D+1" in ended[0]


def test_tabs_of_one_browser_share_the_streams(scene: Scene) -> None:
    """A browser opens six connections to a server: eight tabs with two streams each would wait for ever."""
    context = scene.browser.new_context()
    pages = [scene.page("quorum", context=context) for _ in range(8)]
    for page in pages:
        expect(page.locator("#live")).to_have_text("live")
    assert scene.stage.readers(EVENTS) == 1 and scene.stage.readers(QUORUM) <= 1
    scene.stage.tells(QUORUM, "quorum", {**quorum(2, 6), "timestamp_ms": 1_700_000_000_000, "error": None})
    for page in pages:
        page.close()
    scene.stage.until(lambda: scene.stage.readers(EVENTS) == 0, "the end of the stream with the last tab")


@pytest.mark.long
def test_a_new_tab_gets_the_events_of_other_tabs(scene: Scene) -> None:
    context = scene.browser.new_context()
    first = scene.page(context=context)
    live(scene, first)
    scene.stage.happens("broker_fenced", broker=3)
    expect(first.locator(".log")).to_contain_text("broker 3 fenced")
    second = scene.page(context=context)
    expect(second.locator(".log li")).to_have_count(1)
    scene.stage.happens("broker_unfenced", broker=3)
    expect(second.locator(".log li")).to_have_count(2)


@pytest.mark.long
def test_without_a_worker_a_tab_has_its_own_stream_and_closes_it_while_hidden(scene: Scene) -> None:
    context = scene.browser.new_context()
    context.add_init_script(
        "delete window.SharedWorker; let hidden = false;"
        "Object.defineProperty(document, 'hidden', { get: () => hidden });"
        "window.hide = (now) => { hidden = now; document.dispatchEvent(new Event('visibilitychange')); };"
    )
    page = scene.page("brokers", context=context)
    live(scene, page)
    page.evaluate("hide(true)")
    scene.stage.until(lambda: scene.stage.readers(EVENTS) == 0, "the end of the stream")
    requested = scene.stage.count("/v1/brokers")
    page.evaluate("hide(false)")
    live(scene, page)
    scene.stage.until(lambda: scene.stage.count("/v1/brokers") > requested, "a look at what was missed")


@pytest.mark.long
def test_a_hidden_tab_sends_no_requests_until_it_is_visible(scene: Scene) -> None:
    context = scene.browser.new_context()
    context.add_init_script(
        "let hidden = false; Object.defineProperty(document, 'hidden', { get: () => hidden });"
        "window.hide = (now) => { hidden = now; document.dispatchEvent(new Event('visibilitychange')); };"
    )
    page = scene.page(context=context)
    live(scene, page)
    page.evaluate("hide(true)")
    requested = scene.stage.count("/v1/brokers")
    scene.stage.happens("broker_fenced", broker=3)
    page.wait_for_function("import('/console/live.js').then((live) => live.recent.length === 1)")
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    assert scene.stage.count("/v1/brokers") == requested
    page.evaluate("hide(false)")
    scene.stage.until(lambda: scene.stage.count("/v1/brokers") == requested + 1, "one look")
    expect(page.locator(".log")).to_contain_text("broker 3 fenced")


@pytest.mark.long
def test_a_silent_server_is_not_shown_as_live(scene: Scene) -> None:
    context = scene.browser.new_context()
    context.add_init_script("delete window.SharedWorker;")  # the clock of a page is not that of a worker
    page = scene.page("brokers", context=context)
    live(scene, page)
    page.clock.install()
    page.clock.run_for(10_000)
    expect(page.locator("#live")).to_have_text("live")
    scene.stage.comments = False
    page.reload()
    expect(page.locator("#live")).to_have_text("live")
    # The page reconnects after a pause. A clock that runs would end the pause before the text is seen.
    page.clock.pause_at((page.evaluate("Date.now()") + 16_000) / 1000)
    expect(page.locator("#live")).to_contain_text("connecting: The server stopped sending data")
    scene.stage.comments = True
    page.clock.run_for(2_000)
    expect(page.locator("#live")).to_have_text("live")


def test_a_broken_stream_is_reopened_and_the_page_reloads(scene: Scene) -> None:
    page = scene.page("brokers")
    live(scene, page)
    requested = scene.stage.count("/v1/brokers")
    scene.stage.says("/v1/brokers", BROKERS[:1])
    scene.stage.break_streams()
    expect(page.get_by_role("link", name="broker 2")).to_have_count(0)
    assert scene.stage.count("/v1/brokers") > requested


@pytest.mark.long
def test_a_stream_resumes_after_the_last_received_id(scene: Scene) -> None:
    page = scene.page()
    live(scene, page)
    assert "Last-Event-ID" not in scene.stage.last(EVENTS).headers
    scene.stage.happens("broker_fenced", 7, broker=2)
    scene.stage.marks(EVENTS, 9)
    scene.stage.happens("broker_fenced", broker=3)
    expect(page.locator(".log")).to_contain_text("broker 3 fenced")
    scene.stage.break_streams()
    scene.stage.until(lambda: scene.stage.count(EVENTS) == 2, "the next stream")
    assert scene.stage.last(EVENTS).headers["Last-Event-ID"] == "9"
    live(scene, page)
    scene.stage.tells(EVENTS, "missed", {"after": 9, "next": 100, "message": "the log begins at 100 by now"})
    scene.stage.happens("topic_deleted", topic_id="AAAA")
    expect(page.locator(".log")).to_contain_text("some earlier events are not available any more")
    expect(page.locator(".log")).to_contain_text("topic with id AAAA deleted")


@pytest.mark.long
def test_too_many_streams_are_reported_beside_the_live_indicator(scene: Scene) -> None:
    scene.stage.refuses(EVENTS, 429, "TOO_MANY_STREAMS", "32 streams are already open; close one")
    page = scene.page("brokers")
    expect(page.locator("#live")).to_have_text("connecting: 32 streams are already open; close one")


def test_a_redraw_keeps_focus_selection_and_expanded_rows(scene: Scene) -> None:
    page = scene.page("topics/orders")
    live(scene, page)
    page.get_by_role("link", name="Partition 1").focus()
    page.evaluate(
        "const cell = document.querySelector('main tbody td[data-label=Replicas]');"
        "getSelection().selectAllChildren(cell)"
    )
    rows = [partition(0, leader=2), partition(1, leader=2), partition(2)]
    scene.stage.says("/v1/topics/orders", topic("orders", *rows))
    scene.stage.happens("leader_elected", topic="orders", partition=1, after={"leader": 2})
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody td[data-label=Leader]").first).to_contain_text("2")
    expect(page.get_by_role("link", name="Partition 1")).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "1, 2, 3"


@pytest.mark.long
def test_rows_inserted_before_the_focused_one_do_not_take_the_focus(scene: Scene) -> None:
    page = scene.page("brokers")
    live(scene, page)
    page.get_by_role("link", name="broker 2").focus()
    scene.stage.says("/v1/brokers", [{**BROKERS[0], "id": 0}, *BROKERS[1:], {**BROKERS[0], "id": 7}])
    scene.stage.happens("broker_registered", broker=7)
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.get_by_role("link", name="broker 2")).to_be_focused()
    scene.stage.says("/v1/brokers", BROKERS[2:])
    scene.stage.happens("broker_unregistered", broker=2)
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("main")).to_be_focused()


@pytest.mark.long
def test_a_dialog_gives_the_focus_back_though_the_page_was_drawn_again_behind_it(scene: Scene) -> None:
    page = scene.page("topics/orders")
    live(scene, page)
    page.get_by_role("button", name="Move the leader of partition 0").click()
    scene.stage.says("/v1/topics/orders", topic("orders", partition(0, leader=3), partition(1)))
    scene.stage.happens("leader_elected", topic="orders", partition=0, after={"leader": 3})
    expect(page.locator("tbody td[data-label=Leader]").first).to_contain_text("3")
    page.get_by_role("button", name="Cancel").click()
    button = page.get_by_role("button", name="Move the leader of partition 0")
    expect(button).to_be_focused()
    button.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Broker 3 is the leader")


def test_groups_are_updated_without_new_requests(scene: Scene) -> None:
    group = {"group_id": "readers", "type": "consumer", "state": "Stable", "protocol_type": "consumer"}
    group |= {"coordinator": 1}
    scene.stage.says("/v1/groups", {"groups": [group], "next": None, "unreachable": []})
    page = scene.page("groups")
    expect(page.locator("tbody .badge")).to_have_text("Stable")
    path = "/v1/live/groups"
    # A page that was loaded before the stream of events was connected is loaded once more.
    scene.stage.until(lambda: scene.stage.readers(path) == 1 and scene.stage.count("/v1/groups") == 2, "both streams")
    expect(page.locator("main [aria-busy=false]")).to_have_count(1)
    requested = scene.stage.count("/v1/groups")
    scene.stage.tells(path, "groups", {"groups": [{**group, "state": "Empty"}], "next": None, "unreachable": []})
    expect(page.locator("tbody .badge")).to_have_text("Empty")
    assert scene.stage.count("/v1/groups") == requested
    page.get_by_label("State").select_option("Empty")
    scene.stage.until(lambda: scene.stage.last(path).query.get("state") == "Empty", "a stream of what is shown")
    page.goto(f"{scene.stage.url}/#/topics")
    scene.stage.until(lambda: scene.stage.readers(path) == 0, "the end of the stream with the page")


def sample(stage: Stage, leader: int, epoch: int, ms: int) -> None:
    stage.tells(QUORUM, "quorum", {**quorum(leader, epoch), "timestamp_ms": 1_700_000_000_000 + ms, "error": None})


@pytest.mark.long
def test_an_old_sample_of_the_quorum_is_not_shown_as_current(scene: Scene) -> None:
    page = scene.page("quorum")
    active = page.locator(".figure", has_text="Active controller").locator("dd")
    epoch = page.locator(".figure", has_text="Epoch").locator("dd")
    scene.stage.until(lambda: scene.stage.readers(QUORUM) == 1, "a reader of the quorum")
    for ms in (0, 1000):
        sample(scene.stage, 1, 5, ms)
    expect(page.locator(".timeline")).to_be_visible()
    page.goto(f"{scene.stage.url}/#/brokers")
    scene.stage.until(lambda: scene.stage.readers(QUORUM) == 0, "the end of the stream")
    scene.stage.says("/v1/quorum", quorum(2, 6))
    scene.stage.refuses(QUORUM, 429, "TOO_MANY_STREAMS", "32 streams run already")
    page.goto(f"{scene.stage.url}/#/quorum")
    expect(active).to_have_text("2")
    expect(epoch).to_have_text("6")


@pytest.mark.long
def test_a_run_is_updated_from_events_without_new_requests(scene: Scene) -> None:
    run = {"id": 7, "scenario": "load", "seed": 1, "state": "running", "began_ms": 1_700_000_000_000, "verdicts": {}}
    run |= {"output": [f"line {number}" for number in range(200)], "lines": 200, "folder": "/runs/7", "exit_code": None}
    path, events = "/v1/chaos/scenarios/7", "/v1/chaos/events"
    scene.stage.says(path, run)
    page = scene.page("chaos/runs/7")
    # A page that was loaded before the stream of events was connected is loaded once more.
    scene.stage.until(lambda: scene.stage.readers(events) == 1 and scene.stage.count(path) == 2, "a reader of the lab")
    output = page.locator("pre.output")
    output.evaluate("element => { element.scrollTop = 300; }")
    for number in range(201, 206):
        scene.stage.tells(events, "output", {"id": 7, "number": number, "line": f"new {number}"})
    expect(output).to_contain_text("new 205")
    assert output.evaluate("element => element.scrollTop") == 300
    assert scene.stage.count(path) == 2
    output.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    scene.stage.tells(events, "output", {"id": 7, "number": 206, "line": "the last"})
    expect(output).to_contain_text("the last")
    assert output.evaluate("element => element.scrollHeight - element.scrollTop - element.clientHeight") < 8
    scene.stage.says(path, {**run, "output": ["all of it"], "lines": 300})
    scene.stage.tells(events, "output", {"id": 7, "number": 300, "line": "behind a gap"})
    expect(output).to_have_text("all of it")


@pytest.mark.long
def test_the_verdict_of_a_run_is_shown_with_its_faults(scene: Scene) -> None:
    fault = {"fault": "kill", "targets": ["node-3"], "begin": 1.0, "end": None, "first_ack": 0.5, "unavailable": 0.2}
    figures = {"acked": 100, "lost": 1, "lost_legally": 0, "duplicated": 0, "reordered": 0, "longest_gap": 1.25}
    broken = {"anomaly": "lost write", "partition": "t-0", "count": 1, "reason": "nobody has it", "story": ["it was"]}
    verdict = {"valid": False, "violations": [broken], "figures": {**figures, "faults": [fault]}}
    run = {"id": 7, "scenario": "load", "seed": 1, "state": "violated", "began_ms": 1_700_000_000_000, "lines": 0}
    run |= {"output": [], "folder": "/runs/7", "exit_code": 1, "verdicts": {"load": verdict, "x": {"error": "no"}}}
    scene.stage.says("/v1/chaos/scenarios/7", run)
    page = scene.page("chaos/runs/7")
    expect(page.get_by_text("1 violation")).to_be_visible()
    expect(page.locator(".figure", has_text="Lost")).to_contain_text("1")
    expect(page.get_by_role("row", name=re.compile("kill node-3 1.0 s"))).to_be_visible()
    expect(page.get_by_text("not checked")).to_be_visible()


@pytest.mark.long
def test_health_of_a_topic_whose_name_ends_in_a_number_leads_to_it(scene: Scene) -> None:
    health = {**HEALTH, "healthy": False, "under_replicated_partitions": 1, "partitions": ["orders-2024-3"]}
    scene.stage.says("/v1/health", health)
    page = scene.page()
    link = page.get_by_role("link", name="orders-2024-3")
    expect(link).to_have_attribute("href", "#/topics/orders-2024/partitions/3")
