"""Every page and dialog of the console, wide and narrow, light and dark, in front of a stage: axe finds nothing."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.console.conftest import Scene
from tests.console.console_kit import NARROW, WIDE, WITH_BROWSER
from tests.console.stage import Answer, Stage, message, page_of, partition, quorum, topic
from tests.console.test_chaos_timeline import furnish_run
from tests.console.test_jobs_page import TRACE, connector, employ, state
from tests.console.test_pages_on_stage import DESCRIPTION, described, entry, group, member
from tests.console.test_topic_parts import FIRST, ORDERS, analysis, furnish_parts, replica, reported

pytestmark = WITH_BROWSER
LOOKS = pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (NARROW, True)], ids=str)
"""Colours do not follow from the width: each of both is looked at once."""
PAGES = (
    *(
        "",
        "brokers",
        "brokers/1?all=true",
        "brokers/1/loggers",
        "topics",
        "topics/orders",
        "topics/orders?sort=-Leader",
    ),
    *("topics/orders/configs", "topics/orders/messages", "topics/orders/records/0/1", "topics/orders/partitions/0"),
    *("topics/orders/partitions/0/producers", "topics/orders/partitions/0/history", "chaos/runs/7?cell=mixed&legal=0"),
    *("groups", "groups/g", "transactions?topic=orders", "quorum", "leaders"),
    *("jobs", "jobs/numbers", "jobs/numbers/config", "jobs/numbers/offsets", "jobs/numbers/topics"),
    *("reassignment", "quotas", "chaos", "api", "no/such/page/at/all", "topics/gone", "transactions/gone"),
)
DIALOGS = {
    "topics": ["Create a topic"],
    "topics/orders?page=2&sort=-Partition": [
        "Add partitions",
        "Clone",
        "Delete records …",
        "Delete topic",
        "Move the leader of partition 0",
    ],
    "topics/orders/messages": ["Export …", "Produce a record", "Save this view …"],
    "groups/g": ["Reset offsets", "Remove all …", "Remove one"],
    "brokers/1": ["Decommission", "Change log.cleaner.threads"],
    "quorum": ["Add a voter …", "Remove voter 1"],
    "quotas": ["Set a quota"],
    "jobs": ["Deploy …"],
    "jobs/numbers": ["Restart …", "Stop …", "Delete …"],
    "jobs/numbers/config": ["Change …"],
    "jobs/asleep/offsets": ["Set …", "Reset …"],
    "chaos": ["Inject a fault"],
    "": ["Keyboard shortcuts"],
}


def furnish(stage: Stage) -> None:
    """Have something on every page."""
    config = {"name": "log.cleaner.threads", "value": "2", "source": "DYNAMIC_BROKER_CONFIG"}
    config |= {"read_only": False, "sensitive": False}
    rows = [partition(0), partition(1, leader=-1, isr=[], offline_replicas=[2], last_known_elr=[3], latest_offset=None)]
    rows += [partition(index) for index in range(2, 105)]
    replica = {"broker": 1, "leader": True, "in_sync": True, "offline": False, "log_dir": "/data", "size_bytes": 2048}
    producer = {"producer_id": 4000, "producer_epoch": 2, "coordinator_epoch": 1, "last_sequence": 9}
    producer |= {"last_timestamp_ms": 1_700_000_000_000, "transaction_start_offset": 4}
    hanging = {"topic": "orders", "partition": 0, "producer_id": 1, "producer_epoch": 2, "coordinator_epoch": 1}
    hanging |= {"start_offset": 4, "last_timestamp_ms": 1_700_000_000_000}
    moving = {"broker": 2, "leader_rate": 1 << 20, "follower_rate": None, "log_dirs_rate": None}
    quota = {"entity": [{"type": "user", "name": "alice"}], "quotas": {"producer_byte_rate": 1048576.0}}
    off = {"topic": "t", "partition": 3, "leader": 2, "preferred": 1, "replicas": [1, 2], "isr": [1, 2]}
    kind = {
        "about": "It ends",
        "needs": "processes",
        "of": "processes",
        "possible": True,
        "targets": {"from": 1, "to": 1},
        "options": {},
    }
    node = {"name": "node-1", "roles": ["broker"], "running": True}
    node["processes"] = {"broker": {"pid": 1, "stopped": False}}
    fault = {"id": 1, "fault": "kill", "targets": ["node-1"], "lossy": True, "story": "kill -9 node-1"}
    long = '{"text": "' + "x" * 500 + '"}'
    headers = [{"key": "trace", "value": "AAEC", "format": "base64"}]
    found = [message(0, 1, long, headers=headers), message(0, 2, None), message(1, 3, "AAEC", value_format="base64")]
    members = [member("one"), member("two", "consumer")]
    stage.says("/v1/me", {"role": "operate", "guarded": True})
    furnish_parts(stage)
    furnish_run(stage)
    for path, data in {
        "/v1/brokers/1/configs": Answer([config], headers={"ETag": '"1"'}),
        "/v1/brokers/1/loggers": Answer([{"name": "network", "level": "DEBUG"}], headers={"ETag": '"1"'}),
        "/v1/topics": {"topics": [topic("orders", under_replicated=1)], "next": "orders"},
        "/v1/topics/orders": topic("orders", *rows),
        "/v1/topics/orders/configs": Answer([config], headers={"ETag": '"1"'}),
        "/v1/topics/orders/messages": page_of(found[0]),
        "/v1/topics/orders/messages/newest": page_of(*found, stopped_by="limit"),
        "/v1/topics/orders/partitions/0": partition(0)
        | {"topic": "orders", "last_stable_offset": 4, "details": [replica | {"offset_lag": 3}]},
        "/v1/topics/orders/partitions/0/producers": [producer],
        "/v1/groups": {"groups": [group("a"), group("g", state="Empty")], "next": "g", "unreachable": [3]},
        "/v1/groups/g": described("g", ("orders", 0, 3, 10), ("orders", 1, 5, None)) | {"members": members},
        "/v1/transactions": {
            "transactions": [{"transactional_id": "pay", "state": "Ongoing", "producer_id": 1, "coordinator": 1}],
            "next": "pay",
            "unreachable": [3],
        },
        "/v1/hanging-transactions": [hanging],
        "/v1/quorum/epochs": [{"epoch": 5, "start_offset": 9, "began_ms": 1_700_000_000_000}],
        "/v1/leaders": {"partitions": 9, "unpreferred": 1, "leaderless": 0, "rows": [off], "more": True},
        "/v1/reassignments": [entry(90)],
        "/v1/reassignments/throttle": {"brokers": [moving], "unreachable": [3]},
        "/v1/quotas": [quota],
        "/v1/chaos/state": {"nodes": [node], "faults": [fault], "links": [], "inside": {}, "bootstrap": "127.0.0.1:1"},
        "/v1/chaos/scenarios": [],
        "/v1/chaos/kinds": [{**kind, "fault": "kill"}],
        "/openapi.json": DESCRIPTION,
    }.items():
        stage.says(path, data)
    failing = connector("numbers", "FAILED", state("RUNNING"), state("FAILED", TRACE))
    employ(stage, numbers=failing, asleep=connector("asleep", "STOPPED"))


def look(page: Page, what: str, within: str | None = None) -> None:
    """Have axe look: for everything at two of the four looks, at the others for what they have of their own."""
    wide = page.evaluate("innerWidth") == WIDE
    whole = wide != page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    options = {} if whole else {"runOnly": ["color-contrast"]}
    found = Axe().run(page, context=within, options=options).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], what
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{what} is too wide"


def test_three_pages_are_accessible(scene: Scene) -> None:
    """The fast witness; every page and dialog is checked below."""
    furnish(scene.stage)
    page = scene.page("", NARROW, dark=True)
    for path in ("", "topics/orders/messages", "groups/g"):
        page.goto(f"{scene.stage.url}/#/{path}")
        page.wait_for_selector("main [aria-busy=false]")
        look(page, path)


@pytest.mark.long
@LOOKS
def test_the_pages_are_accessible(scene: Scene, width: int, dark: bool) -> None:
    furnish(scene.stage)
    page = scene.page("topics", width, dark)
    page.get_by_role("button", name="Favourite: orders").click()
    for path in PAGES:
        page.goto(f"{scene.stage.url}/#/{path}")
        page.wait_for_selector("main [aria-busy=false]")
        page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
        look(page, path)


@pytest.mark.long
@LOOKS
def test_the_dialogs_are_accessible(scene: Scene, width: int, dark: bool) -> None:
    furnish(scene.stage)
    scene.stage.says("/v1/me", {"role": "admin", "guarded": True})
    page = scene.page("", width, dark)
    for path, names in DIALOGS.items():
        page.goto(f"{scene.stage.url}/#/{path}")
        page.wait_for_selector("main [aria-busy=false]")
        for name in names:
            button = page.get_by_role("button", name=name, exact=True)
            if button.is_hidden():
                page.locator("details.menu > summary").click()
            button.click()
            page.get_by_role("dialog").wait_for()
            look(page, f"{path}: {name}", "dialog")
            page.get_by_role("button", name="Cancel").click()


@pytest.mark.long
@LOOKS
def test_error_messages_are_accessible(scene: Scene, width: int, dark: bool) -> None:
    scene.stage.says("/v1/me", {"role": "admin", "guarded": True})
    page = scene.page("brokers", width, dark)
    scene.stage.refuses("/v1/brokers", 503, "CLUSTER_UNREACHABLE", "a failover is under way")
    page.get_by_role("button", name="Refresh").click()
    page.locator(".banner").wait_for()
    look(page, "a banner")
    page.reload()
    page.locator(".trouble").wait_for()
    page.evaluate("import('/console/dom.js').then((dom) => dom.note('something failed', 'bad'))")
    page.locator(".note").wait_for()
    look(page, "trouble and a note")
    page.locator("#role").click()
    look(page, "the token", "dialog")
    page.get_by_role("button", name="Cancel").click()
    page.locator("dialog").wait_for(state="detached")
    page.evaluate("document.dispatchEvent(new CustomEvent('kvorum:token'))")
    page.get_by_label("Token", exact=True).fill("x y")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").last.wait_for()
    look(page, "a wrong token", "dialog")


@pytest.mark.long
@LOOKS
def test_results_of_a_long_search_are_accessible(scene: Scene, width: int, dark: bool) -> None:
    furnish(scene.stage)
    wrong = {"broker": 2, "kind": "damaged", "base_offset": 4, "last_offset": 6, "message": "its CRC is another"}
    result = {"topic": "orders", "partition": 0, "sound": False, "stopped_by": "time", "compared": True, "reference": 1}
    rows = [replica(1), replica(2, damaged=1), replica(3, error="REQUEST_TIMED_OUT", in_sync=False)]
    reported(
        scene.stage, f"{FIRST}/verify", ("fault", wrong), ("result", result | {"end_offset": 10, "replicas": rows})
    )
    reported(scene.stage, f"{ORDERS}/analysis", ("result", analysis(stopped_by="time")))
    page = scene.page("topics/orders/partitions/0/checksums", width, dark)
    page.get_by_role("button", name="Compare replicas").click()
    page.get_by_role("button", name="Compare replicas again").wait_for()
    look(page, "compared replicas")
    page.goto(f"{scene.stage.url}/#/topics/orders/analysis")
    page.get_by_role("button", name="Analyse").click()
    page.get_by_role("button", name="Analyse again").wait_for()
    page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
    look(page, "an analysis")


@pytest.mark.long
def test_the_quorum_with_its_drawings_is_accessible(scene: Scene) -> None:
    page = scene.page("quorum")
    scene.stage.until(lambda: scene.stage.readers("/v1/quorum/stream") == 1, "a reader of the quorum")
    for second, leader in enumerate((1, 1, -1, 2, 3)):
        sample = {**quorum(leader, 5 + second), "timestamp_ms": 1_700_000_000_000 + 1000 * second, "error": None}
        scene.stage.tells("/v1/quorum/stream", "quorum", sample)
    page.locator(".legend li").nth(3).wait_for()
    look(page, "the quorum")
