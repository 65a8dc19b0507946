"""/connectors and what is below it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from kvorum.pipelines import plugins
from kvorum.pipelines.connect import offsets, validation
from kvorum.pipelines.connect.catalogue import offsets_of, type_of
from kvorum.pipelines.connect.errors import ConnectError, bad_request
from kvorum.pipelines.connect.records import TASK, Json, Status, Target
from kvorum.pipelines.connect.service import Service, answer, as_strings, body_of, flag, nothing, strings_of
from kvorum.pipelines.connect.state import Connector

NAME_MAX: Final = 200
Operation = Callable[[Service, web.Request], Awaitable[web.StreamResponse]]


def routes(service: Service) -> list[web.RouteDef]:
    """Return the routes: each is done by the leader."""

    def led(operation: Operation) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            passed = await service.led(request)
            return passed if passed is not None else await operation(service, request)

        return handle

    table: list[tuple[str, str, Operation]] = [
        ("GET", "", listed),
        ("POST", "", created),
        ("GET", "/{name}", described),
        ("DELETE", "/{name}", deleted),
        ("GET", "/{name}/config", configured),
        ("PUT", "/{name}/config", reconfigured),
        ("PATCH", "/{name}/config", patched),
        ("GET", "/{name}/status", status),
        ("PUT", "/{name}/pause", paused),
        ("PUT", "/{name}/resume", resumed),
        ("PUT", "/{name}/stop", stopped),
        ("POST", "/{name}/restart", restarted),
        ("GET", "/{name}/tasks", tasks),
        ("GET", "/{name}/tasks/{task}/status", task_status),
        ("POST", "/{name}/tasks/{task}/restart", task_restarted),
        ("GET", "/{name}/offsets", positions),
        ("PATCH", "/{name}/offsets", moved),
        ("DELETE", "/{name}/offsets", reset),
        ("GET", "/{name}/topics", topics),
        ("PUT", "/{name}/topics/reset", forgotten),
    ]
    found = [web.route(method, f"/connectors{path}", led(operation)) for method, path, operation in table]
    # A slash at the end is the same to Connect's server.
    return found + [web.route(method, "/connectors/", led(op)) for method, path, op in table if not path]


def name_in(request: web.Request) -> str:
    """Return the connector's name."""
    return request.match_info["name"]


def info(service: Service, connector: Connector) -> Json:
    """Return Connect's ConnectorInfo."""
    has_task = connector.name in service.herder.state.task_statuses
    return {
        "name": connector.name,
        "config": dict(connector.properties),
        "tasks": [{"connector": connector.name, "task": TASK}] if has_task else [],
        "type": type_of(connector.properties),
    }


def state_of(status: Status | None) -> Json:
    """Return what a status says, without a trace when it has none."""
    if status is None:
        return {"state": "UNASSIGNED", "worker_id": "", "version": plugins.own_version()}
    told: Json = {"state": status.state.value, "worker_id": status.worker_id}
    if status.trace is not None:
        told["trace"] = status.trace
    return {**told, "version": plugins.own_version()}


def state_info(service: Service, connector: Connector) -> Json:
    """Return Connect's ConnectorStateInfo."""
    state, name = service.herder.state, connector.name
    task = state.task_statuses.get(name)
    return {
        "name": name,
        "connector": state_of(state.connector_statuses.get(name)),
        "tasks": [] if task is None else [{"id": TASK, **state_of(task)}],
        "type": type_of(connector.properties),
    }


