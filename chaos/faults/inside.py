"""Faults from inside the processes of a cluster: requests refused, late or lost by API, listeners, failpoints.

    shape = LabShape(configs=inside_configs(folder))      # opens a control listener in every process
    with Lab.create(f"{folder}/cluster", shape) as lab:
        inside = Inside.of(lab.plan.cluster, lab.register)
        with inside.error("node-1/broker", "PRODUCE", "NOT_ENOUGH_REPLICAS", count=3):
            ...
        with inside.refuse("node-1/broker", "INTERNAL"):   # the process lives, its address refuses
            ...

Faults belong to the register: they are reported, and end with their block, or with `heal`. A process that was restarted
since has lost its own. Calls block, from any thread.
"""

import json
import os
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any, Final

from kvorum.chaos.faults.events import FaultRegister, Injected
from kvorum.chaos.faults.topology import BROKER
from kvorum.cluster.local.plan import ClusterPlan
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import HttpEndpoint, chaos_listener

TOKEN_FILE: Final = "chaos.token"
TOKEN_BYTES: Final = 24
ANSWER_SECONDS: Final = 10.0
KINDS: Final = (*("error_injection", "delay_injection", "drop_injection", "refuse_listener", "failpoint", "slow_disk"),)
SEPARATOR: Final = ","
"""Between names, where several are meant."""


class InsideError(Exception):
    """A process's control listener rejected the request, or does not exist."""


class NotReached(InsideError):
    """The control listener does not answer: the process is down, stopped, or has none."""


class EndedUnanswered(NotReached):
    """The connection ended before the response: a killed process may have died first."""


def inside_configs(folder: str) -> dict[str, str]:
    """Return the configs that open a control listener in every process of a cluster, with its token in the folder.

    Ports are chosen when the cluster's plan is made. Raises OSError.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(os.path.abspath(folder), TOKEN_FILE)
    with suppress(FileExistsError), open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    return {"kvorum.chaos.listener": "127.0.0.1:0", "kvorum.chaos.token.file": path}


@dataclass(frozen=True, slots=True)
class Door:
    """One process's control listener."""

    endpoint: HttpEndpoint
    token: str

    def ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        """Execute one request; return the response. Raises EndedUnanswered, NotReached, InsideError (reason)."""
        place = f"{self.endpoint.host}:{self.endpoint.port}"
        try:
            address = (self.endpoint.host, self.endpoint.port)
            with socket.create_connection(address, timeout=ANSWER_SECONDS) as connection:
                lines = connection.makefile("rwb")
                for line in ({"token": self.token}, command):
                    lines.write(json.dumps(line).encode() + b"\n")
                    lines.flush()
                    answer = _answer(lines, f"{place}: the process closed the connection")
                    if not answer["ok"]:
                        raise InsideError(answer["error"])
        except OSError as error:
            raise NotReached(f"{place}: {error}") from error
        return {key: value for key, value in answer.items() if key != "ok"}


