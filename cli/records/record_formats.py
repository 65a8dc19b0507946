r"""Output formats of a record: a format string as in kcat and rpk, or JSON. Sans-IO.

%t topic   %p partition   %o offset   %T %d timestamp, ms    %e leader epoch
%k key     %s %v value    %h headers, k=v,k=v   %K %S %V sizes   %H number of headers   %% a percent sign
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kvorum.cli.escapes import unescape

if TYPE_CHECKING:
    from confluent_kafka import Message

PIECE = re.compile(r"%(.)", re.DOTALL)
NULL: Final = b"NULL"
TIMESTAMP_TYPES: Final = {0: None, 1: "CreateTime", 2: "LogAppendTime"}
Part = Callable[["Message"], bytes]


class FormatError(ValueError):
    """A format with an invalid specifier; the message names it."""


def data(value: bytes | str | None) -> bytes | None:
    """Return a client's value as bytes."""
    return value.encode() if isinstance(value, str) else value


def pairs_of(message: "Message") -> list[tuple[str, bytes | None]]:
    """Return a record's headers."""
    found = message.headers() or []
    items = found.items() if isinstance(found, dict) else found
    return [(name, data(value)) for name, value in items]


def compile_format(text: str, *, null: bytes = b"") -> Part:
    """Return the writer of a format; `null` replaces null keys and values. Raises FormatError, EscapeError."""

    def or_null(value: bytes | str | None) -> bytes:
        found = data(value)
        return null if found is None else found

    def size(value: bytes | str | None) -> bytes:
        found = data(value)
        return b"-1" if found is None else b"%d" % len(found)

    signs: Mapping[str, Part] = {
        "t": lambda message: (message.topic() or "").encode(),
        "p": lambda message: b"%d" % (message.partition() or 0),
        "o": lambda message: b"%d" % (message.offset() or 0),
        "T": lambda message: b"%d" % message.timestamp()[1],
        "d": lambda message: b"%d" % message.timestamp()[1],
        "e": lambda message: str(-1 if (epoch := message.leader_epoch()) is None else epoch).encode(),
        "k": lambda message: or_null(message.key()),
        "s": lambda message: or_null(message.value()),
        "v": lambda message: or_null(message.value()),
        "K": lambda message: size(message.key()),
        "S": lambda message: size(message.value()),
        "V": lambda message: size(message.value()),
        "h": lambda message: b",".join(name.encode() + b"=" + or_null(value) for name, value in pairs_of(message)),
        "H": lambda message: b"%d" % len(pairs_of(message)),
        "%": lambda _: b"%",
    }
    parts: list[Part] = []
    place = 0
    for match in PIECE.finditer(text):
        if match[1] not in signs:
            raise FormatError(f"%{match[1]} is not a format specifier; use {' '.join(f'%{sign}' for sign in signs)}")
        parts += [constant(unescape(text[place : match.start()])), signs[match[1]]]
        place = match.end()
    parts.append(constant(unescape(text[place:])))
    return lambda message: b"".join(part(message) for part in parts)


def constant(text: bytes) -> Part:
    """Return what writes the same each time."""
    return lambda _: text


def plain(delimiter: bytes, *, key_delimiter: bytes | None = None, null: bytes = b"") -> Part:
    """Return what writes values, with their keys in front if there is something to stand between."""

    def write(message: "Message") -> bytes:
        value = data(message.value())
        shown = (null if value is None else value) + delimiter
        if key_delimiter is None:
            return shown
        key = data(message.key())
        return (null if key is None else key) + key_delimiter + shown

    return write


def as_json(message: "Message", *, meta_only: bool = False) -> dict[str, Any]:
    """Return a record as JSON; without key and value, only their sizes."""
    kind, timestamp = message.timestamp()
    found: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(kind),
        "leader_epoch": message.leader_epoch(),
    }
    key, value = data(message.key()), data(message.value())
    if meta_only:
        sizes = {f"{what}_size": None if each is None else len(each) for what, each in (("key", key), ("value", value))}
        return {**found, **sizes, "headers": [name for name, _ in pairs_of(message)]}
    headers = [[name, text_of(item)] for name, item in pairs_of(message)]
    return {**found, "key": text_of(key), "value": text_of(value), "headers": headers}


def text_of(value: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text, or as {"base64": ...} when they are no UTF-8."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