async def listed(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors: names, or with ?expand=info and ?expand=status what they are."""
    names = service.herder.state.names()
    if "expand" not in request.query:
        return answer(names)
    wanted = request.query.getall("expand")
    made = {"info": info, "status": state_info}
    found: dict[str, Json] = {}
    for name in names:
        connector = service.herder.existing(name)
        found[name] = {each: made[each](service, connector) for each in wanted if each in made}
    return answer(found)


async def created(service: Service, request: web.Request) -> web.StreamResponse:
    """POST /connectors: {"name", "config", "initial_state"}."""
    body = await body_of(request)
    if not isinstance(body, dict) or not isinstance(body.get("config"), dict):
        raise bad_request("the body must be a JSON object with name and config")
    unknown = set(body) - {"name", "config", "initial_state"}
    if unknown:
        raise bad_request(f"Unrecognized field {sorted(unknown)[0]!r}")
    name = str(body.get("name") or "").strip()
    no_nulls(body["config"])
    given = body.get("initial_state")
    state = "RUNNING" if given is None else str(given).upper()
    target = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}.get(state)
    if target is None:
        raise bad_request(f"initial_state {body['initial_state']!r} is not one of running, paused, stopped")
    properties = named(name, without_nulls(as_strings(body["config"])))
    await validation.accepted(name, properties, service.bootstrap)
    herder = service.herder
    await herder.submit(lambda: herder.put(name, properties, new=True, target=target))
    return answer(info(service, herder.existing(name)), 201, location(request, name))


def location(request: web.Request, name: str) -> dict[str, str]:
    """Return where a new connector is."""
    return {"Location": f"http://{request.host}/connectors/{quote(name, safe='')}"}


def named(name: str, properties: dict[str, str]) -> dict[str, str]:
    """Return a configuration with its name in it. Raises ConnectError when it says another one."""
    given = properties.get("name")
    if given is not None and given != name:
        raise bad_request(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return {**properties, "name": name}


def no_nulls(found: Mapping[str, object]) -> None:
    """Refuse keys without a value. Raises ConnectError."""
    count = sum(value is None for value in found.values())
    if count:
        raise validation.invalid(["Null value can not be supplied as the configuration value."] * count)


def without_nulls(found: dict[str, str | None]) -> dict[str, str]:
    """Return what has a value."""
    return {key: value for key, value in found.items() if value is not None}


async def described(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}."""
    return answer(info(service, service.herder.existing(name_in(request))))


async def deleted(service: Service, request: web.Request) -> web.StreamResponse:
    """DELETE /connectors/{name}."""
    name, herder = name_in(request), service.herder
    await herder.submit(lambda: herder.delete(name))
    return nothing(204)


async def configured(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}/config: as it was given, references and all."""
    return answer(dict(service.herder.existing(name_in(request)).properties))


async def reconfigured(service: Service, request: web.Request) -> web.StreamResponse:
    """PUT /connectors/{name}/config: change, or create."""
    name = name_in(request)
    given = await strings_of(request, nulls=True)
    no_nulls(given)
    properties = named(name, without_nulls(given))
    return await _put(service, request, properties)


async def _put(
    service: Service, request: web.Request, properties: dict[str, str], before: Mapping[str, str] | None = None
) -> web.StreamResponse:
    name = name_in(request)
    await validation.accepted(name, properties, service.bootstrap)
    herder = service.herder
    new = await herder.submit(lambda: herder.put(name, properties, new=False, before=before))
    headers = location(request, name) if new else None
    return answer(info(service, herder.existing(name)), 201 if new else 200, headers)


async def patched(service: Service, request: web.Request) -> web.StreamResponse:
    """PATCH /connectors/{name}/config: the keys that are given; null takes one away (KIP-477)."""
    name = name_in(request)
    changes = await strings_of(request, nulls=True)
    before = service.herder.existing(name).properties
    return await _put(service, request, named(name, without_nulls({**before, **changes})), before)


async def status(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}/status."""
    name = name_in(request)
    connector = service.herder.state.get(name)
    if connector is None:
        raise ConnectError(404, f"No status found for connector {name}")
    return answer(state_info(service, connector))


async def _target(service: Service, request: web.Request, wanted: Target, status: int) -> web.StreamResponse:
    name, herder = name_in(request), service.herder
    if herder.state.get(name) is None:
        raise ConnectError(404, f"Unknown connector {name}")
    await herder.submit(lambda: herder.target(name, wanted))
    return nothing(status)


async def paused(service: Service, request: web.Request) -> web.StreamResponse:
    """PUT /connectors/{name}/pause."""
    return await _target(service, request, Target.PAUSED, 202)


async def resumed(service: Service, request: web.Request) -> web.StreamResponse:
    """PUT /connectors/{name}/resume."""
    return await _target(service, request, Target.STARTED, 202)


async def stopped(service: Service, request: web.Request) -> web.StreamResponse:
    """PUT /connectors/{name}/stop."""
    return await _target(service, request, Target.STOPPED, 204)


async def restarted(service: Service, request: web.Request) -> web.StreamResponse:
    """POST /connectors/{name}/restart: with includeTasks or onlyFailed the answer says what it does (KIP-745)."""
    name, herder = name_in(request), service.herder
    include_tasks, only_failed = flag(request, "includeTasks", False), flag(request, "onlyFailed", False)
    if herder.state.get(name) is None:
        raise ConnectError(404, f"Unknown connector: {name}")
    await herder.submit(lambda: herder.restart(name, only_failed=only_failed))
    if not include_tasks and not only_failed:
        return nothing(204)
    return answer(state_info(service, herder.existing(name)), 202)


async def tasks(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}/tasks."""
    connector = service.herder.existing(name_in(request))
    if connector.name not in service.herder.state.task_statuses:
        return answer([])
    return answer([{"id": {"connector": connector.name, "task": TASK}, "config": dict(connector.properties)}])


def _task(service: Service, request: web.Request, missing: str) -> Any:
    name, number = name_in(request), request.match_info["task"]
    if not number.isdecimal():
        raise ConnectError(404, "HTTP 404 Not Found")
    found = service.herder.state.task_statuses.get(name)
    if found is None or int(number) != TASK or service.herder.state.get(name) is None:
        raise ConnectError(404, missing.format(name=name, number=int(number)))
    return found


async def task_status(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}/tasks/{task}/status."""
    return answer({"id": TASK, **state_of(_task(service, request, "No status found for task {name}-{number}"))})


async def task_restarted(service: Service, request: web.Request) -> web.StreamResponse:
    """POST /connectors/{name}/tasks/{task}/restart."""
    name, herder = name_in(request), service.herder
    if herder.state.get(name) is None:
        raise ConnectError(404, f"Unknown connector: {name}")
    _task(service, request, "Unknown task: {name}-{number}")
    await herder.submit(lambda: herder.restart(name))
    return nothing(204)


async def positions(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}/offsets (KIP-875)."""
    found = await service.herder.positions(name_in(request))
    return answer({"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]})


async def moved(service: Service, request: web.Request) -> web.StreamResponse:
    """PATCH /connectors/{name}/offsets."""
    name, herder = name_in(request), service.herder
    connector = herder.existing(name)
    wanted = offsets.requested(await body_of(request), offsets_of(connector.properties))
    await herder.submit(lambda: herder.move(name, wanted))
    return answer({"message": "The offsets for this connector have been altered successfully"})


async def reset(service: Service, request: web.Request) -> web.StreamResponse:
    """DELETE /connectors/{name}/offsets: the connector restarts as configured."""
    name, herder = name_in(request), service.herder
    await herder.submit(lambda: herder.move(name, None))
    return answer({"message": "The offsets for this connector have been reset successfully"})


async def topics(service: Service, request: web.Request) -> web.StreamResponse:
    """GET /connectors/{name}/topics: those it was seen to use (KIP-558)."""
    name = name_in(request)
    return answer({name: {"topics": sorted(service.herder.state.topics.get(name, {}))}})


async def forgotten(service: Service, request: web.Request) -> web.StreamResponse:
    """PUT /connectors/{name}/topics/reset."""
    name, herder = name_in(request), service.herder
    await herder.submit(lambda: herder.forget_topics(name))
    return nothing(202)
