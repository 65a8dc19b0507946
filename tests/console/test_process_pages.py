"""What processes tell of themselves and are asked to do, in the console, in front of a stage."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import WITH_BROWSER
from tests.console.stage import Answer, Asked, Stage, broker, refusal
from tests.console.test_accessibility import LOOKS, look

pytestmark = WITH_BROWSER
SILENT = {"version": None, "started_ms": None, "uptime_ms": None}
UNSET = "broker 1 serves no HTTP pages: metrics.listener is not set"
BUNDLE = "/v1/debug-bundle"
SNAPSHOT = {"controller": 2, "end_offset": 1204, "epoch": 5, "bytes": 12_288, "took_ms": 31, "written": True}


def connection(number: int, **options: Any) -> dict[str, Any]:
    base = {"id": f"c{number}", "listener": "PLAINTEXT", "address": f"127.0.0.1:{40_000 + number}"}
    base |= {"client_id": f"app-{number}", "software_name": "librdkafka", "software_version": "2.6.0"}
    base |= {"principal": "User:ANONYMOUS", "since_ms": 90_000, "idle_ms": 1000 * number, "requests": number}
    return base | {"bytes_in": 2048, "bytes_out": 3 << 20} | options


def line(message: str, level: str = "INFO", **facts: Any) -> dict[str, Any]:
    return {"time": "2023-11-14T22:13:20.123Z", "level": level, "room": "broker", "message": message, "facts": facts}


def furnish(stage: Stage) -> None:
    """Have processes tell something of themselves, one nothing."""
    unknown = connection(2, client_id=None, software_name=None, software_version=None, bytes_in=None, bytes_out=None)
    dirs = [{"id": "d" * 22, "online": True, "cordoned": False}, {"id": "e" * 22, "online": False, "cordoned": True}]
    silent = broker(2, **SILENT, process_error="NO_METRICS_LISTENER", process_message="broker 2 serves no HTTP pages")
    lost = {"epoch": None, "incarnation_id": None, "log_dirs": None, "registration_error": "METADATA_TOO_LARGE"}
    lines = [line("it is ready", port=9091), line("it is slow", "WARNING", topic="orders", took_ms=700)]
    lines.append(line("it failed", "ERROR", traceback="Traceback\n  File here\nOSError: " + "x" * 200))
    stage.says("/v1/brokers", [broker(1), silent, broker(3, in_controlled_shutdown=True)])
    stage.says("/v1/brokers/1", broker(1, log_dirs=dirs))
    stage.says("/v1/brokers/2", silent | lost)
    stage.says("/v1/brokers/2/maintenance", refusal(503, "CLUSTER_UNREACHABLE", "nobody tells"))
    stage.says("/v1/brokers/2/configs", Answer([], headers={"ETag": '"1"'}))
    stage.says("/v1/brokers/1/connections", {"total": 1234, "connections": [connection(1), unknown]})
    stage.says("/v1/brokers/1/log", {"lines": lines, "dropped": 7})
    stage.says("/v1/brokers/2/log", refusal(422, "NO_METRICS_LISTENER", UNSET))
    stage.says("/v1/quorum/controllers/1/log", {"lines": [line("epoch 5 begins")], "dropped": 0})


@pytest.mark.long
def test_the_list_has_versions_and_why_one_is_not_known(scene: Scene) -> None:
    furnish(scene.stage)
    page = scene.page("brokers")
    row = page.get_by_role("row", name="broker 1 controller")
    expect(row.locator("[data-label=Version]")).to_have_text("0.1.0")
    expect(row.locator("[data-label=Uptime]")).to_have_text("3 days")
    untold = page.get_by_role("row", name="broker 2").locator("[data-label=Version] span")
    expect(untold).to_have_text("\u2013")
    expect(untold).to_have_attribute("title", "broker 2 serves no HTTP pages")
    leaving = page.get_by_role("row", name="broker 3").locator("[data-label=State]")
    expect(leaving).to_have_text("shutting down")


@pytest.mark.long
def test_a_broker_reports_its_registration_or_the_reason_why_it_cannot(scene: Scene) -> None:
    furnish(scene.stage)
    page = scene.page("brokers/1")
    card = page.locator(".card", has_text="Registration and process")
    expect(card).to_contain_text("41")
    expect(card).to_contain_text("iiiiiiiiiiiiiiiiiiiiiQ")
    expect(card.locator("li").nth(0)).to_have_text(f"{'d' * 22} online")
    expect(card.locator("li").nth(1)).to_have_text(f"{'e' * 22} offline cordoned: no new replicas")
    expect(card).to_contain_text("Uptime3 days")
    page.goto(f"{scene.stage.url}/#/brokers/2")
    expect(card).to_contain_text("NO_METRICS_LISTENER")
    expect(card).to_contain_text("METADATA_TOO_LARGE")


def test_connections_are_reported_by_limit_and_in_any_order(scene: Scene) -> None:
    furnish(scene.stage)
    page = scene.page("brokers/1/connections")
    expect(page.get_by_text("1,234 connections; the 2 most recently active are shown.")).to_be_visible()
    row = page.locator("tbody tr").first
    for label, text in {"Client": "app-1", "Software": "librdkafka 2.6.0", "Address": "127.0.0.1:40001"}.items():
        expect(row.locator(f"[data-label={label}]")).to_have_text(text)
    for label, text in {"Idle": "1 s", "Requests": "1", "Bytes in": "2.0 KiB", "Bytes out": "3.0 MiB"}.items():
        expect(row.locator(f"[data-label='{label}']")).to_have_text(text)
    expect(page.locator("tbody tr").nth(1).locator("[data-label=Software]")).to_have_text("\u2013")
    page.get_by_role("button", name="Requests").click()
    page.get_by_role("button", name="Requests").click()
    expect(row.locator("[data-label=Requests]")).to_have_text("2")
    page.get_by_label("Limit").select_option("1000")
    connections = "/v1/brokers/1/connections"
    scene.stage.until(lambda: scene.stage.last(connections).query == {"limit": "1000"}, "more connections")
    scene.stage.says(connections, {"total": 0, "connections": []})
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("No connections.")).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("part", ["connections", "log"])
def test_the_reason_for_missing_process_data_is_shown(scene: Scene, part: str) -> None:
    scene.stage.refuses(f"/v1/brokers/1/{part}", 422, "NO_METRICS_LISTENER", UNSET)
    page = scene.page(f"brokers/1/{part}")
    expect(page.locator(".card", has_text="NO_METRICS_LISTENER")).to_contain_text(UNSET)
    expect(page.locator(".figure", has_text="State")).to_contain_text("alive")
    scene.stage.refuses(f"/v1/brokers/1/{part}", 503, "NODE_UNREACHABLE", "broker 1 does not answer")
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".card", has_text="NODE_UNREACHABLE")).to_contain_text("broker 1 does not answer")
    # What is no fault of the process is shown as everywhere, and tried again.
    scene.stage.refuses(f"/v1/brokers/1/{part}", 404, "BROKER_ID_NOT_REGISTERED", "there is no broker 1")
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".trouble")).to_contain_text("there is no broker 1")


def test_a_log_is_read_newest_first_from_a_level_on(scene: Scene) -> None:
    furnish(scene.stage)
    page = scene.page("brokers/1/log")
    lines = page.locator("main ol.log li")
    expect(lines).to_have_text([re.compile("ERROR broker it failed"), re.compile("WARNING"), re.compile("INFO")])
    expect(lines.nth(1)).to_contain_text("it is slow topic=orders took_ms=700")
    expect(lines.nth(0).locator("pre")).to_contain_text("File here")
    expect(page.get_by_text("7 older lines dropped")).to_be_visible()
    page.get_by_label("Level").select_option("error")
    page.get_by_label("Lines").select_option("1000")
    wanted = {"level": "error", "lines": "1000"}
    scene.stage.until(lambda: scene.stage.last("/v1/brokers/1/log").query == wanted, "errors alone")
    assert "level=error" in page.url
    scene.stage.says("/v1/brokers/1/log", {"lines": [], "dropped": 0})
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("No lines at this level.")).to_be_visible()


@pytest.mark.long
def test_a_broker_is_shut_down_after_a_yes(scene: Scene) -> None:
    shutdown = "/v1/brokers/1/controlled-shutdown"
    scene.stage.refuses(shutdown, 422, "NO_METRICS_LISTENER", UNSET, "POST")
    page = scene.page("brokers/1")
    page.get_by_role("button", name="Controlled shutdown …").click()
    expect(page.get_by_role("dialog")).to_contain_text("stays down until its node is started again")
    assert scene.stage.count(shutdown, "POST") == 0
    page.get_by_role("button", name="Shut down", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(UNSET)
    scene.stage.says(shutdown, Answer({"stopping": True}, 202), "POST")
    page.get_by_role("button", name="Shut down", exact=True).click()
    expect(page.locator(".note")).to_contain_text("Broker 1 is shutting down")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.long
def test_a_controllers_log_is_reached_from_the_quorum_and_snapshots_are_written(scene: Scene) -> None:
    furnish(scene.stage)
    scene.stage.says("/v1/metadata/snapshot", SNAPSHOT, "POST")
    page = scene.page("quorum")
    page.get_by_role("button", name="Write snapshot now").click()
    reported = "Controller 2 wrote a snapshot up to offset 1204 (epoch 5), 12 KiB, in 31 ms."
    expect(page.locator(".note")).to_have_text(reported)
    assert scene.stage.last("/v1/metadata/snapshot", "POST").query == {}
    page.get_by_role("link", name="Log of controller 1").click()
    expect(page.locator("main ol.log li")).to_contain_text("epoch 5 begins")
    scene.stage.says("/v1/metadata/snapshot", SNAPSHOT | {"controller": 1, "written": False}, "POST")
    page.get_by_role("button", name="Write snapshot now").click()
    expect(page.locator(".note").last).to_contain_text("Controller 1 has no records since its last snapshot")
    assert scene.stage.last("/v1/metadata/snapshot", "POST").query == {"controller": "1"}
    scene.stage.refuses("/v1/metadata/snapshot", 409, "SNAPSHOT_UNDER_WAY", "one is being written", "POST")
    page.get_by_role("button", name="Write snapshot now").click()
    expect(page.locator(".note.bad")).to_contain_text("one is being written")


@pytest.mark.long
@pytest.mark.parametrize("token", [None, "secret"])
def test_a_debug_bundle_is_downloaded_with_a_token_or_without(scene: Scene, token: str | None) -> None:
    def answer(requested: Asked) -> Answer:
        if token and requested.headers.get("Authorization") != f"Bearer {token}":
            return refusal(401, "UNAUTHORIZED", "Not a valid token")
        named = {"Content-Disposition": 'attachment; filename="kvorum-debug-1.zip"'}
        return Answer(raw="PK and so on", headers=named)

    scene.stage.says(BUNDLE, refusal(503, "BUSY", "another bundle is being made"))
    page = scene.page("" if token is None else f"?token={token}")
    page.get_by_role("button", name="Debug bundle …").click()
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("alert")).to_contain_text("another bundle is being made")
    scene.stage.says(BUNDLE, answer)
    with page.expect_download() as found:
        page.get_by_role("button", name="Download").click()
    assert found.value.suggested_filename == "kvorum-debug-1.zip"
    assert found.value.path().read_text() == "PK and so on"
    expect(page.get_by_role("dialog")).to_have_count(0)


def shown(page: Page, scene: Scene, path: str) -> None:
    page.goto(f"{scene.stage.url}/#/{path}")
    page.wait_for_selector("main [aria-busy=false]")


@pytest.mark.long
@LOOKS
def test_the_pages_of_processes_are_accessible(scene: Scene, width: int, dark: bool) -> None:
    furnish(scene.stage)
    page = scene.page("brokers", width, dark)
    paths = ("brokers", "brokers/1", "brokers/2", "brokers/1/connections", "brokers/1/log", "brokers/2/log")
    for path in (*paths, "quorum/controllers/1"):
        shown(page, scene, path)
        look(page, path)
    for path, name in {"brokers/1": "Controlled shutdown …", "": "Debug bundle …"}.items():
        shown(page, scene, path)
        page.get_by_role("button", name=name).click()
        page.get_by_role("dialog").wait_for()
        look(page, name, "dialog")
        page.get_by_role("button", name="Cancel").click()
