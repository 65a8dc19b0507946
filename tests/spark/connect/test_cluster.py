"""A manager as a process over a real cluster with real Spark workers: kill -9 of either, and a second manager."""

import contextlib
import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from confluent_kafka import Consumer

from kvorum.admin.app import AdminApp
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.cli.pipelines.connect import EXIT_SUPERSEDED
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.runtime.metrics import Metrics
from tests.cluster.clients import eventually
from tests.unit.admin.fake_connect import in_thread
from tests.unit.pipelines.run.topics import consume, produce, values

pytestmark = pytest.mark.long

START_SECONDS = 120.0
WORKER_SECONDS = 240.0
TOOK_OVER = re.compile(r"kvorum: another manager at \S+ took over the topics; the connectors here were stopped")
CONFIG = {
    "connector.class": "GeneratorSource",
    "tasks.max": "1",
    "rate": "20",
    "kvorum.trigger": "500ms",
    "kvorum.connector": "kvorum",
}


@dataclass(slots=True)
class Managed:
    """A manager's process."""

    process: "subprocess.Popen[str]"
    url: str
    state: Path
    bootstrap: str

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
                return error.code, json.loads(text) if text else None

    def states(self, name: str) -> list[str]:
        code, found = self.call("GET", f"/connectors/{name}/status")
        return [found["connector"]["state"], *(task["state"] for task in found["tasks"])] if code == 200 else []

    def worker(self, name: str) -> int:
        return int(json.loads((self.state / name / "status.json").read_text())["pid"])

    def log(self) -> str:
        return (self.state / "manager.log").read_text()[-4000:]

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(150)


Manage = Callable[..., Managed]


@pytest.fixture
def manage(bootstrap: str, tmp_path: Path) -> Iterator[Manage]:
    """Return a function that starts a manager; whatever it left behind is killed by pid."""
    found: list[Managed] = []

    def start(folder: str, prefix: str, *options: str) -> Managed:
        state = tmp_path / folder
        state.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "kvorum.cli.pipelines.connect", "--bootstrap", bootstrap]
        command += ["--listen", "127.0.0.1:0", "--state", str(state), "--prefix", prefix]
        command += ["--memory", "512m", "--conf", "spark.ui.enabled=false", "--master", "local[2]", *options]
        with open(state / "manager.log", "ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if ready else ""
        assert line.startswith("listening on "), (state / "manager.log").read_text()
        found.append(Managed(process=process, url=line.split()[-1], state=state, bootstrap=bootstrap))
        eventually(lambda: found[-1].call("GET", "/connectors")[0] == 200, found[-1].log, START_SECONDS)
        return found[-1]

    yield start
    for each in found:
        each.process.kill()  # its workers end with it
        each.process.wait(30)
        assert each.process.stdout is not None
        each.process.stdout.close()
    for path in tmp_path.glob("*/.host*/pid"):
        pid = int(path.read_text())
        try:
            eventually(lambda pid=pid: not is_alive(pid), f"the end of {path}", WORKER_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; it is not one of this process's children."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def count(bootstrap: str, topic: str) -> int:
    """Return how many records a topic's end offsets promise."""
    from confluent_kafka import TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1] for number in partitions]
        return sum(ends)
    finally:
        consumer.close()


def wait_for(manager: Managed, name: str, *states: str, seconds: float = WORKER_SECONDS) -> None:
    def told() -> str:
        log = manager.state / name / "worker.log"
        return f"{manager.states(name)}\n{manager.log()}\n{log.read_text()[-3000:] if log.exists() else ''}"

    eventually(lambda: manager.states(name) == list(states), told, seconds)


def grows(bootstrap: str, topic: str) -> None:
    before = count(bootstrap, topic)
    eventually(lambda: count(bootstrap, topic) > before, f"more than {before} records in {topic}", WORKER_SECONDS)


