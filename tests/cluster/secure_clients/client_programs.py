"""Programs of unmodified clients, one per language: they produce records, consume them, and report values or an error.

A program reads one JSON object from its standard input (so that no secret is on a command line): bootstrap, topic,
values, seconds (time over which the records are produced), protocol, and of the following what the cell needs:
mechanism, username, password, token, ca, certificate (a file with key and chain), principal, keytab, krb5_config.
It writes {"values": [...]}, or {"class": ..., "text": ...}: the class of the error and its text.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.apache_kafka import folder_of_jars, has_jars

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 300.0
BUILD_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Client:
    """A client library."""

    name: str
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """{mechanism: reason}."""
    is_foreign: bool = False
    """It needs a language that the CI has not."""


NO_CYRUS = "the wheel of confluent-kafka is built without Cyrus SASL; librdkafka with it is kcat's"
CLIENTS = {
    client.name: client
    for client in (
        Client("java", is_foreign=True),
        Client("librdkafka", {"GSSAPI": NO_CYRUS}),
        Client("kafka-python"),
        Client("aiokafka"),
        Client("franz-go", is_foreign=True),
        Client("sarama", is_foreign=True),
        Client("kafkajs", {"GSSAPI": "kafkajs has no GSSAPI"}, is_foreign=True),
        Client("kcat"),
    )
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a program."""

    values: list[str]
    kind: str = ""
    """Class of the error; empty: none."""
    text: str = ""


class ClientPrograms:
    """Builds the programs when they are first used."""

    def __init__(self, folder: Path) -> None:
        """Build below a folder."""
        self._folder = folder
        self._command = cache(self._build)

    def run(self, client: str, request: Mapping[str, Any], environment: Mapping[str, str]) -> Answer:
        """Run a client's program."""
        done = subprocess.run(
            self._command(client),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=os.environ | environment,
        )
        assert done.returncode == 0, f"{client}: {done.stderr[-3000:]}"
        found = json.loads(done.stdout.splitlines()[-1])  # Java logs errors to its output
        return Answer(found.get("values") or [], found.get("class", ""), found.get("text", ""))

    def _build(self, client: str) -> list[str]:
        match client:
            case "java":
                return self._java()
            case "franz-go" | "sarama":
                return [*self._go(), client]
            case "kafkajs":
                return self._node()
            case "kcat":
                needs("kcat", reason="kcat is not installed")
        return [
            sys.executable,
            str(PROGRAMS / f"with_{client.replace('-', '_').replace('librdkafka', 'confluent')}.py"),
        ]

    def _java(self) -> list[str]:
        jars = folder_of_jars()
        needs("java", "javac", reason="run outside CI: needs a JDK")
        if not has_jars(jars):
            pytest.skip("run outside CI: needs Apache Kafka's jars where KVORUM_KAFKA_JARS says")
        classes = self._folder / "java"
        build("javac", "-cp", f"{jars}/*", "-d", str(classes), str(PROGRAMS / "Client.java"), folder=PROGRAMS)
        return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*", "Client"]

    def _go(self) -> list[str]:
        program = self._folder / "clients"
        if not program.exists():
            needs("go", reason="run outside CI: needs Go")
            build("go", "build", "-o", str(program), ".", folder=PROGRAMS / "go")
        return [str(program)]

    def _node(self) -> list[str]:
        needs("node", "npm", reason="run outside CI: needs Node.js and npm")
        folder = self._folder / "node"
        shutil.copytree(PROGRAMS / "node", folder)
        build("npm", "ci", "--no-audit", "--no-fund", folder=folder)
        return ["node", str(folder / "client.js")]


def needs(*tools: str, reason: str) -> None:
    """Skip the test if a tool is missing."""
    if any(shutil.which(tool) is None for tool in tools):
        pytest.skip(reason)


def build(*command: str, folder: Path) -> None:
    """Run a command that builds a program. Modules and packages come from their registries."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if done.returncode:
        pytest.skip(
            f"run outside CI: needs {command[0]} to build a client: {(done.stderr or done.stdout).strip()[-300:]}"
        )
