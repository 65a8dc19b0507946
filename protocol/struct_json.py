"""A struct of the protocol as JSON, in the format of Kafka's JsonConverters: field names in camelCase, bytes in
base64, uuids in their form, and tagged fields only if they differ from their defaults. Sans-IO.
"""

import base64
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from kvorum.protocol.schema import Field, Struct, camel_case
from kvorum.protocol.uuids import Uuid


def to_json(struct: Struct, version: int) -> dict[str, Any]:
    """Return the fields that a version has."""
    found: dict[str, Any] = {}
    defaults = default_values(type(struct))
    for field in struct.FIELDS:
        first, last = field.versions
        value = getattr(struct, field.name)
        if not first <= version <= last or (field.tag is not None and value == defaults.get(field.name, value)):
            continue
        found[camel_case(field.name)] = value_to_json(field, value, version)
    return found


def value_to_json(field: Field, value: Any, version: int) -> Any:
    """Return a field's value."""
    if value is None:
        return None
    if field.array:
        return [item_to_json(item, version) for item in value]
    return item_to_json(value, version)


def item_to_json(value: Any, version: int) -> Any:
    """Return one value."""
    if hasattr(value, "FIELDS"):
        return to_json(value, version)
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


@cache
def default_values(cls: type[Any]) -> dict[str, Any]:
    """Return the default values of a struct's fields."""
    found: dict[str, Any] = {}
    for field in fields(cls):
        if field.default is not MISSING:
            found[field.name] = field.default
        elif field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
    return found
