"""Jobs in the console, in front of a stage: what Connect tells, what is asked of it, what it refuses."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Scene
from tests.console.console_kit import WITH_BROWSER
from tests.console.stage import Asked, Stage
from tests.unit.admin.fake_connect import SERVER, WORKER

pytestmark = WITH_BROWSER
TRACE = "org.apache.kafka.connect.errors.DataException: <b>no</b> schema\n\tat a.b.C(D.java:1)"
CONFIG = {"name": "numbers", "connector.class": "GeneratorSource", "topic": "numbers", "rate": "20", "note": ""}
CONNECTORS = "/v1/jobs/connectors"


def state(state: str, trace: str | None = None, worker: str = WORKER) -> dict[str, Any]:
    return {"state": state, "worker_id": worker, "version": "1.0"} | ({} if trace is None else {"trace": trace})


def connector(name: str, now: str = "RUNNING", *tasks: dict[str, Any], **config: str) -> dict[str, Any]:
    """Return a connector as a list with `expand` has it."""
    rows = [{"id": number, **each} for number, each in enumerate(tasks or (state(now),))]
    reported = {"name": name, "type": "source"}
    status = {**reported, "connector": state(now), "tasks": rows}
    return {"info": {**reported, "config": {**CONFIG, "name": name, **config}, "tasks": []}, "status": status}


def employ(stage: Stage, **connectors: dict[str, Any]) -> None:
    """Have these connectors."""
    stage.says("/v1/jobs", SERVER)
    stage.says(CONNECTORS, connectors)
    stage.says("/v1/jobs/connector-plugins", [{"class": "GeneratorSource", "type": "source", "version": "1.0"}])
    for name, each in connectors.items():
        path = f"{CONNECTORS}/{name}"
        stage.says(f"{path}/status", each["status"])
        stage.says(f"{path}/config", each["info"]["config"])
        places = [
            {"partition": {"kafka_topic": "orders", "kafka_partition": 1}, "offset": {"kafka_offset": 17}},
            {"partition": {"source": name}, "offset": {"line": 3}},
            {"partition": {"source": "new"}, "offset": None},
        ]
        stage.says(f"{path}/offsets", {"offsets": places})
        stage.says(f"{path}/topics", {name: {"topics": ["numbers", "orders"]}})


def checked(*wrong: tuple[str, str]) -> dict[str, Any]:
    """Return what Connect says of a config."""
    value = {"value": None, "recommended_values": [], "visible": True}
    rows = [{"definition": {}, "value": {"name": key, "errors": [text], **value}} for key, text in wrong]
    rows.append({"definition": {}, "value": {"name": "rate", "errors": [], **value}})
    return {"name": "GeneratorSource", "error_count": len(wrong), "groups": [], "configs": rows}


@pytest.mark.long
def test_an_empty_job_list_explains_how_to_create_one(scene: Scene) -> None:
    scene.stage.refuses("/v1/jobs", 404, "CONNECT_NOT_CONFIGURED", "no address")
    scene.stage.refuses(CONNECTORS, 404, "CONNECT_NOT_CONFIGURED", "no address")
    page = scene.page("jobs")
    expect(page.locator("main")).to_contain_text("kvorum pipelines connect --bootstrap")
    expect(page.locator("main")).to_contain_text("kvorum.connect.urls=http://127.0.0.1:8083")
    expect(page.get_by_role("button", name="Deploy …")).to_be_hidden()
    scene.stage.refuses("/v1/jobs", 502, "CONNECT_UNREACHABLE", "http://127.0.0.1:8083: refused")
    scene.stage.refuses(CONNECTORS, 502, "CONNECT_UNREACHABLE", "http://127.0.0.1:8083: refused")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("CONNECT_UNREACHABLE")


def test_connectors_are_listed_with_why_some_failed(scene: Scene) -> None:
    failing = connector("sink", "RUNNING", state("RUNNING"), state("FAILED", TRACE, "10.0.0.7:8083"))
    employ(scene.stage, numbers=connector("numbers"), sink=failing, asleep=connector("asleep", "STOPPED"))
    page = scene.page("jobs")
    expect(page.locator("tbody tr")).to_have_count(3)
    assert scene.stage.last(CONNECTORS).query == {"expand": "status,info"}
    expect(page.locator(".figure", has_text="Failed").locator("dd")).to_have_text("1")
    row = page.get_by_role("row", name=re.compile("^sink"))
    expect(row).to_contain_text("1 RUNNING")
    expect(row).to_contain_text("1 FAILED")
    expect(row).to_contain_text("127.0.0.1:8083, 10.0.0.7:8083")
    expect(row.locator("pre")).to_be_hidden()
    row.get_by_text("stack trace of task 1").click()
    expect(row.locator("pre")).to_have_text(TRACE)
    page.get_by_label("Filter").fill("aslee")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "name=aslee" in page.url


@pytest.mark.long
def test_a_connector_is_paused_and_continues_from_the_list(scene: Scene) -> None:
    employ(scene.stage, numbers=connector("numbers"))

    def turned(now: str) -> Any:
        def turn(requested: Asked) -> None:
            scene.stage.says(CONNECTORS, {"numbers": connector("numbers", now)})

        return turn

    scene.stage.says(f"{CONNECTORS}/numbers/pause", turned("PAUSED"), "PUT")
    scene.stage.says(f"{CONNECTORS}/numbers/resume", turned("RUNNING"), "PUT")
    scene.stage.says(f"{CONNECTORS}/numbers/restart", None, "POST")
    page = scene.page("jobs")
    page.get_by_role("button", name="Pause numbers").click()
    expect(page.get_by_role("button", name="Resume numbers")).to_be_visible()
    expect(page.get_by_role("button", name="Restart numbers")).to_have_count(0)
    page.get_by_role("button", name="Resume numbers").click()
    page.get_by_role("button", name="Restart numbers").click()
    expect(page.locator("#notes")).to_contain_text("Restarting numbers.")
    assert scene.stage.last(f"{CONNECTORS}/numbers/restart", "POST").query == {"includeTasks": "true"}
    scene.stage.refuses(f"{CONNECTORS}/numbers/pause", 409, "CONNECT_CONFLICT", "a rebalance is under way", "PUT")
    page.get_by_role("button", name="Pause numbers").click()
    expect(page.locator(".note.bad")).to_contain_text("a rebalance is under way")


def test_a_connector_is_deployed_once_nothing_is_wrong_with_it(scene: Scene) -> None:
    employ(scene.stage)
    path = "/v1/jobs/connector-plugins/GeneratorSource/config/validate"
    scene.stage.says(path, checked(("topic", "is missing"), ("rate.max", "unknown key")), "PUT")
    scene.stage.says(CONNECTORS, connector("lines")["info"], "POST")
    page = scene.page("jobs")
    expect(page.get_by_text("No connectors yet")).to_be_visible()
    page.get_by_role("button", name="Deploy …").click()
    dialog = page.get_by_role("dialog")
    text, deploy = dialog.get_by_label("Config, as JSON"), dialog.get_by_role("button", name="Deploy")
    for wrong, message in (
        ("{", "Not JSON"),
        ("[]", "Not a JSON object"),
        ('{"a": "b"}', "no name"),
        ('{"name": "x"}', "no connector.class"),
    ):
        text.fill(wrong)
        deploy.click()
        expect(dialog.get_by_role("alert")).to_contain_text(message)
        expect(text).to_have_attribute("aria-invalid", "true")
    assert scene.stage.count(path, "PUT") == 0
    text.fill('{"name": "lines", "config": {"connector.class": "GeneratorSource", "rate": 2}}')
    deploy.click()
    expect(dialog.locator("tbody tr")).to_have_text(
        [re.compile("topic.*is missing"), re.compile("rate.max.*unknown key")]
    )
    expect(dialog.get_by_role("alert")).to_contain_text("2 errors")
    assert scene.stage.last(path, "PUT").body == {"connector.class": "GeneratorSource", "rate": 2, "name": "lines"}
    assert scene.stage.count(CONNECTORS, "POST") == 0
    scene.stage.says(path, checked(), "PUT")
    dialog.get_by_label("Validate only").check()
    deploy.click()
    expect(page.locator("#notes")).to_contain_text("The config is valid")
    assert scene.stage.count(CONNECTORS, "POST") == 0
    page.get_by_role("button", name="Deploy …").click()
    text.fill('{"name": "lines", "connector.class": "GeneratorSource", "topic": "lines"}')
    dialog.get_by_label("Initial state").select_option("stopped")
    deploy.click()
    expect(page.locator("#notes")).to_contain_text("Connector lines created.")
    config = {"name": "lines", "connector.class": "GeneratorSource", "topic": "lines"}
    assert scene.stage.last(CONNECTORS, "POST").body == {"name": "lines", "config": config, "initial_state": "stopped"}


@pytest.mark.long
def test_one_connector_with_its_tasks_and_actions(scene: Scene) -> None:
    path = f"{CONNECTORS}/numbers"
    employ(scene.stage, numbers=connector("numbers", "FAILED", state("FAILED", TRACE)))
    page = scene.page("jobs/numbers")
    expect(page.locator("tbody tr")).to_contain_text("stack trace of task 0")
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()
    for word, method in (("tasks/0/restart", "POST"), ("restart", "POST"), ("stop", "PUT")):
        scene.stage.says(f"{path}/{word}", None, method)
    page.get_by_role("button", name="Restart task 0").click()
    scene.stage.until(lambda: scene.stage.count(f"{path}/tasks/0/restart", "POST") == 1, "the task's restart")
    page.get_by_role("button", name="Restart …").click()
    page.get_by_label("Only failed ones").check()
    page.get_by_role("button", name="Restart", exact=True).last.click()
    expect(page.locator("#notes")).to_contain_text("Restarting numbers.")
    assert scene.stage.last(f"{path}/restart", "POST").query == {"includeTasks": "true", "onlyFailed": "true"}
    page.get_by_role("button", name="Stop …").click()
    assert scene.stage.count(f"{path}/stop", "PUT") == 0, "asked before"
    scene.stage.says(f"{path}/status", connector("numbers", "STOPPED")["status"])
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_role("button", name="Stop …")).to_be_hidden()
    page.get_by_role("button", name="Delete …").click()
    scene.stage.refuses(path, 409, "CONNECT_CONFLICT", "a rebalance is under way", "DELETE")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("a rebalance is under way")
    scene.stage.says(path, None, "DELETE")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Connector numbers deleted.")
    page.wait_for_url("**/#/jobs")


@pytest.mark.long
def test_a_connectors_config_is_changed_as_a_whole(scene: Scene) -> None:
    path = f"{CONNECTORS}/numbers/config"
    employ(scene.stage, numbers=connector("numbers"))
    page = scene.page("jobs/numbers/config")
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Change …").click()
    text = page.get_by_label("Config, as JSON")
    assert '"rate": "20"' in text.input_value()
    validation = "/v1/jobs/connector-plugins/GeneratorSource/config/validate"
    scene.stage.says(validation, checked(("rate", "is no number")), "PUT")
    wanted = {"connector.class": "GeneratorSource", "topic": "numbers", "rate": "x"}
    text.fill(str(wanted).replace("'", '"'))
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("dialog tbody tr")).to_contain_text("is no number")
    assert scene.stage.count(path, "PUT") == 0
    scene.stage.says(validation, checked(), "PUT")
    scene.stage.says(path, connector("numbers")["info"], "PUT")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("Config of numbers updated.")
    assert scene.stage.last(path, "PUT").body == {**wanted, "name": "numbers"}


@pytest.mark.long
def test_a_stopped_connectors_offsets_are_changed(scene: Scene) -> None:
    path = f"{CONNECTORS}/numbers/offsets"
    employ(scene.stage, numbers=connector("numbers"))
    page = scene.page("jobs/numbers/offsets")
    expect(page.get_by_role("link", name="orders-1")).to_have_attribute("href", "#/topics/orders/partitions/1")
    expect(page.locator("tbody tr")).to_contain_text(["17", '{"line":3}', "null"])
    expect(page.get_by_role("button", name="Set …", exact=True)).to_have_count(0)
    scene.stage.says(f"{CONNECTORS}/numbers/status", connector("numbers", "STOPPED")["status"])
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("button", name="Set …", exact=True).click()
    wanted = [{"partition": {"kafka_topic": "orders", "kafka_partition": 1}, "offset": None}]
    page.get_by_label("Offsets, as JSON").fill("[")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Not JSON")
    page.get_by_label("Offsets, as JSON").fill(str(wanted).replace("'", '"').replace("None", "null"))
    scene.stage.says(path, {"message": "The offsets are altered"}, "PATCH")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("The offsets are altered")
    assert scene.stage.last(path, "PATCH").body == {"offsets": wanted}
    scene.stage.says(path, {"message": "The offsets are reset"}, "DELETE")
    page.get_by_role("button", name="Reset …").click()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("The offsets are reset")


@pytest.mark.long
def test_topics_lead_to_their_pages_and_are_forgotten(scene: Scene) -> None:
    path = f"{CONNECTORS}/numbers/topics"
    employ(scene.stage, numbers=connector("numbers"))
    page = scene.page("jobs/numbers/topics")
    expect(page.get_by_role("link", name="orders")).to_have_attribute("href", "#/topics/orders")
    scene.stage.says(f"{path}/reset", None, "PUT")
    page.get_by_role("button", name="Reset", exact=True).click()
    # Not before: the page refreshes by itself, and without topics it has no button.
    scene.stage.says(path, {"numbers": {"topics": []}})
    expect(page.get_by_text("No topics used so far.")).to_be_visible()


@pytest.mark.long
def test_a_change_with_a_viewer_token_is_an_error(scene: Scene) -> None:
    employ(scene.stage, numbers=connector("numbers"))
    scene.stage.says("/v1/me", {"role": "read", "guarded": True})
    page = scene.page("jobs/numbers")
    for name, role in (("Pause", "operate"), ("Stop …", "operate"), ("Delete …", "admin")):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("title", re.compile(f"requires the role {role}"))
