"""A key or a value as transforms see it: a column with its type, as fields or as a map.

Connect tells records with a schema from records without one. Here a struct (or any plain type) has a schema: what is in
it is known when the plan is made. VARIANT, and a map with string keys, have none: what is in it is known row by row,
and a VARIANT stays a VARIANT whatever is done to it.

What a schema says beyond types lies in the metadata of columns and struct fields, under the names of METADATA.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, MapType, StringType, StructField, StructType, VariantType

from kvorum.pipelines.transforms.moments import TIME_NAME, Clock

SCHEMA_NAME: Final = "connect.name"
SCHEMA_VERSION: Final = "connect.version"
DEFAULT: Final = "connect.default"
"""A field's default, as JSON text."""
METADATA: Final = (SCHEMA_NAME, SCHEMA_VERSION, DEFAULT)

MAP_OF_VARIANTS: Final = "map<string,variant>"


class TransformError(ValueError):
    """A transform that cannot be made, or cannot work on the type it meets. Connect would fail every record."""


def named_schema(name: str | None) -> dict[str, Any]:
    """Return the metadata of one of Connect's own schemas."""
    return {SCHEMA_NAME: name, SCHEMA_VERSION: 1} if name else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A column of a known type."""

    column: Column
    type: DataType
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def schemaless(self) -> bool:
        """Tell whether what is in it is known row by row only."""
        return isinstance(self.type, VariantType) or is_map(self.type)

    def to(self, column: Column, kind: DataType) -> "Value":
        """Return another column under the same schema name."""
        return Value(column=column, type=kind, metadata=self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a struct, or one to be."""

    name: str
    column: Column
    type: DataType
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def named(self, name: str) -> "Field":
        """Return it under another name."""
        return Field(name=name, column=self.column, type=self.type, metadata=self.metadata)

    @property
    def seen(self) -> Value:
        """Return its value, of the type that transforms see: Connect's Time is a Clock."""
        is_clock = self.metadata.get(SCHEMA_NAME) == TIME_NAME and type(self.type) is IntegerType
        return Value(column=self.column, type=Clock() if is_clock else self.type, metadata=self.metadata)

    def holding(self, column: Column) -> "Field":
        """Return it with another value of its type."""
        return Field(name=self.name, column=column, type=self.type, metadata=self.metadata)

    def becoming(self, column: Column, kind: DataType, name: str | None = None) -> "Field":
        """Return it with a value of another type, whose schema may have a name. Its default goes."""
        return Field(name=self.name, column=column, type=kind, metadata=named_schema(name))


def is_map(kind: DataType) -> bool:
    """Tell whether a type is a map with string keys."""
    return isinstance(kind, MapType) and isinstance(kind.keyType, StringType)


def fields(value: Value, purpose: str, *, defaults: bool = True) -> list[Field]:
    """Return a struct's fields, nulls replaced by their defaults where there are any. Raises TransformError."""
    if not isinstance(value.type, StructType):
        raise TransformError(f"{purpose} needs fields; the type is {value.type.simpleString()}")
    return [inner(value.column, found, defaults) for found in value.type.fields]


def inner(column: Column, found: StructField, defaults: bool) -> Field:
    """Return one field of a struct's column."""
    metadata = dict(found.metadata or {})
    got = column.getField(found.name)
    if defaults and DEFAULT in metadata:
        got = F.coalesce(got, default(metadata[DEFAULT], found.dataType))
    return Field(name=found.name, column=got, type=found.dataType, metadata=metadata)


def default(text: str, kind: DataType) -> Column:
    """Return a default as a column of its type."""
    decoded = json.loads(text)
    if isinstance(decoded, dict | list):
        return F.from_json(F.lit(text), kind.json())
    return F.lit(decoded).cast(kind)


