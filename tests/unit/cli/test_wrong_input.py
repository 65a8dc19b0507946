"""What no command expects: numbers that no request has room for, digits of other scripts, files that are none.

Each is one line on standard error and an exit code, never a traceback; and what others have named (groups, clients)
does nothing to the terminal it is printed on.
"""

import os
import subprocess
import sys
from pathlib import Path
from struct import pack
from types import SimpleNamespace
from typing import Any, ClassVar

import confluent_kafka
import pytest

from kvorum.cli.configs.feature_levels import LevelError, parse_levels
from kvorum.cli.connection.client import with_cluster
from kvorum.cli.kafka.console_consumer_options import is_offset
from kvorum.cli.kafka.partition_files import PartitionFileError, partition_rows
from kvorum.cli.output import Exit, show, style_text
from kvorum.cli.records.produce import produce
from kvorum.client.reassignments.assignment_file import read_topics
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.network.addresses import parse_bootstrap
from tests.unit.cli.fake_cluster import FakeCluster, run
from tests.unit.cli.test_sending import FakeProducer

DEEP = "[" * 100_000


@pytest.mark.parametrize("give", [lambda: pack(">i", 10**20), lambda: (10**20).to_bytes(8), lambda: "\udcff".encode()])
def test_an_oversized_request_is_a_one_line_error(give: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As the codec fails on a number that is too large, or a name that is no UTF-8, when it encodes the request."""

    async def work(cluster: ClusterClient) -> None:
        give()

    with pytest.raises(SystemExit) as ended:
        with_cluster("127.0.0.1:1", work)
    assert ended.value.code == Exit.USAGE
    assert "kvorum: a value does not fit into a request: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-console-consumer", "--bootstrap-server", "h:1", "--topic", "t", "--partition", "0", "--offset", "²"),
        ("consume", "t", "--offset", str(2**63)),
        ("consume", "t", "-p", str(2**31)),
        ("topics", "list", "-b", "h:²"),
        ("configs", "describe", "brokers", "²"),
        ("features", "alter", "metadata.version=²"),
        ("features", "alter", "metadata.version=--5"),
        ("profile", "add", "a\x1b[31m", "-b", "h:1"),
        ("profile", "add", "\udcff", "-b", "h:1"),
        ("groups", "reset-offsets", "g", "--from-file", "{bytes}", "--topic", "t"),
    ],
)
def test_wrong_arguments_are_refused_without_a_traceback(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    given = [word.replace("{bytes}", str(tmp_path / "bytes")) for word in words]
    printed = run(FakeCluster(), *given)
    assert printed.code in (Exit.USAGE, Exit.FAILED) and printed.err and not printed.out


@pytest.mark.parametrize(
    ("text", "good"), [("0", True), (str(2**63 - 1), True), (str(2**63), False), ("9" * 5000, False)]
)
def test_an_offset_is_one_that_kafka_has(text: str, good: bool) -> None:
    assert is_offset(text) is good


def test_a_level_is_a_short() -> None:
    assert parse_levels(["a=-1", "b=32767"]) == {"a": -1, "b": 32767}
    for level in ("²", "--5", "32768", "9" * 5000, ""):
        with pytest.raises(LevelError):
            parse_levels([f"a={level}"])


def test_too_deeply_nested_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(DEEP)
    with pytest.raises(PartitionFileError):
        partition_rows(str(path))
    with pytest.raises(ValueError, match="not JSON"):
        read_topics(DEEP)


def test_addresses_have_ports_of_plain_digits() -> None:
    assert parse_bootstrap("[::1]:1") == [("::1", 1)]
    with pytest.raises(ValueError, match="not HOST:PORT"):
        parse_bootstrap("h:²")


def test_a_name_with_commands_of_a_terminal_is_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"group": "a\x1b]0;owned\x07\nb\x9b31m", "members": 1}], "table")
    assert capsys.readouterr().out.splitlines() == [
        "GROUP                        MEMBERS",
        r"a\x1b]0;owned\x07\nb\x9b31m  1",
    ]


def test_output_that_was_closed_takes_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert style_text("text", bold=True) == "text"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvorum.cli.main", "protocol"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == Exit.FAILED
    assert done.stderr.decode().splitlines() == [f"kvorum: [Errno 28] {os.strerror(28)}"]


def test_ctrl_c_delivers_sent_records_and_reports_their_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = FakeProducer(room=10)
    monkeypatch.setattr(confluent_kafka, "Producer", lambda options: client)

    class Typed:
        pieces: ClassVar = [b"one\n", b"two\n"]

        def read1(self, size: int) -> bytes:
            if not self.pieces:
                raise KeyboardInterrupt
            return self.pieces.pop(0)

    monkeypatch.setattr("kvorum.cli.records.produce.fetch_metadata", lambda *_: SimpleNamespace(topics=["t"]))
    context = produce.make_context("produce", ["t", "-b", "h:1"])
    with context, pytest.raises(SystemExit) as ended:
        assert produce.callback is not None
        produce.callback(**{**context.params, "file": Typed()})
    assert (ended.value.code, client.topic) == (Exit.FAILED, [b"one", b"two"])
    assert capsys.readouterr().err == "2 records\nkvorum: interrupted: the records after these were not sent\n"
