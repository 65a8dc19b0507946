"""YAML as texts: mappings and lists of the original texts, without conversion.

Sans-IO.

The model that reads it converts a value (a number, a config's text), so `no`, 1_000 and 010 stay unchanged; null is an
empty value, `~` or `null` without quotes. One document, no aliases (a few lines of them can expand beyond any memory),
no tags, no duplicate names, no deeper than DEPTH_MAX.

It reads events, not a yaml.Loader's nodes: of 1 MiB these take 150 MiB.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

DEPTH_MAX: Final = 16
NULLS: Final = ("", "~", "null", "Null", "NULL")
PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's if available: ten times as fast."""


class BadYaml(ValueError):
    """A text that is not supported YAML; the message has the line."""

    def __init__(self, mark: Any, reason: str) -> None:
        """Say where and why; without a mark it is the first line."""
        super().__init__(f"line {1 if mark is None else mark.line + 1}: {reason}")


def read(data: bytes) -> Any:
    """Return the one document. Raises BadYaml."""
    events = iter(yaml.parse(data, Loader=PARSER))
    try:
        next(events)  # the stream's start
        if isinstance(next(events), yaml.StreamEndEvent):
            raise BadYaml(None, "the document is empty")
        value = _value(events, next(events), 0)
        next(events)  # the document's end
        if not isinstance(event := next(events), yaml.StreamEndEvent):
            raise BadYaml(event.start_mark, "only one document is allowed")
        return value
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadYaml(getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)) from error


def _value(events: Iterator[Any], event: Any, depth: int) -> Any:
    """Return the value that begins with an event, inside so many others. Raises BadYaml, YAMLError."""
    if isinstance(event, yaml.AliasEvent):
        raise BadYaml(event.start_mark, "aliases are not supported")
    if event.tag not in (None, "!"):
        raise BadYaml(event.start_mark, "tags are not supported")
    if isinstance(event, yaml.ScalarEvent):
        is_null = not event.style and event.value in NULLS  # libyaml reports "" for an empty value
        return None if is_null else event.value
    if depth >= DEPTH_MAX:
        raise BadYaml(event.start_mark, f"it is nested deeper than {DEPTH_MAX}")
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_value(events, event, depth + 1))
        return items
    found: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _value(events, event, depth + 1)
        if not isinstance(key, str):
            raise BadYaml(event.start_mark, "a key must be a string")
        if key in found:
            raise BadYaml(event.start_mark, f"{key[:100]!r} is a duplicate key")
        found[key] = _value(events, next(events), depth + 1)
    return found
