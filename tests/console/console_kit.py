"""What tests of the web console share: a browser's pages, records and readers, and a look for what keeps somebody out.

Chromium is Debian's; Playwright drives it, and axe-core looks at every page as it is then.
"""

import json
import shutil
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, BrowserContext, Page, expect

from kvorum.cluster.local.local import LocalCluster

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WITH_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="missing tool: chromium (apt-get install chromium)")
"""The mark of every file here: `pytestmark = WITH_BROWSER`."""
WAIT_MS = 30_000
expect.set_options(timeout=WAIT_MS)  # Playwright's own 5 s say how busy the machine is
WIDE, NARROW = 1280, 400


class Console(NamedTuple):
    """The console of a cluster."""

    cluster: LocalCluster
    browser: Browser
    url: str

    def page(self, path: str = "", width: int = WIDE, dark: bool = False) -> Page:
        """Open a page; what goes wrong in it fails the test."""
        return open_page(self.browser, self.url, path, width, dark)


def open_page(
    browser: Browser, url: str, path: str, width: int = WIDE, dark: bool = False, context: BrowserContext | None = None
) -> Page:
    """Open a page of a console, in a context of its own or beside others; what goes wrong in it fails the test."""
    if context is None:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("pageerror", lambda error: pytest.fail(f"{path}: {error}"))
    page.goto(f"{url}/#/{path}")
    page.wait_for_selector("main [aria-busy=false]")
    return page


def in_menu(page: Page, name: str) -> None:
    """Click a button of the page's menu."""
    page.locator("details.menu > summary").click()
    page.locator("details.menu").get_by_role("button", name=name, exact=True).click()


def fill(cluster: LocalCluster, topic: str, count: int) -> None:
    """Write orders as JSON."""
    producer = Producer({"bootstrap.servers": cluster.plan.bootstrap})
    for number in range(count):
        value = json.dumps({"order": number, "amount": number * 10})
        producer.produce(topic, key=f"k{number}", value=value, headers={"source": "web"})
    assert producer.flush(30) == 0


def read_all(cluster: LocalCluster, topic: str, group: str, count: int) -> None:
    """Read so many records in a group, commit and leave."""
    settings = {"bootstrap.servers": cluster.plan.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    seen = 0
    while seen < count:
        found = consumer.consume(count, 30)
        assert found, f"{seen} of {count} records"
        seen += sum(message.error() is None for message in found)
    consumer.commit(asynchronous=False)
    consumer.close()


def assert_accessible(console: Console, paths: Sequence[str], first: str = "brokers") -> None:
    """Look at pages wide and light, narrow and dark: axe finds nothing, and nothing is wider than the window.

    `first` is opened before them: with ?token=... the others know it, too.
    """
    for width, dark in ((WIDE, False), (NARROW, True)):
        page = console.page(first, width, dark)
        for path in paths:
            page.goto(f"{console.url}/#/{path}")
            if "no/such" not in path:
                page.wait_for_selector("main [aria-busy=false]")
            found = Axe().run(page).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
