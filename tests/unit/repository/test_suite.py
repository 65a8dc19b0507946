"""The suite itself: a leak fails the test that made it, quarantine needs a reason and is left out by default."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from tests.monitoring import ROOT

LEAK = """
import socket


def test_leaves_a_socket_in_a_reference_cycle():
    cycle = {"socket": socket.socket()}
    cycle["cycle"] = cycle


def test_leaves_nothing():
    pass
"""
QUARANTINE = """
import pytest


@pytest.mark.quarantine("fails one time of a hundred, cause not known")
def test_in_quarantine():
    pass


def test_trusted():
    pass
"""


def run_suite(folder: Path, text: str, **environment: str) -> str:
    """Run a file of tests with this project's settings in a process of its own; return what pytest printed."""
    (folder / "test_inner.py").write_text(text)
    plugins = ("-p", "tests.selection", "-p", "tests.leaks", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-c", f"{ROOT}/pyproject.toml", *plugins, "--rootdir"]
    variables = {key: value for key, value in os.environ.items() if key != "KVORUM_LONG"} | environment
    done = subprocess.run(
        [*command, str(folder), str(folder)], cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, timeout=120
    )
    return done.stdout


def test_a_resource_that_is_left_open_fails_the_test_that_made_it(tmp_path: Path) -> None:
    printed = run_suite(tmp_path, LEAK)
    assert "1 error" in printed and "unclosed <socket.socket" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("ERROR "))
    assert "::test_leaves_a_socket_in_a_reference_cycle" in line


def test_tests_in_quarantine_run_on_request_only(tmp_path: Path) -> None:
    assert "1 passed, 1 deselected" in run_suite(tmp_path, QUARANTINE, KVORUM_QUARANTINE="")
    assert "2 passed" in run_suite(tmp_path, QUARANTINE, KVORUM_QUARANTINE="all")


def without_reason(source: str) -> list[int]:
    """Return the lines that use the marker without a reason."""
    tree = ast.parse(source)
    reasons = {
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(isinstance(each, ast.Constant) and each.value for each in node.args)
    }
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "quarantine"]
    return [node.lineno for node in uses if node not in reasons]


def test_every_test_in_quarantine_has_a_reason() -> None:
    assert without_reason("@pytest.mark.quarantine\ndef f(): ...") == [1]
    assert without_reason("pytestmark = pytest.mark.quarantine('')") == [1]
    assert without_reason("@pytest.mark.quarantine('a port of another process')\ndef f(): ...") == []
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    found = {str(path): without_reason(text) for path, text in texts.items() if "mark.quarantine" in text}
    assert not [each for each in found.items() if each[1]], found
