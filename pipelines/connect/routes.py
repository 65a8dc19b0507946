"""The HTTP interface of a manager: /connectors and below, and the application."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from aiohttp import web

from kvorum.pipelines import plugins
from kvorum.pipelines.connect import offsets, plugin_routes, validation
from kvorum.pipelines.connect.catalogue import offsets_of, type_of
from kvorum.pipelines.connect.errors import ConnectError, bad_request, conflict
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.records import TASK, Json, Status, Target
from kvorum.pipelines.connect.rest import (
    Handler,
    Operation,
    Table,
    answer,
    as_strings,
    body_of,
    flag,
    guard,
    nothing,
    without_nulls,
)
from kvorum.pipelines.connect.state import Connector

BODY_BYTES_MAX: Final = 1 << 20
INITIAL: Final = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
TARGETS: Final = {"pause": (Target.PAUSED, 202), "resume": (Target.STARTED, 202), "stop": (Target.STOPPED, 204)}
"""{last part of the path: (target state, HTTP status)}."""


def name_in(request: web.Request) -> str:
    """Return the connector's name."""
    return request.match_info["name"]


def info(herder: Herder, connector: Connector) -> Json:
    """Return Connect's ConnectorInfo."""
    has_task = connector.name in herder.state.task_statuses
    return {
        "name": connector.name,
        "config": dict(connector.properties),
        "tasks": [{"connector": connector.name, "task": TASK}] if has_task else [],
        "type": type_of(connector.properties),
    }


def state_of(status: Status | None) -> Json:
    """Return a status, without a trace if it has none."""
    if status is None:
        return {"state": "UNASSIGNED", "worker_id": "", "version": plugins.own_version()}
    trace = {} if status.trace is None else {"trace": status.trace}
    return {"state": status.state, "worker_id": status.worker_id, **trace, "version": plugins.own_version()}


def state_info(herder: Herder, connector: Connector) -> Json:
    """Return Connect's ConnectorStateInfo."""
    state, name = herder.state, connector.name
    task = state.task_statuses.get(name)
    return {
        "name": name,
        "connector": state_of(state.connector_statuses.get(name)),
        "tasks": [] if task is None else [{"id": TASK, **state_of(task)}],
        "type": type_of(connector.properties),
    }


