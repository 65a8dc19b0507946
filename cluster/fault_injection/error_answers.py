"""Builds the answer that rejects a whole request with an error code.

For fault injection. Sans-IO.

Most answers name each topic or partition of their request with its own error code; the code is set there, as by a
broker that rejects the request. Both sides have the same shape (lists in the same fields, keys of the same or a similar
name), so the answer is built from the request. An answer with only a top-level code gets it there.
"""

from collections.abc import Iterable
from typing import Any, Final

from kvorum.protocol.codec import fields_of, message_class
from kvorum.protocol.error_responses import error_response
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.schema import Field, Message, Struct

CODES: Final = ("error_code", "partition_error_code")
KINDRED: Final = {
    "partition_index": ("partition", "index"),
    "partition_id": ("partition",),
    "name": ("topic",),
    "topic_name": ("name",),
}
"""Name of a key in a response, and possible names in its request."""
NUMBERS: Final = ("partition_index", "partition", "index", "partition_id")
TEXTS: Final = ("name", "key", "group_id", "transactional_id")
"""Keys of items that are bare numbers or texts in the request."""


def refusal(request: Message, version: int, code: ErrorCode, message: str, *, at_top: bool = False) -> Message | None:
    """Return the response that rejects a whole request; None if its version has no field for an error.

    `at_top`: the code is set at the top level, although items have fields too.
    """
    response_class = message_class(request.API_KEY, "Response")
    if not at_top:
        answer: Any = response_class()
        marked = [_mark(answer, field, request, version, code, message) for field in _lists(response_class, version)]
        if any(marked):
            return answer  # type: ignore[no-any-return]  # made of a class chosen by number
    return error_response(request, version, code, message)


def _carries_code(cls: type[Struct], version: int) -> bool:
    fields = fields_of(cls, version)
    return any(field.name in CODES for field in fields) or any(
        field.struct is not None and field.array and _carries_code(field.struct, version) for field in fields
    )


def _lists(cls: type[Struct], version: int) -> Iterable[Field]:
    """Return the lists of an answer whose items have a code, or have items that have one."""
    for field in fields_of(cls, version):
        if field.array and field.struct is not None and _carries_code(field.struct, version):
            yield field


def _mark(target: Any, field: Field, source: Any, version: int, code: ErrorCode, message: str) -> bool:
    """Fill one list of a response from the request's; return whether a field for the code was found."""
    assert field.struct is not None, "a list of structs"
    found = []
    for item in _items(source, field.name, version):
        marked = _item(field.struct, item, version, code, message)
        if marked is not None:
            found.append(marked)
    setattr(target, field.name, found)
    return bool(found)


def _items(source: Any, name: str, version: int) -> list[Any]:
    """Return the request's list for a list of the answer: of the same name, else its first list of structs, or any."""
    lists = [field for field in fields_of(type(source), version) if field.array] if hasattr(source, "FIELDS") else []
    best = sorted(lists, key=lambda field: (field.name != name, field.struct is None))
    return list(getattr(source, best[0].name) or ()) if best else []


def _item(cls: type[Struct], source: Any, version: int, code: ErrorCode, message: str) -> Any | None:
    """Return one item of the answer with its code; None if its item of the request is unknown."""
    target: Any = cls()
    known = False
    for field in fields_of(cls, version):
        if field.array or field.struct is not None:
            continue
        value = _key(field, source)
        if value is not None:
            setattr(target, field.name, value)
            known = True
    if not known:
        return None
    names = {field.name for field in fields_of(cls, version)}
    own = [name for name in CODES if name in names]
    for name in own:
        setattr(target, name, int(code))
    if own and "error_message" in names:
        target.error_message = message
    below = [_mark(target, field, source, version, code, message) for field in _lists(cls, version)]
    return target if own or any(below) else None


def _key(field: Field, source: Any) -> Any | None:
    """Return the request's value for a field of the answer, None where it has none."""
    if field.name in CODES:
        return None
    if hasattr(source, "FIELDS"):
        for name in (field.name, *KINDRED.get(field.name, ())):
            value = getattr(source, name, None)
            if value is not None and not isinstance(value, list):
                return value
        return None
    wanted = TEXTS if isinstance(source, str) else NUMBERS
    return source if field.name in wanted else None
