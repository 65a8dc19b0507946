"""A cluster that is not there is told of in seconds, before anything is started: without Spark, without a cluster."""

import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.lookup import Lookup, TopicMissing
from kvorum.pipelines.bridge.offsets import LATEST, TopicPartition
from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.run import failures, process, reach
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.reach import Cluster, Unreachable
from kvorum.pipelines.run.state import Folder, State, Status
from kvorum.pipelines.run.worker import StopRequested, worker_in
from kvorum.pipelines.spec import Pipeline, from_data

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "LOOKS_SECONDS", (0.2, 0.3))
    monkeypatch.setattr(failures, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def speaks_http() -> Iterator[str]:
    """Give the address of something that is no broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(10)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def pipeline(source: Any, sink: Any = None, **more: Any) -> Pipeline:
    return from_data({"name": "p", "source": source, "sink": sink or {"type": "console"}, **more})


def topics(bootstrap: str = NOBODY, **more: Any) -> dict[str, Any]:
    return {"type": "topics", "bootstrap": bootstrap, "topics": ["t"], **more}


def told(bootstrap: str, **settings: str) -> str:
    cluster = Cluster(settings={"bootstrap.servers": bootstrap, **settings}, named_by=["source topics"])
    with pytest.raises(Unreachable) as caught:
        reach.reach(cluster, lambda seconds: None)
    return str(caught.value)


@pytest.mark.parametrize("behind", ["", ", 1 identical error(s) suppressed"])
def test_how_long_and_how_often_is_left_out_of_why(behind: str) -> None:
    why = "Connect to ipv4#127.0.0.1:1 failed: Connection refused"
    said = f"127.0.0.1:1/bootstrap: {why} (after 0ms in state CONNECT{behind})"
    error = KafkaError(KafkaError._TRANSPORT, said)
    assert reach.plain(error) == "Connection refused"


def test_why_nobody_answers_is_told(speaks_http: str) -> None:
    begin = "source topics: no broker answers at"
    assert told(NOBODY) == f"{begin} 127.0.0.1:1: Connection refused"
    assert told(f"{NOBODY},127.0.0.1:2") == f"{begin} 127.0.0.1:1,127.0.0.1:2: Connection refused"
    assert "Failed to resolve 'nobody.invalid:9092'" in told("nobody.invalid:9092")
    assert told(speaks_http) == f"{begin} {speaks_http}: what listens there does not speak Kafka's protocol"
    assert re.search("refuses us: .*SSL", told(speaks_http, **{"security.protocol": "SSL"}))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert told(where) == f"{begin} {where}: nothing came within 0.5 s"
    with pytest.raises(OptionError, match=r"no\.such"):
        reach.reach(Cluster(settings={"bootstrap.servers": NOBODY, "no.such": "x"}), lambda seconds: None)


def test_certificates_of_sparks_connector_are_not_ours(speaks_http: str) -> None:
    """What is refused is what we would use; whether Java's client is refused, too, it has to say."""
    made = pipeline(topics(speaks_http, options={"kafka.security.protocol": "SSL"}))
    with pytest.raises(reach.Refused):
        reach.check(made, compiling.validate(made), lambda seconds: None)
    reach.check(made, compiling.validate(made), lambda seconds: None, is_java=True)
    made = pipeline(topics())
    with pytest.raises(Unreachable):
        reach.check(made, compiling.validate(made), lambda seconds: None, is_java=True)


def test_a_refusal_by_tls_is_one_whatever_its_code() -> None:
    said = "ssl://127.0.0.1:9/bootstrap: error:0A00010B:SSL routines::wrong version number (after 2ms in state CONNECT)"
    cluster = Cluster(settings={"bootstrap.servers": "127.0.0.1:9"}, named_by=["source topics"])
    found = reach.failed(cluster, {"127.0.0.1:9": KafkaError(KafkaError._TRANSPORT, said)})
    assert isinstance(found, reach.Refused)
    assert str(found).endswith("refuses us: error:0A00010B:SSL routines::wrong version number")


def test_each_cluster_is_asked_once() -> None:
    letters = {"tolerance": "dead-letter", "topic": "d", "bootstrap": "c:1"}
    made = pipeline(topics("a:1"), {"type": "topics", "bootstrap": "a:1", "topic": "x"}, errors=letters)
    found = reach.clusters(made, compiling.validate(made))
    assert [(each.bootstrap, each.named_by) for each in found] == [
        ("a:1", ["source topics", "sink topics"]),
        ("c:1", ["errors"]),
    ]
    other = {"type": "topics", "bootstrap": "b:1", "topic": "x", "options": {"kafka.linger.ms": 5}}
    made = pipeline(topics("a:1", options={"kafka.fetch.min.bytes": 5}), other)
    found = reach.clusters(made, compiling.validate(made))
    assert [each.settings["bootstrap.servers"] for each in found] == ["a:1", "b:1"]
    java = topics(options={"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/x.jks"})
    assert reach.clusters(pipeline(java), compiling.validate(pipeline(java))) == []
    made = pipeline({"type": "generator"})
    assert reach.clusters(made, compiling.validate(made)) == []


def test_topics_that_are_not_there_are_told_of_with_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def missing(self: Lookup, wanted: Any) -> None:
        asked.append(wanted.names)
        raise TopicMissing("topic t is not there; did you mean 'tt'?")

    monkeypatch.setattr(reach, "reach", lambda cluster, pause: None)
    monkeypatch.setattr(Lookup, "partitions", missing)
    made = pipeline(topics())
    with pytest.raises(TopicMissing, match=r"^source topics: topic t is not there; did you mean 'tt'"):
        reach.check(made, compiling.validate(made), lambda seconds: None)
    made = pipeline(topics(failOnDataLoss=False))
    reach.check(made, compiling.validate(made), lambda seconds: None)
    assert asked == [("t",)], "who does not mind lost records may read what is left"


def test_a_pipeline_without_its_cluster_never_seems_to_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder(tmp_path, "p")
    with caplog.at_level(logging.INFO), worker_in(folder, pipeline(topics()), Launch(retries=2)) as worker:
        assert worker.run() == 1
        assert worker.session is None
    assert "RUNNING" not in caplog.text and caplog.text.count("restarted in") == 2
    status = folder.status()
    assert status is not None and (status.state, status.restarts) == (State.FAILED, 2)
    assert status.reason == status.trace or "Unreachable" in str(status.trace)
    assert status.reason == "source topics: no broker answers at 127.0.0.1:1: Connection refused"


def test_a_pipeline_that_waits_for_its_cluster_obeys(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "p")
    with worker_in(folder, pipeline(topics()), Launch(retries=2)) as worker:
        worker.stop_requested = True
        assert worker.run() == 0
    status = folder.status()
    assert status is not None and status.state is State.STOPPED
    with pytest.raises(StopRequested):
        worker.wait(0)


def test_who_starts_a_pipeline_hears_of_its_first_failed_try(tmp_path: Path) -> None:
    """It is tried again; but whoever waits for it to run has waited long enough to know why it does not."""

    class Process:
        def poll(self) -> None:
            return None

    folder = Folder(tmp_path, "p")
    folder.make()
    why = Status(name="p", state=State.STARTING, pid=1, since_ms=1, restarts=1, trace="nobody answers\n\nTraceback")
    with folder.held():
        folder.write_status(why)
        found = process.wait(Process(), folder, (State.RUNNING,), timeout=5)  # type: ignore[arg-type]
    assert (found.state, found.reason) == (State.STARTING, "nobody answers")


class Logs(Lookup):
    """A cluster with one topic: partition 0 has the offsets 10 to 20, partition 1 is empty."""

    def __init__(self, settings: Any) -> None:
        pass

    def partitions(self, topics: Any, *, must_exist: bool = True) -> list[TopicPartition]:
        return [TopicPartition("t", 0), TopicPartition("t", 1)]

    def everywhere(self, partitions: Any, what: int, *, is_read_committed: bool) -> dict[TopicPartition, int]:
        ends = {TopicPartition("t", 0): (10, 20), TopicPartition("t", 1): (0, 0)}
        return {where: ends[where][what == LATEST] for where in partitions}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"t": {"0": 10, "1": 0}}, None),
        ({"t": {"0": -2, "1": -1}}, None),
        ({"t": {"0": 20, "1": 0}}, None),
        ({"t": {"0": 21, "1": 0}}, "startingOffsets: t-0 has offsets 10 to 20, 21 is not among them"),
        ({"t": {"0": 9, "1": 0}}, "startingOffsets: t-0 has offsets 10 to 20, 9 is not among them"),
        ({"t": {"0": 10}}, "option startingOffsets must contain exactly the partitions that are read; missing: t-1"),
        ({"t": {"0": 10, "1": 0, "2": 0}}, "not read: t-2"),
    ],
)
def test_starting_offsets_are_checked_at_the_first_start(
    monkeypatch: pytest.MonkeyPatch, given: Any, message: str | None
) -> None:
    monkeypatch.setattr(reach, "reach", lambda cluster, pause: None)
    monkeypatch.setattr(reach, "Lookup", Logs)
    made = pipeline(topics(startingOffsets=given))
    ends = compiling.validate(made)
    reach.check(made, ends, lambda seconds: None)
    if message is None:
        reach.check(made, ends, lambda seconds: None, is_first_start=True)
        return
    with pytest.raises(OptionError, match=message) as caught:
        reach.check(made, ends, lambda seconds: None, is_first_start=True)
    assert not failures.passing(caught.value)
