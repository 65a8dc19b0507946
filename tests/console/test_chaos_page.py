"""The chaos lab's page in a real browser, in front of a cluster that `kvorum chaos serve` made."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import create_topic
from tests.console.console_kit import CHROMIUM, WAIT_MS, WITH_BROWSER, Console, assert_accessible

pytestmark = [WITH_BROWSER, pytest.mark.long]
RUN_MS = 90_000


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """`kvorum chaos serve --create` with three nodes, and a browser whose tab knows the token."""
    folder = tmp_path_factory.mktemp("lab")
    command = [sys.executable, "-m", "kvorum.cli.main", "chaos", "serve", "-d", str(folder), "-p", "0"]
    with open(folder / "said", "w+") as message:
        process = subprocess.Popen([*command, "--create", "--plain"], stdout=subprocess.PIPE, stderr=message, text=True)
        try:
            assert process.stdout is not None
            control, console, _ = (process.stdout.readline() for _ in range(3))
            assert control.startswith("chaos control: "), control + Path(message.name).read_text()
            assert "token=" not in console, "standard output is no terminal here"
            url = console.removeprefix("console: ").partition("/#/")[0]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                yield Console(LocalCluster.open(str(folder / "cluster")), browser, url)
                browser.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def token_of(lab: Console) -> str:
    """Return what its file says."""
    return (Path(lab.cluster.paths.folder).parent / "chaos-serve.token").read_text().strip()


def known(lab: Console, path: str = "chaos") -> Page:
    """Open a page by a link with the token."""
    return lab.page(f"{path}?token={token_of(lab)}")


def happened(page: Page, text: str) -> None:
    """Wait for a line of what has happened."""
    expect(page.locator(".log").filter(has_text=re.compile(text))).to_be_visible()


def test_without_a_token_the_console_requests_one(lab: Console) -> None:
    page = lab.page("chaos")
    dialog = page.get_by_role("dialog", name="This server requires a token")
    dialog.get_by_label("Token").fill("not-the-token-of-it")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog.get_by_role("alert")).to_contain_text("unknown token")
    dialog.get_by_label("Token").fill(token_of(lab))
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("No faults in force.")).to_be_visible()


def test_a_broker_is_killed_its_election_watched_and_all_healed(lab: Console) -> None:
    create_topic(lab.cluster.plan.bootstrap, "led", 6, 3)
    page = known(lab)
    assert "token" not in page.url, "it is not left where it would be sent on with the address"
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("button", name="Kill node-3").click()
    expect(page.get_by_text("kill -9 node-3", exact=True).first).to_be_visible()
    happened(page, r"broker 3 fenced: new leaders for \d+ partitions, \d+ ISRs shrunk")
    expect(page.get_by_role("row", name=re.compile("^node-3 down"))).to_be_visible()
    page.get_by_role("button", name="Heal all").click()
    expect(page.get_by_text("No faults in force.")).to_be_visible()
    happened(page, "ended: kill -9 node-3")
    happened(page, "broker 3 unfenced")


def test_a_paused_node_does_not_hold_up_the_page(lab: Console) -> None:
    """What is asked of its processes would be waited for, 10 s each: the page shows it at once."""
    page = known(lab)
    page.get_by_role("button", name="Pause node-3").click()
    expect(page.get_by_text(re.compile(r"broker \d+: paused"))).to_be_visible()
    with page.expect_response(lambda answer: answer.url.endswith("/v1/chaos/state"), timeout=WAIT_MS):
        page.keyboard.press("r")
    page.get_by_role("button", name="End: SIGSTOP to node-3").click()
    expect(page.get_by_text("No faults in force.")).to_be_visible()


def test_a_fault_is_injected_by_its_form_and_ended(lab: Console) -> None:
    page = known(lab)
    page.get_by_role("button", name="Inject a fault").click()
    dialog = page.get_by_role("dialog")
    assert dialog.locator("option[value=cut]").is_disabled(), "this lab was made without proxies"
    dialog.get_by_label("Fault").select_option("delay")
    dialog.get_by_label("Target", exact=True).select_option("node-2/broker")
    dialog.get_by_label("api").fill("NO_SUCH_API")
    dialog.get_by_label("delay_ms").fill("300")
    dialog.get_by_role("button", name="Inject").click()
    expect(dialog.get_by_role("alert")).to_contain_text("NO_SUCH_API")
    dialog.get_by_label("api").fill("METADATA")
    dialog.get_by_role("button", name="Inject").click()
    page.get_by_role("button", name="End: node-2/broker delays every METADATA by 300 ms").click()
    expect(page.get_by_text("No faults in force.")).to_be_visible()


def test_a_scenario_is_run_and_its_verdict_shown(lab: Console) -> None:
    page = known(lab)
    page.get_by_role("button", name="Run a scenario").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("option[value=load]")).to_have_count(1)
    dialog.get_by_label("Scenario").select_option("load")
    dialog.get_by_label("Seconds of load").fill("1")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run 1")
    expect(page.locator("pre.output")).to_contain_text("seed 1")
    expect(page.get_by_text("no violations")).to_be_visible(timeout=RUN_MS)
    expect(page.locator(".figure", has_text="Lost").locator("dd")).to_have_text("0")
    expect(page.locator(".lane", has_text="Operations")).to_contain_text(re.compile(r"up to [1-9]"))
    page.get_by_role("link", name="Chaos lab").first.click()
    expect(page.get_by_role("row", name=re.compile("run 1 load 1 held"))).to_be_visible()


def test_the_lab_is_accessible(lab: Console) -> None:
    assert_accessible(lab, ["chaos", "chaos/runs/1", "chaos/runs/99"], f"brokers?token={token_of(lab)}")
