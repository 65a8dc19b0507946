"""What README.md tells to type, typed: `dev`, `up`, `node`, `quickstart` as processes, and the commands beside them."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvorum.cli.output import Exit
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.ports import free_ports
from kvorum.cluster.process import exits
from kvorum.runtime.process import identify, read_pid_file
from tests.cluster.clients import eventually

ROOT = Path(__file__).parent.parent.parent
KVORUM = [sys.executable, "-m", "kvorum.cli.main"]
SECONDS = 120


class Kvorum:
    """The command line, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bootstrap = ""
        self.running: list[subprocess.Popen[str]] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "KVORUM_"))}
        self.environment = kept | {"PYTHONUNBUFFERED": "1"}

    def __call__(
        self, *words: str, code: int = Exit.DONE, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which has to have this exit code."""
        environment = self.environment | ({"KVORUM_BOOTSTRAP": self.bootstrap} if self.bootstrap else {})
        options: dict[str, Any] = {"cwd": self.folder, "env": environment, "capture_output": True, "text": True}
        done = subprocess.run([*KVORUM, *words], input=given, timeout=SECONDS, check=False, **options)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def start(self, *words: str, until: str, session: bool = False) -> tuple[subprocess.Popen[str], list[str]]:
        """Start a command that stays, and wait for a line that has this; return it with the lines up to that one."""
        out: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(
            [*KVORUM, *words], cwd=self.folder, env=self.environment, start_new_session=session, **out
        )
        self.running.append(process)
        return process, self.read(process, until)

    def read(self, process: "subprocess.Popen[str]", until: str) -> list[str]:
        """Return what a process prints up to a line that has this."""
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if until in line:
                return lines
        raise AssertionError(f"no {until!r}:\n" + "".join(lines))

    def json(self, *words: str, code: int = Exit.DONE) -> Any:
        return json.loads(self(*words, "-o", "json", code=code).stdout)

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self(*words, "-o", "json").stdout.splitlines()]


@pytest.fixture
def kvorum(tmp_path: Path) -> Iterator[Kvorum]:
    typed = Kvorum(tmp_path)
    yield typed
    for process in typed.running:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    for folder in {path.parent for path in tmp_path.rglob("cluster.json")}:
        cluster = LocalCluster.open(str(folder))
        for node in cluster.plan.nodes:
            cluster.kill(node.name)


def value_of(lines: list[str], name: str) -> str:
    """Return what stands behind a name in what a start printed."""
    return next(line.split(name, 1)[1].strip() for line in lines if name in line)


def ends(process: "subprocess.Popen[str]", number: int = signal.SIGINT) -> tuple[int, str]:
    """Send a signal (Ctrl-C); return the exit code and the rest of what was printed."""
    process.send_signal(number)
    rest, _ = process.communicate(timeout=SECONDS)
    return process.returncode, rest


def get(url: str, method: str = "GET", body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def test_the_readme_from_dev_to_down(kvorum: Kvorum) -> None:
    dev, reported = kvorum.start(
        "dev", "--nodes", "3", "--port", "0", "--admin-port", "0", "--dir", "data", until="Press Ctrl-C to stop"
    )
    kvorum.bootstrap = value_of(reported, "bootstrap.servers")
    assert reported[0] == "3 brokers are up.\n" and kvorum.bootstrap.count(",") == 2
    topics_and_records(kvorum)
    assert value_of(reported, "web console") == value_of(reported, "admin HTTP API").removesuffix("docs")
    admin_api(kvorum, value_of(reported, "admin HTTP API").removesuffix("/docs"))
    quorum = kvorum.json("quorum", "status")
    assert sorted(each["node"] for each in quorum["members"] if each["role"] == "voter") == [1, 2, 3]
    assert quorum["leader_id"] in (1, 2, 3)

    for words in (
        ["dev", "--nodes", "3", "--port", "0", "--admin-port", "0"],
        ["up", str(ROOT / "configs" / "single.yaml"), "--detach"],
    ):
        assert "already running" in kvorum(*words, "--dir", "data", code=exits.Exit.BUSY).stderr
    assert [node["state"] for node in kvorum.json("status", "--dir", "data")] == ["up"] * 3

    killed_and_started_again(kvorum)
    assert "is already running" in kvorum("nodes", "start", "node-2", "--dir", "data").stdout
    assert dev.poll() is None

    kvorum("down", "--dir", "data")
    assert dev.wait(SECONDS) == Exit.DONE, "`down` ends the process that ran the cluster"
    assert [node["state"] for node in kvorum.json("status", "--dir", "data", code=Exit.FAILED)] == ["down"] * 3
    assert "is not running" in kvorum("nodes", "kill", "node-2", "--dir", "data", code=Exit.NOT_FOUND).stderr


def test_bench_starts_a_cluster_of_its_own_or_takes_one_and_leaves_no_topic(kvorum: Kvorum) -> None:
    alone = kvorum("bench", "--nodes", "2", "--records", "2000").stdout.splitlines()
    assert alone[0].split()[:3] == ["WHAT", "RECORDS", "SECONDS"]
    assert [line.split()[0] for line in alone[1:]] == ["produce", "consume", "latency"]
    _, reported = kvorum.start("dev", "--port", "0", "--admin-port", "0", "--dir", "data", until="Press Ctrl-C to stop")
    kvorum.bootstrap = value_of(reported, "bootstrap.servers")
    rows = kvorum.json("bench", "-b", kvorum.bootstrap, "--records", "2000", "--size", "1000")
    assert [(row["what"], row["records"]) for row in rows[:2]] == [("produce", 2000), ("consume", 2000)]
    assert rows[0]["mib_per_second"] > 0 and rows[2]["max_ms"] >= rows[2]["p99_ms"] >= rows[2]["p50_ms"] > 0
    assert not kvorum.json("topics", "list")


def topics_and_records(kvorum: Kvorum) -> None:
    create = ["topics", "create", "orders", "--partitions", "6", "--replication-factor", "3"]
    kvorum(*create, "--config", "min.insync.replicas=2")
    partly = kvorum(*create, "new1", "new2", code=Exit.FAILED)
    assert re.search(r"^new1 .*^new2 ", partly.stdout, re.M | re.S) and "TOPIC_ALREADY_EXISTS" in partly.stderr
    (there,) = kvorum.json(*create, "--if-not-exists")
    assert (there["partitions"], there["replication_factor"], there["created"]) == (6, 3, False)
    assert there["topic_id"] == kvorum.json("topics", "describe", "orders")["topic_id"]

    assert kvorum("produce", "orders", "-k", ":", given="a:1\nb:2\n").stderr.endswith("2 records\n")
    found = kvorum.lines("consume", "orders", "--from-beginning", "-n", "2")
    assert {(each["key"], each["value"]) for each in found} == {("a", "1"), ("b", "2")}
    long = f"first\n{'x' * 2_000_000}\nlast\n"
    assert "1 of 3 records were not acknowledged" in kvorum("produce", "new1", code=1, given=long).stderr
    assert sorted(kvorum("consume", "new1", "--from-beginning", "-e").stdout.split()) == ["first", "last"]

    absent = kvorum("consume", "orders", "-p", "99", "-e", code=Exit.NOT_FOUND)
    assert "orders has no partition 99: its partitions are 0 to 5" in absent.stderr
    assert "nosuch was not set on orders" in kvorum("topics", "alter", "orders", "--delete-config", "nosuch").stderr
    half = ["topics", "alter", "orders", "--partitions", "7", "--config", "nosuch=1"]
    assert "INVALID_CONFIG" in kvorum(*half, code=Exit.FAILED).stderr
    assert len(kvorum.json("topics", "describe", "orders")["partitions"]) == 6
    assert "no topic nosuch" in kvorum("topics", "delete", "nosuch", "new2", code=Exit.NOT_FOUND).stderr
    assert {each["topic"] for each in kvorum.json("topics", "list")} == {"orders", "new1"}


def admin_api(kvorum: Kvorum, url: str) -> None:
    """The README's PUT: nothing changes the second time, however the values are spelt."""
    body = {
        "partitions": 6,
        "replication_factor": 3,
        "configs": {"cleanup.policy": "compact, delete", "segment.ms": "+99"},
    }
    first = json.loads(get(f"{url}/v1/topics/applied", "PUT", body))
    assert {each["what"] for each in first["changes"]} >= {"configs.cleanup.policy", "configs.segment.ms"}
    assert json.loads(get(f"{url}/v1/topics/applied", "PUT", body))["changes"] == []
    assert 'kvorum_build_info{node_id="1",role="admin"' in get(f"{url}/metrics")


def killed_and_started_again(kvorum: Kvorum) -> None:
    """kill -9 of a node; the one who asks for its start is gone before it is answered, and nothing else is."""
    kvorum("nodes", "kill", "node-2", "--dir", "data")
    states = {node["node"]: node["state"] for node in kvorum.json("status", "--dir", "data", code=Exit.FAILED)}
    assert states == {"node-1": "up", "node-2": "down", "node-3": "up"}
    assert kvorum("produce", "orders", given="still\n").stderr.endswith("1 records\n")
    with contextlib.chdir(kvorum.folder / "data"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect("control.sock")
        client.sendall(b'{"start": ["node-2"]}\n')
    eventually(lambda: states_of(kvorum) == ["up"] * 3, "node-2 is up again")


def states_of(kvorum: Kvorum) -> list[str]:
    cluster = LocalCluster.open(str(kvorum.folder / "data"))
    return [
        "up" if {"broker", "controller"} <= cluster.processes(node.name).keys() else "" for node in cluster.plan.nodes
    ]


def test_up_detached_until_down(kvorum: Kvorum) -> None:
    file = with_free_ports(kvorum.folder, "single.yaml")
    up = ["up", str(file), "--dir", "data"]
    assert "kvorum down --dir" in kvorum(*up, "--detach").stdout
    try:
        for words in ([*up, "--detach"], up):
            assert "already" in kvorum(*words, code=exits.Exit.BUSY).stderr
        assert [node["state"] for node in kvorum.json("status", "--dir", "data")] == ["up"]
        kvorum("nodes", "stop", "node-1", "--dir", "data")
        again = kvorum(*up, "--detach", "--set", "num.partitions=7")
        assert "num.partitions=7 is ignored; it is not set" in again.stderr
    finally:
        kvorum("down", "--dir", "data")
    assert [node["state"] for node in kvorum.json("status", "--dir", "data", code=Exit.FAILED)] == ["down"]


def with_free_ports(folder: Path, name: str) -> Path:
    """Return a copy of one of configs/ in which every port is 0."""
    file = folder / name
    file.write_text(re.sub(r"(//127\.0\.0\.1):\d+", r"\1:0", (ROOT / "configs" / name).read_text()))
    return file


def test_dev_in_a_folder_with_a_long_path_ends_with_ctrl_c(kvorum: Kvorum) -> None:
    folder = "/".join(["a-folder-with-a-rather-long-name"] * 5)
    dev, reported = kvorum.start(
        "dev", "--port", "0", "--admin-port", "0", "--dir", folder, until="Press Ctrl-C to stop"
    )
    assert len(value_of(reported, "folder  ")) > 150
    assert "is already running" in kvorum("nodes", "start", "node-1", "--dir", folder).stdout
    code, rest = ends(dev)
    assert (code, rest) == (0, f"Cluster stopped; its data is kept in {kvorum.folder / folder}.\n")


def test_ctrl_c_while_dev_starts_ends_it_soon(kvorum: Kvorum) -> None:
    dev, _ = kvorum.start(
        "dev", "--port", "0", "--admin-port", "0", "--dir", "data", "--set", "nosuch.key=1", until="warning"
    )
    eventually(lambda: (kvorum.folder / "data" / "control.sock").exists(), "it starts its nodes")
    code, rest = ends(dev)
    assert code == 128 + signal.SIGINT or "1 broker is up" in rest
    assert "Traceback" not in rest


COMBINED = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:0
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
log.dirs=first/data
offsets.topic.replication.factor=1
"""


def test_a_node_by_itself_with_chosen_ports_ends_in_order_with_ctrl_c(kvorum: Kvorum) -> None:
    file = kvorum.folder / "node.properties"
    file.write_text(COMBINED)
    assert "kvorum format" in kvorum("node", str(file), code=exits.Exit.CONFIG).stderr
    random_id = kvorum("format", "--random-id").stdout.strip()
    printed = kvorum("format", str(file), "--cluster-id", random_id).stdout
    listeners = re.search(r"^listeners=PLAINTEXT://(\S+),CONTROLLER://(\S+)$", printed, re.M)
    assert listeners and f"controller.quorum.voters=1@{listeners[2]}\n" in printed

    node, _ = kvorum.start("node", str(file), until="broker started and unfenced", session=True)
    own = kvorum.folder / "first" / "data" / ".kvorum"
    kvorum.bootstrap = listeners[1]
    assert kvorum.json("topics", "list") == []
    second = kvorum("node", str(file), code=exits.Exit.BUSY)
    assert "already running" in second.stderr
    groups = {name: os.getpgid(pid_in(own / f"{name}.pid")) for name in ("node", "broker", "controller")}
    assert len(set(groups.values())) == 3, "Ctrl-C in a terminal goes to the whole group of the node process"
    os.killpg(groups["node"], signal.SIGINT)
    rest, _ = node.communicate(timeout=SECONDS)
    assert node.returncode == 0, rest
    assert "crashed" not in rest and "refuses" not in rest
    assert sorted(each.name for each in own.iterdir()) == [".lock", "ports.properties"]


def test_a_node_that_kafka_storage_formatted_starts(kvorum: Kvorum) -> None:
    file, (port,) = kvorum.folder / "server.properties", free_ports(["127.0.0.1"])
    dynamic = COMBINED.replace("quorum.voters=1@127.0.0.1:0", f"quorum.bootstrap.servers=127.0.0.1:{port}")
    file.write_text(dynamic.replace("CONTROLLER://127.0.0.1:0", f"CONTROLLER://127.0.0.1:{port}"))
    random_id = kvorum("kafka-storage.sh", "random-uuid").stdout.strip()
    printed = kvorum("kafka-storage.sh", "format", "-t", random_id, "-c", str(file), "--standalone").stdout
    assert "Formatting dynamic metadata voter directory first/data with metadata.version 4.3-IV0.\n" in printed
    assert f"cluster.id={random_id}" in kvorum("kafka-storage.sh", "info", "-c", str(file)).stdout
    node, _ = kvorum.start("node", str(file), until="broker started and unfenced")
    ports = (kvorum.folder / "first" / "data" / ".kvorum" / "ports.properties").read_text()
    (kvorum.bootstrap,) = re.findall(r"^listeners=PLAINTEXT://([^,]+),", ports, re.M)
    assert kvorum("kafka-cluster", "cluster-id", "--bootstrap-server", kvorum.bootstrap).stdout.endswith(
        f"{random_id}\n"
    )
    node.terminate()
    rest, _ = node.communicate(timeout=SECONDS)
    assert node.returncode == 0, rest


def pid_in(path: Path) -> int:
    process = read_pid_file(str(path))
    assert process is not None and identify(process.pid) == process
    return process.pid


def test_quickstart_sends_a_large_file_and_reports_failures(kvorum: Kvorum) -> None:
    lines = kvorum.folder / "lines.txt"
    count = 150_000
    with lines.open("w") as file:
        file.writelines(f"line {number}\n" if number != 7 else "x" * 2_000_000 + "\n" for number in range(count))
    config = with_free_ports(kvorum.folder, "three-nodes.yaml")
    words = ["quickstart", "--config", str(config), "--from", str(lines), "--dir", "data"]
    quickstart, reported = kvorum.start(*words, until=f"kvorum: 1 records were not delivered, {count - 1} were")
    assert any("a record was not delivered" in line and "MSG_SIZE_TOO_LARGE" in line for line in reported)
    if "Press Ctrl-C to stop everything.\n" not in reported:
        reported += kvorum.read(quickstart, "Press Ctrl-C to stop everything.")
    assert sum(" offset " in line for line in reported) == 10
    kvorum.bootstrap = value_of(reported, "bootstrap.servers")
    described = kvorum.json("topics", "describe", "lines")
    assert sum(each["latest"] for each in described["partitions"]) == count - 1
    code, rest = ends(quickstart)
    assert (code, "%3|" in rest, f"its data is kept in {kvorum.folder / 'data'}" in rest) == (0, False, True), rest

    lines.write_text("")
    quickstart, reported = kvorum.start(*words, until="Press Ctrl-C to stop everything.")
    assert any("no record was sent" in line for line in reported)
    assert ends(quickstart)[0] == 0


def test_up_with_a_port_in_use_is_one_line_and_leaves_nothing_running(kvorum: Kvorum) -> None:
    file = with_free_ports(kvorum.folder, "single.yaml")
    words = ("up", str(file), "--dir", "data", "--detach")
    kvorum(*words)
    (row,) = kvorum.json("status", "--dir", "data")
    port = int(row["listeners"].split(",")[0].rpartition(":")[2])
    assert kvorum("down", "--dir", "data").stdout.startswith("stopped node-1; the data is kept in ")
    reason = f"port {port} (listener PLAINTEXT of node-1) is in use; choose another in "
    with socket.create_server(("127.0.0.1", port)):
        for refused in (words, ("nodes", "start", "node-1", "--dir", "data")):
            lines = kvorum(*refused, code=exits.Exit.BUSY).stderr.splitlines()
            assert [reason in line for line in lines] == [True], lines
    assert kvorum("down", "--dir", "data").stdout.startswith("no node was running; ")
    assert [node["state"] for node in kvorum.json("status", "--dir", "data", code=Exit.FAILED)] == ["down"]
