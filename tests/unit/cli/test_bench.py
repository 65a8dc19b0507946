"""What `kvorum bench` makes of a stage, and what it says when a cluster does not do its part."""

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError

from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cli.perf import loads
from kvorum.cli.perf.loads import LoadError, Timed, row_of


class FakeProducer:
    """Takes `room` records at a time; delivers when it is polled, those after `good` with an error."""

    def __init__(self, room: int = 3, good: int = 1_000) -> None:
        self.room, self.good = room, good
        self.waiting: list[object] = []
        self.delivered = 0

    def list_topics(self, topic: str, timeout: float) -> None:
        pass

    def produce(self, topic: str, value: bytes, on_delivery: object) -> None:
        if len(self.waiting) >= self.room:
            raise BufferError
        self.waiting.append(on_delivery)

    def poll(self, seconds: float) -> int:
        for done in self.waiting:
            self.delivered += 1
            done(None if self.delivered <= self.good else KafkaError(KafkaError._MSG_TIMED_OUT), None)  # type: ignore[operator]
        self.waiting.clear()
        return 0

    flush = poll


def test_rates_are_of_pipelined_and_quantiles_of_single_requests() -> None:
    many = row_of(Timed(what="produce", records=2_000, seconds=2.0, size=1024))
    assert (many["records_per_second"], many["mib_per_second"], many["p50_ms"]) == (1000, 1.0, None)
    single = row_of(Timed(what="latency", records=4, seconds=1.0, size=1, single=[0.004, 0.001, 0.002, 0.003]))
    assert single["records_per_second"] is None
    assert (single["p50_ms"], single["p99_ms"], single["max_ms"]) == (3.0, 4.0, 4.0)


def test_the_client_is_waited_for_when_it_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "Producer", lambda options: FakeProducer(room=3))
    assert loads.produce("", "t", 10, 5).records == 10


def test_a_stage_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "Producer", lambda options: FakeProducer())
    monkeypatch.setattr(loads, "AT_ONCE", 5)
    monkeypatch.setattr(loads, "STAGE_SECONDS", 1e-9)
    assert loads.produce("", "t", 10**9, 5).records <= 5


def test_records_that_are_not_acknowledged_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "Producer", lambda options: FakeProducer(good=7))
    with pytest.raises(LoadError, match="3 of 10 records were not acknowledged"):
        loads.produce("", "t", 10, 5)


def test_a_cluster_that_cannot_be_reached_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "REACH_SECONDS", 0.1)
    done = CliRunner().invoke(main, ["bench", "-b", "127.0.0.1:1"])
    assert (done.exit_code, "nothing listens on" in done.output) == (Exit.UNREACHABLE, True)
