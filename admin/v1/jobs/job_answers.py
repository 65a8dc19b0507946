"""Checks of Kafka Connect's responses: status, shape, and secrets hidden from read-only callers.

Sans-IO. Connect reports errors as {"error_code", "message"}. Some statuses are not forwarded: callers do not
authenticate with Connect (401, 403), and are not redirected.
"""

import json
import re
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.secret_patterns import LOGIN, SECRET
from kvorum.runtime.config_types import HIDDEN

MESSAGE_CHARS_MAX: Final = 10_000
REFERENCE: Final = re.compile(r"\$\{[^}]+\}")
"""References to values that a worker resolves; not secret themselves."""
CONFIG: Final = "config"
NAMES: Final = {404: "CONNECT_NOT_FOUND", 409: "CONNECT_CONFLICT"}
"""Other statuses of 4xx are CONNECT_REFUSED."""
HANDED_ON: Final = (501, 503)
"""Errors of Connect: unsupported operation, and not ready yet."""


def check_status(url: str, status: int, content: bytes) -> None:
    """Reject with Connect's own error. Raises HttpError."""
    if status < 300:
        return
    if status < 400:
        raise unintelligible(f"{url} returned a redirect ({status}), which is not followed")
    message = message_of(content)
    if status in (401, 403):
        why = f": {message}" if message else ""
        raise HttpError(502, "CONNECT_UNAUTHORIZED", f"{url} rejects the credentials of this server ({status}){why}")
    if message is None:
        raise unintelligible(f"{url} returned {status}, not a Kafka Connect response")
    if status < 500:
        raise HttpError(status, NAMES.get(status, "CONNECT_REFUSED"), message)
    raise HttpError(status if status in HANDED_ON else 502, "CONNECT_FAILED", message)


def message_of(content: bytes) -> str | None:
    """Return Connect's message of an error; None if the answer is not Connect's."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None
    message = said.get("message") if isinstance(said, dict) else None
    return message[:MESSAGE_CHARS_MAX] if isinstance(message, str) else None


def validate_response(url: str, content: bytes, model: type[BaseModel], *, hide: bool, flat: bool) -> str:
    """Return a response, validated by its model. Raises HttpError.

    `hide`: without values that may be secret; `flat`: the whole response is a connector's config.
    """
    try:
        said = json.loads(content)
        model.model_validate(said)
        if hide:
            said = hide_config_secrets(said) if flat else without_secrets(said)
        return json.dumps(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise unintelligible(f"{url} returned an unexpected response: {place}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise unintelligible(f"{url} returned no JSON") from error


def unintelligible(message: str) -> HttpError:
    """Return the refusal for an answer that is not Connect's."""
    return HttpError(502, "CONNECT_UNINTELLIGIBLE", message)


def without_secrets(said: Any) -> Any:
    """Return an answer with the values hidden that may be secret, of every config in it."""
    if isinstance(said, list):
        return [without_secrets(each) for each in said]
    if not isinstance(said, dict):
        return said
    return {
        name: hide_config_secrets(value) if name == CONFIG and isinstance(value, dict) else without_secrets(value)
        for name, value in said.items()
    }


def hide_config_secrets(config: dict[str, Any]) -> dict[str, Any]:
    """Return a connector's config without secrets: by their names, or as passwords in addresses."""
    return {name: hide_value(name, value) for name, value in config.items()}


def hide_value(name: str, value: Any) -> Any:
    """Return one value, if it may be seen."""
    if not isinstance(value, str) or REFERENCE.fullmatch(value):
        return value
    return HIDDEN if SECRET.search(name) else LOGIN.sub(rf"\g<1>{HIDDEN}@", value)
