"""The HTTP interface to a cluster: who may ask, what is refused and how, and that what it does is done and told."""

import asyncio
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.inside_faults import ControlListener, InsideFaults
from kvorum.chaos.faults.namespace_holder import NotPermitted
from kvorum.chaos.faults.small_disk import SmallDisk
from kvorum.chaos.serve.events import BEHIND_MAX, KEPT_MAX, LISTENERS_MAX, Events, StreamEnd, TooManyListeners
from kvorum.chaos.serve.routes import silent_of
from kvorum.chaos.serve.scenarios import Busy, Scenarios
from kvorum.chaos.serve.server import fault_reporter
from kvorum.cli.chaos.serve import run, serve, tls_of, url_of
from kvorum.cluster.local.plan import ClusterPlan, NodePlan
from kvorum.cluster.local.ports import free_ports
from tests.certificates import Authority
from tests.unit.chaos.paper import KNOWN, NODE, PRETENDER, TOKEN, Api, Paper, Scenario, api_of, event, on_paper


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scenario], None]:
    """Play a scenario against the interface to a cluster on paper."""

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            server, paper = on_paper(tmp_path)
            async with asyncio.timeout(30), TestClient(TestServer(server.build())) as client:
                await scenario(api_of(client), paper, client)

        asyncio.run(main())

    return run


