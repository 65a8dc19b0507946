"""Performance tests: what is counted, the lines they print, and clients that fail."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from confluent_kafka import KafkaError

from kvorum.cli.kafka.perf_consumer_stats import DATE_FORMAT, ConsumerStats, DateFormatError, date_text, header_line
from kvorum.cli.kafka.perf_payloads import draw_payloads, number_payloads, random_payloads, read_payloads
from kvorum.cli.kafka.perf_producer_run import Load, run_producer
from kvorum.cli.kafka.perf_producer_stats import ProducerStats
from kvorum.cli.output import Exit
from tests.unit.cli.fake_cluster import FakeCluster, run


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_producers_lines_are_kafkas() -> None:
    sent = ProducerStats(expected=1_000, start_ms=0)
    for number in range(999):
        assert sent.record(number, 1_024, number) == []
    assert sent.record(5_000, 1_024, 5_000) == [
        "1000 records sent, 200.0 records/sec (0.20 MB/sec), 503.5 ms avg latency, 5000.0 ms max latency."
    ]
    assert sent.total_line(10_000) == (
        "1000 records sent, 100.000000 records/sec (0.10 MB/sec), 503.50 ms avg latency, 5000.00 ms max latency, "
        "500 ms 50th, 950 ms 95th, 990 ms 99th, 5000 ms 99.9th."
    )


def test_measurements_after_the_warm_up_have_separate_lines() -> None:
    steady = ProducerStats(expected=2, start_ms=1_000, is_steady=True)
    assert steady.record(1, 10, 6_000)[0] == "In steady state."
    assert not any("steady" in line for line in steady.record(1, 10, 12_000))
    assert steady.total_line(13_000).startswith("2 steady state records sent, 0.166667 records/sec")


def test_of_many_records_only_some_latencies_are_kept() -> None:
    sent = ProducerStats(expected=2_000_000, start_ms=0)
    for number in range(40):
        sent.record(number, 1, 0)
    assert sent.latencies_ms == list(range(0, 40, 4))


@pytest.mark.usefixtures("utc")
def test_a_consumers_lines_are_kafkas() -> None:
    assert header_line(detailed=False) == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )
    assert header_line(detailed=True).startswith("time, threadId, data.consumed.in.MB")
    read = ConsumerStats(0.0)
    read.add_join(1_000)
    read.count, read.size = 500, 5 * 1024 * 1024
    assert read.is_due(5_000, 5_000) and not read.is_due(4_999, 5_000)
    line = read.progress_line(5_000, DATE_FORMAT)
    assert line == "1970-01-01 00:00:05:000, 0, 5.0000, 1.0000, 500, 100.0000, 1000, 4000, 1.2500, 125.0000"
    read.count, read.size = 600, 6 * 1024 * 1024
    line = read.progress_line(6_000, "HH:mm")
    assert line == "00:00, 0, 6.0000, 1.0000, 600, 100.0000, 0, 1000, 1.0000, 100.0000"
    assert read.total_line(11_000, DATE_FORMAT) == (
        "1970-01-01 00:00:00:000, 1970-01-01 00:00:11:000, 6.0000, 0.5455, 600, 54.5455, 1000, 10000, 0.6000, 60.0000"
    )


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("java", "text"),
    [
        (DATE_FORMAT, "2009-02-13 23:31:30:123"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", "2009-02-13T23:31:30.123+0000"),
        ("EEE, d''", None),
        ("h 'o''clock", None),
        ("'o''clock' hh a", "o'clock 11 PM"),
    ],
)
def test_dates_are_written_as_java_writes_them(java: str, text: str | None) -> None:
    if text is None:
        with pytest.raises(DateFormatError):
            date_text(1_234_567_890_123, java)
    else:
        assert date_text(1_234_567_890_123, java) == text


def test_payloads_are_the_same_in_every_run() -> None:
    first, again = random_payloads(100), random_payloads(100)
    found = [next(first) for _ in range(50)]
    assert found == [next(again) for _ in range(50)] and len(set(found)) == 50
    assert all(re.fullmatch(rb"[A-Z]{100}", each) for each in found)
    numbers = number_payloads()
    assert [next(numbers) for _ in range(3)] == [b"0", b"1", b"2"]
    drawn = draw_payloads([b"a", b"b"])
    assert {next(drawn) for _ in range(50)} == {b"a", b"b"}


class FakeProducer:
    """Delivers when it is polled; every third record is refused. Has room for two."""

    def __init__(self) -> None:
        self.queue: list[Callable[..., None]] = []
        self.taken = 0
        self.calls: list[str] = []

    def produce(self, topic: str, value: bytes, on_delivery: Callable[..., None]) -> None:
        if len(self.queue) == 2:
            raise BufferError
        self.taken += 1
        self.queue.append(on_delivery)

    def poll(self, seconds: float) -> int:
        if seconds or self.taken % 2:
            self.deliver()
        return 0

    def deliver(self) -> None:
        for number, each in enumerate(self.queue):
            each(KafkaError(KafkaError._MSG_TIMED_OUT) if (self.taken + number) % 3 == 0 else None, None)
        self.queue.clear()

    def flush(self, seconds: float) -> int:
        self.deliver()
        return 0

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.calls.append(name)


def test_records_that_are_refused_are_reported_and_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = FakeProducer()
    load = Load(topic="t", count=30, throughput=10_000.0, warmup=10, transaction_ms=60_000)
    sender = run_producer(client, load, number_payloads())
    printed = capsys.readouterr()
    failed = sum(sender.failed.values())
    assert failed and sender.all.total.count == 30 - failed
    assert f"{failed} records were not acknowledged" in printed.err
    lines = printed.out.splitlines()
    assert lines[0].startswith("Warmup first 10 records.")
    assert lines[1].startswith(f"{30 - failed} records sent, ") and " steady state records sent, " in lines[2]
    assert client.calls == ["init_transactions", "begin_transaction", "commit_transaction"]


def test_unacknowledged_records_fail_the_test(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = FakeProducer()
    client.flush = lambda seconds: 7
    sender = run_producer(client, Load(topic="t", count=2), number_payloads())
    assert (
        sum(sender.failed.values()) >= 7
        and "7 records were not acknowledged: not within 60 s" in capsys.readouterr().err
    )


def test_payloads_of_a_file_are_split_at_delimiters_for_any_bytes(tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_bytes(b"one,two,,\xff,")
    assert read_payloads(str(file), ",") == [b"one", b"two", b"", "\ufffd".encode()]
    assert read_payloads(str(file), "[,]+") == [b"one", b"two", "\ufffd".encode()]
    for delimiter in ("", "x*", "("):
        with pytest.raises(click.UsageError):
            read_payloads(str(file), delimiter)
    words = ["--topic", "t", "--num-records", "1", "--throughput", "-1", "--payload-file", str(file)]
    printed = run(
        FakeCluster(), "kafka-producer-perf-test", "--bootstrap-server", "b:1", *words, "--payload-delimiter", ""
    )
    assert printed.code == Exit.FAILED and f"Reading payloads from: {file}" in printed.out


def test_topics_to_read_are_matched_by_their_whole_names(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    topics: list[Any] = []
    monkeypatch.setattr("confluent_kafka.Consumer", lambda options: made.append(options))
    monkeypatch.setattr(
        "kvorum.cli.kafka.perf_consumer.run_consumer", lambda _, reading, header: topics.append(reading.topics)
    )
    words = ["--include", "fa.t", "--num-records", "1", "--command-property", "group.id=x"]
    printed = run(FakeCluster(), "kafka-consumer-perf-test", "--bootstrap-server", "b:1", *words, "--group", "mine")
    assert printed.code == Exit.DONE and topics == [["^(fa.t)$"]]
    assert made[0]["group.id"] == "mine" and "__(consumer_offsets" in made[0]["topic.blacklist"]


def test_old_option_names_have_each_tools_own_message() -> None:
    printed = run(FakeCluster(), "kafka-consumer-perf-test", "--topic", "t", "--messages", "1")
    assert printed.out == "Warning: --messages is deprecated. Use --num-records instead.\n"
    both = ["--producer-props", "acks=1", "--command-property", "acks=0"]
    words = ["--topic", "t", "--num-records", "1", "--throughput", "-1", "--record-size", "1"]
    refused = run(FakeCluster(), "kafka-producer-perf-test", *words, *both)
    assert "cannot be specified together" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-records", "0", "--record-size", "1"], "--num-records should be greater than zero"),
        (["--num-records", "1", "--record-size", "0"], "--record-size should be greater than zero"),
        (["--num-records", "1"], "exactly one of --record-size, --payload-file and --payload-monotonic"),
        (["--num-records", "1", "--record-size", "1", "--warmup-records", "1"], "strictly fewer"),
        (["--num-records", "1", "--record-size", "1", "--producer-props", "acks"], "'acks' is not KEY=VALUE"),
        (["--num-records", "1", "--record-size", "1", "--producer-props", "a.b=1"], "a.b"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_tests_are_refused(words: list[str], message: str) -> None:
    base = ["kafka-producer-perf-test", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--throughput", "-1"]
    printed = run(FakeCluster(), *base, *words)
    assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err


def test_a_consumer_needs_a_topic_a_count_and_a_date_format_that_is_one() -> None:
    base = ["kafka-consumer-perf-test", "--bootstrap-server", "127.0.0.1:1"]
    for words, message in (
        (["--num-records", "1"], "[topic], [include]"),
        (["--topic", "t"], "[num-records]"),
        (["--topic", "t", "--messages", "1", "--date-format", "QQ"], "unknown pattern QQ"),
    ):
        printed = run(FakeCluster(), *base, *words)
        assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err
