"""No traceback and no abort: bytes that are not UTF-8, closed and full streams, signals while records are sent.

What was wrong is on standard error in a line, and the exit code is one of docs/command-line.md.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import confluent_kafka
import pytest

from kvorum.cli.connection.client import client_of
from kvorum.cli.kafka.console_producer import read_lines, send_lines
from kvorum.cli.kafka.line_reader import LineReader
from kvorum.cli.output import Exit
from kvorum.cli.records import record_sender
from kvorum.cli.records.produce import produce, shape_of
from kvorum.cli.records.record_lines import RecordError, RecordLineFormat
from kvorum.cli.text_values import BYTES_ARE_A_VALUE
from kvorum.cluster.process.exits import Exit as NodeExit
from tests.unit.cli.command_tree import leaves, takes_text, words_of
from tests.unit.cli.fake_cluster import FakeCluster, run
from tests.unit.cli.test_sending import FakeProducer

BYTES = "\udcff"
"""How Python gives a command the byte 0xff."""
TEXTS = [
    (path, command, parameter)
    for path, command in leaves()
    for parameter in command.params
    if takes_text(parameter) and (command.name, parameter.name) not in BYTES_ARE_A_VALUE
]


@pytest.mark.parametrize(
    ("path", "command", "parameter"), TEXTS, ids=[f"{' '.join(path)} {parameter.name}" for path, _, parameter in TEXTS]
)
def test_invalid_utf_8_is_refused_in_all_texts(
    path: tuple[str, ...], command: click.Command, parameter: click.Parameter, tmp_path: Path
) -> None:
    assert parameter.name is not None
    cluster = FakeCluster()
    printed = run(cluster, *words_of(path, command, {parameter.name: BYTES}, tmp_path), given=b"")
    assert printed.code == (Exit.FAILED if path[0] == "kafka" else Exit.USAGE), printed
    assert printed.err and not cluster.requested


FILES = [
    (path, command, parameter)
    for path, command in leaves()
    for parameter in command.params
    if isinstance(parameter.type, click.Path)
    and parameter.type.exists
    and parameter.type.file_okay
    and path != ("quickstart",)  # any file is one of lines there: a cluster starts, and runs until it is stopped
]


@pytest.mark.long
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"[" * 100_000], ids=["bytes", "empty", "deep"])
@pytest.mark.parametrize(
    ("path", "command", "parameter"), FILES, ids=[f"{' '.join(path)} {parameter.name}" for path, _, parameter in FILES]
)
def test_a_file_of_a_wrong_kind_is_a_one_line_error(
    path: tuple[str, ...], command: click.Command, parameter: click.Parameter, content: bytes, tmp_path: Path
) -> None:
    """Of an empty file some commands can make something."""
    file = tmp_path / "given.yaml"
    file.write_bytes(content)
    assert parameter.name is not None
    words = words_of(path, command, {parameter.name: str(file)}, tmp_path)
    if any(option.name == "bootstrap" for option in command.params):
        words += ["-b", "127.0.0.1:1"]
    done = kvorum(*words, cwd=tmp_path)
    assert done.returncode in (0, 1, 2, 3, 4, 78), done
    assert b"Traceback" not in done.stderr + done.stdout
    assert done.returncode == 0 or done.stderr or done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "up FILE --dir none",
        "config validate FILE",
        "groups reset-offsets g --from-file FILE -b 127.0.0.1:1",
        "delete-records -f FILE -b 127.0.0.1:1",
        "reassign execute --reassignment-json-file FILE -b 127.0.0.1:1",
        "kafka-topics --list --bootstrap-server 127.0.0.1:1 --command-config FILE",
        "kafka-configs --alter --topic t --bootstrap-server 127.0.0.1:1 --add-config-file FILE",
    ],
)
def test_a_file_of_bytes_ends_with_a_line(words: str, tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_bytes(b"\xff\xfe\x00")
    printed = run(FakeCluster(), *words.replace("FILE", str(tmp_path / "file.yaml")).split())
    assert printed.code in (Exit.FAILED, Exit.USAGE, NodeExit.CONFIG) and printed.err, printed


def kvorum(*words: str, cwd: Path | None = None, shell: str = "", **named: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run the command as a process, with redirections of a shell."""
    command = [sys.executable, "-m", "kvorum.cli.main", *words]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    named = {"stdin": subprocess.DEVNULL, **named}
    return subprocess.run(command, capture_output=True, cwd=cwd, check=False, timeout=60, **named)


