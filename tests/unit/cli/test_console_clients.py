"""kafka-console-producer and -consumer and the verifiable clients with clients in memory: lines, records, events."""

import io
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.deserializers import FormatError
from kvorum.cli.kafka.formatters import formatter_of
from kvorum.cli.kafka.line_reader import Line, LineError, LineReader
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.protocol.records import Record

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"


@dataclass
class FakeMessage:
    """A record, or an error, as confluent_kafka tells it."""

    body: bytes | None = b"v"
    name: bytes | None = b"k"
    place: tuple[str, int, int] = ("orders", 1, 7)
    marks: list[tuple[str, bytes | None]] = field(default_factory=list)
    stamp: tuple[int, int] = (1, 1000)
    problem: KafkaError | None = None

    def value(self) -> bytes | None:
        return self.body

    def key(self) -> bytes | None:
        return self.name

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self.marks

    def timestamp(self) -> tuple[int, int]:
        return self.stamp

    def leader_epoch(self) -> int | None:
        return 3

    def error(self) -> KafkaError | None:
        return self.problem


class FakeClient:
    """Takes what is produced, and gives what is to be consumed."""

    made_with: dict[str, Any]
    messages: Sequence[FakeMessage] = ()
    refused: bytes = b"never"

    def __init__(self, options: dict[str, Any]) -> None:
        FakeClient.made_with = options
        self.records: list[tuple[bytes | None, bytes | None, Any]] = []
        self.left = list(FakeClient.messages)
        self.committed: list[Any] = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        on_delivery: Callable[..., None] | None = None,
        headers: object = None,
        timestamp: int = 0,
    ) -> None:
        assert on_delivery is not None
        if value == self.refused:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        RECORDS.append((key, value, headers))
        on_delivery(None, FakeMessage(place=(topic, 0, len(RECORDS) - 1)))

    def flush(self, seconds: float) -> int:
        RECORDS.append(("flush", None, None))
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> None:
        return None

    def subscribe(self, topics: list[str], on_assign: Any = None, on_revoke: Any = None) -> None:
        RECORDS.append(("subscribe", topics, None))

    def assign(self, places: list[Any]) -> None:
        RECORDS.append(("assign", [(each.topic, each.partition, each.offset) for each in places], None))

    def poll(self, seconds: float = 0) -> Any:
        return self.left.pop(0) if self.left else None

    def consume(self, count: int, seconds: float) -> list[FakeMessage]:
        found, self.left = self.left[:count], self.left[count:]
        return found

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        RECORDS.append(("commit", [(each.topic, each.partition, each.offset) for each in offsets], None))

    def close(self) -> None:
        RECORDS.append(("close", None, None))


