"""A Kafka Connect in memory: paths, statuses and shapes of its REST interface, and whatever a test wants instead."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

WORKER = "127.0.0.1:8083"
CONFIG = {
    "connector.class": "GeneratorSource",
    "topic": "numbers",
    "tasks.max": "1",
    "connection.password": "open-sesame",
}
SERVER = {"version": "4.3.0", "commit": "c0ffee", "kafka_cluster_id": "c"}
KEY = {"name": "topic", "type": "STRING", "required": True, "default_value": None, "importance": "HIGH"}
KEY |= {"documentation": "Where to", "group": "Common", "display_name": "topic", "order": 1}
LEVEL = {"level": "INFO", "last_modified": None}
STATES = {"pause": ("PAUSED", 202), "resume": ("RUNNING", 202), "stop": ("STOPPED", 204)}


def texts(config: dict[str, Any]) -> dict[str, str | None]:
    """Return a config as Connect reads it."""
    return {key: None if value is None else str(value) for key, value in config.items()}


def refused(status: int, message: str) -> web.Response:
    return web.json_response({"error_code": status, "message": message}, status=status)


@dataclass(slots=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    query: list[tuple[str, str]]
    body: Any
    headers: dict[str, str]


@dataclass(slots=True)
class FakeConnect:
    """See the module. `instead` answers everything, while it is there."""

    connectors: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    requested: list[Asked] = field(default_factory=list)
    instead: Callable[[web.Request], web.StreamResponse] | None = None

    def reset(self) -> None:
        """Have one connector that runs."""
        self.connectors, self.states, self.instead = {"numbers": {"name": "numbers", **CONFIG}}, {}, None
        self.requested.clear()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    def info(self, name: str) -> dict[str, Any]:
        tasks = [{"connector": name, "task": 0}]
        return {"name": name, "config": self.connectors[name], "tasks": tasks, "type": "source"}

    def status(self, name: str) -> dict[str, Any]:
        state = {"state": self.states.get(name, "RUNNING"), "worker_id": WORKER, "version": "1.0"}
        return {"name": name, "connector": state, "tasks": [{"id": 0, **state}], "type": "source"}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text) if text else None
        path = request.rel_url.raw_path
        self.requested.append(Asked(request.method, path, [*request.query.items()], body, dict(request.headers)))
        if self.instead is not None:
            return self.instead(request)
        match [unquote(each) for each in path.split("/") if each]:
            case []:
                return web.json_response(SERVER)
            case ["connectors"]:
                return self._connectors(request, body)
            case ["connectors", name, *more]:
                if request.method == "PUT" and more == ["config"]:
                    new = name not in self.connectors
                    self.connectors[name] = {**texts(body), "name": name}
                    return web.json_response(self.info(name), status=201 if new else 200)
                if name not in self.connectors:
                    return refused(404, f"Connector {name} not found")
                return self._connector(request, name, more, body)
            case ["connector-plugins"]:
                return web.json_response([{"class": "GeneratorSource", "type": "source", "version": "1.0"}])
            case ["connector-plugins", _, "config"]:
                return web.json_response([KEY])
            case ["connector-plugins", name, "config", "validate"]:
                return self._validated(name, body)
            case ["admin", "loggers"]:
                return web.json_response({"root": LEVEL})
            case ["admin", "loggers", name]:
                if request.method == "GET":
                    return web.json_response(LEVEL)
                return web.Response(status=204) if request.query["scope"] == "cluster" else web.json_response([name])
        return refused(404, "HTTP 404 Not Found")

    def _connectors(self, request: web.Request, body: Any) -> web.Response:
        if request.method == "POST":
            if body["name"] in self.connectors:
                return refused(409, f"Connector {body['name']} already exists")
            self.connectors[body["name"]] = {**texts(body["config"]), "name": body["name"]}
            return web.json_response(self.info(body["name"]), status=201)
        made = {"info": self.info, "status": self.status}
        wanted = request.query.getall("expand", [])
        if not wanted:
            return web.json_response([*self.connectors])
        return web.json_response({name: {each: made[each](name) for each in wanted} for name in self.connectors})

    def _connector(self, request: web.Request, name: str, more: list[str], body: Any) -> web.Response:
        place = {"partition": {"source": name}, "offset": {"at": 5}}
        if request.method == "PUT" and more and more[-1] in STATES:
            self.states[name], status = STATES[more[-1]]
            return web.Response(status=status)
        match request.method, *more:
            case "GET", *found if not found or found == ["status"]:
                return web.json_response(self.status(name) if found else self.info(name))
            case ("DELETE",):
                del self.connectors[name]
                return web.Response(status=204)
            case "PATCH", "config":
                changed = {**self.connectors[name], **texts(body)}
                self.connectors[name] = {key: value for key, value in changed.items() if value is not None}
                return web.json_response(self.info(name))
            case "GET", "config":
                return web.json_response(self.connectors[name])
            case "POST", "restart" if request.query.get("includeTasks") == "true":
                return web.json_response(self.status(name), status=202)
            case ("POST", "restart") | ("POST", "tasks", "0", "restart"):
                return web.Response(status=204)
            case "GET", "tasks":
                id_ = {"connector": name, "task": 0}
                return web.json_response([{"id": id_, "config": self.connectors[name]}])
            case "GET", "tasks", "0", "status":
                return web.json_response(self.status(name)["tasks"][0])
            case "GET", "offsets":
                return web.json_response({"offsets": [place]})
            case "PATCH", "offsets":
                return web.json_response({"message": "altered"})
            case "DELETE", "offsets":
                return web.json_response({"message": "reset"})
            case "GET", "topics":
                return web.json_response({name: {"topics": ["numbers"]}})
            case "PUT", "topics", "reset":
                return web.Response(status=202)
        return refused(404, "HTTP 404 Not Found")

    def _validated(self, name: str, body: Any) -> web.Response:
        errors = [] if body.get("topic") else ['Missing required configuration "topic" which has no default value.']
        value = {
            "name": "topic",
            "value": body.get("topic"),
            "recommended_values": [],
            "errors": errors,
            "visible": True,
        }
        reported = {"name": name, "error_count": len(errors), "groups": ["Common"]}
        return web.json_response({**reported, "configs": [{"definition": KEY, "value": value}]})


@contextmanager
def running() -> Iterator[tuple[FakeConnect, str]]:
    """Give one that answers in a thread of its own, and its address."""
    connect = FakeConnect()
    connect.reset()
    with in_thread(connect.app) as url:
        yield connect, url


@contextmanager
def in_thread(build: Callable[[], web.Application]) -> Iterator[str]:
    """Serve an application in a loop and a thread of its own, where it is made, too; give its address."""
    loop, runners = asyncio.new_event_loop(), list[web.AppRunner]()
    thread = threading.Thread(target=loop.run_forever, daemon=True)

    async def begin() -> str:
        runners.append(web.AppRunner(build()))
        await runners[0].setup()
        await web.TCPSite(runners[0], "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runners[0].addresses[0][1]}"

    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    finally:
        for runner in runners:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
