"""`kvorum produce`: what is typed or piped becomes records, keys, headers and tombstones among them."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvorum.cli.escapes import EscapeError, unescape
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cli.records.record_lines import READ_BYTES, RecordError, RecordLineFormat, pieces

SENT: list[dict[str, Any]] = []


class FakeMessage:
    def __init__(self, topic: str, offset: int) -> None:
        self.reported = {"topic": topic, "partition": 1, "offset": offset, "timestamp": (1, 1_000)}

    def __getattr__(self, name: str) -> Any:
        return lambda: self.reported[name]


class FakeProducer:
    """Takes every record, and says where it is."""

    made_with: dict[str, Any]

    def __init__(self, options: dict[str, Any]) -> None:
        FakeProducer.made_with = options

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        return SimpleNamespace(topics=dict.fromkeys(["orders", "t", "__consumer_offsets"]))

    def produce(self, topic: str, value: bytes | None, key: bytes | None, *, on_delivery: Any, **more: Any) -> None:
        SENT.append({"key": key, "value": value, **more})
        on_delivery(None, FakeMessage(topic, len(SENT) - 1))

    def poll(self, seconds: float) -> int:
        return 0

    def flush(self, seconds: float) -> int:
        return 0


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client speaks to anybody."""
    SENT.clear()
    monkeypatch.setattr("confluent_kafka.Producer", FakeProducer)


def run(*words: str, given: bytes) -> Result:
    result = CliRunner().invoke(main, ["produce", "orders", "-b", "b:1", *words], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(
    ("words", "given", "sent"),
    [
        ([], b"a\r\n\nb", [(None, b"a"), (None, b""), (None, b"b")]),
        (["-k", ":"], b"a:1:2\nb\n", [(b"a", b"1:2"), (None, b"b")]),
        (["-K", "\\t", "--key", "all"], b"a\t1\nb\n", [(b"a", b"1"), (b"all", b"b")]),
        (["-k", ":", "-Z"], b"a:\n:b\n:\n", [(b"a", None), (None, b"b"), (None, None)]),
        (["-D", "\\0"], b"a\nb\0c", [(None, b"a\nb"), (None, b"c")]),
        (["-D", "END"], b"aEbENDENc", [(None, b"aEb"), (None, b"ENc")]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value and isinstance(value[0], str) else "",
)
def test_text_is_cut_into_records(words: list[str], given: bytes, sent: list[Any]) -> None:
    printed = run(*words, given=given)
    assert printed.exit_code == Exit.DONE and printed.stderr == f"{len(sent)} records\n"
    assert [(each["key"], each["value"]) for each in SENT] == sent


def test_headers_timestamp_and_partition_are_those_of_every_record() -> None:
    run("-H", "a=1", "-H", "a=2", "--timestamp", "5", "-p", "3", given=b"x\ny\n")
    every = {"key": None, "headers": [("a", b"1"), ("a", b"2")], "timestamp": 5, "partition": 3}
    assert [{"value": b"x", **every}, {"value": b"y", **every}] == SENT


def test_json_is_read_as_consume_prints_it() -> None:
    rows: list[dict[str, Any]] = [
        {"topic": "o", "partition": 9, "offset": 1, "timestamp": 7, "key": "k", "value": "v", "headers": [["h", "1"]]},
        {"key": None, "value": None, "headers": []},
        {"value": {"base64": "/wA="}, "headers": {"h": None}, "timestamp": -1},
    ]
    given = "".join(json.dumps(row) + "\n" for row in rows).encode() + b"\n"
    assert run("-J", "-H", "all=x", given=given).exit_code == Exit.DONE
    assert SENT == [
        {"key": b"k", "value": b"v", "headers": [("all", b"x"), ("h", b"1")], "timestamp": 7},
        {"key": None, "value": None, "headers": [("all", b"x")]},
        {"key": None, "value": b"\xff\x00", "headers": [("all", b"x"), ("h", None)]},
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[1]",
        b'{"key": "k"}',
        b'{"value": 5}',
        b'{"value": {"base64": "?"}}',
        b'{"value": "v", "headers": [1]}',
        b'{"value": "v", "headers": [[1, "x"]]}',
        b'{"value": "v", "timestamp": "noon"}',
        b"[" * 100_000,
    ],
)
def test_an_invalid_line_ends_it_and_earlier_records_are_sent(line: bytes) -> None:
    printed = run("-J", given=b'{"value": "first"}\n' + line + b'\n{"value": "last"}\n')
    assert printed.exit_code == Exit.FAILED and [each["value"] for each in SENT] == [b"first"]
    first, message = printed.stderr.splitlines()
    assert first == "1 records" and message.startswith("kvorum: record 2")


def test_the_position_of_each_record_can_be_printed() -> None:
    assert run("-v", given=b"a\n").stdout == "Produced to partition 1 at offset 0 with timestamp 1000.\n"
    shown = run("-o", "json", given=b"b\n").stdout
    assert json.loads(shown) == {"topic": "orders", "partition": 1, "offset": 1, "timestamp": 1000}
    assert run("-T", "-k", ":", given=b"k:c\n").stdout == "k:c\n"


def test_fewer_acks_by_a_property_are_not_idempotent() -> None:
    run("-X", "acks=1", given=b"a\n")
    assert (FakeProducer.made_with["acks"], FakeProducer.made_with["enable.idempotence"]) == ("1", False)
    run("--acks", "1", given=b"a\n")
    assert FakeProducer.made_with["enable.idempotence"] is False
    run(given=b"a\n")
    assert (FakeProducer.made_with["acks"], FakeProducer.made_with["enable.idempotence"]) == ("all", True)


@pytest.mark.parametrize(
    "words", [["-k", ""], ["-D", ""], ["-D", "\\q"], ["-k", "a\\"], ["-J", "-k", ":"], ["-H", "x"]], ids=" ".join
)
def test_invalid_options_are_wrong_usage(words: list[str]) -> None:
    assert run(*words, given=b"a\n").exit_code == Exit.USAGE
    assert not SENT


def test_escapes_are_bytes() -> None:
    assert unescape(r"a\n\t\x00\xff\\b") == b"a\n\t\x00\xff\\b"
    for wrong in ("\\", "\\x1", "\\u0041"):
        with pytest.raises(EscapeError):
            unescape(wrong)


class Trickle:
    """Gives its bytes a few at a time."""

    def __init__(self, text: bytes, size: int) -> None:
        self.left, self.size = io.BytesIO(text), size

    def read1(self, _: int) -> bytes:
        return self.left.read(self.size)


@pytest.mark.parametrize("size", [1, 2, 3, READ_BYTES])
def test_pieces_are_equal_for_any_division(size: int) -> None:
    assert list(pieces(Trickle(b"a--b----c-", size), b"--")) == [b"a", b"b", b"", b"c-"]


def test_a_piece_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvorum.cli.records.record_lines.RECORD_BYTES_MAX", 10)
    with pytest.raises(RecordError):
        list(pieces(Trickle(b"x" * 100, 4), b"\n"))


def test_a_shape_without_a_separator_has_no_keys() -> None:
    assert RecordLineFormat().of_line(b"a:b")[:2] == (None, b"a:b")


def test_a_topic_that_the_broker_created_is_named_on_standard_error() -> None:
    assert "created" not in run(given=b"a\n").stderr
    result = CliRunner().invoke(main, ["produce", "ordres", "-b", "b:1"], input=b"a\n")
    assert result.stderr.splitlines()[0] == "warning: created topic ordres; did you mean orders?"