@pytest.mark.parametrize("words", ["protocol", "--help", "topics --help", "kafka-topics --version", "config --help"])
@pytest.mark.parametrize("shell", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_an_error(words: str, shell: str) -> None:
    done = kvorum(*words.split(), shell=shell)
    assert done.returncode == Exit.FAILED
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith(b"kvorum: "), done


@pytest.mark.parametrize("shell", ["2>/dev/full", "2>&-", "2>&- >&- <&-"])
def test_the_exit_code_stays_where_standard_error_cannot_be_written(shell: str) -> None:
    assert kvorum("topics", "list", "--nope", shell=shell).returncode == Exit.USAGE
    assert kvorum("topics", "list", "-b", "127.0.0.1:1", shell=shell).returncode == Exit.UNREACHABLE
    assert kvorum("kafka-topics", "--nope", shell=shell).returncode == Exit.FAILED
    assert kvorum("profile", "list", "--nope", shell=shell).stderr == b""


def test_a_closed_output_pipe_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kvorum.cli.main", "protocol"],
            stdout=writing,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (Exit.FAILED, b"")


def test_nothing_that_is_opened_later_takes_the_number_of_a_closed_stream() -> None:
    code = "import os; from kvorum.cli.entry import prepare_streams as p; c = p(); print(len(c), os.open('.', 0) > 2)"
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-c", code], capture_output=True, check=False
    )
    assert done.stdout == b"2 True\n"


@pytest.mark.parametrize(
    ("key", "value"), [("group.id", BYTES), ("client.id", BYTES), (BYTES, "x"), ("group.id", ""), ("client.id", "a\0b")]
)
def test_a_property_that_the_client_would_abort_for_is_refused(key: str, value: str) -> None:
    def make(options: object) -> None:
        raise AssertionError("the client is not made")

    with pytest.raises(click.UsageError, match=r"UTF-8|empty"):
        client_of(make, {key: value})


def test_keys_separators_and_header_values_are_the_bytes_that_were_typed() -> None:
    given = {"key": BYTES, "key_separator": f"={BYTES}", "delimiter": BYTES, "headers": (f"a={BYTES}",)}
    shape, delimiter = shape_of(
        dict.fromkeys(("timestamp", "partition"), None) | {"null_if_empty": False} | given, False
    )
    assert (shape.key, shape.key_separator, delimiter) == (b"\xff", b"=\xff", b"\xff")
    assert list(shape.headers) == [("a", b"\xff")]


@pytest.mark.parametrize(
    "line", [rb'{"value": "\ud800"}', rb'{"value": "x", "headers": {"\ud800": "y"}}', b'{"value": "\xff"}']
)
def test_unencodable_json_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(RecordError, match="record 7"):
        RecordLineFormat().of_json(line, 7)


class Input(BytesIO):
    """Standard input of a few lines, after which this process gets a signal."""

    def __init__(self, lines: bytes, number: signal.Signals = signal.SIGTERM) -> None:
        super().__init__(lines)
        self._number = number

    def read1(self, size: int | None = -1, /) -> bytes:
        found = super().read1(size)
        if not found:
            os.kill(os.getpid(), self._number)
        return found

    def isatty(self) -> bool:
        return False


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str]]:
    """`produce` with a fake client and input: its exit code, and its standard error."""
    monkeypatch.setattr("kvorum.cli.records.produce.fetch_metadata", lambda *_: SimpleNamespace(topics=["t"]))

    def call(client: FakeProducer, given: Input) -> tuple[Any, str]:
        monkeypatch.setattr(confluent_kafka, "Producer", lambda options: client)
        context = produce.make_context("produce", ["t", "-b", "h:1"])
        with context, pytest.raises(SystemExit) as ended:
            assert produce.callback is not None
            produce.callback(**{**context.params, "file": given})
        return ended.value.code, capsys.readouterr().err

    return call


