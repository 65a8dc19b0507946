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
    Routes,
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

route = Routes("/connectors")


def application(herder: Herder, *, is_loopback: bool = True) -> web.Application:
    """Return the HTTP interface. Operations on connectors are rejected with 409 while the manager is not ready."""

    def bound(operation: Operation, *, needs_ready: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if needs_ready and not herder.ready:
                raise conflict()
            return await operation(herder, request)

        return handle

    app = web.Application(middlewares=[guard(is_loopback=is_loopback)], client_max_size=BODY_BYTES_MAX)
    for routes in (plugin_routes.route, route):
        for method, path, operation in routes.operations:
            app.router.add_route(method, path, bound(operation, needs_ready=routes is route))
    return app


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


def configuration(name: str, found: Mapping[str, str | None]) -> dict[str, str]:
    """Return a configuration with its name in it. Raises ConnectError for null values and for another name."""
    count = sum(value is None for value in found.values())
    if count:
        raise validation.invalid(["Null value can not be supplied as the configuration value."] * count)
    given = found.get("name")
    if given is not None and given != name:
        raise bad_request(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return {**without_nulls(found), "name": name}


def location(request: web.Request, name: str) -> dict[str, str]:
    """Return the header with the address of a new connector."""
    return {"Location": f"http://{request.host}/connectors/{quote(name, safe='')}"}


@route("GET")
async def _names(herder: Herder, request: web.Request) -> web.Response:
    names = herder.state.names()
    if "expand" not in request.query:
        return answer(names)
    parts = {"info": info, "status": state_info}
    wanted = [each for each in request.query.getall("expand") if each in parts]
    return answer({name: {each: parts[each](herder, herder.existing(name)) for each in wanted} for name in names})


@route("POST")
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
    return answer(info(herder, herder.existing(name)), 201, location(request, name))


@route("GET", "/{name}")
async def _info(herder: Herder, request: web.Request) -> web.Response:
    return answer(info(herder, herder.existing(name_in(request))))


@route("DELETE", "/{name}")
async def _delete(herder: Herder, request: web.Request) -> web.Response:
    await herder.submit(lambda: herder.delete(name_in(request)))
    return nothing(204)


@route("GET", "/{name}/config")
async def _config(herder: Herder, request: web.Request) -> web.Response:
    return answer(dict(herder.existing(name_in(request)).properties))


@route("PUT", "/{name}/config")
async def _configure(herder: Herder, request: web.Request) -> web.Response:
    return await _put(herder, request, configuration(name_in(request), as_strings(await body_of(request))))


@route("PATCH", "/{name}/config")  # KIP-477: null removes a key
async def _change(herder: Herder, request: web.Request) -> web.Response:
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


@route("GET", "/{name}/status")
async def _status(herder: Herder, request: web.Request) -> web.Response:
    return answer(state_info(herder, herder.existing(name_in(request), "No status found for connector {}")))


@route("PUT", "/{name}/{target:pause|resume|stop}")
async def _target(herder: Herder, request: web.Request) -> web.Response:
    target, status = TARGETS[request.match_info["target"]]
    await herder.submit(lambda: herder.target(name_in(request), target))
    return nothing(status)


@route("POST", "/{name}/restart")  # KIP-745
async def _restart(herder: Herder, request: web.Request) -> web.Response:
    include_tasks, only_failed = flag(request, "includeTasks", False), flag(request, "onlyFailed", False)
    connector = herder.existing(name_in(request), "Unknown connector: {}")
    await herder.submit(lambda: herder.restart(connector.name, only_failed=only_failed))
    return answer(state_info(herder, connector), 202) if include_tasks or only_failed else nothing(204)


@route("GET", "/{name}/tasks")
async def _tasks(herder: Herder, request: web.Request) -> web.Response:
    connector = herder.existing(name_in(request))
    if connector.name not in herder.state.task_statuses:
        return answer([])
    return answer([{"id": {"connector": connector.name, "task": TASK}, "config": dict(connector.properties)}])


def task_of(herder: Herder, request: web.Request, missing: str) -> Status:
    """Return a task's status. Raises ConnectError."""
    name, number = name_in(request), request.match_info["task"]
    if not number.isdecimal():
        raise ConnectError(404, "HTTP 404 Not Found")
    found = herder.state.task_statuses.get(name)
    if found is None or int(number) != TASK or herder.state.get(name) is None:
        raise ConnectError(404, missing.format(name=name, number=int(number)))
    return found


@route("GET", "/{name}/tasks/{task}/status")
async def _task_status(herder: Herder, request: web.Request) -> web.Response:
    return answer({"id": TASK, **state_of(task_of(herder, request, "No status found for task {name}-{number}"))})


@route("POST", "/{name}/tasks/{task}/restart")
async def _restart_task(herder: Herder, request: web.Request) -> web.Response:
    name = herder.existing(name_in(request), "Unknown connector: {}").name
    task_of(herder, request, "Unknown task: {name}-{number}")
    await herder.submit(lambda: herder.restart(name))
    return nothing(204)


@route("GET", "/{name}/offsets")  # KIP-875
async def _offsets(herder: Herder, request: web.Request) -> web.Response:
    found = await herder.positions(name_in(request))
    return answer({"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]})


@route("PATCH", "/{name}/offsets")
async def _alter_offsets(herder: Herder, request: web.Request) -> web.Response:
    connector = herder.existing(name_in(request))
    wanted = offsets.requested(await body_of(request), offsets_of(connector.properties))
    await herder.submit(lambda: herder.move(connector.name, wanted))
    return answer({"message": "The offsets for this connector have been altered successfully"})


@route("DELETE", "/{name}/offsets")
async def _reset_offsets(herder: Herder, request: web.Request) -> web.Response:
    await herder.submit(lambda: herder.move(name_in(request), None))
    return answer({"message": "The offsets for this connector have been reset successfully"})


@route("GET", "/{name}/topics")  # KIP-558
async def _topics(herder: Herder, request: web.Request) -> web.Response:
    name = name_in(request)
    return answer({name: {"topics": sorted(herder.state.topics.get(name, {}))}})


@route("PUT", "/{name}/topics/reset")
async def _reset_topics(herder: Herder, request: web.Request) -> web.Response:
    await herder.submit(lambda: herder.forget_topics(name_in(request)))
    return nothing(202)
