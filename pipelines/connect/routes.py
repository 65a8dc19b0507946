"""The manager's process, and its HTTP interface, which is Kafka Connect's.

It listens before the cluster responds, so that /health can report it. Its connectors end with it.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from kvorum.pipelines import plugins
from kvorum.pipelines.bridge.client import PREFIX, from_options
from kvorum.pipelines.connect import catalogue, validation
from kvorum.pipelines.connect.errors import ConnectError, bad_request, conflict
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.runner import Runner, identity
from kvorum.pipelines.connect.state import TASK, Connector, Json, Status, Target, compact, requested_positions
from kvorum.pipelines.connect.store import Store
from kvorum.pipelines.plugins import PluginError
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import MANAGER, Folder, now_ms
from kvorum.pipelines.spec.document import resolve
from kvorum.pipelines.spec.problems import Places

CONNECT_VERSION: Final = "4.3.0"
"""Version of Connect's interface: scripts read it."""
BODY_BYTES_MAX: Final = 1 << 20
JSON: Final = "application/json"
SAFE: Final = ("GET", "HEAD", "OPTIONS")
INITIAL: Final = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
TARGETS: Final = {"pause": (Target.PAUSED, 202), "resume": (Target.STARTED, 202), "stop": (Target.STOPPED, 204)}
"""{last part of the path: (target state, HTTP status)}."""
ROOT_LOGGER: Final = "root"
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 1000}
"""log4j's names."""
MODIFIED: Final = "_connect_modified_ms"
"""An attribute of a logger whose level was set here."""

log = logging.getLogger("kvorum.pipelines.connect.routes")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Operation = Callable[..., Awaitable[web.Response]]
"""Called with the herder, the request, and the variable parts of its path by name."""
OPERATIONS: Final[list[tuple[str, str, Operation]]] = []
"""(method, path, operation)."""


