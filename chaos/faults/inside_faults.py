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

from kvorum.chaos.faults.events import ActiveFault, FaultError, FaultRegister
from kvorum.cluster.local.plan import ClusterPlan
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import HttpEndpoint, chaos_listener

TOKEN_FILE: Final = "chaos.token"
TOKEN_BYTES: Final = 24
ANSWER_SECONDS: Final = 10.0
KINDS: Final = (*("error_injection", "delay_injection", "drop_injection", "refuse_listener", "failpoint", "slow_disk"),)
SEPARATOR: Final = ","
"""Between names, where several are meant."""


class InsideError(FaultError):
    """A process's control listener rejected the request, or does not exist."""


class ListenerUnreachable(InsideError):
    """The control listener does not answer: the process is down, stopped, or has none."""


class ResponseMissing(ListenerUnreachable):
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
class ControlListener:
    """One process's control listener."""

    endpoint: HttpEndpoint
    token: str

    def ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        """Execute one request; return the response. Raises ResponseMissing, ListenerUnreachable, InsideError."""
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
            raise ListenerUnreachable(f"{place}: {error}") from error
        return {key: value for key, value in answer.items() if key != "ok"}


@dataclass(slots=True)
class InsideFaults:
    """The control listeners of a cluster's processes."""

    listeners: Mapping[str, ControlListener]
    """{"node-1/broker": its control connection}, of the processes with one."""
    register: FaultRegister

    @classmethod
    def of(cls, plan: ClusterPlan, register: FaultRegister) -> "InsideFaults":
        """Find the control listeners in a cluster's plan: none where it was made without. Raises InsideError."""
        doors = {}
        try:
            for node in plan.nodes:
                settings = Settings.of(dict(node.properties))
                for role in node.roles:
                    endpoint = chaos_listener(settings, role)
                    if endpoint is not None:
                        doors[f"{node.name}/{role}"] = ControlListener(endpoint, _token(settings))
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
            found = [each for each in self.listeners if each.endswith(f"/{name[:-1]}")]
        else:
            found = [each for each in self.listeners if name in (each, each.partition("/")[0])]
        if not found:
            known = ", ".join(self.listeners) or "none, because kvorum.chaos.listener is not set"
            raise InsideError(f"{name!r} has no control listener; control listeners: {known}")
        return found

    def ask(self, process: str, command: Mapping[str, object]) -> dict[str, Any]:
        """Execute a request in one process. Raises InsideError."""
        if process not in self.listeners:
            raise InsideError(f"{process!r} has no control listener")
        return self.listeners[process].ask(command)

    def state(self, silent: Collection[str] = ()) -> dict[str, dict[str, Any] | None]:
        """Return {process: faults in force inside}, None for one that does not answer; `silent` ones are not queried.

        A stopped one (SIGSTOP) accepts the connection and never answers: the query would wait for it.
        """
        found: dict[str, dict[str, Any] | None] = {}
        for process, door in self.listeners.items():
            if process in silent:
                found[process] = None
                continue
            try:
                found[process] = door.ask({"do": "state"})
            except ListenerUnreachable:
                found[process] = None
        return found

    def error(
        self, name: str, api: str | int, code: str | int, *, count: int | None = None, **more: object
    ) -> ActiveFault:
        """Answer requests of an API with an error, undone: the next `count`, or all until it ends.

        `more`: client_id, listener, at_top. Raises InsideError.
        """
        rule = {"do": "inject", "action": "error", "api": api, "code": code, "count": count, **more}
        return self._inject(
            "error_injection", self.processes(name), f"{name} rejects {_how_many(api, count)} with {code}", rule
        )

    def delay(
        self, name: str, api: str | int, delay_ms: int, *, count: int | None = None, **more: object
    ) -> ActiveFault:
        """Delay the answers to requests of an API by this time. Raises InsideError."""
        rule = {"do": "inject", "action": "delay", "api": api, "delay_ms": delay_ms, "count": count, **more}
        return self._inject(
            "delay_injection", self.processes(name), f"{name} delays {_how_many(api, count)} by {delay_ms} ms", rule
        )

    def drop(
        self,
        name: str,
        api: str | int,
        *,
        count: int | None = None,
        silent: bool = False,
        handled: bool = False,
        **more: object,
    ) -> ActiveFault:
        """Drop responses of an API: close the connection, or (`silent`) let the client wait.

        `handled`: the requests are still executed. Raises InsideError.
        """
        rule = {
            "do": "inject",
            "action": "drop",
            "api": api,
            "count": count,
            "silent": silent,
            "handled": handled,
            **more,
        }
        how = "executes" if handled else "drops"
        end = "does not respond" if silent else "closes the connection"
        return self._inject(
            "drop_injection", self.processes(name), f"{name} {how} {_how_many(api, count)} and {end}", rule
        )

    def refuse(self, name: str, listener: str, *, cut: bool = False) -> ActiveFault:
        """Close a listener while the process runs; `cut`: also its connections. The end opens it again."""
        processes = self.processes(name)
        tail = " and closes its connections" if cut else ""
        return self._inject(
            "refuse_listener",
            processes,
            f"listener {listener} of {', '.join(processes)} refuses connections{tail}",
            {"do": "refuse", "listener": listener, "cut": cut},
            {"do": "accept", "listener": listener},
        )

    def failpoints(self, name: str, arm: str) -> ActiveFault:
        """Arm failpoints ("log.append.after=kill@3"), which replace earlier ones. Raises InsideError.

        A process that is killed before its response has had its fault.
        """
        processes = self.processes(name)
        return self._inject(
            "failpoint",
            processes,
            f"armed in {', '.join(processes)}: {arm}",
            {"do": "failpoints", "arm": arm},
            {"do": "failpoints", "arm": ""},
            kills="=kill" in arm,
        )

    def slow_disk(self, name: str, arm: str, story: str) -> ActiveFault:
        """Delay disk operations, replacing earlier delays; `arm`: places and delays.

        Raises InsideError.
        """
        processes = self.processes(name)
        story = f"the disk of {', '.join(processes)} {story}"
        return self._inject("slow_disk", processes, story, {"do": "slow", "arm": arm}, {"do": "slow", "arm": ""})

    def heal(self) -> None:
        """End every fault of this module, and clear every process that answers."""
        for fault in self.register.in_force(*KINDS):
            fault.end()
        for process in self.listeners:
            with suppress(ListenerUnreachable):
                self.ask(process, {"do": "clear"})

    def _inject(
        self,
        kind: str,
        processes: Sequence[str],
        story: str,
        begin: Mapping[str, object],
        end: Mapping[str, object] | None = None,
        *,
        kills: bool = False,
    ) -> ActiveFault:
        """Begin a fault in each process. `end` is the command that ends it; None: a rule is withdrawn by its id."""
        ends: dict[str, Mapping[str, object]] = {}

        def do() -> None:
            try:
                for process in processes:
                    found: Mapping[str, Any] = {}
                    with suppress(*((ResponseMissing,) if kills else ())):
                        found = self.ask(process, begin)
                    ends[process] = {"do": "withdraw", "id": found["id"]} if end is None else end
            except InsideError:
                undo()
                raise

        def undo() -> None:
            for process, command in ends.items():
                with suppress(ListenerUnreachable):
                    self.ask(process, command)

        return self.register.begin(kind, processes, story, do=do, undo=undo)


def _answer(lines: BufferedIOBase, otherwise: str) -> dict[str, Any]:
    """Return the next line's object. Raises ResponseMissing, OSError (timeout)."""
    try:
        line = lines.readline()
    except ConnectionError as error:
        raise ResponseMissing(f"{otherwise}: {error}") from error
    if not line:
        raise ResponseMissing(otherwise)
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
