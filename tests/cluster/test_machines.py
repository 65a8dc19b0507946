"""Three machines and a workstation in network namespaces: docs/operate/three-machines.md, and what goes wrong there."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.clients import create_topic, read_all, send_one
from tests.cluster.machine_cluster import MachineCluster
from tests.cluster.machines import Machines

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "operate" / "three-machines.md").read_text()


def sections(page: str) -> dict[str, list[str]]:
    """Return {title: its commands}."""
    parts = re.split(r"^## (.*)$", page, flags=re.MULTILINE)
    blocks = {
        title: re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: found for title, found in blocks.items() if found}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines(tmp_path)
    yield found
    found.close()


def follow(machines: Machines, *titles: str) -> list[str]:
    """Type the commands of some sections of the page; return what each block printed."""
    return [machines.run(text) for title in titles for text in sections(PAGE)[title]]


VOTER = " CONTROLLER:10.0.0."
"""In the row of each voter of `kvorum quorum status`."""
SET_UP = ("Certificates and the cluster file", "Install the nodes", "Create users and topics")
CHANGE, RENEW, REPLACE = "Change the configuration", "Renew the certificates", "Replace a lost machine"


def test_a_cluster_on_three_machines_serves_clients_of_a_fourth(machines: Machines) -> None:
    cluster = MachineCluster(machines)
    cluster.form()
    bootstrap, client = cluster.bootstrap, cluster.client()
    machines.call(lambda: create_topic(bootstrap, "calls", 3, 3, client=client))
    assert machines.call(lambda: send_one(bootstrap, "calls", **client)) is None
    found = machines.call(lambda: read_all(bootstrap, "calls", 3, **client))
    assert sum(map(len, found.values())) == 1
    wrong = cluster.client(password="wrong")
    assert machines.call(lambda: send_one(bootstrap, "calls", 3_000, **wrong)) is not None


def test_the_sections_of_the_page_are_those_that_are_run() -> None:
    assert list(sections(PAGE)) == [*SET_UP, CHANGE, RENEW, REPLACE]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
def test_the_pages_commands_work(machines: Machines) -> None:
    printed = follow(machines, *SET_UP)
    assert "one\n" in printed[-1] and "two\n" in printed[-1]
    assert printed[-2].count(VOTER) == 3, printed[-2]
    follow(machines, CHANGE, RENEW)
    machines.lose(2)
    machines.deliver(2)
    (replaced,) = follow(machines, REPLACE)
    assert replaced.count(VOTER) == 3, replaced
