"""A browser in front of a cluster of three nodes, or of a stage, for each file of tests here."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cluster.conftest import clusters_in
from tests.console.console_kit import CHROMIUM, WIDE, Console
from tests.console.stage import Stage, staged


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A cluster of three nodes, and a browser."""
    assert CHROMIUM is not None
    with clusters_in(tmp_path_factory.mktemp("console")) as start:
        cluster = start("three-nodes.yaml")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            yield Console(cluster, browser, cluster.plan.admin_urls()[0])
            browser.close()


class Scene(NamedTuple):
    """A stage, and a browser in front of it."""

    stage: Stage
    browser: Browser

    def page(self, path: str = "", width: int = WIDE, dark: bool = False, context: Any = None) -> Page:
        """Open a page."""
        return self.stage.page(self.browser, path, width, dark, context)

    def settled(self, page: Page) -> Page:
        """Wait until the stream of events is connected, and the page was loaded once more because of that."""
        busy = page.locator("main .page")
        expect(busy).to_have_attribute("aria-busy", "false")
        expect(page.locator("#live")).to_have_text("live")
        # A timer of the page that was set before this one ends before it: then the page is loading, or has done so.
        page.evaluate("new Promise((done) => setTimeout(done, 300))")
        expect(busy).to_have_attribute("aria-busy", "false")
        return page


@pytest.fixture(scope="module")
def scenery() -> Iterator[Scene]:
    """A stage and a browser, for all tests of a file."""
    assert CHROMIUM is not None
    with staged() as stage, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Scene(stage, browser)
        browser.close()


@pytest.fixture
def scene(scenery: Scene) -> Iterator[Scene]:
    """The same, as if nothing had been there."""
    scenery.stage.reset()
    yield scenery
    for context in scenery.browser.contexts:
        context.close()


@pytest.fixture(autouse=True)
def pages_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the pages of a test after it: each follows what happens as long as it is open."""
    yield
    for name in {"console", "lab"} & {*request.fixturenames}:
        for context in request.getfixturevalue(name).browser.contexts:
            context.close()
