"""`kvorum consume`: where it begins and ends, how records are printed, and when it is over."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, TopicPartition

from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cli.records.record_formats import FormatError, compile_format, plain
from kvorum.cli.topics.offset_ranges import Bound, Kind, Range, RangeError, join_ranges, parse_range, resolve_bound
from tests.unit.cli.test_console_clients import FakeMessage

NOW = 1_000_000_000_000
TIME = Kind.TIME


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("start", Range(Bound(Kind.START))),
        ("beginning", Range(Bound(Kind.START))),
        ("End", Range(Bound(Kind.END))),
        ("0", Range(Bound(Kind.OFFSET, 0))),
        ("-5", Range(Bound(Kind.BEFORE_END, 5))),
        ("+5", Range(Bound(Kind.AFTER_START, 5))),
        ("@1700000000", Range(Bound(TIME, 1_700_000_000_000))),
        ("@1700000000123", Range(Bound(TIME, 1_700_000_000_123))),
        ("@2023-11-14T22:13:20Z", Range(Bound(TIME, 1_700_000_000_000))),
        ("@2023-11-14T23:13:20+01:00", Range(Bound(TIME, 1_700_000_000_000))),
        ("@2023-11-14", Range(Bound(TIME, 1_699_920_000_000))),
        ("@-1h30m", Range(Bound(TIME, NOW - 5_400_000))),
        ("s@5", Range(Bound(TIME, 5_000))),
        ("e@1700000000123", Range(Bound(Kind.START), Bound(TIME, 1_700_000_000_123))),
        ("1:5", Range(Bound(Kind.OFFSET, 1), Bound(Kind.OFFSET, 5))),
        (":end", Range(Bound(Kind.START), Bound(Kind.END))),
        ("7:", Range(Bound(Kind.OFFSET, 7))),
        ("-10:end", Range(Bound(Kind.BEFORE_END, 10), Bound(Kind.END))),
        ("@2023-11-14T22:13:end", Range(Bound(TIME, 1_699_999_980_000), Bound(Kind.END))),
        ("@-1h:@-30m", Range(Bound(TIME, NOW - 3_600_000), Bound(TIME, NOW - 1_800_000))),
    ],
)
def test_a_place_is_a_number_an_end_a_time_or_a_range(text: str, where: Range) -> None:
    assert parse_range(text, NOW) == where


@pytest.mark.parametrize("text", ["", ":", "soon", "@", "@noon", "1:2:3", str(2**63), "²", "@²", "-", "@-1y"])
def test_invalid_offsets_are_refused(text: str) -> None:
    with pytest.raises(RangeError):
        parse_range(text, NOW)


def test_two_halves_are_one_range() -> None:
    halves = [parse_range("s@5", NOW), parse_range("e@6", NOW)]
    assert join_ranges(halves) == Range(Bound(TIME, 5_000), Bound(TIME, 6_000))
    for wrong in ([halves[0], halves[0]], halves * 2):
        with pytest.raises(RangeError):
            join_ranges(wrong)


def test_places_are_within_the_log() -> None:
    for bound, offset in (
        (Bound(Kind.START), 10),
        (Bound(Kind.END), 100),
        (Bound(Kind.BEFORE_END, 5), 95),
        (Bound(Kind.BEFORE_END, 500), 10),
        (Bound(Kind.AFTER_START, 5), 15),
        (Bound(Kind.AFTER_START, 500), 100),
        (Bound(Kind.OFFSET, 7), 7),
    ):
        assert resolve_bound(bound, 10, 100, None) == offset
    assert resolve_bound(Bound(TIME, 1), 10, 100, 42) == 42
    assert resolve_bound(Bound(TIME, 1), 10, 100, -1) == 100, "nothing is so late"


def test_a_format_is_kcats_and_rpks() -> None:
    message: Any = FakeMessage(body=b"v\xff", name=None, marks=[("a", b"1"), ("b", None)])
    write = compile_format(r"%t/%p/%o %T %d %e [%k|%s|%v] %K %S %V %h %H %%\n\x00", null=b"NULL")
    assert write(message) == b"orders/1/7 1000 1000 3 [NULL|v\xff|v\xff] -1 2 2 a=1,b=NULL 2 %\n\x00"
    assert compile_format("%k")(message) == b""
    with pytest.raises(FormatError, match="%q"):
        compile_format("%q")
    assert plain(b"\n", key_delimiter=b"\t", null=b"NULL")(message) == b"NULL\tv\xff\n"


class FakeTopic:
    def __init__(self, partitions: Sequence[int], error: KafkaError | None = None) -> None:
        self.partitions, self.error = dict.fromkeys(partitions), error


class FakeConsumer:
    """Two topics, `orders` of two partitions and `pay` of one, with offsets 10 to 19 each."""

    messages: Sequence[FakeMessage] = ()
    made_with: dict[str, Any]
    topics = ("orders", "pay")

    def __init__(self, options: dict[str, Any]) -> None:
        FakeConsumer.made_with = options
        self.left: list[FakeMessage | None] = list(FakeConsumer.messages)

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        there = {"orders": FakeTopic([0, 1]), "pay": FakeTopic([0]), "__internal": FakeTopic([0])}
        unknown = FakeTopic([], KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        found = there if topic is None else {topic: there.get(topic, unknown)}
        return type("Metadata", (), {"topics": found})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        return 10, 20

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, 15 if each.offset < NOW else -1) for each in places]

    def assign(self, places: list[TopicPartition]) -> None:
        CALLS.append(("assign", [(each.topic, each.partition, each.offset) for each in places]))

    def subscribe(self, topics: list[str], on_assign: Any, on_revoke: Any) -> None:
        CALLS.append(("subscribe", topics))
        on_assign(self, [TopicPartition("orders", 0), TopicPartition("orders", 1)])

    def store_offsets(self, message: FakeMessage) -> None:
        CALLS.append(("stored", message.offset()))

    def poll(self, seconds: float) -> FakeMessage | None:
        return self.left.pop(0) if self.left else None

    def close(self) -> None:
        CALLS.append(("close", None))


CALLS: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client speaks to anybody."""
    CALLS.clear()
    FakeConsumer.messages = ()
    monkeypatch.setattr("confluent_kafka.Consumer", FakeConsumer)


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, ["consume", *words, "-b", "b:1"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def at_end(partition: int, offset: int = 20, topic: str = "orders") -> FakeMessage:
    return FakeMessage(place=(topic, partition, offset), problem=KafkaError(KafkaError._PARTITION_EOF))


@pytest.mark.parametrize(
    ("words", "starts", "reset"),
    [
        (["-p", "0"], [OFFSET_END], "error"),
        (["-p", "0", "--from-beginning"], [OFFSET_BEGINNING], "earliest"),
        (["-p", "0", "-o", "beginning"], [OFFSET_BEGINNING], "earliest"),
        (["--offset", "12"], [12, 12], "error"),
        (["--offset", "-3"], [17, 17], "error"),
        (["-o", "-3"], [17, 17], "error"),
        (["--offset", "@5"], [15, 15], "error"),
        (["-o", "s@5", "-o", "e@9999999999999"], [15, 15], "error"),
        (["--offset", "+2:end"], [12, 12], "error"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value and isinstance(value[0], str) else "",
)
def test_it_begins_at_the_given_offset(words: list[str], starts: list[int], reset: str) -> None:
    assert run("orders", *words, "--timeout-ms", "0").exit_code == Exit.DONE
    assert CALLS[0] == ("assign", [("orders", index, start) for index, start in enumerate(starts)])
    assert FakeConsumer.made_with["auto.offset.reset"] == reset, "and nowhere else"


def test_a_missing_offset_is_reported() -> None:
    for offset in ("9", "21"):
        printed = run("orders", "--offset", offset, "-e")
        assert (printed.exit_code, "its records are 10 to 19" in printed.stderr) == (Exit.FAILED, True)


def test_a_range_ends_before_its_end() -> None:
    FakeConsumer.messages = [
        FakeMessage(place=("orders", 0, 12), body=b"a"),
        FakeMessage(place=("orders", 0, 14), body=b"behind"),  # 13 was compacted away
        FakeMessage(place=("orders", 1, 12), body=b"b"),
        at_end(1, 13),
        FakeMessage(place=("orders", 1, 13), body=b"c"),
    ]
    printed = run("orders", "--offset", "12:14", "-n", "9")
    assert (printed.exit_code, printed.stdout) == (Exit.DONE, "a\nb\nc\n")
    assert run("orders", "--offset", "12:12").stdout == "", "an empty one is over at once"


def test_a_range_whose_end_is_before_its_beginning_is_pointed_out() -> None:
    printed = run("orders", "--offset", "15:13")
    assert (printed.exit_code, printed.stdout) == (Exit.DONE, "")
    assert printed.stderr == "warning: 15:13 is empty: the end is before the beginning\n"


def test_a_topic_that_does_not_exist_is_named_with_the_one_that_may_be_meant() -> None:
    printed = run("ordres")
    assert (printed.exit_code, printed.stderr) == (Exit.NOT_FOUND, "kvorum: no topic ordres; did you mean orders?\n")


def test_it_ends_at_the_end_of_all_partitions() -> None:
    FakeConsumer.messages = [
        FakeMessage(place=("orders", 0, 19)),
        at_end(0),
        FakeMessage(place=("orders", 1, 19)),
        at_end(1),
    ]
    printed = run("orders", "-e", "-f", "%p %o\\n")
    assert (printed.exit_code, printed.stdout) == (Exit.DONE, "0 19\n1 19\n")


def test_several_topics_by_name_or_by_pattern() -> None:
    run("orders", "pay", "--timeout-ms", "0")
    assert [each[:2] for each in CALLS[0][1]] == [("orders", 0), ("orders", 1), ("pay", 0)]
    CALLS.clear()
    run(".*a.*", "-r", "--timeout-ms", "0")
    assert [each[:2] for each in CALLS[0][1]] == [("pay", 0)], "of whole names, and no internal ones"
    for words in (["no.*", "-r"], ["nope"], ["orders", "-p", "7"]):
        assert run(*words, "-e").exit_code == Exit.NOT_FOUND


def test_a_group_commits_printed_records_and_subscribes_by_names_or_patterns() -> None:
    FakeConsumer.messages = [FakeMessage(place=("orders", 0, 19)), at_end(0), at_end(1)]
    assert run("orders", "-G", "pay", "-e", "--offset", "start").stdout == "v\n"
    assert CALLS == [("subscribe", ["orders"]), ("stored", 19), ("close", None)]
    made = FakeConsumer.made_with
    assert (made["group.id"], made["enable.auto.commit"], made["enable.auto.offset.store"]) == ("pay", True, False)
    assert made["auto.offset.reset"] == "earliest"
    CALLS.clear()
    run("or.*", "-r", "-g", "pay", "--timeout-ms", "0")
    assert CALLS[0] == ("subscribe", ["^(or.*)$"])


def test_json_has_all_fields_of_a_record_or_only_metadata() -> None:
    FakeConsumer.messages = [FakeMessage(body=None, marks=[("h", b"\xff")])]
    found = json.loads(run("orders", "-J", "-n", "1").stdout)
    assert found == {
        **{"topic": "orders", "partition": 1, "offset": 7, "timestamp": 1000, "timestamp_type": "CreateTime"},
        **{"leader_epoch": 3, "key": "k", "value": None, "headers": [["h", {"base64": "/w=="}]]},
    }
    meta = json.loads(run("orders", "--meta-only", "-n", "1").stdout)
    assert (meta["key_size"], meta["value_size"], "value" in meta) == (1, None, False)
    assert len(run("orders", "--pretty-print", "-n", "1").stdout.splitlines()) > 5


def test_keys_and_nulls_in_plain_text() -> None:
    FakeConsumer.messages = [FakeMessage(body=None), FakeMessage(name=None, body=b"x")]
    assert run("orders", "-K", ":", "-D", "|", "-Z", "-n", "2").stdout == "k:NULL|NULL:x|"


def test_isolation_and_rack_are_passed_to_the_client() -> None:
    run("orders", "--timeout-ms", "0")
    assert FakeConsumer.made_with["isolation.level"] == "read_committed"
    run("orders", "--read-uncommitted", "--rack", "b", "--timeout-ms", "0")
    assert (FakeConsumer.made_with["isolation.level"], FakeConsumer.made_with["client.rack"]) == (
        "read_uncommitted",
        "b",
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--from-beginning", "--offset", "5"],
        ["--offset", "5", "-o", "6"],
        ["-G", "g", "-p", "0"],
        ["-G", "g", "--offset", "5"],
        ["-G", "g", "--offset", ":end"],
        ["-f", "%t", "-J"],
        ["-f", "%t", "-K", ":"],
        ["-f", "%q"],
        ["-D", "\\q"],
        ["-o", "xml"],
    ],
    ids=" ".join,
)
def test_conflicting_options_are_wrong_usage(words: list[str]) -> None:
    assert run("orders", *words).exit_code == Exit.USAGE


def test_an_error_that_stays_ends_it_and_a_broker_less_does_not() -> None:
    lost = FakeMessage(problem=KafkaError(KafkaError._TRANSPORT))
    FakeConsumer.messages = [lost, FakeMessage(), FakeMessage(problem=KafkaError(KafkaError._AUTO_OFFSET_RESET))]
    printed = run("orders")
    assert (printed.exit_code, printed.stdout) == (Exit.FAILED, "v\n")
