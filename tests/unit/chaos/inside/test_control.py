"""The control listener: who knows the token may do what it says, anybody else nothing; and where it may be opened."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.inside_faults import (
    ControlListener,
    InsideError,
    InsideFaults,
    ListenerUnreachable,
    ResponseMissing,
    inside_configs,
)
from kvorum.cluster.fault_injection.chaos_control import CONNECTIONS_MAX, LINE_BYTES_MAX, ChaosControl
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime import failpoints
from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_checks import check_exposure
from kvorum.runtime.config_files import load_node
from kvorum.runtime.listeners import HttpEndpoint, chaos_listener

Play = Callable[[Callable[[Any], Coroutine[Any, Any, None]]], None]
ROOT = Path(__file__).parent.parent.parent.parent.parent
TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def disarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test arms is gone after it."""
    monkeypatch.setattr(failpoints, "hit", failpoints.hit)


def controlled(play: Play, scenario: Callable[[Any, ControlListener], Coroutine[Any, Any, None]]) -> None:
    """Play a scenario with a control listener, and the door to it (which blocks: ask it in a thread)."""

    async def main(served: Any) -> None:
        control = ChaosControl(HttpEndpoint("127.0.0.1", 0), TOKEN, served.injection, "broker", 1)
        port = await control.start()
        try:
            await scenario(served, ControlListener(HttpEndpoint("127.0.0.1", port), TOKEN))
        finally:
            await control.close()
            await control.close()

    play(main)


async def ask(door: ControlListener, **command: object) -> dict[str, Any]:
    return await asyncio.to_thread(door.ask, command)


def test_a_rule_can_be_put_in_force_looked_at_and_withdrawn(play: Play) -> None:
    async def scenario(served: Any, door: ControlListener) -> None:
        rule = {"action": "error", "api": "Metadata", "code": "REBOOTSTRAP_REQUIRED", "count": 2}
        number = (await ask(door, do="inject", **rule))["id"]
        channel = served.channel()
        assert (await served.metadata(channel)).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
        state = await ask(door, do="state")
        (found,) = state["rules"]
        assert (found["id"], found["api"], found["code"], found["remaining"], found["hits"]) == (
            number,
            "METADATA",
            "REBOOTSTRAP_REQUIRED",
            1,
            1,
        )
        assert (state["role"], state["node_id"], state["failpoints"]) == ("broker", 1, "")
        assert state["listeners"]["PLAINTEXT"]["refusing"] is False
        assert await ask(door, do="withdraw", id=number) == {"was_in_force": True}
        assert (await served.metadata(channel)).error_code == ErrorCode.NONE

    controlled(play, scenario)


def test_a_listener_refuses_and_accepts_and_failpoints_are_armed_until_all_is_cleared(play: Play) -> None:
    async def scenario(served: Any, door: ControlListener) -> None:
        await ask(door, do="refuse", listener="OTHER", cut=True)
        assert served.injection.listener("OTHER").is_refusing
        await ask(door, do="failpoints", arm="place=raise@2")
        failpoints.hit("place")
        with pytest.raises(OSError, match="failpoint place"):
            failpoints.hit("place")
        await ask(door, do="failpoints", arm="place=raise")
        with pytest.raises(OSError, match="failpoint place"):
            failpoints.hit("place")
        assert (await ask(door, do="state"))["failpoints"] == "place=raise"
        await ask(door, do="slow", arm="place=delay:1;other=delay:1")
        assert (await ask(door, do="state"))["slow"] == "place=delay:1;other=delay:1"
        assert failpoints.setting == "place=raise;place=delay:1;other=delay:1"
        await ask(door, do="inject", action="delay", api=3, delay_ms=1)
        await ask(door, do="clear")
        state = await ask(door, do="state")
        assert (state["rules"], state["failpoints"], state["listeners"]["OTHER"]["refusing"]) == ([], "", False)
        failpoints.hit("place")
        assert (state["slow"], failpoints.setting) == ("", "")

    controlled(play, scenario)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ({"do": "slow", "arm": "place=kill"}, "other than delays"),
        ({"do": "explode"}, "Invalid value 'explode'"),
        ({"do": "inject", "action": "error", "api": "METADATA"}, "an error requires a code"),
        ({"do": "inject", "action": "error", "api": "METADATA", "code": "NO_SUCH"}, "unknown error code 'NO_SUCH'"),
        ({"do": "inject", "action": "error", "api": 9999, "code": 1}, "unknown API 9999"),
        ({"do": "inject", "action": "delay", "api": "METADATA"}, "a delay requires delay_ms"),
        ({"do": "inject", "action": "delay", "api": "METADATA", "delay_ms": 10**9}, "delay_ms"),
        ({"do": "inject", "action": "drop", "api": "METADATA", "count": 0}, "count"),
        ({"do": "inject", "action": "drop", "api": "METADATA", "typo": 1}, "typo"),
        ({"do": "refuse", "listener": "NOBODY"}, "unknown listener 'NOBODY'"),
        ({"do": "failpoints", "arm": "place=explode"}, "is not NAME=kill"),
        ({"do": "withdraw"}, "id"),
    ],
)
def test_invalid_requests_are_refused_with_the_reason(play: Play, command: dict[str, object], why: str) -> None:
    async def scenario(served: Any, door: ControlListener) -> None:
        with pytest.raises(InsideError, match=why):
            await ask(door, **command)
        assert served.injection.rules == {}

    controlled(play, scenario)