RECORDS: list[tuple[Any, Any, Any]] = []


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client speaks to anybody."""
    RECORDS.clear()
    FakeClient.messages = ()
    monkeypatch.setattr("confluent_kafka.Producer", FakeClient)
    monkeypatch.setattr("confluent_kafka.Consumer", FakeClient)
    monkeypatch.setattr("signal.signal", lambda *_: None)


def run(*words: str, given: str | None = None) -> Result:
    result = CliRunner().invoke(main, [words[0], "--bootstrap-server", "broker:9092", *words[1:]], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_lines_are_split_at_the_readers_delimiter() -> None:
    plain = LineReader.of({})
    assert plain.read("a\tb", 1) == Line(None, b"a\tb", [])
    keyed = LineReader.of({"parse.key": "true", "key.separator": ":", "null.marker": "NULL"})
    assert keyed.read("a:b:c", 1) == Line(b"a", b"b:c", [])
    assert keyed.read("NULL:NULL", 1) == Line(None, None, [])
    whole = LineReader.of({"parse.key": "true", "parse.headers": "true"})
    assert whole.read("h:1,i:2\tk\tv", 1) == Line(b"k", b"v", [("h", b"1"), ("i", b"2")])
    with pytest.raises(LineError, match="No key separator found on line number 4: 'abc'"):
        keyed.read("abc", 4)
    assert LineReader.of({"parse.key": "true", "ignore.error": "true"}).read("abc", 1) == Line(None, b"abc", [])
    for wrong in ({"headers.separator": ":"}, {"null.marker": ":"}, {"headers.separator": "("}):
        with pytest.raises(LineError):
            LineReader.of(wrong)
    assert LineReader.of({"nosuch": "1"}) == plain, "Kafka's reader leaves it aside, too"
    spaced = LineReader.of({"parse.headers": "true", "headers.separator": "[,;] *"})
    assert spaced.read("a:1, b:2;c:,;\tv", 1).headers == [("a", b"1"), ("b", b"2"), ("c", b"")]


def test_the_producer_sends_lines_and_reports_unacknowledged_ones() -> None:
    words = [
        "kafka-console-producer",
        "--topic",
        "orders",
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=:",
    ]
    sent = run(*words, "--compression-codec", "zstd", "--request-required-acks", "1", given="a:1\nb:\n")
    assert sent.exit_code == Exit.DONE and sent_records() == [(b"a", b"1", None), (b"b", b"", None)]
    made = FakeClient.made_with
    assert (made["acks"], made["compression.type"], made["bootstrap.servers"]) == ("1", "zstd", "broker:9092")
    refused = run("kafka-console-producer", "--topic", "orders", given="never\nlast\n")
    assert refused.exit_code == Exit.FAILED and "1 records were not acknowledged" in refused.stderr
    assert sent_records()[-1] == (None, b"last", None), "one that cannot be sent stops no other"
    for words in (
        ["--reader-property", "nosuch=1"],
        ["--property", "parse.key"],
        ["--line-reader", "LineMessageReader"],
    ):
        assert run("kafka-console-producer", "--topic", "t", *words, given="").exit_code == Exit.DONE
    assert (
        "are not supported" in run("kafka-console-producer", "--topic", "t", "--line-reader", "Mine", given="").stderr
    )


def sent_records() -> list[tuple[Any, Any, Any]]:
    return [each for each in RECORDS if each[0] != "flush"]


def test_an_unreadable_line_ends_it_after_the_earlier_lines() -> None:
    words = ["kafka-console-producer", "--topic", "t", "--reader-property", "parse.key=true"]
    printed = run(*words, given="a\t1\nabc\nb\t2\n")
    assert (printed.exit_code, "No key separator found on line number 2" in printed.stderr) == (Exit.FAILED, True)
    assert RECORDS == [(b"a", b"1", None), ("flush", None, None)], "waited for, and nothing behind the bad line is sent"


def test_invalid_utf_8_is_a_replacement_character() -> None:
    raw = CliRunner().invoke(
        main, ["kafka-console-producer", "--bootstrap-server", "b:1", "--topic", "t"], input=b"a\xffb\r\nc\rd"
    )
    assert raw.exit_code == Exit.DONE, raw.exception
    assert [value for _, value, _ in sent_records()] == ["a\ufffdb".encode(), b"c", b"d"]


def test_in_step_the_first_that_fails_ends_it() -> None:
    printed = run("kafka-console-producer", "--topic", "t", "--sync", given="one\nnever\nlast\n")
    assert printed.exit_code == Exit.FAILED and [value for _, value, _ in sent_records()] == [b"one"]


def test_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("acks=1\nisolation.level=read_uncommitted\ncompression.type=gzip\nlinger.ms=7\nclient.id=mine\n")
    words = ["--topic", "t", "--command-config", str(file)]
    run("kafka-console-producer", *words, "--request-required-acks", "all", given="")
    made = FakeClient.made_with
    assert (made["acks"], made["linger.ms"], made["client.id"]) == ("all", "7", "mine")
    assert made["compression.type"] == "none", "Kafka's tool asks no file for that"
    run("kafka-console-producer", *words, "--command-property", "acks=0", given="")
    assert FakeClient.made_with["acks"] == "0", "what was not typed is the file's, or the property's"
    run("kafka-console-consumer", *words, "--isolation-level", "read_committed", "--timeout-ms", "0")
    assert FakeClient.made_with["isolation.level"] == "read_committed"
    run("kafka-console-consumer", *words, "--timeout-ms", "0")
    assert FakeClient.made_with["isolation.level"] == "read_uncommitted"


def test_old_option_names_cause_a_warning_and_exclude_the_new_ones(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()
    old = ["--property", "parse.key=false", "--producer-property", "acks=1", "--producer.config", str(file)]
    printed = run("kafka-console-producer", "--topic", "t", *old, given="")
    assert printed.stdout.splitlines() == [
        f"Warning: {name} is deprecated and will be removed in a future version. Use {new} instead."
        for name, new in (
            ("--producer-property", "--command-property"),
            ("--producer.config", "--command-config"),
            ("--property", "--reader-property"),
        )
    ]
    both = run("kafka-console-producer", "--topic", "t", *old, "--command-property", "acks=0", given="")
    assert "Options --command-property and --producer-property cannot be specified together." in both.stderr
    read = run("kafka-console-consumer", "--topic", "t", "--property", "print.key=true", "--timeout-ms", "0")
    assert read.stdout == (
        "Option --property is deprecated and will be removed in a future version. Use --formatter-property instead.\n"
    )


def test_clients_get_only_librdkafkas_properties(capsys: pytest.CaptureFixture[str]) -> None:
    connection = Connection(
        where="b:1", properties={"key.serializer": "x", "linger.ms": "5", "bootstrap.servers": "c:2"}
    )
    assert connection.client_options({"acks": "1"}, {"acks": "all"}) == {
        "acks": "all",
        "linger.ms": "5",
        "bootstrap.servers": "b:1",
    }
    assert "key.serializer is a property of Java clients" in capsys.readouterr().err
    assert connection.client_options({"acks": "1"}, {"acks": "all"}, {"acks": "0"})["acks"] == "0"


def printed(formatter: Any, message: FakeMessage) -> bytes:
    out = io.BytesIO()
    formatter.write(message, out)
    return out.getvalue()


def test_records_are_printed_with_the_formatters_options() -> None:
    assert printed(formatter_of(DEFAULT, {}), FakeMessage()) == b"v\n"
    switches = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    everything = formatter_of(DEFAULT, {f"print.{name}": "true" for name in switches} | {"key.separator": "|"})
    message = FakeMessage(body=None, marks=[("h", b"1"), ("i", None)])
    assert (
        printed(everything, message)
        == b"CreateTime:1000|Partition:1|Offset:7|Delivery:NOT_PRESENT|Epoch:NOT_PRESENT|h:1,i:null|k|null\n"
    )
    bare = FakeMessage(stamp=(0, 0), name=None)
    assert (
        printed(everything, bare)
        == b"NO_TIMESTAMP|Partition:1|Offset:7|Delivery:NOT_PRESENT|Epoch:NOT_PRESENT|NO_HEADERS|null|v\n"
    )
    number = formatter_of(DEFAULT, {"value.deserializer": "org.apache.kafka.common.serialization.LongDeserializer"})
    assert printed(number, FakeMessage(body=(5).to_bytes(8, "big"))) == b"5\n"
    with pytest.raises(FormatError, match="cannot be decoded as a number"):
        printed(number, FakeMessage())
    assert printed(formatter_of("NoOpMessageFormatter", {}), FakeMessage()) == b""
    with pytest.raises(FormatError):
        formatter_of("Nope", {})
    assert printed(formatter_of(DEFAULT, {"print.value": "false"}), FakeMessage()) == b"", "not even an end of line"


def test_unknown_properties_and_deserializers_are_reported_and_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for properties in ({"print.kay": "true"}, {"value.deserializer": "org.mine.Nope"}):
        assert printed(formatter_of(DEFAULT, properties), FakeMessage()) == b"v\n"
        assert capsys.readouterr().err.startswith("warning: unknown ")


@pytest.mark.parametrize(
    ("name", "body", "shown"),
    [
        ("Float", struct.pack(">f", 0.1), b"0.1"),
        ("Float", struct.pack(">f", 3.4028234663852886e38), b"3.4028235E38"),
        ("Float", struct.pack(">f", 1e10), b"1.0E10"),
        ("Double", struct.pack(">d", 1e10), b"1.0E10"),
        ("Double", struct.pack(">d", 100.0), b"100.0"),
        ("Double", struct.pack(">d", 0.00012), b"1.2E-4"),
        ("Double", struct.pack(">d", float("inf")), b"Infinity"),
        ("Double", struct.pack(">d", float("nan")), b"NaN"),
        ("Integer", None, b"1853189228"),  # the bytes of the word null
        ("Boolean", b"\1", b"true"),
        ("UUID", b"0123ABCD-1-2-3-4", b"0123abcd-0001-0002-0003-000000000004"),
        ("Bytes", b"a\\\x00", rb"a\x5C\x00"),
        ("ByteBuffer", b"abc", b"java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]"),
        ("String", b"\xff", "\ufffd".encode()),
        ("ByteArray", b"\xff", b"\xff"),
    ],
)
def test_deserializers_write_as_javas(name: str, body: bytes | None, shown: bytes) -> None:
    properties = {"value.deserializer": f"org.apache.kafka.common.serialization.{name}Deserializer"}
    assert printed(formatter_of(DEFAULT, properties), FakeMessage(body=body)) == shown + b"\n"


@pytest.mark.parametrize(("name", "body"), [("Boolean", b"\2"), ("UUID", b"no"), ("Void", b"x"), ("Long", None)])
def test_undecodable_data_is_an_error(name: str, body: bytes | None) -> None:
    formatter = formatter_of(DEFAULT, {"value.deserializer": f"{name}Deserializer"})
    with pytest.raises(FormatError):
        printed(formatter, FakeMessage(body=body))


def test_the_logging_formatter_prints_and_logs(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(formatter_of("LoggingMessageFormatter", {}), FakeMessage(name=None)) == b"v\n"
    assert capsys.readouterr().err == "CreateTime:1000, key:null value:v\n"


def test_records_of_the_offsets_topic_are_printed_as_json() -> None:
    from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
    from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue

    key = OffsetCommitKey(group="g", topic="t", partition=1)
    made = group_record(GroupRecordType.OFFSET_COMMIT, key, OffsetCommitValue(offset=5), 3)
    record = Record(key=made.key, value=made.value)
    message = FakeMessage(name=record.key, body=record.value)
    shown = json.loads(printed(formatter_of("OffsetsMessageFormatter", {}), message))
    assert shown["key"] == {"type": 1, "data": {"group": "g", "topic": "t", "partition": 1}}
    assert (shown["value"]["version"], shown["value"]["data"]["offset"]) == (3, 5)
    assert printed(formatter_of("GroupMetadataMessageFormatter", {}), message) == b""


def test_the_consumer_reads_the_given_number_of_records_from_the_given_offset() -> None:
    FakeClient.messages = [FakeMessage(body=b"1"), FakeMessage(body=b"2"), FakeMessage(body=b"3")]
    read = run(
        "kafka-console-consumer", "--topic", "orders", "--group", "pay", "--from-beginning", "--max-messages", "2"
    )
    assert (read.stdout, read.stderr) == ("1\n2\n", "Processed a total of 2 messages\n")
    made = FakeClient.made_with
    assert (made["group.id"], made["auto.offset.reset"], made["enable.auto.commit"]) == ("pay", "earliest", True)
    assert RECORDS == [("subscribe", ["orders"], None), ("close", None, None)]
    RECORDS.clear()
    one = run("kafka-console-consumer", "--topic", "orders", "--partition", "1", "--offset", "5", "--timeout-ms", "0")
    assert one.exit_code == Exit.DONE and RECORDS[0] == ("assign", [("orders", 1, 5)], None)
    run("kafka-console-consumer", "--include", "a{1,2}", "--timeout-ms", "0")
    assert ("subscribe", ["^(a{1,2})$"], None) in RECORDS
    assert "__(consumer_offsets|" in FakeClient.made_with["topic.blacklist"]
    named = ["--command-property", "exclude.internal.topics=false"]
    run("kafka-console-consumer", "--include", ".*", "--timeout-ms", "0", *named)
    assert "topic.blacklist" not in FakeClient.made_with
    RECORDS.clear()
    run("kafka-console-consumer", "--topic", "t", "--partition", "0", "--offset", "EARLIEST", "--timeout-ms", "0")
    assert RECORDS[0] == ("assign", [("t", 0, OFFSET_BEGINNING)], None)
    none = run("kafka-console-consumer", "--topic", "t", "--max-messages", "0", "--enable-systest-events")
    assert (none.exit_code, none.stdout) == (Exit.DONE, "shutdown_complete\n")
    assert run("kafka-console-consumer", "--topic", "t", "--max-messages", "-1", "--timeout-ms", "0").exit_code == 0


@pytest.mark.parametrize("how", ["--group", "--consumer-property", "--command-config"])
def test_a_named_group_commits_and_a_generated_one_does_not(how: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("group.id=pay\n")
    value = {"--group": "pay", "--consumer-property": "group.id=pay", "--command-config": str(file)}[how]
    run("kafka-console-consumer", "--topic", "t", "--timeout-ms", "0", how, value)
    assert (FakeClient.made_with["group.id"], FakeClient.made_with["enable.auto.commit"]) == ("pay", True)
    run("kafka-console-consumer", "--topic", "t", "--timeout-ms", "0")
    assert FakeClient.made_with["enable.auto.commit"] is False
    other = run(
        "kafka-console-consumer", "--topic", "t", how, value, "--command-property", "group.id=y", "--group", "x"
    )
    assert other.exit_code == Exit.FAILED, "they differ, or stand twice"


def test_a_topic_that_is_missing_is_waited_for() -> None:
    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    FakeClient.messages = [FakeMessage(problem=unknown), FakeMessage(body=b"1")]
    read = run("kafka-console-consumer", "--topic", "late", "--max-messages", "1")
    assert (read.exit_code, read.stdout) == (Exit.DONE, "1\n")
    assert FakeClient.made_with["allow.auto.create.topics"] is True


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--topic", "a", "--include", "b"],
        ["--topic", "a", "--offset", "5"],
        ["--topic", "a", "--partition", "0", "--offset", "soon"],
        ["--topic", "a", "--partition", "0", "--group", "g"],
        ["--include", "a", "--partition", "0"],
        ["--topic", "a", "--partition", "0", "--offset", "1", "--from-beginning"],
        ["--topic", "a", "--formatter", "Nope"],
        ["--topic", "a", "--from-beginning", "--command-property", "auto.offset.reset=latest"],
        ["--topic", "a", "--group", "x", "--command-property", "group.id=y"],
    ],
    ids=" ".join,
)
def test_a_consumer_that_cannot_be_is_wrong_usage(words: list[str]) -> None:
    assert run("kafka-console-consumer", *words).exit_code == Exit.FAILED


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


VERIFIABLE_PRODUCER = ("kafka-verifiable-producer", "--topic", "orders")
VERIFIABLE_CONSUMER = ("kafka-verifiable-consumer", "--topic", "orders", "--group-id", "g")


def test_each_acknowledgement_is_an_event() -> None:
    words = ["--max-messages", "3", "--repeating-keys", "2", "--value-prefix", "9"]
    found = events(run(*VERIFIABLE_PRODUCER, *words))
    assert [each["name"] for each in found] == [
        "startup_complete",
        *["producer_send_success"] * 3,
        "shutdown_complete",
        "tool_data",
    ]
    assert [(each["key"], each["value"], each["offset"]) for each in found[1:4]] == [
        ("0", "9.0", 0),
        ("1", "9.1", 1),
        ("0", "9.2", 2),
    ]
    assert (found[-1]["sent"], found[-1]["acked"], found[-1]["target_throughput"]) == (3, 3, -1)


def test_a_rejection_is_an_event_and_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeClient, "refused", b"1")
    result = run(*VERIFIABLE_PRODUCER, "--max-messages", "2")
    assert result.exit_code == Exit.FAILED
    (failed,) = [each for each in events(result) if each["name"] == "producer_send_error"]
    assert (failed["value"], failed["topic"], failed["exception"]) == ("1", "orders", "MSG_SIZE_TOO_LARGE")


def test_consumed_and_committed_records_are_events() -> None:
    FakeClient.messages = [FakeMessage(place=("orders", 0, 4)), FakeMessage(place=("orders", 0, 5)), FakeMessage()]
    found = events(run(*VERIFIABLE_CONSUMER, "--max-messages", "3", "--verbose"))
    names = ["startup_complete", *["record_data"] * 3, "records_consumed", "offsets_committed", "shutdown_complete"]
    assert [each["name"] for each in found] == names
    assert found[4]["count"] == 3 and found[4]["partitions"][0] == {
        **{"topic": "orders", "partition": 0},
        **{"count": 2, "minOffset": 4, "maxOffset": 5},
    }
    assert found[5]["offsets"][0] == {"topic": "orders", "partition": 0, "offset": 6} and found[5]["success"] is True
    assert ("commit", [("orders", 0, 6), ("orders", 1, 8)], None) in RECORDS
    assert FakeClient.made_with["group.id"] == "g"


def test_an_error_that_stays_ends_the_consumer() -> None:
    FakeClient.messages = [FakeMessage(problem=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]
    result = run(*VERIFIABLE_CONSUMER)
    assert result.exit_code == Exit.FAILED
    assert [each["name"] for each in events(result)] == ["startup_complete", "error", "shutdown_complete"]
