"""docs/security.md: its commands are run in order, with free ports; its settings are those that Kvorum writes."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.ports import free_ports
from kvorum.security.client_files import JAVA, KAFKA_PYTHON, RDKAFKA, SPARK, client_files
from tests.cluster.test_quickstart import PORT, README, typing_environment

TEXT = (README.parent / "docs" / "security.md").read_text()
EXAMPLE = "configs/secure-three-nodes.yaml"
SECONDS = 120


def blocks(language: str) -> list[str]:
    """Return the blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if (tmp_path / "data" / "cluster.json").exists():
        cluster = LocalCluster.open(str(tmp_path / "data"))
        for node in cluster.plan.nodes:
            cluster.kill(node.name)


def test_the_pages_commands_work(folder: Path) -> None:
    example = (README.parent / EXAMPLE).read_text()
    ports = sorted(set(PORT.findall(example)))
    free = dict(zip(ports, map(str, free_ports(["127.0.0.1"] * len(ports))), strict=True))
    (folder / "configs").mkdir()
    (folder / EXAMPLE).write_text(PORT.sub(lambda match: free[match[0]], example))
    environment = typing_environment(folder) | {"XDG_CONFIG_HOME": str(folder / "home")}
    printed = []
    assert len(blocks("sh")) == 4
    for text in blocks("sh"):
        typed = PORT.sub(lambda match: free[match[0]], text)
        shell = ["bash", "-euo", "pipefail"]
        done = subprocess.run(
            shell,
            input=typed,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{typed}\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    assert "one\n" in printed[2] and "two\n" in printed[2]
    assert printed[3].count("renewed") == 4


def test_the_settings_of_clients_are_those_that_are_written() -> None:
    texts = client_files("kafka-1.example:9093", "alice", "PASSWORD", "/etc/kafka/ca.pem")
    assert blocks("properties") == [texts[JAVA], texts[RDKAFKA]]
    assert blocks("json") == [texts[KAFKA_PYTHON], texts[SPARK]]


def test_the_verifier_of_the_page_checks_passwords() -> None:
    (text,) = blocks("python")
    found: dict[str, object] = {}
    exec(text, found)  # the page's own code
    check = found["check"]
    assert callable(check)
    assert [check(*each) for each in (("alice", "test"), ("alice", "Test"), ("bob", ""))] == [True, False, False]