Sent = Callable[..., tuple[Any, str]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_produce_delivers_pending_records_at_a_signal_and_reports_the_stop(sent: Sent, number: signal.Signals) -> None:
    client = FakeProducer(room=10)
    before = signal.getsignal(number)
    code, err = sent(client, Input(b"one\ntwo\n", number))
    assert (code, client.topic) == (Exit.FAILED, [b"one", b"two"])
    assert err == f"2 records\nkvorum: {number.name}: the records after these were not sent\n"
    assert signal.getsignal(number) is before


def test_produce_reports_unacknowledged_records_at_a_signal(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_sender, "STOP_SECONDS", 0.0)
    code, err = sent(FakeProducer(room=10, delivers=False), Input(b"one\ntwo\nthree\n"))
    assert code == Exit.FAILED
    assert err.splitlines()[-1] == f"kvorum: 3 of 3 records were not acknowledged: {record_sender.STOPPED}"


def test_a_signal_ends_the_wait_for_room_in_the_clients_queue(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_sender, "STOP_SECONDS", 0.0)

    class Full(FakeProducer):
        def poll(self, seconds: float) -> int:
            if seconds:
                os.kill(os.getpid(), signal.SIGTERM)
            return 0

    code, err = sent(Full(room=1, delivers=False), Input(b"one\ntwo\nthree\n"))
    assert (code, "2 of 2 records were not acknowledged" in err) == (Exit.FAILED, True)


def test_a_second_signal_ends_the_wait_for_acknowledgements(sent: Sent) -> None:
    class Slow(FakeProducer):
        def flush(self, seconds: float) -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            return len(self.queue)

    code, err = sent(Slow(room=10, delivers=False), Input(b"one\ntwo\n"))
    assert (code, "2 of 2 records were not acknowledged" in err) == (Exit.FAILED, True)


def test_failing_input_is_reported_with_the_number_of_sent_records(sent: Sent) -> None:
    class Failing(Input):
        def read1(self, size: int | None = -1, /) -> bytes:
            found = BytesIO.read1(self, size)
            if not found:
                raise OSError(5, os.strerror(5))
            return found

    code, err = sent(FakeProducer(room=10), Failing(b"one\n"))
    assert code == Exit.FAILED and err.startswith("1 records\nkvorum: the input or output failed ([Errno 5]")


def test_the_console_producer_reports_unsent_records_at_sigterm(capsys: pytest.CaptureFixture[str]) -> None:
    client = FakeProducer(room=10)
    with pytest.raises(SystemExit) as ended:
        send_lines(client, "t", read_lines(Input(b"one\ntwo\n"), LineReader()), sync=False)
    assert (ended.value.code, client.topic) == (1, [b"one", b"two"])
    assert "SIGTERM: the records after these were not sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "code", "message"),
    [
        ("raise ZeroDivisionError('a\\nb')", 1, "internal error (ZeroDivisionError: a b)"),
        ("raise SystemExit('text')", 1, "kvorum: text"),
        ("raise SystemExit(3)", 3, ""),
        ("raise OSError(28, 'No space')", 1, "No space"),
        ("'\\udcff'.encode()", 1, "invalid UTF-8"),
        ("raise KeyboardInterrupt", 1, ""),
        ("raise MemoryError", 1, "too large"),
        ("print(chr(0xdcff))", 0, ""),
    ],
)
def test_every_command_failure_is_one_line_and_an_exit_code(ending: str, code: int, message: str) -> None:
    script = f"import sys\nfrom kvorum.cli.entry import run\ndef end():\n    {ending}\nsys.exit(run(end))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True)
    assert (done.returncode, message in done.stderr) == (code, True), done
    assert len(done.stderr.splitlines()) == (1 if message else 0)


def test_the_traceback_of_a_fault_is_available_at_debug() -> None:
    script = "from kvorum.cli.entry import run\nrun(lambda: 1 // 0)"
    environment = {**os.environ, "KVORUM_TRACEBACK": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment)
    assert b"Traceback" in done.stderr and done.returncode == 1
