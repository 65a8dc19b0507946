"""The server's program is found or built, runs and ends; its API says clearly what is wrong."""

import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from kvorum.chaos.faults.ports import PortBlock
from kvorum.chaos.faults.toxiproxy import Toxic, ToxiproxyApi, ToxiproxyError, ToxiproxyServer
from kvorum.chaos.faults.toxiproxy_binary import MODULE, NoToxiproxy, find_or_build
from kvorum.runtime.process import identify


def program(path: Path, script: str = "exit 0") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_program_named_wins_over_the_path_and_the_path_over_the_cache(tmp_path: Path) -> None:
    named, on_path = program(tmp_path / "named"), program(tmp_path / "bin/toxiproxy-server")
    env = {"KVORUM_TOXIPROXY": named, "PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_or_build(env) == named
    assert find_or_build(env | {"KVORUM_TOXIPROXY": ""}) == on_path
    assert not (tmp_path / "cache").exists()


def test_a_named_program_that_is_missing_is_refused() -> None:
    with pytest.raises(NoToxiproxy, match="KVORUM_TOXIPROXY=/nowhere/server: program not found"):
        find_or_build({"KVORUM_TOXIPROXY": "/nowhere/server"})


def test_it_is_built_once_into_the_cache(tmp_path: Path) -> None:
    # Stands for Go: notes what it was asked for, and puts a program where GOBIN says.
    program(
        tmp_path / "bin/go", f'echo "$@" >>{tmp_path}/asked; mkdir -p "$GOBIN"; cp {tmp_path}/bin/go "$GOBIN/server"'
    )
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    built = find_or_build(env)
    assert built == str(tmp_path / "cache/kvorum/toxiproxy-2.5.0/server") and os.access(built, os.X_OK)
    assert find_or_build(env) == built
    assert (tmp_path / "asked").read_text().splitlines() == [f"install {MODULE}"]


def test_a_failed_build_reports_its_output_and_a_remedy(tmp_path: Path) -> None:
    program(tmp_path / "bin/go", "echo module lookup disabled >&2; exit 1")
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(NoToxiproxy, match=r"(?s)ended with 1: module lookup disabled.*Install it.*KVORUM_TOXIPROXY"):
        find_or_build(env)


def test_a_server_runs_ends_and_frees_its_port(server: ToxiproxyServer) -> None:
    pid = server.pid
    assert pid is not None and identify(pid) is not None and server.api.answers()
    server.stop()
    server.stop()
    assert identify(pid) is None and not server.api.answers()


def test_a_server_dies_with_the_thread_that_started_it(
    toxiproxy_program: str, ports: PortBlock, tmp_path: Path
) -> None:
    running = ToxiproxyServer(toxiproxy_program, ports.next(), str(tmp_path / "log"))
    thread = threading.Thread(target=running.start)
    thread.start()
    thread.join()
    deadline = time.monotonic() + 10
    while running.api.answers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running.api.answers()
    running.stop()


def test_a_program_that_is_no_server_is_reported(ports: PortBlock, tmp_path: Path) -> None:
    running = ToxiproxyServer(program(tmp_path / "false", "exit 1"), ports.next(), str(tmp_path / "log"))
    with pytest.raises(ToxiproxyError, match="did not start on port"):
        running.start()


def test_a_request_to_a_server_that_does_not_answer_times_out(ports: PortBlock) -> None:
    with (
        socket.create_server(("127.0.0.1", ports.next())) as silent,
        pytest.raises(ToxiproxyError, match=r"(?i)GET /proxies.*timed out"),
    ):
        ToxiproxyApi(silent.getsockname()[1]).proxies()


def test_errors_of_the_server_are_reported_with_the_request(server: ToxiproxyServer) -> None:
    with pytest.raises(ToxiproxyError, match=r"POST /proxies/absent/toxics: .*proxy not found"):
        server.api.add("absent", Toxic("t", "latency", "upstream", {"latency": 1}))
    server.api.remove("absent", "t")
    server.api.populate([("p", "127.0.0.1:0", "127.0.0.1:1")])
    with pytest.raises(ToxiproxyError, match="invalid toxic type"):
        server.api.add("p", Toxic("t", "nonsense", "upstream", {}))


def test_two_servers_in_one_process_are_kept_apart(
    server: ToxiproxyServer, toxiproxy_program: str, ports: PortBlock, tmp_path: Path
) -> None:
    other = ToxiproxyServer(toxiproxy_program, ports.next(), str(tmp_path / "other.log"))
    other.start()
    try:
        server.api.populate([("mine", "127.0.0.1:0", "127.0.0.1:1")])
        other.api.populate([("yours", "127.0.0.1:0", "127.0.0.1:1")])
        assert (set(server.api.proxies()), set(other.api.proxies())) == ({"mine"}, {"yours"})
    finally:
        other.stop()
