"""Audit log of an admin server: each change, its caller and its outcome; and rejected requests.

A caller is identified by the label of its token in the token file. Values that may be secret are not written, nor are
records; rejections, which any client can cause, have at most one line per second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiohttp import web
from pydantic import BaseModel, RootModel

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import NoBody, Text
from kvorum.admin.http.problems import Refusal
from kvorum.admin.http.secret_patterns import LOGIN, SECRET
from kvorum.runtime import config_defs
from kvorum.runtime.clock import Clock
from kvorum.runtime.config_types import HIDDEN
from kvorum.runtime.logs import get_logger

CONFIG_FIELDS: Final = ("configs", "config", "set", "append", "subtract")
"""Fields of bodies with values by names of configs, quotas, or loggers."""
ANNOTATIONS: Final = "annotations"
"""Kubernetes' annotations, whose names mostly have dots; a value may be a copy of the whole document."""
ENTRY: Final = {"name", "value", "operation"}
"""Config field of Confluent's API."""
REFUSALS_MS: Final = 1_000
"""Between two lines about refusals."""

log = get_logger("admin")


@dataclass(slots=True)
class AuditEntry:
    """A change in progress: its caller, the client's address and the content."""

    caller: str
    request: web.Request
    begun_ms: int
    body_text: str = ""


@dataclass(slots=True)
class AuditLog:
    """Audit trail of one server."""

    clock: Clock
    _refused_ms: int = field(default=-REFUSALS_MS)
    _unwritten: int = 0

    def begin(self, who: str, request: web.Request) -> AuditEntry:
        """Return the entry of a change that begins."""
        return AuditEntry(who, request, self.clock.monotonic_ms())

    def end(self, entry: AuditEntry, outcome: web.StreamResponse | Exception) -> None:
        """Write the result."""
        status, error = outcome_of(outcome)
        log.info(
            "admin request accepted",
            who=entry.caller,
            client=entry.request.remote or "",
            method=entry.request.method,
            path=entry.request.path_qs,
            body=entry.body_text,
            status=status,
            error=error,
            took_ms=self.clock.monotonic_ms() - entry.begun_ms,
        )

    def log_refusal(self, request: web.Request, error: HttpError) -> None:
        """Log requests without a token, with a wrong one or a lesser role, and cross-site requests."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._refused_ms < REFUSALS_MS:
            self._unwritten += 1
            return
        log.warning(
            "request rejected",
            client=request.remote or "",
            method=request.method,
            path=request.path,
            status=error.status,
            error=error.error,
            others=self._unwritten,
        )
        self._refused_ms, self._unwritten = now_ms, 0


def outcome_of(outcome: web.StreamResponse | Exception) -> tuple[int, str]:
    """Return the status of an answer, and the name of the error if it is one."""
    match outcome:
        case Refusal():
            return outcome.status, outcome.problem.error
        case HttpError() | web.HTTPException():
            return outcome.status, outcome.error if isinstance(outcome, HttpError) else outcome.reason
        case web.StreamResponse():
            return outcome.status, ""
        case _:
            return 500, type(outcome).__name__


def body_text_of(body: BaseModel, path: Mapping[str, str]) -> str:
    """Return the content of a body, for the log; a single value is that of the config in the path."""
    if isinstance(body, NoBody | Text):
        return ""
    said = body.model_dump(mode="json", exclude_unset=True)
    if isinstance(body, RootModel):  # a connector's config, the whole body of which it is
        said = {"config": said}
    if "value" in said and "name" not in said:
        said = {**said, "value": hide_secret(path.get("name", "."), said["value"])}
    return msgspec.json.encode(without_secrets(said)).decode()


def without_secrets(said: Any, within: str = "") -> Any:
    """Return a value of JSON without values that may be secret; `within` is the name of the field that holds it."""
    if isinstance(said, list):
        return [without_secrets(each, within) for each in said]
    if not isinstance(said, Mapping):
        return said
    if isinstance(said.get("name"), str) and said.keys() <= ENTRY and "value" in said:
        return {**said, "value": hide_secret(said["name"], said["value"])}
    by_config = within in CONFIG_FIELDS
    if within == ANNOTATIONS:
        return {name: annotation(name, value) for name, value in said.items()}
    return {
        name: hide_secret(name, value) if by_config or SECRET.search(name) else without_secrets(value, name)
        for name, value in said.items()
    }


def annotation(name: str, value: Any) -> Any:
    """Return an annotation's text; JSON without secrets; or that it is hidden."""
    if not isinstance(value, str) or SECRET.search(name):
        return HIDDEN
    if value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.encode(without_secrets(msgspec.json.decode(value))).decode()
        except (ValueError, RecursionError):  # invalid JSON, or too deep
            return HIDDEN
    return HIDDEN if SECRET.search(value) or LOGIN.search(value) else value


def hide_secret(name: str, value: Any) -> Any:
    """Return a value, or that it is hidden: the value of a secret or unknown config."""
    if not isinstance(value, str):
        return value if isinstance(value, int | float) or value is None else HIDDEN
    definition = config_defs.TOPIC.get(name) or config_defs.broker_def(name) or config_defs.GROUP.get(name)
    if definition is not None:
        return HIDDEN if definition.sensitive else value
    return HIDDEN if "." in name or SECRET.search(name) or LOGIN.search(value) else value
