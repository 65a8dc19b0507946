"""What `produce` and `make run` do with a client that has no room, refuses a record, or cannot deliver it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kvorum.cli.records.record_sender import ProducerRecord, RecordSender
from kvorum.cli.records.stream import Stream

Delivered = Callable[[object, object], None]


class FakeProducer:
    """A client with a queue of `room` records; takes none longer than 10 bytes, and delivers when it is polled."""

    def __init__(self, room: int = 3, delivers: bool = True, refuses: bytes = b"") -> None:
        self.room = room
        self.delivers = delivers
        self.refuses = refuses
        self.topic: list[bytes] = []
        self.queue: list[tuple[bytes, Delivered]] = []
        self.full = threading.Event()

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Delivered | None = None,
        headers: object = None,
    ) -> None:
        assert on_delivery is not None
        if len(value) > 10:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.queue) >= self.room:
            self.full.set()
            raise BufferError("Local: Queue full")
        self.queue.append((value, on_delivery))

    def poll(self, seconds: float) -> int:
        return self.flush(seconds) if seconds else 0

    def flush(self, seconds: float) -> int:
        if self.delivers:
            queue, self.queue = self.queue, []
            for value, done in queue:
                refused = bool(self.refuses) and value.startswith(self.refuses)
                if not refused:
                    self.topic.append(value)
                done(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) if refused else None, None)
        return len(self.queue)

    def purge(self) -> None:
        queue, self.queue = self.queue, []
        for _, done in queue:
            done(KafkaError(KafkaError._PURGE_QUEUE), None)

    def __len__(self) -> int:
        return len(self.queue)


def lines(count: int, *, long: int | None = None) -> Iterator[tuple[bytes | None, bytes]]:
    for number in range(count):
        yield None, b"far too long a line" if number == long else b"%d" % number


def stream(producer: FakeProducer, records: Iterator[tuple[bytes | None, bytes]]) -> Stream:
    def make(options: dict[str, Any]) -> FakeProducer:
        assert options["bootstrap.servers"] == "h:1"
        return producer

    return Stream("h:1", "t", records, make)


def test_a_full_queue_only_delays(capsys: pytest.CaptureFixture[str]) -> None:
    producer = FakeProducer()
    sends = stream(producer, lines(1_000))
    sends.run()
    assert producer.full.is_set()
    assert (sends.acknowledged, sends.failed, len(producer.topic)) == (1_000, 0, 1_000)
    assert "1000 records were delivered" in capsys.readouterr().out


def test_too_long_a_line_is_reported_and_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    producer = FakeProducer()
    sends = stream(producer, lines(20, long=5))
    sends.run()
    assert (sends.acknowledged, sends.failed) == (19, 1)
    message = capsys.readouterr().err
    assert "a record was not delivered" in message and "1 records were not delivered, 19 were" in message


def test_rejections_of_the_cluster_are_reported_once_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    sends = stream(FakeProducer(refuses=b"1"), lines(20))
    sends.run()
    assert (sends.acknowledged, sends.failed) == (9, 11)
    message = capsys.readouterr().err
    assert message.count("a record was not delivered") == 1 and "11 records were not delivered, 9 were" in message


def test_a_stop_does_not_wait_for_undeliverable_records(capsys: pytest.CaptureFixture[str]) -> None:
    producer = FakeProducer(delivers=False)
    sends = stream(producer, lines(1_000))
    sends.start()
    assert producer.full.wait(30)
    sends.stop()
    assert not sends.is_alive()
    assert (sends.acknowledged, sends.failed) == (0, 3)
    assert "3 records were not delivered" in capsys.readouterr().err


def test_no_lines_at_all_end_at_once() -> None:
    sends = stream(FakeProducer(), lines(0))
    sends.run()
    assert (sends.acknowledged, sends.failed) == (0, 0)
    sends.stop()  # never started as a thread: nothing to wait for


def test_produce_sends_lines_before_and_after_an_oversized_one() -> None:
    producer: Any = FakeProducer()
    sending = RecordSender(producer, "t")
    for key, value in lines(20, long=5):
        sending.send(ProducerRecord(key, value))
    assert sending.finish(1.0) == 1
    assert (sending.sent, sending.acknowledged, sending.failed, len(producer.topic)) == (20, 19, 1, 19)
    assert sending.reason == "Broker: Message size too large (MSG_SIZE_TOO_LARGE)"


def test_the_first_reason_and_the_number_of_rejections_are_kept() -> None:
    """However many there are: a list of them would grow as long as somebody sends."""
    sending = RecordSender(FakeProducer(refuses=b"1"), "t")
    for number in range(1_000):
        sending.send(ProducerRecord(None, b"%d" % (100 + number % 100)))
    assert sending.finish(1.0) == 1_000
    assert not [each for each in vars(sending).values() if isinstance(each, list | dict | set)]
