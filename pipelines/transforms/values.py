"""Interface of a transform: a frame and options in, changes of keys and values out; and their application to the frame.

A transform decides with column expressions only, so that all of a pipeline's steps become one plan in which no row
leaves the JVM. It never looks at rows, it never starts a job.

Connect tells records with a schema from records without one. Here any type but VARIANT has a schema: what is in it is
known when the plan is made. What is in a VARIANT is known row by row; it stays one whatever is done to it.

Metadata of columns and struct fields hold the parts of a schema that are not types (formats/schemas.py): its name and
version, a field's default as JSON text, and which integers are Connect's Time (milliseconds of the day).
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines import frames
from kvorum.pipelines.faults import as_text, separated
from kvorum.pipelines.formats.schemas import DEFAULT, NAME, TIME, VERSION

MAP_OF_VARIANTS: Final = "map<string,variant>"
DEFAULTS: Final = "replace_null_with_default"


class TransformError(ValueError):
    """A transform that cannot be made, or cannot work on the type it meets. Connect would fail every record."""


class Clock(T.IntegerType):
    """Type of Connect's Time where a transform looks at it; in a frame it is an integer with metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A column of a known type; a field of a struct or of a map has a name."""

    column: Column
    type: T.DataType
    metadata: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    defaults: bool = False
    """Whether nulls in its fields are read as their defaults."""

    @property
    def schemaless(self) -> bool:
        """Return whether the type is only known per row."""
        return isinstance(self.type, T.VariantType)

    @property
    def seen(self) -> "Value":
        """Return it with the type that transforms see."""
        is_clock = self.metadata.get(NAME) == TIME and type(self.type) is T.IntegerType
        return replace(self, type=Clock()) if is_clock else self

    def to(self, column: Column, kind: T.DataType) -> "Value":
        """Return another column under the same names."""
        return replace(self, column=column, type=kind)

    def becoming(self, column: Column, kind: T.DataType, schema_name: str | None = None) -> "Value":
        """Return a value of another type, whose schema may have a name. Its default goes."""
        metadata = {NAME: schema_name, VERSION: 1} if schema_name else {}
        return replace(self, column=column, type=kind, metadata=metadata)


def value_of(frame: DataFrame, part: str, *, defaults: bool = False) -> Value:
    """Return a frame's column with its type."""
    found = frame.schema[part]
    metadata = dict(found.metadata or {})
    return Value(name=part, column=F.col(part), type=found.dataType, metadata=metadata, defaults=defaults)


# With a schema


def fields(value: Value, purpose: str) -> list[Value]:
    """Return a struct's fields. Raises TransformError."""
    if not isinstance(value.type, T.StructType):
        raise TransformError(f"{purpose} needs fields; the type is {value.type.simpleString()}")
    return [_field(value, found) for found in value.type.fields]


def _field(value: Value, found: T.StructField) -> Value:
    metadata, column = dict(found.metadata or {}), value.column.getField(found.name)
    if value.defaults and DEFAULT in metadata:
        decoded = json.loads(metadata[DEFAULT])
        is_nested = isinstance(decoded, dict | list)
        text, kind = F.lit(metadata[DEFAULT]), found.dataType
        column = F.coalesce(column, F.from_json(text, kind.json()) if is_nested else F.lit(decoded).cast(kind))
    return Value(name=found.name, column=column, type=found.dataType, metadata=metadata, defaults=value.defaults)


