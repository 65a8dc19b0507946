"""What is asked of `kvorum chaos serve`, read and checked: ids in paths, bodies, and what is said of wrong ones."""

from typing import Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from kvorum.chaos.serve_faults import TARGETS_MAX, Strict

BODY_BYTES_MAX: Final = 64 * 1024

B = TypeVar("B", bound=BaseModel)


class FaultRequest(Strict):
    """A fault to begin."""

    fault: str
    targets: list[str] = Field(default_factory=list, max_length=TARGETS_MAX)
    options: dict[str, object] = Field(default_factory=dict)


class HealRequest(Strict):
    """What healing includes."""

    start: bool = True


class ScenarioRequest(Strict):
    """A scenario to run."""

    scenario: str
    seed: int = Field(1, ge=0)
    duration: float | None = Field(None, gt=0, le=86_400)


class BadRequest(Exception):
    """A body or parameter that is none: what and where."""

    def __init__(self, message: str, where: str | None = None) -> None:
        """Hold both."""
        super().__init__(message)
        self.where = where


def id_of(request: web.Request) -> int:
    """Return the id in a path. Raises BadRequest."""
    text = request.match_info["id"]
    if not text.isdecimal() or len(text) > 18:
        raise BadRequest(f"{text!r} is no id", "id")
    return int(text)


async def body_of(request: web.Request, model: type[B]) -> B:
    """Return the body, which is JSON and says so. Raises BadRequest, web.HTTPException."""
    data = await request.read()
    if len(data) > BODY_BYTES_MAX:
        raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, len(data))
    if data and request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType
    try:
        return model.model_validate_json(data or b"{}")
    except ValidationError as error:
        raise bad_request(error) from error


def bad_request(error: ValidationError, below: str = "") -> BadRequest:
    """Return the first thing that was wrong, with its place."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in (*([below] if below else []), *first["loc"]))
    return BadRequest(str(first["msg"]), where or None)