def test_connectors_end_with_their_manager_and_continue_with_the_next_one(
    manage: Manage, make_topic: Callable[..., str], bootstrap: str
) -> None:
    topic = make_topic()
    manager = manage("one", "outlive")
    code, made = manager.call("POST", "/connectors", {"name": "numbers", "config": {**CONFIG, "topic": topic}})
    assert (code, made["type"]) == (201, "source")
    wait_for(manager, "numbers", "RUNNING", "RUNNING")
    grows(bootstrap, topic)
    worker = manager.worker("numbers")
    manager.end(signal.SIGKILL)
    eventually(lambda: not is_alive(worker), "the worker's end", WORKER_SECONDS)

    manager = manage("one", "outlive")
    wait_for(manager, "numbers", "RUNNING", "RUNNING")
    worker = manager.worker("numbers")
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: _other(manager, worker), manager.log, WORKER_SECONDS)
    wait_for(manager, "numbers", "RUNNING", "RUNNING")
    grows(bootstrap, topic)

    again = manager.worker("numbers")
    with in_thread(lambda: admin_before(manager)) as url:
        jobs = replace(manager, url=f"{url}/v1/jobs")
        found = jobs.call("GET", "/connectors?expand=status&expand=info")[1]["numbers"]
        assert found["status"]["tasks"][0]["state"] == "RUNNING" and found["info"]["type"] == "source"
        assert jobs.call("PUT", "/connectors/numbers/pause")[0] == 202
        wait_for(jobs, "numbers", "PAUSED", "PAUSED")
        assert jobs.call("PUT", "/connectors/numbers/resume")[0] == 202
        wait_for(jobs, "numbers", "RUNNING", "RUNNING")
        assert manager.worker("numbers") == again
        assert jobs.call("GET", "/connectors/numbers/offsets")[1]["offsets"]
    manager.end(signal.SIGTERM)
    assert manager.process.returncode == 0 and not is_alive(again)


def test_connectors_share_a_process_and_one_that_fails_leaves_the_others_alone(
    manage: Manage, make_topic: Callable[..., str], bootstrap: str
) -> None:
    topics = [make_topic(), make_topic()]
    manager = manage("shared", "shared")
    for name, topic in zip(("first", "second"), topics, strict=True):
        assert manager.call("POST", "/connectors", {"name": name, "config": {**CONFIG, "topic": topic}})[0] == 201
    alone = {**CONFIG, "topic": topics[0], "kvorum.isolation": "process"}
    assert manager.call("POST", "/connectors", {"name": "alone", "config": alone})[0] == 201
    for name in ("first", "second", "alone"):
        wait_for(manager, name, "RUNNING", "RUNNING")
    host = manager.worker("first")
    assert manager.worker("second") == host != manager.worker("alone")
    assert "pipeline first is RUNNING" in (manager.state / "first" / "worker.log").read_text()
    assert "pipeline second" not in (manager.state / "first" / "worker.log").read_text()

    bad = {**CONFIG, "connector.class": "FilesSource", "path": str(manager.state / "nowhere"), "topic": topics[0]}
    del bad["rate"]
    assert manager.call("POST", "/connectors", {"name": "bad", "config": bad})[0] == 201
    eventually(lambda: manager.states("bad")[1:] in (["FAILED"], ["RESTARTING"]), manager.log, WORKER_SECONDS)
    assert manager.call("DELETE", "/connectors/bad")[0] == 204
    assert manager.call("PUT", "/connectors/first/stop")[0] == 204
    wait_for(manager, "first", "STOPPED")
    grows(bootstrap, topics[1])
    assert manager.call("PUT", "/connectors/first/resume")[0] == 202
    wait_for(manager, "first", "RUNNING", "RUNNING")
    assert manager.worker("first") == manager.worker("second") == host

    os.killpg(host, signal.SIGKILL)
    for name in ("first", "second"):
        eventually(lambda name=name: _other(manager, host, name), manager.log, WORKER_SECONDS)
    for name, topic in zip(("first", "second"), topics, strict=True):
        wait_for(manager, name, "RUNNING", "RUNNING")
        grows(bootstrap, topic)
    host = manager.worker("first")
    manager.end(signal.SIGTERM)
    assert manager.process.returncode == 0 and not is_alive(host)


