"""/v1/jobs: the paths of Kafka Connect's REST interface, forwarded to it.

A user interface for Connect can use http://HOST:PORT/v1/jobs as its address. Errors are problem details.
connect_client forwards requests, job_answers checks responses.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel

from kvorum.admin.http.operations import Call, Handle, NoBody, Operation, Reply, Role
from kvorum.admin.http.parameters import BadInput, Parameter, choice, flag, number, text, words
from kvorum.admin.v1.jobs import job_models as models
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v1.jobs.job_answers import CONFIG, check_status, validate_response
from kvorum.runtime import blocking

BASE: Final = "/v1/jobs"
CONNECTORS: Final = "connectors"
EXPAND: Final = ("info", "status")
SCOPES: Final = ("worker", "cluster")
FOLDERS: Final = (".", "..")
"""Path segments that many servers treat as directory steps, escaped or not."""
EXPANDED: Final = words("expand", "info, status or both, as expand=info&expand=status or with a comma", EXPAND)
INCLUDE_TASKS: Final = flag("includeTasks", "true: include its tasks")
ONLY_FAILED: Final = flag("onlyFailed", "true: only failed ones")
CONNECTORS_ONLY: Final = flag("connectorsOnly", "false: include transforms, converters and other plugins")
SCOPE: Final = choice("scope", "worker: the one that responds (default); cluster: all", SCOPES, "worker")
CONNECTOR: Final = text("connector", "name of the connector")
TASK: Final = number("task", "number of the task")
PLUGIN: Final = text("plugin", "class of the plugin")
LOGGER: Final = text("logger", "name of the logger")
IN_PATH: Final = (CONNECTOR, TASK, PLUGIN, LOGGER)


class JobRoutes:
    """Connect as one admin server hands it on."""

    def __init__(self, connect: ConnectClient) -> None:
        """Store the client."""
        self._connect = connect

    async def describe_connect(self, call: Call[NoBody]) -> Reply:
        """Return the version of Connect's interface and its cluster id."""
        return await self._hand_on(call, "GET", [""], models.ConnectServer)

    async def list_connectors(self, call: Call[NoBody]) -> Reply:
        """List the names of all connectors; `expand` adds their config and status."""
        query = [("expand", each) for each in EXPANDED.of(call)]
        return await self._hand_on(call, "GET", [CONNECTORS], models.Connectors, query)

    async def create_connector(self, call: Call[models.ConnectorCreate]) -> Reply:
        """Create a connector; an existing name is rejected. The config is validated first."""
        place = {"Location": f"{BASE}/{CONNECTORS}/{quote(call.body.name, safe='')}"}
        return await self._hand_on(call, "POST", [CONNECTORS], models.ConnectorInfo, status=201, headers=place)

    async def describe_connector(self, call: Call[NoBody]) -> Reply:
        """Describe a connector: its config and its tasks."""
        return await self._hand_on(call, "GET", self._path(call), models.ConnectorInfo)

    async def delete_connector(self, call: Call[NoBody]) -> Reply:
        """Delete a connector. Its offsets are kept; a new one of the same name continues there."""
        return await self._hand_on(call, "DELETE", self._path(call), status=204)

    async def describe_connector_config(self, call: Call[NoBody]) -> Reply:
        """Return a connector's original config."""
        return await self._hand_on(call, "GET", self._path(call, CONFIG), models.VisibleConnectorConfig)

    async def put_connector_config(self, call: Call[models.ConnectorConfig]) -> Reply:
        """Replace a connector's config, or create the connector. The config is validated first."""
        return await self._hand_on(call, "PUT", self._path(call, CONFIG), models.ConnectorInfo, also=(201,))

    async def patch_connector_config(self, call: Call[models.ConnectorConfig]) -> Reply:
        """Change some keys of a connector's config; null removes a key (KIP-477)."""
        return await self._hand_on(call, "PATCH", self._path(call, CONFIG), models.ConnectorInfo)

    async def describe_connector_status(self, call: Call[NoBody]) -> Reply:
        """Return the status of a connector and its tasks, with the trace of failures."""
        return await self._hand_on(call, "GET", self._path(call, "status"), models.ConnectorStatus)

    async def pause_connector(self, call: Call[NoBody]) -> Reply:
        """Pause a connector; its tasks are kept."""
        return await self._hand_on(call, "PUT", self._path(call, "pause"), status=202)

    async def resume_connector(self, call: Call[NoBody]) -> Reply:
        """Resume a paused or stopped connector."""
        return await self._hand_on(call, "PUT", self._path(call, "resume"), status=202)

    async def stop_connector(self, call: Call[NoBody]) -> Reply:
        """Stop a connector: its tasks end, and its offsets can be changed (KIP-875)."""
        return await self._hand_on(call, "PUT", self._path(call, "stop"), status=204)

    async def restart_connector(self, call: Call[NoBody]) -> Reply:
        """Restart a connector; with `includeTasks` its tasks, or only the failed ones (KIP-745)."""
        query = read_flags(call, INCLUDE_TASKS, ONLY_FAILED)
        path = self._path(call, "restart")
        return await self._hand_on(call, "POST", path, models.ConnectorStatus, query, status=204, also=(202,))

    async def list_connector_tasks(self, call: Call[NoBody]) -> Reply:
        """List the tasks of a connector with their configs."""
        return await self._hand_on(call, "GET", self._path(call, "tasks"), models.ConnectorTasks)

    async def describe_connector_task(self, call: Call[NoBody]) -> Reply:
        """Return the status of a task."""
        return await self._hand_on(call, "GET", self._path(call, "tasks", task_of(call), "status"), models.TaskState)

    async def restart_connector_task(self, call: Call[NoBody]) -> Reply:
        """Restart a task."""
        return await self._hand_on(call, "POST", self._path(call, "tasks", task_of(call), "restart"), status=204)

    async def list_connector_offsets(self, call: Call[NoBody]) -> Reply:
        """Return a connector's offsets (KIP-875)."""
        return await self._hand_on(call, "GET", self._path(call, "offsets"), models.ConnectorOffsets)

    async def alter_connector_offsets(self, call: Call[models.ConnectorOffsetsAlter]) -> Reply:
        """Set the offsets of a stopped connector; a null offset removes it."""
        return await self._hand_on(call, "PATCH", self._path(call, "offsets"), models.ConnectMessage)

    async def reset_connector_offsets(self, call: Call[NoBody]) -> Reply:
        """Delete the offsets of a stopped connector, so that it restarts as configured."""
        return await self._hand_on(call, "DELETE", self._path(call, "offsets"), models.ConnectMessage)

    async def list_connector_topics(self, call: Call[NoBody]) -> Reply:
        """List the topics that a connector uses (KIP-558)."""
        return await self._hand_on(call, "GET", self._path(call, "topics"), models.ConnectorTopics)

    async def reset_connector_topics(self, call: Call[NoBody]) -> Reply:
        """Reset the list of topics that a connector uses."""
        return await self._hand_on(call, "PUT", self._path(call, "topics", "reset"), status=202)

    async def list_connector_plugins(self, call: Call[NoBody]) -> Reply:
        """List the connectors that can be configured, or all plugins."""
        query = read_flags(call, CONNECTORS_ONLY)
        return await self._hand_on(call, "GET", ["connector-plugins"], models.ConnectPlugins, query)

    async def describe_connector_plugin(self, call: Call[NoBody]) -> Reply:
        """Return the config keys of a plugin (KIP-769)."""
        return await self._hand_on(call, "GET", ["connector-plugins", part(call, PLUGIN), CONFIG], models.ConnectKeys)

    async def validate_connector_config(self, call: Call[models.ConnectorConfig]) -> Reply:
        """Validate a config and return errors per key. Changes nothing."""
        path = ["connector-plugins", part(call, PLUGIN), CONFIG, "validate"]
        return await self._hand_on(call, "PUT", path, models.ConnectChecked)

    async def list_connect_loggers(self, call: Call[NoBody]) -> Reply:
        """List the loggers with a level, of the worker that responds."""
        return await self._hand_on(call, "GET", ["admin", "loggers"], models.ConnectLoggers)

    async def describe_connect_logger(self, call: Call[NoBody]) -> Reply:
        """Return a logger's level, of the worker that responds."""
        return await self._hand_on(call, "GET", ["admin", "loggers", part(call, LOGGER)], models.ConnectLoggerLevel)

    async def alter_connect_logger(self, call: Call[models.ConnectLoggerAlter]) -> Reply:
        """Set the level of a logger and those below it, on the worker that responds or on all (KIP-976)."""
        path, query = ["admin", "loggers", part(call, LOGGER)], [("scope", SCOPE.of(call))]
        return await self._hand_on(call, "PUT", path, models.ConnectLoggerNames, query, also=(204,))

    def operations(self) -> Sequence[Operation]:
        """Return the paths."""
        return [*self._of_connectors(), *self._of_tasks(), *self._of_workers()]

    def _of_connectors(self) -> Sequence[Operation]:
        """Return the operations on connectors."""
        one, config, info = f"{CONNECTORS}/{{connector}}", f"{CONNECTORS}/{{connector}}/config", models.ConnectorInfo
        return [
            look(
                CONNECTORS,
                self.list_connectors,
                models.Connectors,
                parameters=(EXPANDED,),
                repeatable=("expand",),
            ),
            change("POST", CONNECTORS, self.create_connector, info, body=models.ConnectorCreate, status=201),
            look(one, self.describe_connector, info),
            change("DELETE", one, self.delete_connector, status=204),
            look(config, self.describe_connector_config, models.VisibleConnectorConfig),
            change(
                "PUT", config, self.put_connector_config, info, body=models.ConnectorConfig, other_answers={201: info}
            ),
            change("PATCH", config, self.patch_connector_config, info, body=models.ConnectorConfig),
            look(f"{one}/topics", self.list_connector_topics, models.ConnectorTopics),
            run("PUT", f"{one}/topics/reset", self.reset_connector_topics, status=202),
        ]

    def _of_tasks(self) -> Sequence[Operation]:
        """Return the operations on running connectors and offsets."""
        one, message = f"{CONNECTORS}/{{connector}}", models.ConnectMessage
        task, offsets, status = f"{one}/tasks/{{task}}", f"{one}/offsets", models.ConnectorStatus
        return [
            look(f"{one}/status", self.describe_connector_status, status),
            run("PUT", f"{one}/pause", self.pause_connector, status=202),
            run("PUT", f"{one}/resume", self.resume_connector, status=202),
            run("PUT", f"{one}/stop", self.stop_connector, status=204),
            run(
                "POST",
                f"{one}/restart",
                self.restart_connector,
                status=204,
                parameters=(INCLUDE_TASKS, ONLY_FAILED),
                other_answers={202: status},
            ),
            look(f"{one}/tasks", self.list_connector_tasks, models.ConnectorTasks),
            look(f"{task}/status", self.describe_connector_task, models.TaskState),
            run("POST", f"{task}/restart", self.restart_connector_task, status=204),
            look(offsets, self.list_connector_offsets, models.ConnectorOffsets),
            run("PATCH", offsets, self.alter_connector_offsets, message, body=models.ConnectorOffsetsAlter),
            run("DELETE", offsets, self.reset_connector_offsets, message),
        ]

    def _of_workers(self) -> Sequence[Operation]:
        """Return what workers are, and have."""
        plugin, logger = "connector-plugins/{plugin}/config", "admin/loggers/{logger}"
        check, checked, config = f"{plugin}/validate", models.ConnectChecked, models.ConnectorConfig
        return [
            look("", self.describe_connect, models.ConnectServer),
            look(
                "connector-plugins",
                self.list_connector_plugins,
                models.ConnectPlugins,
                parameters=(CONNECTORS_ONLY,),
            ),
            look(plugin, self.describe_connector_plugin, models.ConnectKeys),
            change("PUT", check, self.validate_connector_config, checked, body=config, audit=False),
            look("admin/loggers", self.list_connect_loggers, models.ConnectLoggers),
            look(logger, self.describe_connect_logger, models.ConnectLoggerLevel),
            run(
                "PUT",
                logger,
                self.alter_connect_logger,
                models.ConnectLoggerNames,
                body=models.ConnectLoggerAlter,
                parameters=(SCOPE,),
                other_answers={204: None},
            ),
        ]

    def _path(self, call: Call[Any], *more: str) -> list[str]:
        """Return the path of a connector, with a suffix. Raises BadInput."""
        return [CONNECTORS, part(call, CONNECTOR), *more]

    async def _hand_on(
        self,
        call: Call[Any],
        method: str,
        path: Sequence[str],
        model: type[BaseModel] | None = None,
        query: Sequence[tuple[str, str]] = (),
        *,
        status: int = 200,
        also: Sequence[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Forward to Connect, and return its answer, with its own status if it is one of these. Raises HttpError."""
        body = None if isinstance(call.body, NoBody) else call.body.model_dump_json(exclude_unset=True).encode()
        found = await self._connect.ask(method, path, query=query, body=body)
        check_status(found.url, found.status, found.content)
        reply_status = found.status if found.status in also else status
        if model is None or reply_status == 204:
            return Reply(status=reply_status, headers=headers or {})
        hide = call.role < Role.ADMIN
        flat = path[-1] == CONFIG and model is models.VisibleConnectorConfig
        loop = asyncio.get_running_loop()
        text = await blocking.run(
            loop, lambda: validate_response(found.url, found.content, model, hide=hide, flat=flat)
        )
        return Reply(status=reply_status, text=text, headers=headers or {})


def look(
    path: str,
    handle: Handle,
    answer: type[BaseModel],
    *,
    parameters: Sequence[Parameter[Any]] = (),
    repeatable: Sequence[str] = (),
) -> Operation:
    """Return a GET below /v1/jobs."""
    return Operation(
        method="GET",
        path=f"{BASE}/{path}".rstrip("/"),
        summary=summary_of(handle),
        handle=handle,
        answer=answer,
        parameters=(*in_path(path), *parameters),
        repeatable=repeatable,
    )


def change(
    method: str,
    path: str,
    handle: Handle,
    answer: type[BaseModel] | None = None,
    *,
    body: type[BaseModel] = NoBody,
    status: int = 200,
    parameters: Sequence[Parameter[Any]] = (),
    other_answers: Mapping[int, type[BaseModel] | None] | None = None,
    audit: bool = True,
    role: Role = Role.ADMIN,
) -> Operation:
    """Return an operation that changes connectors."""
    return Operation(
        method=method,
        path=f"{BASE}/{path}",
        summary=summary_of(handle),
        handle=handle,
        body=body,
        answer=answer,
        status=status,
        parameters=(*in_path(path), *parameters),
        other_answers=other_answers or {},
        audit=audit,
        role=role,
    )


run = partial(change, role=Role.OPERATE)
"""Changes of running jobs and of their offsets: the role that may reset groups may do this."""


def summary_of(handle: Handle) -> str:
    """Return the first line of a function's docstring."""
    return re.split(r"[.:;,]", handle.__doc__ or "", maxsplit=1)[0]


def in_path(path: str) -> list[Parameter[Any]]:
    """Return the parameters of a path."""
    return [each for each in IN_PATH if f"{{{each.name}}}" in path]


def read_flags(call: Call[Any], *flags: Parameter[bool]) -> list[tuple[str, str]]:
    """Return the flags of a request, for Connect. Raises BadInput."""
    return [(each.name, str(each.of(call)).lower()) for each in flags if each.is_given(call)]


def part(call: Call[Any], parameter: Parameter[str]) -> str:
    """Return a part of the path. Raises BadInput."""
    found, name = parameter.of(call), parameter.name
    if found in FOLDERS:
        raise BadInput(name, f"name {found!r} cannot be used in a URL path")
    return found


def task_of(call: Call[Any]) -> str:
    """Return the number of a task. Raises BadInput."""
    return str(TASK.of(call))