@dataclass(slots=True)
class Inside:
    """The control listeners of a cluster's processes."""

    doors: Mapping[str, Door]
    """{"node-1/broker": its control connection}, of the processes with one."""
    register: FaultRegister

    @classmethod
    def of(cls, plan: ClusterPlan, register: FaultRegister) -> "Inside":
        """Find the control listeners in a cluster's plan: none where it was made without. Raises InsideError."""
        doors = {}
        try:
            for node in plan.nodes:
                settings = Settings.of(dict(node.properties))
                for role in node.roles:
                    endpoint = chaos_listener(settings, role)
                    if endpoint is not None:
                        doors[f"{node.name}/{role}"] = Door(endpoint, _token(settings))
        except (OSError, ConfigError) as error:
            raise InsideError(str(error)) from error
        return cls(doors, register)

    def processes(self, name: str) -> list[str]:
        """Return the processes of a name: a process, all of a node, "brokers", "controllers", or several of these.

        Raises InsideError.
        """
        if SEPARATOR in name:
            several = [process for each in name.split(SEPARATOR) for process in self.processes(each.strip())]
            return list(dict.fromkeys(several))
        if name in ("brokers", "controllers"):
            found = [each for each in self.doors if each.endswith(f"/{name[:-1]}")]
        else:
            found = [each for each in self.doors if name in (each, each.partition("/")[0])]
        if not found:
            known = ", ".join(self.doors) or "none, because kvorum.chaos.listener is not set"
            raise InsideError(f"{name!r} has no control listener; control listeners: {known}")
        return found

    def ask(self, process: str, command: Mapping[str, object]) -> dict[str, Any]:
        """Execute a request in one process. Raises InsideError."""
        if process not in self.doors:
            raise InsideError(f"{process!r} has no control listener")
        return self.doors[process].ask(command)

    def state(self, silent: Collection[str] = ()) -> dict[str, dict[str, Any] | None]:
        """Return {process: faults in force inside}, None for one that does not answer; `silent` ones are not queried.

        A stopped one (SIGSTOP) accepts the connection and never answers: the query would wait for it.
        """
        found: dict[str, dict[str, Any] | None] = {}
        for process, door in self.doors.items():
            if process in silent:
                found[process] = None
                continue
            try:
                found[process] = door.ask({"do": "state"})
            except NotReached:
                found[process] = None
        return found

    def error(
        self, name: str, api: str | int, code: str | int, *, count: int | None = None, **more: object
    ) -> Injected:
        """Answer requests of an API with an error, undone: the next `count`, or all until it ends.

        `more`: client_id, listener, at_top. Raises InsideError.
        """
        rule = {"action": "error", "api": api, "code": code, "count": count, **more}
        return self._inject("error_injection", name, rule, f"{name} rejects {_how_many(api, count)} with {code}")

    def delay(self, name: str, api: str | int, delay_ms: int, *, count: int | None = None, **more: object) -> Injected:
        """Delay the answers to requests of an API by this time. Raises InsideError."""
        rule = {"action": "delay", "api": api, "delay_ms": delay_ms, "count": count, **more}
        return self._inject("delay_injection", name, rule, f"{name} delays {_how_many(api, count)} by {delay_ms} ms")

    def drop(
        self,
        name: str,
        api: str | int,
        *,
        count: int | None = None,
        silent: bool = False,
        handled: bool = False,
        **more: object,
    ) -> Injected:
        """Drop responses of an API: close the connection, or (`silent`) let the client wait.

        `handled`: the requests are still executed. Raises InsideError.
        """
        rule = {"action": "drop", "api": api, "count": count, "silent": silent, "handled": handled, **more}
        how = "executes" if handled else "drops"
        end = "does not respond" if silent else "closes the connection"
        return self._inject("drop_injection", name, rule, f"{name} {how} {_how_many(api, count)} and {end}")

    def refuse(self, name: str, listener: str, *, cut: bool = False) -> Injected:
        """Close a listener while the process runs; `cut`: also its connections. The end opens it again."""
        processes = self.processes(name)
        tail = " and closes its connections" if cut else ""
        return self._each(
            "refuse_listener",
            processes,
            f"listener {listener} of {', '.join(processes)} refuses connections{tail}",
            {"do": "refuse", "listener": listener, "cut": cut},
            {"do": "accept", "listener": listener},
        )

    def failpoints(self, name: str, arm: str) -> Injected:
        """Arm failpoints ("log.append.after=kill@3"), which replace earlier ones. Raises InsideError.

        A process that is killed before its response has had its fault.
        """
        processes = self.processes(name)
        return self._each(
            "failpoint",
            processes,
            f"armed in {', '.join(processes)}: {arm}",
            {"do": "failpoints", "arm": arm},
            {"do": "failpoints", "arm": ""},
            kills="=kill" in arm,
        )

    def slow_disk(self, name: str, arm: str, story: str) -> Injected:
        """Delay disk operations, replacing earlier delays; `arm`: places and delays.

        Raises InsideError.
        """
        processes = self.processes(name)
        story = f"the disk of {', '.join(processes)} {story}"
        return self._each("slow_disk", processes, story, {"do": "slow", "arm": arm}, {"do": "slow", "arm": ""})

    def heal(self) -> None:
        """End every fault of this module, and clear every process that answers."""
        for fault in self.register.in_force(*KINDS):
            fault.end()
        for process in self.doors:
            with suppress(NotReached):
                self.ask(process, {"do": "clear"})

    def _inject(self, kind: str, name: str, rule: Mapping[str, object], story: str) -> Injected:
        processes = self.processes(name)
        ids: dict[str, int] = {}

        def do() -> None:
            try:
                for process in processes:
                    ids[process] = self.ask(process, {"do": "inject", **rule})["id"]
            except InsideError:
                undo()
                raise

        def undo() -> None:
            for process, rule_id in ids.items():
                with suppress(NotReached):
                    self.ask(process, {"do": "withdraw", "id": rule_id})

        return self.register.begin(kind, processes, story, do=do, undo=undo)

    def _each(
        self,
        kind: str,
        processes: Sequence[str],
        story: str,
        begin: Mapping[str, object],
        end: Mapping[str, object],
        *,
        kills: bool = False,
    ) -> Injected:
        def do() -> None:
            done: list[str] = []
            try:
                for process in processes:
                    with suppress(*((EndedUnanswered,) if kills else ())):
                        self.ask(process, begin)
                    done.append(process)
            except InsideError:
                undo(done)
                raise

        def undo(which: Sequence[str]) -> None:
            for process in which:
                with suppress(NotReached):
                    self.ask(process, end)

        return self.register.begin(kind, processes, story, do=do, undo=lambda: undo(processes))


def client_listeners(plan: ClusterPlan, name: str) -> list[str]:
    """Return the names of a node's listeners that a broker has, in their order. Raises KeyError."""
    node = plan.node(name)
    hidden = {each.strip() for each in node.properties.get("controller.listener.names", "").split(",")}
    names = [text.strip().partition("://")[0] for text in node.properties["listeners"].split(",")]
    return [each for each in names if each not in hidden] if BROKER in node.roles else []


def _answer(lines: BufferedIOBase, otherwise: str) -> dict[str, Any]:
    """Return the next line's object. Raises EndedUnanswered, OSError (timeout)."""
    try:
        line = lines.readline()
    except ConnectionError as error:
        raise EndedUnanswered(f"{otherwise}: {error}") from error
    if not line:
        raise EndedUnanswered(otherwise)
    answer: dict[str, Any] = json.loads(line)
    return answer


def _how_many(api: str | int, count: int | None) -> str:
    return f"every {api}" if count is None else f"the next {count} {api}"


def _token(settings: Settings) -> str:
    token = settings.optional_str("kvorum.chaos.token")
    if token is not None:
        return token
    with open(settings.str("kvorum.chaos.token.file"), encoding="utf-8") as file:
        return file.readline().strip()
