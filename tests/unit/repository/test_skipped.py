"""The tables of docs/skipped.md match the code and list every API that is not served."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.broker.api.registry import advertised
from kvorum.protocol.api import BROKER_APIS, CONTROLLER_APIS, ApiKey
from kvorum.quorum.api.registry import served_versions

ROOT = Path(__file__).parent.parent.parent.parent
TEXT = (ROOT / "docs" / "skipped.md").read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """Return {first cell: the others} of the table under a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()[2:]]
    return {first: others for first, *others in cells}


def test_the_tables_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_skipped.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("heading", "table", "served"),
    [
        ("APIs that brokers do not serve", BROKER_APIS, advertised()),
        ("APIs that controllers do not serve", CONTROLLER_APIS, served_versions()),
    ],
    ids=["broker", "controller"],
)
def test_an_api_of_kafkas_is_served_or_listed_with_the_reason(
    heading: str, table: dict[ApiKey, tuple[int, int]], served: dict[int, tuple[int, int]]
) -> None:
    listed = {int(first.rpartition("(")[2].rstrip(")")): others for first, others in rows(heading).items()}
    assert served and set(listed) == set(table) - set(served)
    assert all(reason for _, reason in listed.values())


def test_omissions_of_find_coordinator_are_listed() -> None:
    brokers = rows("Omissions in served APIs: brokers")
    assert "FindCoordinator (10)" in brokers
    assert "COORDINATOR_NOT_AVAILABLE" in brokers["FindCoordinator (10)"][0]
    assert all("skipped.md" not in what and "|" not in what for (what,) in brokers.values())