def test_a_client_with_a_wrong_token_gets_one_error_and_is_disconnected(play: Play) -> None:
    async def scenario(served: Any, door: ControlListener) -> None:
        wrong = (b'{"token": "0123456789abcdeg"}', b'{"token": ""}', b"POST / HTTP/1.1\r", b'{"do": "state"}', b"x")
        for first in wrong:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.endpoint.port)
            writer.write(first + b'\n{"do": "inject", "action": "drop", "api": 3}\n')
            answer = json.loads(await reader.readline())
            assert answer == {"ok": False, "error": "the first line must have the token"}
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        with pytest.raises(InsideError, match="token"):
            await asyncio.to_thread(ControlListener(door.endpoint, "wrong").ask, {"do": "state"})
        assert served.injection.rules == {}

    controlled(play, scenario)


def test_a_line_too_long_and_one_connection_too_many_end(play: Play) -> None:
    async def scenario(served: Any, door: ControlListener) -> None:
        port = door.endpoint.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(json.dumps({"token": TOKEN}).encode() + b"\n")
        assert json.loads(await reader.readline())["ok"] is True
        writer.write(b"x" * (LINE_BYTES_MAX * 3))
        with_error = await asyncio.gather(reader.read(), return_exceptions=True)
        assert with_error[0] == b"" or isinstance(with_error[0], ConnectionError)
        writer.close()
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX + 1)]
        done, waiting = await asyncio.wait(
            [asyncio.ensure_future(each.read()) for each, _ in held], return_when=asyncio.FIRST_COMPLETED
        )
        assert len(done) == 1 and len(waiting) == CONNECTIONS_MAX
        for _, each in held:
            each.close()
        await asyncio.wait(waiting)

    controlled(play, scenario)


def test_an_unreachable_listener_is_reported() -> None:
    with pytest.raises(ListenerUnreachable):
        ControlListener(HttpEndpoint("127.0.0.1", 1), TOKEN).ask({"do": "state"})


# Where it may be opened.

NODE = {"node.id": "1", "controller.listener.names": "CONTROLLER", "listeners": "CONTROLLER://127.0.0.1:1"}
OPEN = {"kvorum.chaos.listener": "127.0.0.1:7000", "kvorum.chaos.token": TOKEN}


