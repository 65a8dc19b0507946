"""Signing in to the console in a real browser, in front of the real admin server with users, over TLS."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from kvorum.admin.app import AdminApp
from kvorum.admin.http.access import hash_of
from kvorum.admin.http.http_server import TlsSite, runner_of
from kvorum.client.roles import Role
from kvorum.network.tls_acceptor import HttpTls
from kvorum.runtime.metrics import Metrics
from tests.console.console_kit import CHROMIUM, WAIT_MS, WITH_BROWSER
from tests.tls_certificates import server_tls
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.users_kit import PASSWORDS, access_for_users

pytestmark = WITH_BROWSER
TOKEN = "planted-static-token"


@contextmanager
def served() -> Iterator[str]:
    """Serve the admin API with users over TLS, in a thread of its own."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    ports: list[int] = []
    ending = asyncio.Event()

    async def serve() -> None:
        access = access_for_users(tokens={hash_of(TOKEN): Role.READ})
        runner = runner_of(AdminApp(ManagedCluster(), Metrics(), access).build(), shutdown_seconds=1)  # type: ignore[arg-type]
        await runner.setup()
        await TlsSite(runner, "127.0.0.1", 0, HttpTls(server=server_tls())).start()
        ports.append(runner.addresses[0][1])
        ready.set()
        await ending.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="admin")
    thread.start()
    try:
        assert ready.wait(30)
        yield f"https://localhost:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(30)
        loop.close()


@pytest.fixture
def page() -> Iterator[Page]:
    """A page that requests a log-in."""
    assert CHROMIUM is not None
    with served() as url, sync_playwright() as playwright:
        browser: Browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.goto(f"{url}/#/topics")
        yield page
        browser.close()


def test_a_user_signs_in_and_out(page: Page) -> None:
    violations: list[str] = []
    page.on("console", lambda message: violations.append(message.text) if "Content Security" in message.text else None)
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("User").fill("bob")
    dialog.get_by_label("Password").fill("guessed")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog.get_by_role("alert")).to_have_text("wrong user name or password")
    dialog.get_by_label("Password").fill(PASSWORDS["bob"])
    dialog.get_by_role("button", name="Sign in").click()
    role = page.locator("#role")
    expect(role).to_have_text("role: read")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")

    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert PASSWORDS["bob"] not in kept and cookie["value"] not in kept

    page.reload()
    expect(role).to_have_text("role: read")
    role.click()
    dialog = page.get_by_role("dialog", name="Signed in")
    expect(dialog).to_contain_text("User:bob, role: read.")
    dialog.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    assert page.context.cookies() == [] and violations == []


def test_a_token_signs_in_as_well(page: Page) -> None:
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_text("Use a token instead").click()
    dialog.get_by_label("Token").fill(TOKEN)
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.locator("#role")).to_have_text("role: read")
    assert page.context.cookies() == []
