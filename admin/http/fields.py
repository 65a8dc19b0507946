"""Maps an error of the cluster to a field of the request: Kafka's answers have a code and a text, never a position.

The operation defines the field of a code. A rejected config is found by its name, which is in Kafka's text.
"""

import re
from collections.abc import Mapping

from pydantic import BaseModel

from kvorum.admin.http.operations import Operation
from kvorum.protocol.errors import ErrorCode, KafkaError

CONFIG_FIELDS = ("configs", "set", "delete", "append", "subtract")
"""Fields of bodies that contain config names."""


def field_of(error: KafkaError, operation: Operation, body: BaseModel) -> str | None:
    """Return the dotted path of a rejected field, None if the operation cannot know it."""
    named = operation.fields.get(error.code)
    if error.code is ErrorCode.INVALID_CONFIG:
        named = config_field(error.message or "", body)
    if named is None:
        return None
    head, dot, rest = named.partition(".")
    places: Mapping[str, str] = getattr(body, "PLACES", {})
    return places.get(head, head) + dot + rest  # a document has other names for the same


def config_field(message: str, body: BaseModel) -> str | None:
    """Return the path of the config in the message; the field with configs, if the message names none."""
    holders: set[str] = set()
    named: list[tuple[int, str]] = []
    for field in CONFIG_FIELDS:
        for entry in getattr(body, field, None) or ():
            name = entry if isinstance(entry, str) else entry.name  # /v3 has a list of objects
            holders.add(field)
            found = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", message)
            if found is not None:
                named.append((found.start(), field if field == "delete" else f"{field}.{name}"))
    if named:
        return min(named)[1]  # later names may be the intended ones
    return holders.pop() if len(holders) == 1 else None