def struct(made: Iterable[Value], unless_null: Column | None = None) -> tuple[Column, T.StructType]:
    """Return fields as a struct, null where another column is null, and its type."""
    made = list(made)
    names = [one.name for one in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TransformError(f"the field {twice[0]!r} would exist twice")
    if not made:
        raise TransformError("no field would remain")
    # No metadata at all differs from empty ones: those would hide what the column itself has.
    named = ({"metadata": dict(one.metadata)} if one.metadata else {} for one in made)
    column = F.struct(*(one.column.alias(one.name, **more) for one, more in zip(made, named, strict=True)))
    kind = T.StructType([T.StructField(one.name, one.type, metadata=dict(one.metadata)) for one in made])
    return (column if unless_null is None else F.when(unless_null.isNotNull(), column)), kind


def rebuilt(value: Value, made: Iterable[Value]) -> Value:
    """Return a value with other fields; where it was null it stays null."""
    if value.schemaless:
        return of_map(value, F.when(value.column.isNotNull(), as_entries(list(made))))
    return value.to(*struct(made, value.column))


# Without a schema


def as_map(value: Value) -> Column:
    """Return a value without schema as a map; null for null and for other values."""
    return F.try_variant_get(value.column, "$", MAP_OF_VARIANTS)


def item(value: Value, name: str) -> Value:
    """Return what a value without schema has under a name; null where there is nothing, and for JSON's null."""
    got = as_map(value).getItem(name)
    return Value(name=name, column=F.when(~F.is_variant_null(got), got), type=T.VariantType())


def of_map(value: Value, entries: Column) -> Value:
    """Return a value without schema that holds a map."""
    return value.to(F.to_variant_object(entries), T.VariantType())


def put(value: Value, entries: Sequence[Value]) -> Value:
    """Return a value without schema with entries set, added where they are new; null where it was null."""
    kept = without(value, [entry.name for entry in entries])
    return of_map(value, F.map_concat(kept, as_entries(entries)))


def without(value: Value, names: Sequence[str]) -> Column:
    """Return a value without schema as a map without some of its entries."""
    return F.map_filter(as_map(value), lambda key, _: ~key.isin(list(names)))


def as_entries(fields: Sequence[Value]) -> Column:
    """Return fields as a map of VARIANTs. Raises TransformError when a name is there twice."""
    names = [one.name for one in fields]
    if len(set(names)) < len(names):
        raise TransformError("a field would exist twice")
    return F.map_from_arrays(F.array(*map(F.lit, names)), F.array(*map(as_variant, fields)))


def as_variant(value: Value) -> Column:
    """Return a value as a VARIANT."""
    if isinstance(value.type, T.StructType | T.MapType | T.ArrayType):
        return F.to_variant_object(value.column)
    return value.column if value.schemaless else value.column.cast(T.VariantType())


# Two values in one column


def merged(condition: Column, new: Value, old: Value) -> Value:
    """Return the one where the condition holds and the other elsewhere, in one type that has room for both.

    Structs are merged by field: what only one of them has is null in the other's rows. Raises TransformError where
    there is no such type.
    """
    metadata = {**old.metadata, **new.metadata}
    # Equal but for nullability and metadata.
    if new.type.simpleString() == old.type.simpleString():
        column, kind = F.when(condition, new.column).otherwise(old.column), new.type
    elif isinstance(new.type, T.StructType) and isinstance(old.type, T.StructType):
        column, kind = _merged_structs(condition, new, old)
    elif isinstance(new.type, T.VariantType) or isinstance(old.type, T.VariantType):
        column, kind = F.when(condition, as_variant(new)).otherwise(as_variant(old)), T.VariantType()
    else:
        shown = f"{old.type.simpleString()} and {new.type.simpleString()}"
        raise TransformError(f"with this predicate a column would be both {shown}")
    return Value(column=column, type=kind, metadata=metadata)


def _merged_structs(condition: Column, new: Value, old: Value) -> tuple[Column, T.DataType]:
    news, olds = ({one.name: one for one in fields(replace(side, defaults=False), "")} for side in (new, old))
    made = []
    for name, known in {**olds, **news}.items():
        nothing = known.to(F.lit(None).cast(known.type), known.type)
        both = merged(condition, news.get(name, nothing), olds.get(name, nothing))
        made.append(replace(both, name=name, metadata=known.metadata))
    present = F.when(condition, new.column.isNotNull()).otherwise(old.column.isNotNull())
    column, kind = struct(made)
    return F.when(present, column), kind


# Definitions and their application


def _text(value: Any) -> Any:
    """Return the text of a number or a boolean of YAML."""
    return as_text(value) if isinstance(value, int | float) else value


Names = Annotated[list[str], BeforeValidator(separated)]
SomeNames = Annotated[list[str], Field(min_length=1), BeforeValidator(separated)]
Text = Annotated[str, BeforeValidator(_text)]
SomeText = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
Name = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Definition:
    """One transform, or one predicate: a row of their table."""

    function: Callable[..., Any]
    """Called with the record's key or value (predicates: without) and the options. Raises TransformError.

    Its keyword-only parameters are the options: `topic_field` is Connect's `topic.field`.
    """
    forms: bool = False
    """Whether the type ends in $Key or $Value."""
    defaults: bool = False
    """Whether it reads fields, and so has the option `replace.null.with.default`."""
    check: Callable[[Any], str | None] = lambda options: None
    """Returns an error of the options together."""

    @cached_property
    def options(self) -> type[BaseModel]:
        """Return the model of the options; unknown ones are rejected."""
        parameters = inspect.signature(self.function).parameters.values()
        given = {each.name: (each.annotation, each.default) for each in parameters if each.kind is each.KEYWORD_ONLY}
        if self.defaults:
            given[DEFAULTS] = bool, True
        fields: dict[str, Any] = {
            name: (kind, Field(... if default is inspect.Parameter.empty else default, alias=name.replace("_", ".")))
            for name, (kind, default) in given.items()
        }

        def checked(options: Any) -> Any:
            error = self.check(options)
            if error is not None:
                raise ValueError(error)
            return options

        validators: dict[str, Any] = {"checked": model_validator(mode="after")(checked)}
        config = ConfigDict(extra="forbid", frozen=True)
        return create_model(self.function.__name__, __config__=config, __validators__=validators, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A transform's change of a frame."""

    columns: Mapping[str, Value] = field(default_factory=dict)
    errors: Sequence[Column] = ()
    """Why a row fails; null for rows that do not."""
    keep: Column | None = None
    """Rows to go on; None: all."""


def apply(frame: DataFrame, make: Callable[[DataFrame], Change], condition: Column | None) -> DataFrame:
    """Return the frame with a transform applied where the condition holds (None: everywhere)."""
    frame = frames.with_origin(frame)
    change = make(frame)
    columns = {name: F.col(name) for name in frame.columns}
    for name, new in change.columns.items():
        value = new if condition is None else merged(condition, new, value_of(frame, name))
        columns[name] = frames.fenced(value.column).alias(name, metadata=dict(value.metadata))
    if change.errors:
        error = F.coalesce(*change.errors)
        applies = error.isNotNull() if condition is None else condition & error.isNotNull()
        failure = frames.failure(frame, applies, stage=frames.TRANSFORMATION, message=error)
        columns[frames.FAILURE] = frames.fenced(failure).alias(frames.FAILURE)
    if change.keep is not None:
        keep = change.keep if condition is None else change.keep | ~condition
        frame = frame.where(keep | F.col(frames.FAILURE).isNotNull() if frames.FAILURE in frame.columns else keep)
    return frame.select(*columns.values()) if change.columns or change.errors else frame
