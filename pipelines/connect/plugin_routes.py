"""Routes that need no connector: /, /health, /connector-plugins, and /admin/loggers for the levels of this process."""

import asyncio
import logging
import time
from typing import Final

from aiohttp import web

from kvorum.pipelines import plugins
from kvorum.pipelines.connect import catalogue, validation
from kvorum.pipelines.connect.errors import ConnectError, bad_request
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.records import Json
from kvorum.pipelines.connect.rest import Routes, answer, as_strings, body_of, flag, without_nulls
from kvorum.pipelines.plugins import PluginError

CONNECT: Final = "4.3.0"
"""Version of Connect's interface: scripts read it."""
ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": 1000,
}
"""log4j's names."""
MODIFIED: Final = "_connect_modified_ms"
"""An attribute of a logger whose level was set here."""

route = Routes("")


@route("GET", "/")
async def _root(herder: Herder, request: web.Request) -> web.Response:
    commit = f"kvorum-{plugins.own_version()}"
    return answer({"version": CONNECT, "commit": commit, "kafka_cluster_id": herder.cluster_id})


@route("GET", "/health")  # KIP-1017
async def _health(herder: Herder, request: web.Request) -> web.Response:
    if not herder.cluster_id:
        return answer({"status": "starting", "message": "Worker is still starting up."}, 503)
    message = "Worker has completed startup and is ready to handle requests."
    return answer({"status": "healthy", "message": message})


@route("GET", "/connector-plugins/")
@route("GET", "/connector-plugins")
async def _plugins(herder: Herder, request: web.Request) -> web.Response:
    only = flag(request, "connectorsOnly", True)
    try:
        found = [each.as_json() for each in await asyncio.to_thread(catalogue.connectors)]
        found += [] if only else await asyncio.to_thread(catalogue.others)
    except PluginError as error:
        raise ConnectError(500, str(error)) from error
    return answer(found)


@route("GET", "/connector-plugins/{plugin}/config")  # KIP-769
async def _keys(herder: Herder, request: web.Request) -> web.Response:
    name = request.match_info["plugin"]
    found = catalogue.find(name)
    if found is None:
        raise ConnectError(404, f"Unknown plugin {name}.")
    keys = await asyncio.to_thread(validation.keys_for, found)
    return answer(validation.definitions_of(keys))


@route("PUT", "/connector-plugins/{plugin}/config/validate")
async def _validate(herder: Herder, request: web.Request) -> web.Response:
    plugin = request.match_info["plugin"]
    properties = without_nulls(as_strings(await body_of(request)))
    cls = properties.get("connector.class")
    if cls is not None and not cls.removesuffix("Connector").endswith(plugin.removesuffix("Connector")):
        raise bad_request(f"Included connector type {cls} does not match request type {plugin}")
    return answer(await asyncio.to_thread(validation.validated, properties, herder.cluster.bootstrap))


def all_loggers() -> dict[str, logging.Logger]:
    """Return the loggers of this process."""
    found = {k: v for k, v in sorted(logging.Logger.manager.loggerDict.items()) if isinstance(v, logging.Logger)}
    return {**found, ROOT: logging.getLogger()}


def level_of(logger: logging.Logger) -> Json:
    """Return a logger's level."""
    level = logger.getEffectiveLevel()
    name = next((name for name, number in LEVELS.items() if number >= level), "OFF")
    return {"level": name, "last_modified": getattr(logger, MODIFIED, None)}


@route("GET", "/admin/loggers/")
@route("GET", "/admin/loggers")
async def _loggers(herder: Herder, request: web.Request) -> web.Response:
    found = sorted(all_loggers().items())
    return answer({name: level_of(logger) for name, logger in found if logger.level != logging.NOTSET})


@route("GET", "/admin/loggers/{logger}")
async def _logger(herder: Herder, request: web.Request) -> web.Response:
    name = request.match_info["logger"]
    found = all_loggers().get(name)
    if found is None:
        raise ConnectError(404, f"Logger {name} not found.")
    return answer(level_of(found))


@route("PUT", "/admin/loggers/{logger}")
async def _set_level(herder: Herder, request: web.Request) -> web.Response:
    name, level = request.match_info["logger"], as_strings(await body_of(request)).get("level")
    if level is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if request.query.get("scope", "worker").lower() == "cluster":
        raise ConnectError(501, "log levels are set per worker: use scope=worker")
    number = LEVELS.get(level.upper())
    if number is None:
        raise ConnectError(404, f"invalid log level '{level}'.")
    known = all_loggers()
    found = {name: known.get(name) or logging.getLogger(name)}
    found |= {other: each for other, each in known.items() if name == ROOT or other.startswith(f"{name}.")}
    for each in found.values():
        each.setLevel(number)
        setattr(each, MODIFIED, time.time_ns() // 1_000_000)
    return answer(sorted(found))
