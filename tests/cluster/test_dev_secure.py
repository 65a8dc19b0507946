"""`kvorum dev --secure` as a process, and clients with the files that it prints."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from urllib.request import urlopen

import pytest
from kafka import KafkaConsumer

from kvorum.runtime.properties import parse_properties
from tests.cluster.clients import create_topic, read_all, send_one

STOP_SECONDS = 60


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Return the lines of a running `kvorum dev --secure`."""
    folder = tmp_path_factory.mktemp("dev")
    options = ["--secure", "--port", "0", "--admin-port", "0", "--dir", str(folder)]
    command = [sys.executable, "-m", "kvorum.cli.main", "dev", *options]
    with (folder / ".stderr").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        lines = list(takewhile(lambda line: line != "Press Ctrl-C to stop.\n", process.stdout))
        assert process.poll() is None, (folder / ".stderr").read_text()
        yield lines
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(STOP_SECONDS)


def file_of(printed: list[str], name: str) -> Path:
    """Return the path of a client's file, as it is printed."""
    (found,) = {
        word.split('"')[1] if '"' in word else word for line in printed for word in line.split() if name in word
    }
    return Path(found)


def test_an_unmodified_client_uses_the_printed_file(printed: list[str]) -> None:
    text = file_of(printed, "librdkafka.properties").read_text()
    config = {each.key: each.text for each in parse_properties(text)}
    bootstrap = config.pop("bootstrap.servers")
    create_topic(bootstrap, "orders", 1, 1, client=config)
    assert send_one(bootstrap, "orders", **config) is None
    assert sum(map(len, read_all(bootstrap, "orders", 1, **config).values())) == 1
    assert send_one(bootstrap, "orders", 3_000, **{**config, "sasl.password": "wrong"}) == "_MSG_TIMED_OUT"
    assert config["sasl.password"] not in command_lines() + "".join(printed)


def command_lines() -> str:
    """Return the command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text(errors="replace"))
        except OSError:  # it ended
            continue
    assert any("kvorum" in each for each in found)
    return "".join(found)


def test_the_time_until_certificates_expire_is_a_metric(printed: list[str]) -> None:
    plan = json.loads((file_of(printed, "java.properties").parent.parent / "cluster.json").read_text())
    (node,) = plan["nodes"].values()
    found = {}
    for key in ("metrics.listener", "kvorum.controller.metrics.listener"):
        with urlopen(f"{node[key]}/metrics", timeout=60) as page:
            text = page.read().decode()
        found[key] = re.findall(r'^kvorum_ssl_certificate_expiry_seconds\{listener="(\w+)"\} (\S+)$', text, re.M)
    assert {name for name, _ in found["metrics.listener"]} == {"SASL_SSL", "INTERNAL", "CONTROLLER"}
    assert {name for name, _ in found["kvorum.controller.metrics.listener"]} == {"CONTROLLER"}
    assert all(364 * 86_400 < float(left) <= 365 * 86_400 for rows in found.values() for _, left in rows)


def test_kafka_python_uses_its_file(printed: list[str]) -> None:
    consumer = KafkaConsumer(**json.loads(file_of(printed, "kafka-python.json").read_text()))
    try:
        assert isinstance(consumer.topics(), set)
    finally:
        consumer.close()
