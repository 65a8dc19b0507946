"""YAML as texts: mappings and lists of the original texts, without conversion.

Sans-IO.

The model that reads it converts a value (a number, a config's text), so `no`, 1_000 and 010 stay unchanged; null is an
empty value, `~` or `null` without quotes. One document, no aliases (a few lines of them can expand beyond any memory),
no tags, no duplicate names, no deeper than DEPTH_MAX.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

DEPTH_MAX: Final = 16
NULLS: Final = ("", "~", "null", "Null", "NULL")
PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's if available: ten times as fast."""


class BadYaml(ValueError):
    """A text that is not supported YAML; the message has the line."""


@dataclass(slots=True)
class _Open:
    """A mapping or a list that is not at its end."""

    holder: dict[str, Any] | list[Any]
    key: str | None = None
    """Of a mapping: the key whose value is next."""


@dataclass(slots=True)
class _Builder:
    """State of the parser."""

    stack: list[_Open] = field(default_factory=list)
    documents: list[Any] = field(default_factory=list)

    def put(self, value: Any, event: Any) -> None:
        """Store a value at its position. Raises BadYaml."""
        if not self.stack:
            self.documents.append(value)
            return
        here = self.stack[-1]
        if isinstance(here.holder, list):
            here.holder.append(value)
        elif here.key is None:
            if not isinstance(value, str):
                raise refused(event, "a key must be a string")
            if value in here.holder:
                raise refused(event, f"{value[:100]!r} is a duplicate key")
            here.key = value
        else:
            here.holder[here.key], here.key = value, None

    def open(self, holder: dict[str, Any] | list[Any], event: Any) -> None:
        """Begin a mapping or a list. Raises BadYaml."""
        if len(self.stack) >= DEPTH_MAX:
            raise refused(event, f"it is nested deeper than {DEPTH_MAX}")
        self.put(holder, event)
        self.stack.append(_Open(holder))


def refused(event: Any, why: str) -> BadYaml:
    """Return an error at an event's place."""
    return BadYaml(f"line {event.start_mark.line + 1}: {why}")


def read(data: bytes) -> Any:
    """Return the one document. Raises BadYaml."""
    builder = _Builder()
    for event in _events(data):
        if isinstance(event, yaml.AliasEvent):
            raise refused(event, "aliases are not supported")
        if getattr(event, "tag", None) not in (None, "!"):
            raise refused(event, "tags are not supported")
        match event:
            case yaml.ScalarEvent():
                is_null = not event.style and event.value in NULLS  # libyaml reports "" for an empty value
                builder.put(None if is_null else event.value, event)
            case yaml.MappingStartEvent():
                builder.open({}, event)
            case yaml.SequenceStartEvent():
                builder.open([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                builder.stack.pop()
            case yaml.DocumentStartEvent() if builder.documents:
                raise refused(event, "only one document is allowed")
    if not builder.documents:
        raise BadYaml("line 1: the document is empty")
    return builder.documents[0]


def _events(data: bytes) -> Iterator[Any]:
    """Yield the events of the parser. Raises BadYaml."""
    try:
        yield from yaml.parse(data, Loader=PARSER)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        raise BadYaml(f"line {line}: {getattr(error, 'problem', None) or error}") from error
