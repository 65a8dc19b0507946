"""JSON Web Tokens in compact serialization: three parts of base64url, joined by dots. Sans-IO."""

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

TOKEN_CHARS_MAX: Final = 64 * 1024
"""A longer token is rejected; large ones have some KiB."""
SECONDS_MAX: Final = 1 << 40
"""A time beyond the year 36,000 is invalid."""

Claims: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A validated token."""

    principal_name: str
    expires_at_ms: int
    scope: frozenset[str] = frozenset()


class TokenRejected(Exception):
    """A token is invalid. The text is the reason for the log, without the token."""

    def __init__(self, reason: str, missing_scope: str | None = None) -> None:
        """Store the required scope if the token is valid otherwise."""
        super().__init__(reason)
        self.missing_scope = missing_scope


TokenValidator: TypeAlias = Callable[[str], Awaitable[BearerToken]]
"""Validates a token. Raises TokenRejected."""


def split_token(token: str) -> tuple[str, str, str]:
    """Return the three parts. Raises TokenRejected."""
    if len(token) > TOKEN_CHARS_MAX:
        raise TokenRejected(f"token of {len(token)} characters, more than {TOKEN_CHARS_MAX}")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRejected(f"token has {len(parts)} parts instead of 3")
    return parts[0], parts[1], parts[2]


def decode_object(part: str, what: str) -> Claims:
    """Return the JSON object of a part. Raises TokenRejected."""
    try:
        found = json.loads(decode_base64(part), parse_constant=_no_constant)
    except (ValueError, RecursionError):  # the text of the error may have a part of the token
        raise TokenRejected(f"{what} is not base64url of JSON") from None
    if not isinstance(found, dict):
        raise TokenRejected(f"{what} is not a JSON object")
    return found


def decode_base64(text: str) -> bytes:
    """Return the bytes of base64url, with or without padding. Raises ValueError."""
    text = text.rstrip("=")
    try:
        return urlsafe_b64decode(_checked(text) + "=" * (-len(text) % 4))
    except Base64Error as error:
        raise ValueError(str(error)) from None


def encode_base64(data: bytes) -> str:
    """Return base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _checked(text: str) -> str:
    if not text.isascii() or not text.replace("-", "a").replace("_", "a").isalnum():
        raise ValueError("not base64url")
    return text


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def time_claim(claims: Claims, name: str) -> int | None:
    """Return a time in milliseconds, None if there is none. Raises TokenRejected."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TokenRejected(f"claim {name} is not a number")
    if not math.isfinite(value) or abs(value) > SECONDS_MAX:
        raise TokenRejected(f"claim {name} is out of range")
    return round(value * 1000)


def required_time(claims: Claims, name: str) -> int:
    """Return a time in milliseconds. Raises TokenRejected."""
    found = time_claim(claims, name)
    if found is None:
        raise TokenRejected(f"claim {name} is missing")
    return found


def principal_claim(claims: Claims, name: str) -> str:
    """Return the principal's name. Raises TokenRejected."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TokenRejected(f"claim {name} is not a text, or empty")
    return value.strip()


def scope_claim(claims: Claims, name: str) -> list[str]:
    """Return the scope: a text is one entry as a whole. Raises TokenRejected."""
    value = claims.get(name)
    if value is None:
        return []
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise TokenRejected(f"claim {name} is neither a text nor a list of texts")
    return [entry.strip() for entry in entries if entry.strip()]
