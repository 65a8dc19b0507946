"""Errors over HTTP: problem details (RFC 9457) with Kafka's error name and a matching status."""

from http import HTTPStatus

from aiohttp import web
from pydantic import BaseModel, Field

PROBLEM = "application/problem+json"
RETRY_AFTER = {429: "1", 503: "1"}
"""Seconds after which the same may go well, by status."""


class Problem(BaseModel):
    """A problem of a request (RFC 9457); `error` is the name of Kafka's error code if there is one."""

    type: str = Field(default="about:blank", description="Always about:blank")
    title: str = Field(examples=["Unprocessable Entity"])
    status: int
    detail: str = Field(description="The same as `message`")
    error: str = Field(examples=["INVALID_PARTITIONS"])
    message: str
    field: str | None = Field(None, description="Dotted path in the body, or the name of a path or query parameter")


class Refusal(web.Response):
    """An error answer; another API on this server has another format of it."""

    def __init__(self, said: Problem, headers: dict[str, str] | None = None) -> None:
        """Answer with problem details."""
        all_headers = {"Retry-After": RETRY_AFTER[said.status]} if said.status in RETRY_AFTER else {}
        all_headers |= headers or {}
        super().__init__(status=said.status, text=said.model_dump_json(), content_type=PROBLEM, headers=all_headers)
        self.problem = said


def problem(
    status: int, error: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
) -> Refusal:
    """Return an error answer."""
    said = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=message, error=error, message=message, field=field
    )
    return Refusal(said, headers)
