"""The commands of docs/quickstart.md and of the example of README.md, run in order, with free ports."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.ports import free_ports

PAGE = Path(__file__).parent.parent.parent / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
README = PAGE.parent.parent / "README.md"
README_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
SECONDS = 120


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for found in tmp_path.glob("*/cluster.json"):
        cluster = LocalCluster.open(str(found.parent))
        for node in cluster.plan.nodes:
            cluster.kill(node.name)


def blocks() -> list[tuple[str, str]]:
    """Return (language, text) of what is to be typed, its ports replaced."""
    text = PAGE.read_text()
    ports = sorted(set(PORT.findall(text)))
    free = dict(zip(ports, map(str, free_ports(["127.0.0.1"] * len(ports))), strict=True))
    return BLOCK.findall(PORT.sub(lambda match: free[match[0]], text))


def typing_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which `kvorum` is this one, and nothing is set that the pages do not say."""
    command = folder / "bin" / "kvorum"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kvorum.cli.main "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "KVORUM_"))}
    return kept | {"PATH": f"{command.parent}:{os.environ['PATH']}"}


def lag_of(table: str) -> int:
    """Sum up what `kvorum groups describe` says in its sixth column."""
    return sum(
        int(row[5]) for row in (line.split() for line in table.splitlines()) if len(row) > 5 and row[5].isdigit()
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
def test_the_pages_commands_work(folder: Path) -> None:
    environment = typing_environment(folder)
    found = blocks()
    assert [language for language, _ in found].count("python") == 1 and len(found) == 8
    bootstrap = ""
    for language, text in found:
        bootstrap = next(iter(re.findall(r"^export (KVORUM_BOOTSTRAP=.*)", text, re.MULTILINE)), bootstrap)
        environment |= dict([bootstrap.split("=")]) if bootstrap else {}
        interpreter = ["bash", "-euo", "pipefail"] if language == "sh" else [sys.executable, "-"]
        done = subprocess.run(
            interpreter,
            input=text,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        if language == "python":
            assert done.stdout == "1003 records\n"
        if "reset-offsets" in text:
            before, would, did, after = re.split(r"^GROUP.*\n", done.stdout, flags=re.MULTILINE)[1:]
            assert (lag_of(before), lag_of(after)) == (0, 1003) and would == did, done.stdout
        if "metrics" in text and "curl" in text:
            assert re.search(r"^kafka_server_replicamanager_underreplicatedpartitions \d", done.stdout, re.MULTILINE)


OPEN_PORTS = r'{id: \1, listeners: ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]}'


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
def test_the_readme_can_be_pasted_from_top_to_bottom(folder: Path) -> None:
    environment = typing_environment(folder)
    found = README_BLOCK.findall(README.read_text())
    (start,) = [line for text in found for line in text.splitlines() if line.startswith("kvorum dev ")]
    typed = [text for text in found if text.startswith(("kvorum topics", "kvorum transactions", "curl ", "cat >"))]
    assert [typed.index(each) for each in typed if "kvorum nodes kill" in each] == [0] and len(typed) == 4

    def paste(text: str) -> str:
        options: dict[str, Any] = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
        done = subprocess.run(["bash", "-euo", "pipefail"], input=text, timeout=SECONDS, check=False, **options)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return str(done.stdout)

    command = [sys.executable, "-m", "kvorum.cli.main", *start.split()[1:], "--port", "0", "--admin-port", "0"]
    server = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        lines = dict(line.split()[-2:] for line in iter(server.stdout.readline, "Press Ctrl-C to stop.\n"))
        environment["KVORUM_BOOTSTRAP"] = lines["bootstrap.servers"]
        records = paste(typed[0])
        assert sorted(filter(str.isdigit, records.splitlines())) == ["1", "2", "3"], records
        paste(typed[1].replace("localhost:9092", lines["bootstrap.servers"].partition(",")[0]))
        assert '"created":true' in paste(typed[2].replace("http://127.0.0.1:8080/", lines["console"]))
    finally:
        server.terminate()
        server.stdout.close()
        server.wait(SECONDS)
    status = paste(re.sub(r"\{id: (\d)\}", OPEN_PORTS, typed[3]))
    assert status.count("broker,controller  up ") == 3 and "stopped node-1, node-2, node-3; " in status
