"""Routes that every manager answers itself: /, /health, /connector-plugins, /admin/loggers."""

import asyncio
from typing import Final

from aiohttp import web

from kvorum.pipelines import plugins
from kvorum.pipelines.connect import catalogue, loggers, validation
from kvorum.pipelines.connect.errors import ConnectError, bad_request
from kvorum.pipelines.connect.service import Service, answer, flag, strings_of
from kvorum.pipelines.plugins import PluginError

CONNECT: Final = "4.3.0"
"""Whose interface this is; scripts look at it to know what they may ask."""


def routes(service: Service) -> list[web.RouteDef]:
    """Return the routes."""

    async def root(request: web.Request) -> web.StreamResponse:
        commit = f"kvorum-{plugins.own_version()}"
        return answer({"version": CONNECT, "commit": commit, "kafka_cluster_id": service.cluster_id})

    async def health(request: web.Request) -> web.StreamResponse:
        return _health(service)

    table = [
        ("GET", "/", root),
        ("GET", "/health", health),
        ("GET", "/connector-plugins", listed),
        ("GET", "/connector-plugins/", listed),
        ("GET", "/connector-plugins/{plugin}/config", described),
        ("GET", "/admin/loggers", logged),
        ("GET", "/admin/loggers/", logged),
        ("GET", "/admin/loggers/{logger}", logger),
        ("PUT", "/admin/loggers/{logger}", set_level),
    ]

    async def validate(request: web.Request) -> web.StreamResponse:
        return await _validate(service, request)

    found = [web.route(method, path, operation) for method, path, operation in table]
    return [*found, web.put("/connector-plugins/{plugin}/config/validate", validate)]


def _health(service: Service) -> web.Response:
    """GET /health (KIP-1017): whether the cluster is reachable and a leader exists, as known by this manager."""
    if not service.ready:
        return answer({"status": "starting", "message": "Worker is still starting up."}, 503)
    healthy = "Worker has completed startup and is ready to handle requests."
    return answer({"status": "healthy", "message": healthy})


async def listed(request: web.Request) -> web.StreamResponse:
    """GET /connector-plugins: connectors, or with connectorsOnly=false all plugins."""
    only = flag(request, "connectorsOnly", True)
    try:
        found = [each.as_json() for each in await asyncio.to_thread(catalogue.connectors)]
        if not only:
            found += await asyncio.to_thread(catalogue.others)
    except PluginError as error:
        raise ConnectError(500, str(error)) from error
    return answer(found)


async def described(request: web.Request) -> web.StreamResponse:
    """GET /connector-plugins/{plugin}/config: the keys it takes (KIP-769)."""
    name = request.match_info["plugin"]
    found = catalogue.find(name)
    if found is None:
        raise ConnectError(404, f"Unknown plugin {name}.")
    keys = await asyncio.to_thread(validation.keys_for, found)
    orders: dict[str, int] = {}
    definitions = []
    for key in keys:
        orders[key.group] = orders.get(key.group, 0) + 1
        definitions.append(key.definition(orders[key.group]))
    return answer(definitions)


async def _validate(service: Service, request: web.Request) -> web.StreamResponse:
    """PUT /connector-plugins/{plugin}/config/validate."""
    plugin = request.match_info["plugin"]
    given = await strings_of(request)
    properties = {key: value for key, value in given.items() if value is not None}
    cls = properties.get("connector.class")
    if cls is not None and not cls.removesuffix("Connector").endswith(plugin.removesuffix("Connector")):
        raise bad_request(f"Included connector type {cls} does not match request type {plugin}")
    return answer(await asyncio.to_thread(validation.validated, properties, service.bootstrap))


async def logged(request: web.Request) -> web.StreamResponse:
    """GET /admin/loggers."""
    return answer(loggers.listed())


async def logger(request: web.Request) -> web.StreamResponse:
    """GET /admin/loggers/{logger}."""
    return answer(loggers.one(request.match_info["logger"]))


async def set_level(request: web.Request) -> web.StreamResponse:
    """PUT /admin/loggers/{logger}: {"level": "DEBUG"}; ?scope=worker is this manager, the only scope there is."""
    body = await strings_of(request)
    level = body.get("level")
    if level is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    scope = request.query.get("scope", "worker").lower()
    if scope == "cluster":
        raise ConnectError(501, "log levels are set per worker: use scope=worker")
    return answer(loggers.set_level(request.match_info["logger"], level))