def test_a_record_that_can_never_be_read_is_failed_after_one_start_of_spark(
    manage: Manage, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, paid BOOLEAN)")
        connection.execute("INSERT INTO t VALUES (1, 'maybe')")
        connection.commit()
    config = {"connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{path}", "table.whitelist": "t"}
    config |= {"mode": "bulk", "topic.prefix": f"{make_topic()}-", "kvorum.connector": "kvorum"}
    manager = manage("lasting", "lasting")
    assert manager.call("POST", "/connectors", {"name": "bad", "config": config})[0] == 201
    wait_for(manager, "bad", "RUNNING", "FAILED")
    trace = manager.call("GET", "/connectors/bad/status")[1]["tasks"][0]["trace"]
    assert "column paid: maybe: TEXT that is not 0, 1, false or true (row with id 1)" in trace.splitlines()[0]
    assert (manager.state / "bad" / "worker.log").read_text().count("session.build Spark ") == 1


def admin_before(manager: Managed) -> web.Application:
    """Return an admin API that knows of this manager; of the cluster it is asked nothing."""
    connect = ConnectClient([manager.url.rstrip("/")])
    return AdminApp(ClusterClient([("127.0.0.1", 1)]), Metrics(), connect=connect).build()


def handed_on(manager: Managed, jobs: Managed) -> None:
    """Ask the admin API for everything that can be looked at, as Connect has it; and for what is refused."""
    looks = [f"/connectors/asleep{part}" for part in ("", "/config", "/status", "/tasks", "/offsets", "/topics")]
    looks += ["/connectors", "/connectors?expand=info&expand=status", "/connector-plugins?connectorsOnly=false"]
    looks += ["/connector-plugins/GeneratorSource/config", "/admin/loggers", "/admin/loggers/root"]
    for path in looks:
        assert jobs.call("GET", path) == manager.call("GET", path), path
    assert jobs.call("GET", "")[1]["version"] == "4.3.0"

    status, checked = jobs.call("PUT", "/connector-plugins/GeneratorSource/config/validate", {**CONFIG, "rate": "x"})
    wrong = {each["value"]["name"] for each in checked["configs"] if each["value"]["errors"]}
    assert status == 200 and wrong == {"name", "rate"}, wrong
    for method, path, body, code, error in (
        ("GET", "/connectors/nobody/status", None, 404, "CONNECT_NOT_FOUND"),
        ("POST", "/connectors", {"name": "bad", "config": {**CONFIG, "rate": "x"}}, 400, "CONNECT_REFUSED"),
        (
            "PATCH",
            "/connectors/asleep/offsets",
            {"offsets": [{"partition": {}, "offset": {}}]},
            400,
            "CONNECT_REFUSED",
        ),
        ("PUT", "/admin/loggers/root?scope=cluster", {"level": "INFO"}, 501, "CONNECT_FAILED"),
    ):
        status, problem = jobs.call(method, path, body)
        assert (status, problem["error"]) == (code, error), problem
        assert problem["message"] == manager.call(method, path, body)[1]["message"]

    another = {"name": "another", "config": {**CONFIG, "topic": "t", "rate": 5}, "initial_state": "STOPPED"}
    assert jobs.call("POST", "/connectors", another)[0] == 201
    path = "/connectors/another"
    assert jobs.call("PATCH", f"{path}/config", {"rate": None})[0] == 200
    assert "rate" not in manager.call("GET", f"{path}/config")[1]
    assert jobs.call("PUT", f"{path}/config", {**CONFIG, "topic": "u"})[1]["config"]["topic"] == "u"
    assert jobs.call("DELETE", f"{path}/offsets")[0] == 200
    assert jobs.call("PUT", "/admin/loggers/nobody", {"level": "INFO"}) == (200, ["nobody"])
    assert jobs.call("PUT", f"{path}/topics/reset") == (202, None)
    assert jobs.call("DELETE", path) == (204, None)
    assert manager.call("GET", "/connectors")[1] == ["asleep"]


def _other(manager: Managed, worker: int, name: str = "numbers") -> bool:
    with contextlib.suppress(OSError, ValueError):
        return manager.worker(name) != worker
    return False