@pytest.mark.parametrize(
    ("roles", "configs", "broker", "controller"),
    [
        ("broker,controller", {}, None, None),
        ("broker,controller", OPEN, 7000, 7100),
        ("broker,controller", {**OPEN, "kvorum.controller.chaos.listener": "localhost:7005"}, 7000, 7005),
        ("broker,controller", {**OPEN, "kvorum.chaos.listener": "127.0.0.1:0"}, 0, 0),
        ("controller", OPEN, 7000, 7000),
    ],
)
def test_broker_and_controller_of_a_node_have_a_port_each(
    roles: str, configs: dict[str, str], broker: int | None, controller: int | None
) -> None:
    settings = Settings.of({**NODE, "process.roles": roles, **configs})
    check_exposure(settings)
    found = [chaos_listener(settings, role) for role in ("broker", "controller")]
    assert [None if each is None else each.port for each in found] == [broker, controller]


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"kvorum.chaos.listener": "0.0.0.0:7000"}, "on this machine only"),
        ({"kvorum.chaos.listener": "10.0.0.1:7000"}, "on this machine only"),
        ({"kvorum.chaos.listener": ":7000"}, "on this machine only"),
        ({"kvorum.chaos.listener": "7000"}, "HOST:PORT"),
        ({"kvorum.controller.chaos.listener": "192.168.0.1:1"}, "on this machine only"),
        ({"kvorum.chaos.token": None}, "requires either"),
        ({"kvorum.chaos.token.file": "/token"}, "requires either"),
        ({"kvorum.chaos.token": "short"}, "16 characters"),
    ],
)
def test_a_listener_that_would_be_open_to_others_is_refused(configs: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        check_exposure(Settings.of({**NODE, "process.roles": "broker,controller", **OPEN, **configs}))
    assert "short" not in str(error.value)


def test_a_process_without_the_listener_has_nothing_in_the_way_and_has_not_even_loaded_it() -> None:
    script = """
import asyncio, sys
import kvorum.cluster.process.broker_process, kvorum.cluster.process.controller_process
from kvorum.cluster.fault_injection.interposer import open_interposer
from kvorum.runtime.config import Settings

async def main():
    for role in ("broker", "controller"):
        async with open_interposer(Settings.of({"process.roles": "broker,controller"}), role) as found:
            assert found is None
    package = "kvorum.cluster.fault_injection"
    loaded = {f"{package}.chaos_control", f"{package}.injection"} & {*sys.modules}
    assert not loaded, loaded

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def shipped() -> list[Path]:
    """What is for production: pipelines and scenarios of the lab are not."""
    others = {"chaos", "pipelines"}
    return [each for each in (ROOT / "configs").rglob("*") if each.is_file() and not others & set(each.parts)]


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.name)
def test_no_configuration_for_production_opens_it(path: Path) -> None:
    assert "kvorum.chaos" not in path.read_text() and "controller.chaos" not in path.read_text()
    if path.parent != ROOT / "configs":
        return  # a unit, a dashboard, an image: it names the files beside it
    if path.suffix == ".yaml":
        nodes = [node.settings for node in load_cluster(str(path), "/dir").nodes]
    else:
        nodes = [load_node(str(path), environment={}).settings]
    for settings in nodes:
        assert [chaos_listener(settings, role) for role in ("broker", "controller")] == [None, None]


def test_without_the_config_there_are_no_control_listeners_and_the_token_is_private(tmp_path: Path) -> None:
    from kvorum.cluster.local.plan import ClusterPlan, NodePlan

    closed = InsideFaults.of(
        ClusterPlan("id", [NodePlan("node-1", {**NODE, "process.roles": "broker"})]), FaultRegister()
    )
    assert closed.state() == {}
    with pytest.raises(InsideError, match="is not set"):
        closed.error("node-1", "PRODUCE", 6)
    configs = inside_configs(str(tmp_path))
    assert inside_configs(str(tmp_path)) == configs, "a second call keeps the token"
    path = Path(configs["kvorum.chaos.token.file"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().strip()) >= 16
    plan = ClusterPlan("id", [NodePlan("node-1", {**NODE, "process.roles": "broker,controller", **configs})])
    assert set(InsideFaults.of(plan, FaultRegister()).listeners) == {"node-1/broker", "node-1/controller"}


def test_a_process_killed_by_a_fault_before_its_response_has_had_the_fault() -> None:
    """As a killed process does it: its connection ends after the command, with an end or with a reset."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def die_once() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as lines:
                lines.readline()
                lines.write(b'{"ok": true}\n')
                lines.flush()
                lines.readline()

        door = ControlListener(HttpEndpoint("127.0.0.1", server.getsockname()[1]), TOKEN)
        inside = InsideFaults({"node-1/broker": door}, FaultRegister())
        with ThreadPoolExecutor(1) as others:
            death = others.submit(die_once)
            armed = inside.failpoints("node-1", "log.append.after=kill")
            death.result()
            assert [each.kind for each in inside.register.in_force()] == ["failpoint"]
            death = others.submit(die_once)
            with pytest.raises(ResponseMissing, match="closed the connection"):
                inside.ask("node-1/broker", {"do": "state"})
            death.result()
            for arm in (
                lambda: inside.failpoints("node-1", "log.append.after=raise"),
                lambda: inside.slow_disk("node-1", "", ""),
            ):
                death = others.submit(die_once)
                with pytest.raises(ResponseMissing):
                    arm()  # nobody told it to die
                death.result()
            death = others.submit(die_once)
            armed.end()
            death.result()
    assert inside.register.in_force() == []
