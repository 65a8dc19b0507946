"""Typed parameters of paths and queries. Each is declared once: its meaning, its parser, its JSON schema.

A handler reads a parameter with `PARAMETER.of(call)`; an operation lists its parameters. The OpenAPI document and the
options of the command line are made from them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

T = TypeVar("T")
YES, NO = ("true", "1", "yes"), ("false", "0", "no")
NUMBER_DIGITS_MAX: Final = 10
"""Shown length of an invalid number; most valid numbers are not longer."""
WORD_CHARS_SHOWN: Final = 40
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
"""The last offset, or time in ms, that a request of Kafka's can carry."""


class BadInput(Exception):
    """An invalid request, independent of the cluster: field and reason. Returned as 400."""

    def __init__(self, field: str, message: str) -> None:
        """Hold both; the field is a dotted path in the body, or the name of a parameter."""
        super().__init__(message)
        self.field = field
        self.message = message


class Arguments(Protocol):
    """The texts of a request, by name."""

    @property
    def path(self) -> Mapping[str, str]:
        """Those of the path."""

    @property
    def query(self) -> Mapping[str, str]:
        """Those of the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Generic[T]):
    """A parameter of type T."""

    name: str
    doc: str
    schema: Mapping[str, Any]
    parse: Callable[[str, str], T]
    """Returns the value of (name, text). Raises BadInput."""
    default: T
    """Value of a query without it; a parameter of a path is always given."""
    names: str = ""
    """Things that it names, for completion: topics, groups or brokers."""

    def of(self, call: Arguments) -> T:
        """Return the value of a request. Raises BadInput."""
        text = call.path.get(self.name, call.query.get(self.name))
        return self.default if text is None else self.parse(self.name, text)

    def is_given(self, call: Arguments) -> bool:
        """Return whether a request has it."""
        return self.name in call.path or self.name in call.query


def text(name: str, doc: str, default: str = "", *, names: str = "", **schema: Any) -> Parameter[str]:
    """Return a parameter that is any text; `schema`: further keys of its JSON schema."""
    return Parameter(name=name, doc=doc, schema={"type": "string", **schema}, parse=same, default=default, names=names)


def optional_text(name: str, doc: str, *, names: str = "", **schema: Any) -> Parameter[str | None]:
    """Return the same, None if it is left out."""
    return Parameter(name=name, doc=doc, schema={"type": "string", **schema}, parse=same, default=None, names=names)


def flag(name: str, doc: str) -> Parameter[bool]:
    """Return a parameter that is true or false: false if left out."""
    return Parameter(name=name, doc=doc, schema={"type": "boolean"}, parse=parse_flag, default=False)


def number(
    name: str, doc: str, least: int = 0, most: int = INT32_MAX, default: int = 0, *, names: str = ""
) -> Parameter[int]:
    """Return a parameter that is a number."""
    parse, schema = parse_between(least, most), number_schema(least, most)
    return Parameter(name=name, doc=doc, schema=schema, parse=parse, default=default, names=names)


def optional_number(
    name: str, doc: str, least: int = 0, most: int = INT32_MAX, *, names: str = ""
) -> Parameter[int | None]:
    """Return the same, None if it is left out."""
    parse, schema = parse_between(least, most), number_schema(least, most)
    return Parameter(name=name, doc=doc, schema=schema, parse=parse, default=None, names=names)


def count(what: str = "", *, name: str = "limit", default: int, most: int) -> Parameter[int]:
    """Return a parameter that is a count, from 1 on."""
    doc = f"{what}, 1 to {most} (default {default})" if what else f"1 to {most} (default {default})"
    return number(name, doc, 1, most, default)


def choice(name: str, doc: str, known: Sequence[str], default: str) -> Parameter[str]:
    """Return a parameter that is one of some words."""

    def parse(name: str, text: str) -> str:
        check_word(name, text, known)
        return text

    return Parameter(name=name, doc=doc, schema={"type": "string", "enum": list(known)}, parse=parse, default=default)


def words(name: str, doc: str, known: Sequence[str] | None = None, **schema: Any) -> Parameter[list[str]]:
    """Return a parameter that is words, comma-separated, each one of `known` if given; none if it is left out.

    One without words is rejected: it must not mean the same as one that is left out.
    """

    def parse(name: str, text: str) -> list[str]:
        found = [word for part in text.split(",") if (word := part.strip())]
        if not found:
            raise BadInput(name, f"{name} is empty: give a value or leave it out")
        for word in found:
            if known is not None:
                check_word(name, word, known)
        return found

    if known is not None:
        schema["pattern"] = f"^({'|'.join(known)})(,({'|'.join(known)}))*$"
    schema = {"type": "string", **schema}
    return Parameter(name=name, doc=doc, schema=schema, parse=parse, default=[])


def numbers(name: str, doc: str, most: int) -> Parameter[list[int] | None]:
    """Return a parameter that is a list of numbers (1,2,3); None if it is left out."""

    def parse(name: str, text: str) -> list[int]:
        return sorted({number_of(name, part, 0, most) for part in text.split(",")})

    schema = {"type": "string", "pattern": r"^[0-9]{1,10}(,[0-9]{1,10})*$"}
    return Parameter(name=name, doc=doc, schema=schema, parse=parse, default=None)


def same(name: str, text: str) -> str:
    """Return the text."""
    return text


def parse_flag(name: str, text: str) -> bool:
    """Read true or false. Raises BadInput, also if it is empty."""
    word = text.lower()
    if word not in YES + NO:
        raise BadInput(name, f"{word!r} is neither true nor false")
    return word in YES


def parse_between(least: int, most: int) -> Callable[[str, str], int]:
    """Return the parser of a number."""
    return lambda name, text: number_of(name, text, least, most)


def number_of(name: str, text: str, least: int, most: int) -> int:
    """Read a number. Raises BadInput."""
    plain = text.isascii() and text.isdecimal() and len(text) <= max(NUMBER_DIGITS_MAX, len(str(most)))
    if not plain or not least <= int(text) <= most:
        shown = text if len(text) <= NUMBER_DIGITS_MAX else f"{text[:NUMBER_DIGITS_MAX]}..."
        raise BadInput(name, f"{shown!r} is not a number from {least} to {most}")
    return int(text)


def number_schema(least: int, most: int) -> Mapping[str, Any]:
    """Return the JSON schema of a number."""
    return {"type": "integer", "minimum": least, "maximum": most}


def check_word(name: str, word: str, known: Sequence[str]) -> None:
    """Raise BadInput for a word that is not one of `known`."""
    if word not in known:
        raise BadInput(name, f"{word[:WORD_CHARS_SHOWN]!r} is not one of {', '.join(known)}")


def check_named(named: object, everything: bool) -> None:
    """Reject a body that neither names partitions nor has `all`: a forgotten field does not mean all.

    Raises BadInput.
    """
    if named is None and not everything:
        raise BadInput("partitions", "give partitions, or all=true for all partitions of the cluster")
    if named is not None and everything:
        raise BadInput("all", "give either partitions or all")


TOPIC_NAME: Final = text("topic", "name of the topic", names="topics")
PARTITION_INDEX: Final = number("partition", "number of the partition")
BROKER_ID: Final = number("broker", "id of the broker", names="brokers")
GROUP_ID: Final = text("group", "id of the group", names="groups")
VALIDATE_ONLY: Final = flag("validate_only", "true: validate only")
ALL_CONFIGS: Final = flag("all", "true: include defaults")
DOCUMENTATION: Final = flag("documentation", "true: include the type, description and allowed values")
PAGE_MAX: Final = 10_000
PAGE: Final = count(default=100, most=PAGE_MAX)
ROWS: Final = count("rows per page", default=10_000, most=10_000)
STREAM_COUNT: Final = count("maximum number of events", default=1_000_000, most=1_000_000)
STREAM_SECONDS: Final = count("maximum duration in seconds", name="seconds", default=3_600, most=86_400)
ONLY_TOPIC: Final = optional_text("topic", "only this topic", names="topics")
