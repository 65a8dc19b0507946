"""A cluster of three nodes and a browser in front of it, for each file of tests here."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import sync_playwright

from tests.cluster.conftest import clusters_in
from tests.console.console_kit import CHROMIUM, Console


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


@pytest.fixture(autouse=True)
def pages_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the pages of a test after it: each follows what happens as long as it is open."""
    yield
    for name in {"console", "lab"} & {*request.fixturenames}:
        for context in request.getfixturevalue(name).browser.contexts:
            context.close()
