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
