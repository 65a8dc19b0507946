"""The response to a request that carries an error code at its top level."""

from typing import Any

from kvorum.protocol.codec import fields_of, message_class
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.schema import Message


def error_response(request: Message, version: int, code: ErrorCode, message: str | None = None) -> Message | None:
    """Return the answer that carries the code at its top level; None where the version has no such field."""
    response_class = message_class(request.API_KEY, "Response")
    names = {field.name for field in fields_of(response_class, version)}
    if "error_code" not in names:
        return None
    response: Any = response_class()
    response.error_code = int(code)
    if "error_message" in names:
        response.error_message = message
    return response  # type: ignore[no-any-return]