def test_the_admin_api_passes_requests_on(manage: Manage) -> None:
    manager = manage("first", "jobs")
    body = {"name": "asleep", "config": {**CONFIG, "topic": "t"}, "initial_state": "STOPPED"}
    assert manager.call("POST", "/connectors", body)[0] == 201
    wait_for(manager, "asleep", "STOPPED")
    assert manager.call("GET", "/connectors/asleep/status")[1]["connector"]["worker_id"] in manager.url
    with in_thread(lambda: admin_before(manager)) as url:
        handed_on(manager, replace(manager, url=f"{url}/v1/jobs"))


def test_a_second_manager_replaces_the_first_one_and_knows_its_connectors(manage: Manage, tmp_path: Path) -> None:
    """No connector runs. The first manager is frozen while the second one takes over."""
    checkpoints = ("--checkpoints", str(tmp_path / "checkpoints"))
    first = manage("first", "replace", *checkpoints)
    body = {"name": "asleep", "config": {**CONFIG, "topic": "t"}, "initial_state": "STOPPED"}
    assert first.call("POST", "/connectors", body)[0] == 201
    first.process.send_signal(signal.SIGSTOP)
    try:
        second = manage("second", "replace", *checkpoints)
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert second.call("GET", "/connectors")[1] == ["asleep"]
    assert first.process.wait(START_SECONDS) == EXIT_SUPERSEDED
    line = first.log().splitlines()[-1]
    assert (
        line.startswith("kvorum: another manager at ")
        and "took over the topics; the connectors here were stopped" in line
    )
    assert second.call("PUT", "/connectors/asleep/config", {**CONFIG, "topic": "u"})[0] == 200

    command = [sys.executable, "-m", "kvorum.cli.pipelines.connect", "--bootstrap", second.bootstrap]
    command += ["--listen", "127.0.0.1:0", "--state", str(tmp_path / "third"), "--prefix", "replace"]
    third = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS)
    assert third.returncode == EXIT_SUPERSEDED
    assert f"kvorum: the checkpoints of the connectors are in {checkpoints[1]}" in third.stderr.splitlines()[-1]
    assert second.call("DELETE", "/connectors/asleep")[0] == 204, "it was not fenced"


def test_workers_of_two_managers_at_once_write_each_record_once(
    manage: Manage, make_topic: Callable[..., str], bootstrap: str, tmp_path: Path
) -> None:
    """The first manager is stopped by SIGSTOP, so its worker runs beside that of the second one."""
    source, target = make_topic(), make_topic()
    config = {"connector.class": "Pipeline", "source.type": "topics", "source.topics": source, "sink.type": "topics"}
    config |= {"source.startingOffsets": "earliest", "sink.topic": target, "kvorum.trigger": "200ms"}
    checkpoints = ("--checkpoints", str(tmp_path / "checkpoints"))
    first = manage("first", "two", *checkpoints)
    assert first.call("POST", "/connectors", {"name": "copy", "config": config})[0] == 201
    wait_for(first, "copy", "RUNNING", "RUNNING")
    sent = 0

    def more() -> None:
        nonlocal sent
        for partition in (0, 1):
            produce(bootstrap, source, *((None, str(sent + number)) for number in range(100)), partition=partition)
            sent += 100
        consume(bootstrap, target, sent, WORKER_SECONDS)

    more()
    first.process.send_signal(signal.SIGSTOP)
    try:
        second = manage("second", "two", *checkpoints)
        eventually(lambda: second.states("copy")[1:] not in ([], ["UNASSIGNED"]), second.log, WORKER_SECONDS)
        for _ in range(10):
            more()
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(WORKER_SECONDS) == EXIT_SUPERSEDED
    line = first.log().splitlines()[-1]
    assert (
        line.startswith("kvorum: another manager at ")
        and "took over the topics; the connectors here were stopped" in line
    )
    more()
    wait_for(second, "copy", "RUNNING", "RUNNING")
    assert values(consume(bootstrap, target, sent)) == sorted(map(str, range(sent)))