def application(herder: Herder, *, is_loopback: bool = True) -> web.Application:
    """Return the HTTP interface. Operations on connectors are rejected with 409 while the manager is not ready."""

    def bound(operation: Operation, path: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if path.startswith("/connectors") and not herder.ready:
                raise conflict()
            return await operation(herder, request, **request.match_info)

        return handle

    app = web.Application(middlewares=[guard(is_loopback=is_loopback)], client_max_size=BODY_BYTES_MAX)
    for method, path, operation in OPERATIONS:
        app.router.add_route(method, path, bound(operation, path))
    return app


async def serve(
    *,
    bootstrap: str,
    client: Mapping[str, str],
    prefix: str,
    listen: str,
    state_dir: Path,
    checkpoints: str | None,
    launch: Launch,
) -> None:
    """Run a manager until SIGTERM or Ctrl-C.

    `client` are settings of its Kafka clients, and of the pipelines' in the same cluster: security.protocol and others.
    Raises StateError if the folder is in use, OSError if the port is, OptionError, Superseded, SpecError.
    """
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    given = {"bootstrap.servers": bootstrap, **resolve(dict(client), Places())}
    settings = from_options({f"{PREFIX}{key}": value for key, value in given.items()})
    with Folder(state_dir, MANAGER).held("another manager"):
        server = socket.create_server((host, int(port)), family=family)
        address = f"{host if family is socket.AF_INET else f'[{host}]'}:{server.getsockname()[1]}"
        herder = Herder(
            store=Store(settings, prefix),
            runner=Runner(state_dir, checkpoints, launch),
            worker_id=address,
            checkpoints=checkpoints or identity(state_dir),
            may_move=checkpoints is not None,
            cluster=catalogue.Cluster(bootstrap=bootstrap, client=client),
            now=time.monotonic,
            wall_ms=now_ms,
        )
        http = web.AppRunner(application(herder, is_loopback=is_local(host)), access_log=None)
        await http.setup()
        await web.SockSite(http, server).start()
        print(f"listening on http://{address}", flush=True)
        work = asyncio.create_task(herder.run(), name="manager")
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await work
        finally:
            await herder.runner.end()
            await http.cleanup()


def route(method: str, *paths: str) -> Callable[[Operation], Operation]:
    """Add an operation to the interface."""

    def add(operation: Operation) -> Operation:
        OPERATIONS.extend((method, path, operation) for path in paths)
        return operation

    return add


# Requests and responses.


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response with JSON."""
    return web.Response(status=status, text=json.dumps(value), content_type=JSON, headers=headers)


async def body_of(request: web.Request) -> Any:
    """Return a request's JSON. Raises ConnectError: 415 for another media type, which forms of web pages can send."""
    if request.content_type != JSON:
        raise ConnectError(415, "HTTP 415 Unsupported Media Type")
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from error


def as_strings(found: Any) -> dict[str, str | None]:
    """Return a JSON object as a configuration: values as text, as Connect converts them. Raises ConnectError."""
    if not isinstance(found, dict):
        raise bad_request("the configuration must be a JSON object with string values")
    return {key: value if isinstance(value, str | None) else compact(value) for key, value in found.items()}


def without_nulls(found: Mapping[str, str | None]) -> dict[str, str]:
    """Return the keys that have a value."""
    return {key: value for key, value in found.items() if value is not None}


def flag(request: web.Request, name: str, default: bool) -> bool:
    """Return a boolean of the query, as Java parses it: all but `true` is false."""
    given = request.query.get(name)
    return default if given is None else given.lower() == "true"


def is_local(host: str) -> bool:
    """Return whether a Host header names this machine's loopback."""
    name = host.rpartition(":")[0] if host.count(":") == 1 or host.startswith("[") else host
    name = (name or host).strip("[]")
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def guard(*, is_loopback: bool) -> Any:
    """Return the middleware that checks headers and gives every error Connect's shape.

    It rejects requests of web pages from elsewhere, and conditional changes. `is_loopback`: the manager listens on
    loopback only, so requests with another host name are rejected.
    """

    def check_headers(request: web.Request) -> None:
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if is_loopback and not is_local(host):
            raise ConnectError(403, f"Host {host!r} is not a loopback address of this machine")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise ConnectError(403, f"requests from origin {origin!r} are rejected")
        for name in () if request.method in SAFE else request.headers:
            if name.lower().startswith("if-") or name.lower() == "if":  # RFC 9110, 13
                raise ConnectError(
                    412, f"{name} cannot be evaluated: no resource here has an ETag; nothing was changed"
                )

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        status, message, headers = 500, "see the manager's log", None
        try:
            check_headers(request)
            return await handler(request)
        except ConnectError as error:
            status, message = error.status, error.message
        except web.HTTPException as error:
            status, message = error.status, f"HTTP {error.status} {error.reason}"
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        except Exception:
            log.exception("request failed method=%s path=%s", request.method, request.path)
        return answer({"error_code": status, "message": message}, status, headers)

    return middleware


# The manager, its plugins and its loggers.


@route("GET", "/")
async def _root(herder: Herder, request: web.Request) -> web.Response:
    commit = f"kvorum-{plugins.own_version()}"
    return answer({"version": CONNECT_VERSION, "commit": commit, "kafka_cluster_id": herder.cluster_id})


@route("GET", "/health")  # KIP-1017
async def _health(herder: Herder, request: web.Request) -> web.Response:
    if not herder.cluster_id:
        return answer({"status": "starting", "message": "Worker is still starting up."}, 503)
    message = "Worker has completed startup and is ready to handle requests."
    return answer({"status": "healthy", "message": message})


@route("GET", "/connector-plugins", "/connector-plugins/")
async def _plugins(herder: Herder, request: web.Request) -> web.Response:
    only = flag(request, "connectorsOnly", True)
    try:
        found = [each.as_json() for each in await asyncio.to_thread(catalogue.connectors)]
        found += [] if only else await asyncio.to_thread(catalogue.others)
    except PluginError as error:
        raise ConnectError(500, str(error)) from error
    return answer(found)


@route("GET", "/connector-plugins/{plugin}/config")  # KIP-769
async def _keys(herder: Herder, request: web.Request, plugin: str) -> web.Response:
    found = catalogue.find(plugin)
    if found is None:
        raise ConnectError(404, f"Unknown plugin {plugin}.")
    keys = await asyncio.to_thread(validation.keys_of, found)
    return answer(validation.definitions_of(keys))


@route("PUT", "/connector-plugins/{plugin}/config/validate")
async def _validate(herder: Herder, request: web.Request, plugin: str) -> web.Response:
    properties = without_nulls(as_strings(await body_of(request)))
    cls = properties.get("connector.class")
    if cls is not None and not cls.removesuffix("Connector").endswith(plugin.removesuffix("Connector")):
        raise bad_request(f"Included connector type {cls} does not match request type {plugin}")
    return answer(await asyncio.to_thread(validation.validated, properties, herder.cluster.bootstrap))


def _all_loggers() -> dict[str, logging.Logger]:
    found = {k: v for k, v in sorted(logging.Logger.manager.loggerDict.items()) if isinstance(v, logging.Logger)}
    return {**found, ROOT_LOGGER: logging.getLogger()}


def _level_of(logger: logging.Logger) -> Json:
    level = logger.getEffectiveLevel()
    name = next((name for name, number in LEVELS.items() if number >= level), "OFF")
    return {"level": name, "last_modified": getattr(logger, MODIFIED, None)}


@route("GET", "/admin/loggers", "/admin/loggers/")
async def _loggers(herder: Herder, request: web.Request) -> web.Response:
    found = sorted(_all_loggers().items())
    return answer({name: _level_of(logger) for name, logger in found if logger.level != logging.NOTSET})


@route("GET", "/admin/loggers/{logger}")
async def _logger(herder: Herder, request: web.Request, logger: str) -> web.Response:
    found = _all_loggers().get(logger)
    if found is None:
        raise ConnectError(404, f"Logger {logger} not found.")
    return answer(_level_of(found))


@route("PUT", "/admin/loggers/{logger}")
async def _set_level(herder: Herder, request: web.Request, logger: str) -> web.Response:
    level = as_strings(await body_of(request)).get("level")
    if level is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if request.query.get("scope", "worker").lower() == "cluster":
        raise ConnectError(501, "log levels are set per worker: use scope=worker")
    number = LEVELS.get(level.upper())
    if number is None:
        raise ConnectError(404, f"invalid log level '{level}'.")
    known = _all_loggers()
    found = {logger: known.get(logger) or logging.getLogger(logger)}
    found |= {k: each for k, each in known.items() if logger == ROOT_LOGGER or k.startswith(f"{logger}.")}
    for each in found.values():
        each.setLevel(number)
        setattr(each, MODIFIED, time.time_ns() // 1_000_000)
    return answer(sorted(found))


# Connectors.


def info(connector: Connector) -> Json:
    """Return Connect's ConnectorInfo."""
    name, properties = connector.name, dict(connector.properties)
    tasks = [] if connector.task is None else [{"connector": name, "task": TASK}]
    return {"name": name, "config": properties, "tasks": tasks, "type": catalogue.type_of(properties)}


def state_info(connector: Connector) -> Json:
    """Return Connect's ConnectorStateInfo."""
    name, type_ = connector.name, catalogue.type_of(connector.properties)
    tasks = [] if connector.task is None else [{"id": TASK, **_state(connector.task)}]
    return {"name": name, "connector": _state(connector.status), "tasks": tasks, "type": type_}


def _state(status: Status | None) -> Json:
    found = {"state": "UNASSIGNED", "worker_id": "", "version": plugins.own_version()}
    if status is not None:
        found |= {"state": status.state, "worker_id": status.worker_id}
        found |= {} if status.trace is None else {"trace": status.trace}
    return found


def configuration(name: str, found: Mapping[str, str | None]) -> dict[str, str]:
    """Return a configuration with its name in it. Raises ConnectError for null values and for another name."""
    count = sum(value is None for value in found.values())
    if count:
        raise validation.invalid(["Null value can not be supplied as the configuration value."] * count)
    given = found.get("name")
    if given is not None and given != name:
        raise bad_request(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return {**without_nulls(found), "name": name}


def _location(request: web.Request, name: str) -> dict[str, str]:
    return {"Location": f"http://{request.host}/connectors/{quote(name, safe='')}"}


@route("GET", "/connectors", "/connectors/")
async def _names(herder: Herder, request: web.Request) -> web.Response:
    names = herder.state.names()
    if "expand" not in request.query:
        return answer(names)
    parts = {"info": info, "status": state_info}
    wanted = [each for each in request.query.getall("expand") if each in parts]
    return answer({name: {each: parts[each](herder.existing(name)) for each in wanted} for name in names})


@route("POST", "/connectors", "/connectors/")
async def _create(herder: Herder, request: web.Request) -> web.Response:
    body = await body_of(request)
    if not isinstance(body, dict) or not isinstance(body.get("config"), dict):
        raise bad_request("the body must be a JSON object with name and config")
    unknown = set(body) - {"name", "config", "initial_state"}
    if unknown:
        raise bad_request(f"Unrecognized field {sorted(unknown)[0]!r}")
    name, given = str(body.get("name") or "").strip(), body.get("initial_state")
    properties = configuration(name, as_strings(body["config"]))
    target = INITIAL.get("RUNNING" if given is None else str(given).upper())
    if target is None:
        raise bad_request(f"initial_state {given!r} is not one of running, paused, stopped")
    await validation.accepted(name, properties, herder.cluster.bootstrap)
    await herder.submit(lambda: herder.put(name, properties, new=True, target=target))
    return answer(info(herder.existing(name)), 201, _location(request, name))


@route("GET", "/connectors/{name}")
async def _info(herder: Herder, request: web.Request, name: str) -> web.Response:
    return answer(info(herder.existing(name)))


@route("DELETE", "/connectors/{name}")
async def _delete(herder: Herder, request: web.Request, name: str) -> web.Response:
    await herder.submit(lambda: herder.delete(name))
    return web.Response(status=204)


@route("GET", "/connectors/{name}/config")
async def _config(herder: Herder, request: web.Request, name: str) -> web.Response:
    return answer(dict(herder.existing(name).properties))


@route("PUT", "/connectors/{name}/config")
async def _configure(herder: Herder, request: web.Request, name: str) -> web.Response:
    return await _put(herder, request, configuration(name, as_strings(await body_of(request))))


@route("PATCH", "/connectors/{name}/config")  # KIP-477: null removes a key
async def _change(herder: Herder, request: web.Request, name: str) -> web.Response:
    changes = as_strings(await body_of(request))
    before = herder.existing(name).properties
    return await _put(herder, request, configuration(name, without_nulls({**before, **changes})), before)


async def _put(
    herder: Herder, request: web.Request, properties: dict[str, str], before: Mapping[str, str] | None = None
) -> web.Response:
    name = properties["name"]
    await validation.accepted(name, properties, herder.cluster.bootstrap)
    new = await herder.submit(lambda: herder.put(name, properties, new=False, before=before))
    return answer(info(herder.existing(name)), 201 if new else 200, _location(request, name) if new else None)


@route("GET", "/connectors/{name}/status")
async def _status(herder: Herder, request: web.Request, name: str) -> web.Response:
    return answer(state_info(herder.existing(name, "No status found for connector {}")))


@route("PUT", "/connectors/{name}/{target:pause|resume|stop}")
async def _target(herder: Herder, request: web.Request, name: str, target: str) -> web.Response:
    wanted, status = TARGETS[target]
    await herder.submit(lambda: herder.target(name, wanted))
    return web.Response(status=status)


@route("POST", "/connectors/{name}/restart")  # KIP-745
async def _restart(herder: Herder, request: web.Request, name: str) -> web.Response:
    include_tasks, only_failed = flag(request, "includeTasks", False), flag(request, "onlyFailed", False)
    connector = herder.existing(name, "Unknown connector: {}")
    await herder.submit(lambda: herder.restart(connector.name, only_failed=only_failed))
    return answer(state_info(connector), 202) if include_tasks or only_failed else web.Response(status=204)


@route("GET", "/connectors/{name}/tasks")
async def _tasks(herder: Herder, request: web.Request, name: str) -> web.Response:
    connector = herder.existing(name)
    return answer([{"id": task, "config": dict(connector.properties)} for task in info(connector)["tasks"]])


def _task(herder: Herder, name: str, task: str, missing: str) -> Status:
    if not task.isdecimal():
        raise ConnectError(404, "HTTP 404 Not Found")
    connector = herder.state.get(name)
    if connector is None or connector.task is None or int(task) != TASK:
        raise ConnectError(404, f"{missing} {name}-{int(task)}")
    return connector.task


@route("GET", "/connectors/{name}/tasks/{task}/status")
async def _task_status(herder: Herder, request: web.Request, name: str, task: str) -> web.Response:
    return answer({"id": TASK, **_state(_task(herder, name, task, "No status found for task"))})


@route("POST", "/connectors/{name}/tasks/{task}/restart")
async def _restart_task(herder: Herder, request: web.Request, name: str, task: str) -> web.Response:
    herder.existing(name, "Unknown connector: {}")
    _task(herder, name, task, "Unknown task:")
    await herder.submit(lambda: herder.restart(name))
    return web.Response(status=204)


@route("GET", "/connectors/{name}/offsets")  # KIP-875
async def _offsets(herder: Herder, request: web.Request, name: str) -> web.Response:
    found = await herder.positions(name)
    return answer({"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]})


@route("PATCH", "/connectors/{name}/offsets")
async def _alter_offsets(herder: Herder, request: web.Request, name: str) -> web.Response:
    connector = herder.existing(name)
    wanted = requested_positions(await body_of(request), catalogue.offsets_of(connector.properties))
    await herder.submit(lambda: herder.move(connector.name, wanted))
    return answer({"message": "The offsets for this connector have been altered successfully"})


@route("DELETE", "/connectors/{name}/offsets")
async def _reset_offsets(herder: Herder, request: web.Request, name: str) -> web.Response:
    await herder.submit(lambda: herder.move(name, None))
    return answer({"message": "The offsets for this connector have been reset successfully"})


@route("GET", "/connectors/{name}/topics")  # KIP-558
async def _topics(herder: Herder, request: web.Request, name: str) -> web.Response:
    connector = herder.state.get(name)
    return answer({name: {"topics": sorted(connector.topics) if connector else []}})


@route("PUT", "/connectors/{name}/topics/reset")
async def _reset_topics(herder: Herder, request: web.Request, name: str) -> web.Response:
    await herder.submit(lambda: herder.forget_topics(name))
    return web.Response(status=202)