def test_a_fault_is_begun_seen_and_ended(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        status, fault = await api("POST", "/faults", {"fault": "pause", "targets": ["node-1"]})
        assert (status, fault["fault"], fault["targets"], fault["in_force"]) == (201, "pause", ["node-1"], True)
        assert await api("GET", "/faults") == (
            200,
            [{**{key: fault[key] for key in fault if key not in ("in_force", "seed")}, "failure": None}],
        )
        status, state = await api("GET", "/state")
        assert status == 200 and [each["id"] for each in state["faults"]] == [fault["id"]]
        assert [node["name"] for node in state["nodes"]] == ["node-1", "node-2"]
        assert state["inside"] == dict.fromkeys(
            ["node-1/broker", "node-1/controller", "node-2/broker", "node-2/controller"]
        )
        status, ended = await api("DELETE", f"/faults/{fault['id']}")
        assert (status, ended["in_force"]) == (200, False)
        assert paper.done == ["pause node-1", "resume node-1"]
        assert (await api("DELETE", f"/faults/{fault['id']}"))[0] == 404

    play(scenario)


def test_healing_ends_all_and_starts_all(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        await api("POST", "/faults", {"fault": "pause", "targets": ["node-1"]})
        status, killed = await api("POST", "/faults", {"fault": "kill", "targets": ["node-2/broker"]})
        assert (status, killed["in_force"]) == (200, False), "the supervisor starts it again at once"
        assert await api("POST", "/heal", {"start": False}) == (200, {"started": {}, "in_force": []})
        assert await api("POST", "/heal", {}) == (200, {"started": {}, "in_force": []})
        assert paper.done == ["pause node-1", "kill node-2 broker", "resume node-1", "start node-1 node-2"]

    play(scenario)


@pytest.mark.parametrize(
    ("body", "status", "error", "field", "why"),
    [
        ({"fault": "explode"}, 400, "INVALID_REQUEST", "fault", "unknown fault 'explode'"),
        ({}, 400, "INVALID_REQUEST", "fault", "required"),
        ({"fault": "kill", "targets": "node-1"}, 400, "INVALID_REQUEST", "targets", "valid array"),
        ({"fault": "kill", "typo": 1}, 400, "INVALID_REQUEST", "typo", "not permitted"),
        ({"fault": "slow", "targets": ["a", "b"]}, 400, "INVALID_REQUEST", "options.latency_ms", "required"),
        ({"fault": "kill", "targets": [], "options": {"x": 1}}, 400, "INVALID_REQUEST", "options.x", "not permitted"),
        ({"fault": "kill", "targets": []}, 422, "CANNOT_DO", None, "needs 1 targets"),
        ({"fault": "kill", "targets": ["node-9"]}, 422, "CANNOT_DO", None, "'node-9' does not exist"),
        ({"fault": "kill", "targets": ["node-1/admin"]}, 422, "CANNOT_DO", None, "'node-1/admin' does not exist"),
        ({"fault": "terminate", "targets": ["node-1/broker"]}, 422, "CANNOT_DO", None, "whole nodes"),
        ({"fault": "restart", "targets": ["node-1/controller"]}, 422, "CANNOT_DO", None, "whole nodes"),
        ({"fault": "kill", "targets": ["node-1,node-2/broker"]}, 422, "CANNOT_DO", None, "not both"),
        ({"fault": "wipe", "targets": ["node-1,node-2"]}, 422, "CANNOT_DO", None, "single target"),
        ({"fault": "kill", "targets": ["leader nowhere"]}, 422, "CANNOT_DO", None, "is not a partition"),
        ({"fault": "kill", "targets": ["leader orders-0"]}, 409, "NOT_POSSIBLE_NOW", None, "'orders-0'"),
        ({"fault": "pause", "targets": ["active-controller"]}, 409, "NOT_POSSIBLE_NOW", None, "no active controller"),
        ({"fault": "controller_kill"}, 409, "NOT_POSSIBLE_NOW", None, "no active controller"),
        ({"fault": "isr_below_min", "targets": ["orders"]}, 422, "CANNOT_DO", None, "is not a partition"),
        ({"fault": "pause", "targets": ["node-1"], "seconds": 0}, 400, "INVALID_REQUEST", "seconds", "greater than 0"),
        (
            {"fault": "kill", "targets": ["node-1/broker"], "seconds": 5},
            *(400, "INVALID_REQUEST", "seconds", "no duration"),
        ),
        (
            {"fault": "slow_disk", "targets": ["node-1"], "options": {"delay_ms": 0}},
            *(400, "INVALID_REQUEST", "options.delay_ms", "greater than or equal to 1"),
        ),
        ({"fault": "cut", "targets": ["node-1", "clients"]}, 409, "NOT_POSSIBLE_HERE", None, "no proxies"),
        ({"fault": "isolate", "targets": ["node-1"]}, 409, "NOT_POSSIBLE_HERE", None, "no proxies"),
        ({"fault": "disk_full", "targets": ["node-1"]}, 409, "NOT_POSSIBLE_HERE", None, "has a small disk"),
        (
            {"fault": "clock_jump", "targets": ["node-1"], "options": {"offset_ms": 5}},
            *(409, "NOT_POSSIBLE_HERE", None, "no separate clocks"),
        ),
        (
            {"fault": "error", "targets": ["node-1/broker"], "options": {"api": "PRODUCE", "code": 6}},
            *(422, "CANNOT_DO", None, "127.0.0.1:3"),
        ),
        ({"fault": "lose_tail", "targets": ["node-1", "node-1"]}, 422, "CANNOT_DO", None, "duplicate target"),
        (
            {"fault": "flip_bits", "targets": ["node-1"], "options": {"what": "absent-0"}},
            *(422, "CANNOT_DO", None, "absent-0 has no segment"),
        ),
        (
            {"fault": "flip_bits", "targets": ["node-1"], "options": {"what": "../other/orders-0"}},
            *(422, "CANNOT_DO", None, "is not a partition"),
        ),
        (
            {"fault": "refuse_listener", "targets": ["node-7"], "options": {"listener": "PLAINTEXT"}},
            *(422, "CANNOT_DO", None, "no control listener"),
        ),
    ],
)
def test_invalid_faults_are_refused_with_the_reason(
    play: Any, body: object, status: int, error: str, field: str | None, why: str
) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        found, problem = await api("POST", "/faults", body)
        assert (found, problem["error"], problem["field"]) == (status, error, field)
        assert why in problem["message"]
        assert await api("GET", "/faults") == (200, [])
        assert paper.done == []

    play(scenario)


def test_kinds_report_support_and_options(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        _, kinds = await api("GET", "/kinds")
        found = {each["fault"]: each for each in kinds}
        assert found["kill"]["possible"] and found["error"]["possible"] and not found["cut"]["possible"]
        assert not found["disk_full"]["possible"] and "--small-disk" in found["disk_full"]["lacking"]
        assert [found[name]["of"] for name in ("kill", "restart", "isr_below_min")] == [
            *("processes", "nodes", "partitions")
        ]
        assert found["cut"]["targets"] == {"from": 2, "to": 2}
        assert "code" in found["error"]["options"]["required"]

    play(scenario)


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ({"Authorization": ""}, 401, "UNAUTHENTICATED"),
        ({"Authorization": "Bearer wrong"}, 401, "UNAUTHENTICATED"),
        ({"Authorization": f"Basic {TOKEN}"}, 401, "UNAUTHENTICATED"),
        ({"Authorization": "Bearer \u00e9"}, 401, "UNAUTHENTICATED"),
        ({"Host": "evil.example"}, 403, "FORBIDDEN_HOST"),
        ({"Host": "10.0.0.1:9095"}, 403, "FORBIDDEN_HOST"),
        ({"Origin": "http://evil.example"}, 403, "FORBIDDEN_ORIGIN"),
    ],
)
def test_requests_without_permission_are_rejected_on_every_path(
    play: Any, headers: dict[str, str], status: int, error: str
) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        body = {"fault": "kill", "targets": ["node-1"]}
        for method, path in (("POST", "/faults"), ("GET", "/state"), ("GET", "/events"), ("POST", "/scenarios")):
            found, problem = await api(method, path, body if method == "POST" else None, headers=headers)
            assert (found, problem["error"]) == (status, error)
        assert paper.done == []

    play(scenario)


def test_a_token_that_is_no_text_is_the_wrong_one(play: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes that are no UTF-8: a 401, and no error of ours with its stack in the log."""

    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET /v1/chaos/state HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \xe9\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()

    play(scenario)
    assert "unexpected exception" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("listening", "host", "status"),
    [
        ("0.0.0.0", "192.168.1.5:9095", 200),
        ("::", "[fd00::5]:9095", 200),
        ("::", "lab.example:9095", 200),
        ("fd00::5", "[fd00::5]:9095", 200),
        ("lab.example", "LAB.example", 200),
        ("lab.example", "evil.example", 403),
        ("fd00::5", "[fd00::6]:9095", 403),
    ],
)
def test_on_all_addresses_it_is_called_by_any_name(tmp_path: Path, listening: str, host: str, status: int) -> None:
    """`--host 0.0.0.0 --allow-remote`: whoever comes from another machine names the address it came to."""

    async def main() -> None:
        server, _ = on_paper(tmp_path)
        server.host = listening
        async with asyncio.timeout(30), TestClient(TestServer(server.build())) as client:
            answer = await client.get("/v1/chaos/faults", headers={**KNOWN, "Host": host})
            assert answer.status == status
            answer = await client.get("/v1/chaos/faults", headers={"Host": host})
            assert answer.status == (401 if status == 200 else 403), "the token guards it all the same"

    asyncio.run(main())


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null"])
def test_a_cross_origin_page_can_neither_request_nor_read(play: Any, origin: str) -> None:
    """What a browser sends for it: the question before, without a token; a form's POST; and a GET with the token."""

    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        requested = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        requested |= {"Access-Control-Request-Headers": "authorization,content-type"}
        tries = [
            ("OPTIONS", "/v1/chaos/faults", requested, None),
            ("POST", "/v1/chaos/faults", {"Origin": origin}, b'{"fault": "kill", "targets": ["node-1"]}'),
            ("GET", "/v1/chaos/state", {"Origin": origin, **KNOWN}, None),
            ("GET", "/v1/chaos/events", {"Origin": origin}, None),
        ]
        for method, path, headers, data in tries:
            answer = await client.request(method, path, headers=headers, data=data)
            assert answer.status == 403 and (await answer.json())["error"] == "FORBIDDEN_ORIGIN"
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
        no_origin = await client.get("/v1/chaos/state")
        assert no_origin.status == 401, "as an image or a link, without Origin: the token is missing"
        assert paper.done == []

    play(scenario)


def test_the_console_exists_and_the_admin_api_behind_the_same_token(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        for path in ("/", "/console/chaos.js"):
            page = await client.get(path)
            assert page.status == 200 and "default-src 'self'" in page.headers["Content-Security-Policy"]
            assert (await client.get(path, headers={"Host": "evil.example"})).status == 403
        assert (await client.get("/v1/cluster")).status == 401
        assert (await client.get("/v1/cluster", headers={"Authorization": "Bearer wrong"})).status == 401
        for headers, error in (({"Host": "evil.example"}, "HOST"), ({"Origin": "http://evil.example"}, "ORIGIN")):
            answer = await client.delete("/v1/topics/orders", headers={**KNOWN, **headers})
            assert (answer.status, (await answer.json())["error"]) == (403, f"FORBIDDEN_{error}")
        answer = await client.get("/v1/cluster", headers=KNOWN)
        assert (await answer.json())["error"] == "CLUSTER_UNREACHABLE", "its nodes are on paper"

    play(scenario)


def test_unreachable_processes_are_not_queried_for_active_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    living, stopped = {"pid": 1, "stopped": False}, {"pid": 2, "stopped": True}
    nodes = [
        {"name": "node-1", "processes": {"node": living, "broker": stopped, "controller": living}},
        {"name": "node-2", "processes": {"node": None, "broker": None}},
    ]
    silent = silent_of(nodes)
    assert silent == {"node-1/broker", "node-2/node", "node-2/broker"}
    monkeypatch.setattr(ControlListener, "ask", lambda door, command: {"asked": command["do"]})
    inside = InsideFaults.of(ClusterPlan("id", [NodePlan("node-1", NODE)]), FaultRegister(fault_reporter(Events())))
    assert inside.state(silent) == {"node-1/broker": None, "node-1/controller": {"asked": "state"}}


def test_shipped_scenarios_are_named_with_their_cells(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        _, found = await api("GET", "/shipped")
        cells = {cell["name"]: cell["seconds"] for each in found for cell in each["cells"]}
        assert cells["load"] == 15 and "failover/leader-kill" in cells

    play(scenario)


def test_other_mistakes_have_the_same_shape(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        assert (await api("GET", "/nowhere"))[0] == 404
        assert (await api("PUT", "/faults"))[1]["error"] == "METHOD_NOT_ALLOWED"
        assert (await api("DELETE", "/faults/x"))[1]["field"] == "id"
        assert (await api("GET", "/events?after=x"))[0] == 400
        assert (await api("GET", "/scenarios/9"))[0] == 404
        assert (await api("POST", "/scenarios", {"scenario": "../x"}))[0] == 422
        answer = await client.post("/v1/chaos/faults", data="fault=kill", headers=KNOWN)
        assert answer.status == 415
        message = {**KNOWN, "Content-Type": "application/json"}
        answer = await client.post("/v1/chaos/faults", data=io.BytesIO(b" " * 2_000_000), headers=message)
        assert answer.status == 413

    play(scenario)


def test_events_report_faults_as_they_come_and_of_what_was_missed(play: Any) -> None:
    async def scenario(api: Api, paper: Paper, client: Any) -> None:
        first = await client.get("/v1/chaos/events", headers=KNOWN)
        assert first.content_type == "text/event-stream"
        _, fault = await api("POST", "/faults", {"fault": "pause", "targets": ["node-1"]})
        await api("DELETE", f"/faults/{fault['id']}")
        begun, ended = await event(first), await event(first)
        assert [(each["phase"], each["fault"], each["id"]) for each in (begun, ended)] == [
            ("begin", "pause", fault["id"]),
            ("end", "pause", fault["id"]),
        ]
        later = await client.get("/v1/chaos/events", headers={**KNOWN, "Last-Event-ID": "1"})
        assert await event(later) == ended
        later.close()
        first.close()

    play(scenario)


def test_listeners_have_limits_and_are_sent_away_at_the_end() -> None:
    async def main() -> None:
        events = Events()
        with events.listen(0) as slow:
            for number in range(BEHIND_MAX + 10):
                events.publish("fault", {"number": number})
            await asyncio.sleep(0)
            heard = 0
            with pytest.raises(StreamEnd):
                while await slow.next():
                    heard += 1
            assert heard == BEHIND_MAX
        with events.listen(0) as late:
            assert (await late.next()).data == {"number": BEHIND_MAX + 10 - KEPT_MAX}
            held = [events.listen(10**9) for _ in range(LISTENERS_MAX - 1)]
            for each in held:
                each.__enter__()
            with pytest.raises(TooManyListeners), events.listen(0):
                pass
            for each in held:
                each.__exit__(None, None, None)
        events.close()
        with events.listen(10**9) as last, pytest.raises(StreamEnd):
            await last.next()

    asyncio.run(main())


async def over(scenarios: Scenarios) -> None:
    """Wait until the run that was begun last is over."""
    assert scenarios._running is not None
    await scenarios._running[1]


def test_scenarios_run_one_at_a_time_to_their_verdicts(tmp_path: Path) -> None:
    """With a stand-in for the command, which is what real runs need minutes for."""
    script = tmp_path / "pretender.py"
    script.write_text(PRETENDER)

    async def main() -> None:
        reported: list[tuple[int, str]] = []
        heard: list[tuple[int, int, str]] = []
        command = (sys.executable, str(script))
        scenarios = Scenarios(
            tmp_path / "runs",
            lambda run: reported.append((run.id, run.state)),
            command,
            lambda run, line: heard.append((run.id, run.lines_count, line)),
        )
        for name, state in (("good", "held"), ("bad", "violated"), ("broken", "could not run")):
            run = await scenarios.start(name, 7, 60.0)
            with pytest.raises(Busy):
                await scenarios.start(name, 7, None)
            await over(scenarios)
            assert (run.state, list(run.lines)) == (state, ["seed 7"])
            assert run.verdicts[name]["valid"] is True
            assert run.verdicts[name]["of"].endswith("history.jsonl")
        assert reported == [
            *((1, "running"), (1, "held"), (2, "running"), (2, "violated"), (3, "running"), (3, "could not run"))
        ]
        assert heard == [(run_id, 1, "seed 7") for run_id in (1, 2, 3)]
        long = await scenarios.start("long", 1, None)
        while not long.lines:  # noqa: ASYNC110  # it says so itself; the test has no other way to hear of it
            await asyncio.sleep(0.01)
        await scenarios.stop(long)
        assert (long.state, long.exit_code) == ("stopped", 1)
        left = await scenarios.start("long", 1, None)
        await scenarios.close()
        assert left.state == "running" and left.process is not None
        assert left.process.returncode == -signal.SIGKILL

    asyncio.run(main())


def test_a_run_that_prints_a_line_without_end_is_followed_to_its_verdict(tmp_path: Path) -> None:
    """It stayed "running" for ever, with nobody reading what it printed: such a line is left out, and said so."""
    script = tmp_path / "pretender.py"
    script.write_text(PRETENDER)

    async def main() -> None:
        scenarios = Scenarios(tmp_path / "runs", lambda run: None, (sys.executable, str(script)))
        run = await scenarios.start("wide", 7, None)
        await over(scenarios)
        assert run.state == "held" and run.verdicts["good"]["valid"] is True
        assert "bytes without a line break are omitted" in run.lines[0] and run.lines[-1] == "seed 7"

    asyncio.run(main())


# The command, and real clusters.


@dataclass(slots=True)
class Command:
    """A running `kvorum chaos serve`."""

    url: str
    token: str

    def admin(self, method: str, path: str, body: object = None) -> Any:
        return self.ask(method, path, body, self.url.removesuffix("/chaos"))

    def ask(self, method: str, path: str, body: object = None, below: str = "") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request((below or self.url) + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Command]:
    command = [sys.executable, "-m", "kvorum.cli.main", "chaos", "serve", "-d", str(folder), "-p", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("chaos control: http://127.0.0.1:"), line + process.stdout.read()
        token = (folder / "chaos-serve.token").read_text().strip()
        assert os.stat(folder / "chaos-serve.token").st_mode & 0o777 == 0o600
        yield Command(line.split()[2].removesuffix("/state"), token)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_cluster_is_made_broken_in_every_way_healed_and_ended(tmp_path: Path) -> None:
    made = ["--create", "--plain", "--brokers", "2", "--controllers", "1"]
    disk = ["--small-disk", "node-2=64"] if can_have_small_disks(tmp_path / "tried") else []
    with serving(tmp_path, *made, *disk) as command:
        ask = command.ask
        until(lambda: ask("GET", "/state?health=true")["ailments"] == [])
        before = {node["name"]: node["processes"] for node in ask("GET", "/state")["nodes"]}
        assert set(before["node-1"]) == {"node", "broker", "controller"} and before["node-1"]["broker"]["pid"] > 0

        killed = ask("POST", "/faults", {"fault": "kill", "targets": ["node-2"]})
        assert [node["running"] for node in ask("GET", "/state")["nodes"]] == [True, False]
        ask("DELETE", f"/faults/{killed['id']}")
        assert [node["running"] for node in ask("GET", "/state")["nodes"]] == [True, True]

        paused = ask("POST", "/faults", {"fault": "pause", "targets": ["node-2/broker"]})
        # A signal is on its way for a moment: a process that is in the kernel stops when it comes out.
        until(lambda: ask("GET", "/state")["nodes"][1]["processes"]["broker"]["stopped"])
        assert ask("GET", "/state")["faults"][0]["id"] == paused["id"]
        ask("POST", "/heal", {"start": True})

        options = {"api": "METADATA", "code": "UNKNOWN_SERVER_ERROR", "count": 2}
        ask("POST", "/faults", {"fault": "error", "targets": ["node-1/broker"], "options": options})
        refused = {"fault": "refuse_listener", "targets": ["node-1/broker"], "options": {"listener": "CLIENTS"}}
        ask("POST", "/faults", refused)
        inside = ask("GET", "/state")["inside"]
        assert inside["node-1/broker"]["rules"][0]["api"] == "METADATA"
        assert inside["node-1/broker"]["listeners"]["CLIENTS"]["refusing"] is True
        assert inside["node-1/controller"]["rules"] == [] and inside["node-1/controller"]["role"] == "controller"

        armed = {"fault": "failpoints", "targets": ["node-1/controller"], "options": {"arm": "journal.sync.after=kill"}}
        pid = ask("GET", "/state")["nodes"][0]["processes"]["controller"]["pid"]
        ask("POST", "/faults", armed)
        until(lambda: (ask("GET", "/state")["nodes"][0]["processes"]["controller"] or {"pid": pid})["pid"] != pid)
        ask("POST", "/heal", {"start": True})
        inside = ask("GET", "/state")["inside"]
        assert inside["node-1/broker"]["rules"] == []
        assert inside["node-1/broker"]["listeners"]["CLIENTS"]["refusing"] is False
        until(lambda: ask("GET", "/state?health=true")["ailments"] == [])
        the_words_of_a_partition_and_its_slow_disk(command)
        a_disk_that_is_full(command, bool(disk))


def the_words_of_a_partition_and_its_slow_disk(command: Command) -> None:
    """Who leads, who follows, who is active: found by the words. What goes to a slow disk takes its time."""
    ask = command.ask
    topic = {"name": "orders", "assignments": {"0": [1, 2]}, "configs": {"min.insync.replicas": "2"}}
    command.admin("POST", "/topics", topic)
    until(lambda: ask("GET", "/state?health=true")["ailments"] == [])

    def written() -> str | None:
        (row,) = command.admin("POST", "/topics/orders/messages", {"records": [{"value": "a"}]})["records"]
        return row["error"]

    def is_known() -> bool:
        """Whether the broker that is asked has heard of the topic: it is made when the controller has it."""
        try:
            return written() is None
        except AssertionError as error:
            assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)
            return False

    until(is_known)
    slow = {"fault": "slow_disk", "targets": ["leader orders-0/broker"], "options": {"delay_ms": 700, "what": "writes"}}
    fault = ask("POST", "/faults", slow)
    assert fault["targets"] == ["node-1/broker"]
    assert "delay:700" in ask("GET", "/state")["inside"]["node-1/broker"]["slow"]
    began = time.monotonic()
    assert written() is None and time.monotonic() - began >= 0.7
    ask("DELETE", f"/faults/{fault['id']}")
    assert ask("GET", "/state")["inside"]["node-1/broker"]["slow"] == ""

    pids = {role: process["pid"] for role, process in ask("GET", "/state")["nodes"][0]["processes"].items()}
    ask("POST", "/faults", {"fault": "controller_kill", "options": {"process": True}})
    until(
        lambda: (ask("GET", "/state")["nodes"][0]["processes"]["controller"] or {"pid": 0})["pid"] != pids["controller"]
    )
    below = {"fault": "isr_below_min", "targets": ["orders-0"], "options": {"how": "kill"}, "seconds": 3600}
    fault = ask("POST", "/faults", below)
    assert fault["targets"] == ["node-2"] and fault["ends_ms"] > time.time() * 1000
    until(lambda: written() == "NOT_ENOUGH_REPLICAS")
    ask("DELETE", f"/faults/{fault['id']}")
    ask("POST", "/faults", {"fault": "pause", "targets": ["follower orders-0/broker"], "seconds": 0.2})
    until(lambda: ask("GET", "/faults") == [])
    until(lambda: ask("GET", "/state?health=true")["ailments"] == [])
    assert written() is None


def a_disk_that_is_full(command: Command, is_small: bool) -> None:
    """What was offered and could never be is offered where a node has a disk that can be filled."""
    kinds = {each["fault"]: each for each in command.ask("GET", "/kinds")}
    assert kinds["disk_full"]["possible"] is kinds["read_only"]["possible"] is is_small
    if is_small:
        fault = command.ask("POST", "/faults", {"fault": "disk_full", "targets": ["node-2"]})
        assert fault["in_force"]
        command.ask("DELETE", f"/faults/{fault['id']}")


def can_have_small_disks(folder: Path) -> bool:
    folder.mkdir()
    try:
        SmallDisk.mount(str(folder), 4 << 20).close()
    except NotPermitted:
        return False
    return True


def test_a_cluster_that_exists_is_served_and_left_as_it_is(tmp_path: Path) -> None:
    from kvorum.chaos.faults.lab import Lab
    from kvorum.chaos.faults.shape import LabShape

    with Lab.create(str(tmp_path / "data"), LabShape(brokers=1, controllers=1), network="plain") as lab:
        with serving(tmp_path / "data") as command:
            (node,) = command.ask("GET", "/state?health=true")["nodes"]
            assert node["processes"]["broker"]["pid"] == lab.cluster.pid_of("node-1", "broker")
            assert command.ask("GET", "/state")["inside"] == {}
            command.ask("POST", "/faults", {"fault": "kill", "targets": ["node-1/broker"]})
            until(lambda: "broker" in lab.cluster.processes("node-1"))
            assert lab.cluster.pid_of("node-1", "broker") != node["processes"]["broker"]["pid"]
        assert lab.processes.running_nodes() == ["node-1"]


def test_the_address_that_is_printed_is_one() -> None:
    assert url_of("::1", 9095) == "http://[::1]:9095" and url_of("127.0.0.1", 1) == "http://127.0.0.1:1"


def test_it_is_served_over_tls(tmp_path: Path) -> None:
    authority, (server, _) = Authority(tmp_path / "certificates"), on_paper(tmp_path)

    async def main() -> None:
        (port,) = free_ports(["127.0.0.1"])
        serving = asyncio.create_task(
            run(server, "127.0.0.1", port, tmp_path / "token", tls_of(authority.issue("lab")))
        )
        context, url = (
            ssl.create_default_context(cafile=str(authority.file)),
            f"https://127.0.0.1:{port}/v1/chaos/faults",
        )
        headers = {"Authorization": f"Bearer {server.token}", "Origin": f"https://127.0.0.1:{port}"}
        async with asyncio.timeout(60), ClientSession() as session:
            while True:
                try:
                    async with session.get(url, ssl=context, headers=headers) as answer:
                        assert answer.status == 200
                    break
                except ClientConnectorError:
                    await asyncio.sleep(0.05)
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(main())
    with pytest.raises(SystemExit):
        tls_of(tmp_path / "none.pem")


def test_an_address_in_use_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server, _ = on_paper(tmp_path)
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            asyncio.run(run(server, "::1", port, tmp_path / "token"))
    assert f"[::1]:{port}: " in capsys.readouterr().err


def test_the_command_reports_missing_requirements(tmp_path: Path) -> None:
    def message(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(serve, arguments)
        return done.exit_code, done.output

    code, text = message("-d", str(tmp_path))
    assert code == 4 and "there is no cluster" in text and "--create" in text
    code, text = message("-d", str(tmp_path), "--host", "0.0.0.0")
    assert code == 2 and "--allow-remote" in text
    for wrong in ("node-1", "node-1=1", "node-1=9999", "node-1=x"):
        code, text = message("-d", str(tmp_path), "--create", "--small-disk", wrong)
        assert code == 2 and "--small-disk" in text, text
    code, text = message("-d", str(tmp_path), "--create", "--small-disk", "node-9=64")
    assert code == 2 and "unknown node" in text
    code, text = message("-d", str(tmp_path), "--plain")
    assert code == 2 and "--create" in text
