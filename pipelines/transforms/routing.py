"""Topics, headers and conditions: RegexRouter, Filter, DropHeaders, InsertHeader, HeaderFrom, and the predicates."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field as Option
from pydantic import field_validator, model_validator
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType, VariantType

from kvorum.pipelines import frames
from kvorum.pipelines.transforms import java, literals, values
from kvorum.pipelines.transforms.fields import WithDefaults, only_objects
from kvorum.pipelines.transforms.steps import Change, Names, Options, Part, Record, Text
from kvorum.pipelines.transforms.values import TransformError, Value


def whole(pattern: str) -> str:
    """Return a pattern that matches what the given one matches from the first letter to the last."""
    return rf"\A(?:{pattern})\z"


def _java_pattern(pattern: str) -> str:
    """Reject invalid patterns, as far as Python's and Java's syntax agree."""
    try:
        re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))
    except re.error as error:
        if not re.search(r"\\[pPQEhHRzZXG]|[+*?}]\+|&&|\\k<", pattern):  # Java has these, Python has not
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


class RegexRouterOptions(Options):
    """Which topics, and what becomes of their names ($1: the first group)."""

    regex: str
    replacement: str

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str) -> str:
        return _java_pattern(regex)


def regex_router(record: Record, options: RegexRouterOptions, part: Part) -> Change:
    """Rename the topics that the pattern matches whole: their first match is replaced, which starts at the start."""
    topic = F.col("topic")
    renamed = F.regexp_replace(topic, rf"\A(?:{options.regex})", options.replacement)
    column = F.when(topic.rlike(whole(options.regex)), renamed).otherwise(topic)
    return Change(columns={"topic": Value(column=column, type=StringType())})


class FilterOptions(Options):
    """None: the predicate says which records."""


def drop(record: Record, options: FilterOptions, part: Part) -> Change:
    """Drop every record that the transform is applied to."""
    return Change(keep=F.lit(False))


# Headers


class DropHeadersOptions(Options):
    """Names of headers to drop, each as often as it is there."""

    headers: Names = Option(min_length=1)


def drop_headers(record: Record, options: DropHeadersOptions, part: Part) -> Change:
    """Drop headers by name."""
    kept = F.filter(F.col("headers"), lambda header: ~header["key"].isin(options.headers))
    return Change(columns={"headers": _headers(kept)})


class InsertHeaderOptions(Options):
    """A header and its value, which Connect reads as a literal: 1.50 is a number, "1.50" a text."""

    header: str = Option(min_length=1)
    literal: Text = Option(alias="value.literal")


def insert_header(record: Record, options: InsertHeaderOptions, part: Part) -> Change:
    """Add a header after those there are."""
    text = literals.header_text(options.literal)
    value = F.lit(None).cast("binary") if text is None else F.lit(text).cast("binary")
    return Change(columns={"headers": _headers(_and_headers((options.header, value)))})


class HeaderFromOptions(WithDefaults):
    """Which fields become which headers."""

    fields: Names = Option(min_length=1)
    headers: Names = Option(min_length=1)
    operation: Literal["move", "copy"]

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if len(self.fields) != len(self.headers):
            raise ValueError(f"{len(self.fields)} fields cannot become {len(self.headers)} headers")
        return self


def header_from(record: Record, options: HeaderFromOptions, part: Part) -> Change:
    """Copy or move fields into headers, as text (what Connect's SimpleHeaderConverter writes)."""
    value = record.value(part)
    columns: dict[str, Value] = {}
    if value.schemaless:
        got = {name: values.item(value, name) for name in options.fields}
        if options.operation == "move":
            kept = F.map_filter(values.as_map(value), lambda key, _: ~key.isin(options.fields))
            columns[part] = values.from_map(value, kept)
    else:
        there = values.fields(value, "HeaderFrom", defaults=options.replace_null)
        got = {one.name: one.seen for one in there}
        absent = [name for name in options.fields if name not in got]
        if absent:
            raise TransformError(f"there is no field {absent[0]!r}; there are {', '.join(got)}")
        if options.operation == "move":
            columns[part] = values.rebuilt(value, [one for one in there if one.name not in options.fields])
    pairs = [(header, _text(got[name])) for name, header in zip(options.fields, options.headers, strict=True)]
    added = F.when(value.column.isNotNull(), _and_headers(*pairs)).otherwise(F.col("headers"))
    return Change(columns={**columns, "headers": _headers(added)}, wrong=only_objects(value, "HeaderFrom", nulls=False))


def _text(value: Value) -> Column:
    if isinstance(value.type, VariantType):
        return F.try_variant_get(value.column, "$", "string").cast("binary")
    if isinstance(value.type, BinaryType):
        return F.base64(value.column).cast("binary")
    text = java.to_text(value.column, value.type)
    if text is None:
        nested = values.is_map(value.type) or isinstance(value.type, StructType) or value.type.typeName() == "array"
        if not nested:
            raise TransformError(f"{value.type.simpleString()} cannot be a header")
        text = F.to_json(value.column, {"ignoreNullFields": "false"})
    return text.cast("binary")


def _and_headers(*pairs: tuple[str, Column]) -> Column:
    none = F.array().cast(frames.HEADERS_TYPE)
    added = F.array(*(F.struct(F.lit(name).alias("key"), value.alias("value")) for name, value in pairs))
    return F.concat(F.coalesce(F.col("headers"), none), added)


def _headers(column: Column) -> Value:
    return Value(column=column.cast(frames.HEADERS_TYPE), type=frames.HEADERS_TYPE)


# Predicates


class TopicNameMatchesOptions(Options):
    """A pattern for the whole name."""

    pattern: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        return _java_pattern(pattern)


class HasHeaderKeyOptions(Options):
    """A header's name."""

    name: str = Option(min_length=1)


class RecordIsTombstoneOptions(Options):
    """None."""


def topic_name_matches(options: TopicNameMatchesOptions) -> Column:
    """Tell whether the topic's name matches from start to end."""
    return F.coalesce(F.col("topic").rlike(whole(options.pattern)), F.lit(False))


def has_header_key(options: HasHeaderKeyOptions) -> Column:
    """Tell whether there is a header of that name."""
    names = F.transform(F.col("headers"), lambda header: header["key"])
    return F.coalesce(F.array_contains(names, options.name), F.lit(False))


def record_is_tombstone(options: RecordIsTombstoneOptions) -> Column:
    """Tell whether the value is null."""
    return F.col("value").isNull()


Condition = Callable[[Any], Column]
PREDICATES: Final[Mapping[str, tuple[type[Options], Condition]]] = {
    "TopicNameMatches": (TopicNameMatchesOptions, topic_name_matches),
    "HasHeaderKey": (HasHeaderKeyOptions, has_header_key),
    "RecordIsTombstone": (RecordIsTombstoneOptions, record_is_tombstone),
}