async def listed(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors: names, or with ?expand=info and ?expand=status an object per connector."""
    names = herder.state.names()
    if "expand" not in request.query:
        return answer(names)
    parts = {"info": info, "status": state_info}
    wanted = [each for each in request.query.getall("expand") if each in parts]
    return answer({name: {each: parts[each](herder, herder.existing(name)) for each in wanted} for name in names})


async def created(herder: Herder, request: web.Request) -> web.Response:
    """POST /connectors: {"name", "config", "initial_state"}."""
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
    return answer(info(herder, herder.existing(name)), 201, location(request, name))


def location(request: web.Request, name: str) -> dict[str, str]:
    """Return the header with the address of a new connector."""
    return {"Location": f"http://{request.host}/connectors/{quote(name, safe='')}"}


def configuration(name: str, found: Mapping[str, str | None]) -> dict[str, str]:
    """Return a configuration with its name in it. Raises ConnectError for null values and for another name."""
    count = sum(value is None for value in found.values())
    if count:
        raise validation.invalid(["Null value can not be supplied as the configuration value."] * count)
    given = found.get("name")
    if given is not None and given != name:
        raise bad_request(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return {**without_nulls(found), "name": name}


async def described(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}."""
    return answer(info(herder, herder.existing(name_in(request))))


async def deleted(herder: Herder, request: web.Request) -> web.Response:
    """DELETE /connectors/{name}."""
    await herder.submit(lambda: herder.delete(name_in(request)))
    return nothing(204)


async def configured(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}/config: as it was given, with its references to secrets."""
    return answer(dict(herder.existing(name_in(request)).properties))


async def reconfigured(herder: Herder, request: web.Request) -> web.Response:
    """PUT /connectors/{name}/config: change, or create."""
    return await _put(herder, request, configuration(name_in(request), as_strings(await body_of(request))))


async def patched(herder: Herder, request: web.Request) -> web.Response:
    """PATCH /connectors/{name}/config: change the given keys; null removes one (KIP-477)."""
    name, changes = name_in(request), as_strings(await body_of(request))
    before = herder.existing(name).properties
    return await _put(herder, request, configuration(name, without_nulls({**before, **changes})), before)


async def _put(
    herder: Herder, request: web.Request, properties: dict[str, str], before: Mapping[str, str] | None = None
) -> web.Response:
    name = name_in(request)
    await validation.accepted(name, properties, herder.cluster.bootstrap)
    new = await herder.submit(lambda: herder.put(name, properties, new=False, before=before))
    return answer(info(herder, herder.existing(name)), 201 if new else 200, location(request, name) if new else None)


async def status(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}/status."""
    return answer(state_info(herder, herder.existing(name_in(request), "No status found for connector {}")))


async def targeted(herder: Herder, request: web.Request) -> web.Response:
    """PUT /connectors/{name}/pause, resume, stop."""
    target, status = TARGETS[request.match_info["target"]]
    await herder.submit(lambda: herder.target(name_in(request), target))
    return nothing(status)


async def restarted(herder: Herder, request: web.Request) -> web.Response:
    """POST /connectors/{name}/restart: with includeTasks or onlyFailed the response is the new status (KIP-745)."""
    include_tasks, only_failed = flag(request, "includeTasks", False), flag(request, "onlyFailed", False)
    connector = herder.existing(name_in(request), "Unknown connector: {}")
    await herder.submit(lambda: herder.restart(connector.name, only_failed=only_failed))
    return answer(state_info(herder, connector), 202) if include_tasks or only_failed else nothing(204)


async def tasks(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}/tasks."""
    connector = herder.existing(name_in(request))
    if connector.name not in herder.state.task_statuses:
        return answer([])
    return answer([{"id": {"connector": connector.name, "task": TASK}, "config": dict(connector.properties)}])


def _task(herder: Herder, request: web.Request, missing: str) -> Status:
    name, number = name_in(request), request.match_info["task"]
    if not number.isdecimal():
        raise ConnectError(404, "HTTP 404 Not Found")
    found = herder.state.task_statuses.get(name)
    if found is None or int(number) != TASK or herder.state.get(name) is None:
        raise ConnectError(404, missing.format(name=name, number=int(number)))
    return found


async def task_status(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}/tasks/{task}/status."""
    return answer({"id": TASK, **state_of(_task(herder, request, "No status found for task {name}-{number}"))})


async def task_restarted(herder: Herder, request: web.Request) -> web.Response:
    """POST /connectors/{name}/tasks/{task}/restart."""
    name = herder.existing(name_in(request), "Unknown connector: {}").name
    _task(herder, request, "Unknown task: {name}-{number}")
    await herder.submit(lambda: herder.restart(name))
    return nothing(204)


async def positions(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}/offsets (KIP-875)."""
    found = await herder.positions(name_in(request))
    return answer({"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]})


async def moved(herder: Herder, request: web.Request) -> web.Response:
    """PATCH /connectors/{name}/offsets."""
    connector = herder.existing(name_in(request))
    wanted = offsets.requested(await body_of(request), offsets_of(connector.properties))
    await herder.submit(lambda: herder.move(connector.name, wanted))
    return answer({"message": "The offsets for this connector have been altered successfully"})


async def reset(herder: Herder, request: web.Request) -> web.Response:
    """DELETE /connectors/{name}/offsets: the connector starts as configured."""
    await herder.submit(lambda: herder.move(name_in(request), None))
    return answer({"message": "The offsets for this connector have been reset successfully"})


async def topics(herder: Herder, request: web.Request) -> web.Response:
    """GET /connectors/{name}/topics: topics in use (KIP-558)."""
    name = name_in(request)
    return answer({name: {"topics": sorted(herder.state.topics.get(name, {}))}})


async def forgotten(herder: Herder, request: web.Request) -> web.Response:
    """PUT /connectors/{name}/topics/reset."""
    await herder.submit(lambda: herder.forget_topics(name_in(request)))
    return nothing(202)


ROUTES: Table = {
    ("GET", "/connectors"): listed,
    ("GET", "/connectors/"): listed,
    ("POST", "/connectors"): created,
    ("POST", "/connectors/"): created,
    ("GET", "/connectors/{name}"): described,
    ("DELETE", "/connectors/{name}"): deleted,
    ("GET", "/connectors/{name}/config"): configured,
    ("PUT", "/connectors/{name}/config"): reconfigured,
    ("PATCH", "/connectors/{name}/config"): patched,
    ("GET", "/connectors/{name}/status"): status,
    ("PUT", "/connectors/{name}/{target:pause|resume|stop}"): targeted,
    ("POST", "/connectors/{name}/restart"): restarted,
    ("GET", "/connectors/{name}/tasks"): tasks,
    ("GET", "/connectors/{name}/tasks/{task}/status"): task_status,
    ("POST", "/connectors/{name}/tasks/{task}/restart"): task_restarted,
    ("GET", "/connectors/{name}/offsets"): positions,
    ("PATCH", "/connectors/{name}/offsets"): moved,
    ("DELETE", "/connectors/{name}/offsets"): reset,
    ("GET", "/connectors/{name}/topics"): topics,
    ("PUT", "/connectors/{name}/topics/reset"): forgotten,
}


def application(herder: Herder, *, is_loopback: bool = True) -> web.Application:
    """Return the HTTP interface. Operations on connectors are rejected with 409 while the manager is not ready."""

    def bound(operation: Operation, *, needs_ready: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if needs_ready and not herder.ready:
                raise conflict()
            return await operation(herder, request)

        return handle

    app = web.Application(middlewares=[guard(is_loopback=is_loopback)], client_max_size=BODY_BYTES_MAX)
    for table in (plugin_routes.ROUTES, ROUTES):
        for (method, path), operation in table.items():
            app.router.add_route(method, path, bound(operation, needs_ready=table is ROUTES))
    return app
