"""Properties of Java's clients as librdkafka is told them; its log, and brokers that are not there."""

import logging
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kvorum.cli.connection.client_properties import JAVA_ONLY, NAMES, PropertyError, translate_properties
from kvorum.cli.connection.librdkafka import SAID_MAX, ClientEvents, fetch_metadata
from kvorum.cli.main import main
from kvorum.cli.output import Exit


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ({"fetch.max.wait.ms": "7"}, {"fetch.wait.max.ms": "7"}),
        ({"receive.buffer.bytes": "-1"}, {"socket.receive.buffer.bytes": 0}),
        ({"send.buffer.bytes": "65536"}, {"socket.send.buffer.bytes": "65536"}),
        ({"max.request.size": "5"}, {"message.max.bytes": "5"}),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": 32768}),
        ({"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
        ({"auto.offset.reset": "earliest"}, {"auto.offset.reset": "earliest"}),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor, roundrobin"},
            {"partition.assignment.strategy": "range,roundrobin"},
        ),
        (
            {"compression.type": "zstd", "compression.zstd.level": "9", "compression.gzip.level": "1"},
            {"compression.type": "zstd", "compression.level": "9"},
        ),
        ({"exclude.internal.topics": "true", "topic.blacklist": "x"}, {"topic.blacklist": "x"}),
        ({"exclude.internal.topics": "false", "topic.blacklist": "x"}, {}),
        ({"linger.ms": "5", "acks": "all"}, {"linger.ms": "5", "acks": "all"}),
    ],
)
def test_properties_with_another_name_or_unit_are_translated(java: dict[str, str], ours: dict[str, Any]) -> None:
    assert translate_properties(java) == (ours, [])


def test_java_only_properties_are_named_and_invalid_ones_refused() -> None:
    assert translate_properties({"max.block.ms": "5", "linger.ms": "1"}) == ({"linger.ms": "1"}, ["max.block.ms"])
    for wrong in (
        {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor"},
        {"partitioner.class": "org.mine.Partitioner"},
        {"buffer.memory": "much"},
    ):
        with pytest.raises(PropertyError):
            translate_properties(wrong)


def test_librdkafka_takes_every_name_that_is_translated() -> None:
    """And none that is said to be Java's alone, which it would be a mistake to leave out."""
    values = {"partition.assignment.strategy": "range", "auto.offset.reset": "none", "partitioner.class": "x"}
    for java in NAMES:
        if java != "partitioner.class":
            made = translate_properties({java: values.get(java, "100000")}).properties
            Consumer({"group.id": "g", **made}).close()
            assert made
    for java in JAVA_ONLY:
        with pytest.raises(KafkaException):
            Producer({java: "1"})


def test_a_clients_log_has_each_message_once(capsys: pytest.CaptureFixture[str]) -> None:
    log: logging.Logger = ClientEvents().options()["logger"]
    for port in (1, 2, 1, 2, 1):
        broker = f"h:{port}/bootstrap"
        log.error("%s [%s] %s", "FAIL", "p", f"[thrd:{broker}]: {broker}: Connect failed (after {port} ms)")
    log.warning("%s [%s] %s", "CONFWARN", "p", "[thrd:app]: Configuration property a is ignored")
    log.warning("%s [%s] %s", "CONFWARN", "p", "[thrd:app]: Configuration property b is ignored")
    assert capsys.readouterr().err.splitlines() == [
        "warning: h:1/bootstrap: Connect failed (after 1 ms)",
        "warning: h:2/bootstrap: Connect failed (after 2 ms)",
        "warning: Configuration property a is ignored",
        "warning: Configuration property b is ignored",
    ]
    for number in range(2 * SAID_MAX):
        log.warning("%s [%s] %s", "X", "p", f"[thrd:app]: {number}")
    assert len(capsys.readouterr().err.splitlines()) == SAID_MAX - 4


class Asked:
    """A client whose brokers answer the so-many-th time they are asked, or are all away."""

    def __init__(self, watch: ClientEvents, answers_at: int, *, is_down: bool) -> None:
        self.watch, self.answers_at, self.is_down, self.requested = watch, answers_at, is_down, 0

    def list_topics(self, topic: str | None, timeout: float) -> str:
        self.requested += 1
        if self.requested < self.answers_at:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return f"all of {topic}"

    def poll(self, seconds: float) -> None:
        if self.is_down:
            self.watch.on_error(KafkaError(KafkaError._TRANSPORT, "refused"))
            self.watch.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))


def test_brokers_that_are_slow_are_waited_for_and_brokers_that_are_missing_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watch = ClientEvents()
    assert fetch_metadata(Asked(watch, 3, is_down=False), watch, "t") == "all of t"
    away = Asked(watch, 100, is_down=True)
    with pytest.raises(SystemExit) as ended:
        fetch_metadata(away, watch, "t")
    assert (ended.value.code, away.requested) == (Exit.UNREACHABLE, 1)
    assert capsys.readouterr().err == "kvorum: no broker could be reached: refused\n"


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "t"],
        ["consume", "t", "-e"],
    ],
    ids=" ".join,
)
def test_a_command_ends_at_once_if_the_port_is_closed(words: list[str]) -> None:
    result = CliRunner().invoke(main, [*words, "-b", "127.0.0.1:1"], input="a\n")
    assert result.exit_code == Exit.UNREACHABLE, result.output
    assert result.stderr.count("\n") == 1 and "kvorum: nothing listens on 127.0.0.1:" in result.stderr