def struct(made: Iterable[Field], unless_null: Column | None = None) -> tuple[Column, StructType]:
    """Return fields as a struct, null where another column is null, and its type."""
    made = list(made)
    names = [one.name for one in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TransformError(f"the field {twice[0]!r} would exist twice")
    if not made:
        raise TransformError("no field would remain")
    column = F.struct(*(_alias(one) for one in made))
    kind = StructType([StructField(one.name, one.type, metadata=dict(one.metadata)) for one in made])
    return (column if unless_null is None else F.when(unless_null.isNotNull(), column)), kind


def _alias(one: Field) -> Column:
    return one.column.alias(one.name, metadata=dict(one.metadata)) if one.metadata else one.column.alias(one.name)


def rebuilt(value: Value, made: Iterable[Field]) -> Value:
    """Return a struct with other fields; where it was null it stays null."""
    column, kind = struct(made, value.column)
    return value.to(column, kind)


# Without a schema


def as_map(value: Value) -> Column:
    """Return a value without schema as a map; null for null and for other values (see not_an_object)."""
    if isinstance(value.type, VariantType):
        return F.try_variant_get(value.column, "$", MAP_OF_VARIANTS)
    assert is_map(value.type), value.type
    return value.column


def not_an_object(value: Value) -> Column:
    """Return the condition under which a value without schema is there, but has no fields."""
    if isinstance(value.type, VariantType):
        return value.column.isNotNull() & as_map(value).isNull()
    return F.lit(False)


def item_type(value: Value) -> DataType:
    """Return the type of a map's values."""
    return value.type.valueType if isinstance(value.type, MapType) else VariantType()


def item(value: Value, name: str) -> Value:
    """Return what a value without schema has under a name; null where there is nothing, and for JSON's null."""
    got = as_map(value).getItem(name)
    kind = item_type(value)
    return Value(column=without_json_null(got) if isinstance(kind, VariantType) else got, type=kind)


def without_json_null(column: Column) -> Column:
    """Return a VARIANT column with JSON's null as null."""
    return F.when(~F.is_variant_null(column), column)


def from_map(value: Value, entries: Column) -> Value:
    """Return a map of `as_map`'s type as a value of `value`'s type."""
    if isinstance(value.type, VariantType):
        return value.to(F.to_variant_object(entries), VariantType())
    return value.to(entries, value.type)


def into_item(column: Column, kind: DataType, wanted: DataType) -> Column:
    """Return a column as an item of a map without schema."""
    if isinstance(wanted, VariantType):
        if isinstance(kind, VariantType):
            return column
        nested = isinstance(kind, StructType | MapType) or kind.typeName() == "array"
        return F.to_variant_object(column) if nested else column.cast(wanted)
    return column if kind == wanted else column.cast(wanted)


def put(value: Value, entries: Sequence[Field]) -> Value:
    """Return a value without schema with entries set, added where they are new; null where it was null."""
    wanted, before = item_type(value), as_map(value)
    names = [entry.name for entry in entries]
    kept = F.map_filter(before, lambda key, _: ~key.isin(names))
    return from_map(value, F.map_concat(kept, entries_map(entries, wanted)))


def entries_map(entries: Sequence[Field], wanted: DataType) -> Column:
    """Return entries as a map. Raises TransformError when a name is there twice."""
    names = [entry.name for entry in entries]
    if len(set(names)) < len(names):
        raise TransformError("a field would exist twice")
    columns = [into_item(entry.column, entry.type, wanted) for entry in entries]
    return F.map_from_arrays(F.array(*map(F.lit, names)), F.array(*columns))


# Two values in one column


def merged(condition: Column, new: Value, old: Value) -> Value:
    """Return the one where the condition holds and the other elsewhere, in one type that has room for both.

    Structs are merged by field: what only one of them has is null in the other's rows. Raises TransformError where
    there is no such type.
    """
    metadata = {**old.metadata, **new.metadata}
    if new.type == old.type or _same(new.type, old.type):
        column = F.when(condition, new.column).otherwise(old.column)
        return Value(column=column, type=new.type, metadata=metadata)
    if isinstance(new.type, StructType) and isinstance(old.type, StructType):
        return _merged_structs(condition, new, old, metadata)
    if isinstance(new.type, VariantType) or isinstance(old.type, VariantType):
        sides = (into_item(side.column, side.type, VariantType()) for side in (new, old))
        column = F.when(condition, next(sides)).otherwise(next(sides))
        return Value(column=column, type=VariantType(), metadata=metadata)
    shown = f"{old.type.simpleString()} and {new.type.simpleString()}"
    raise TransformError(f"with this predicate a column would be both {shown}")


def _merged_structs(condition: Column, new: Value, old: Value, metadata: Mapping[str, Any]) -> Value:
    assert isinstance(new.type, StructType) and isinstance(old.type, StructType)
    news = {found.name: found for found in new.type.fields}
    olds = {found.name: found for found in old.type.fields}
    made = []
    for name in (*olds, *(name for name in news if name not in olds)):
        sides = [
            Value(column=side.column.getField(name), type=there[name].dataType)
            if name in there
            else Value(column=F.lit(None).cast(other[name].dataType), type=other[name].dataType)
            for side, there, other in ((new, news, olds), (old, olds, news))
        ]
        both = merged(condition, sides[0], sides[1])
        extra = dict((news.get(name) or olds[name]).metadata or {})
        made.append(Field(name=name, column=both.column, type=both.type, metadata=extra))
    present = F.when(condition, new.column.isNotNull()).otherwise(old.column.isNotNull())
    column, kind = struct(made)
    return Value(column=F.when(present, column), type=kind, metadata=metadata)


def _same(one: DataType, other: DataType) -> bool:
    """Tell whether types are equal but for nullability and metadata."""
    return one.simpleString() == other.simpleString()
