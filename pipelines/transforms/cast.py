"""Cast and Flatten: other types, and no structs within structs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import Field as Option
from pydantic import field_validator
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    VariantType,
)

from kvorum.pipelines.transforms import java, values
from kvorum.pipelines.transforms.fields import WithDefaults, only_objects
from kvorum.pipelines.transforms.steps import Change, Names, Options, Part, Record, Wrong
from kvorum.pipelines.transforms.values import Field, TransformError, Value

TYPES: Final[Mapping[str, DataType]] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float32": FloatType(),
    "float64": DoubleType(),
    "boolean": BooleanType(),
    "string": StringType(),
}
"""Connect's names."""


class CastOptions(WithDefaults):
    """A type for the whole, or `field:type,...`."""

    spec: Names = Option(min_length=1)

    @field_validator("spec", mode="before")
    @classmethod
    def _mapping(cls, given: Any) -> Any:
        return [f"{name}:{kind}" for name, kind in given.items()] if isinstance(given, dict) else given

    @field_validator("spec")
    @classmethod
    def _known(cls, spec: list[str]) -> list[str]:
        for one in spec:
            kind = one.rpartition(":")[2].strip()
            if kind not in TYPES:
                raise ValueError(f"{kind!r} is not one of {', '.join(TYPES)}")
            if ":" not in one and len(spec) > 1:
                raise ValueError("give one type for the whole value, or field:type for each field")
        return spec

    def whole(self) -> DataType | None:
        """Return the type of the whole, where it is meant."""
        return TYPES[self.spec[0].strip()] if ":" not in self.spec[0] else None

    def fields(self) -> dict[str, DataType]:
        """Return {field: type}."""
        pairs = (one.rpartition(":") for one in self.spec)
        return {name.strip(): TYPES[kind.strip()] for name, _, kind in pairs}


def cast(record: Record, options: CastOptions, part: Part) -> Change:
    """Give fields, or the whole, another type by Java's rules. What cannot be converted fails."""
    value, whole = record.value(part), options.whole()
    if whole is not None:
        return _cast_whole(value, whole, part)
    wanted = options.fields()
    if value.schemaless:
        return _cast_items(value, wanted, part)
    wrong, made = list[Wrong](), list[Field]()
    for one in values.fields(value, "Cast", defaults=options.replace_null):
        if one.name in wanted:
            column = _converted(one.name, one.seen, wanted[one.name])
            wrong.append(_unconverted(one.name, one.column, column, wanted[one.name]))
            one = one.becoming(column, wanted[one.name])
        made.append(one)
    return Change(columns={part: values.rebuilt(value, made)}, wrong=wrong)


def _cast_whole(value: Value, wanted: DataType, part: Part) -> Change:
    seen = Field(name=part, column=value.column, type=value.type, metadata=value.metadata).seen
    column = _converted(part, seen, wanted)
    wrong = _unconverted(part, value.column, column, wanted)
    if isinstance(value.type, VariantType):
        return Change(columns={part: value.to(column.cast(VariantType()), VariantType())}, wrong=[wrong])
    return Change(columns={part: Value(column=column, type=wanted)}, wrong=[wrong])


def _cast_items(value: Value, wanted: Mapping[str, DataType], part: Part) -> Change:
    wrong, made = only_objects(value, "Cast"), list[Field]()
    for name, kind in wanted.items():
        was = values.item(value, name)
        column = _converted(name, was, kind)
        wrong.append(_unconverted(name, was.column, column, kind))
        made.append(Field(name=name, column=column, type=kind))
    return Change(columns={part: values.put(value, made)}, wrong=wrong)


def _converted(name: str, was: Value, wanted: DataType) -> Column:
    column = by_instance(was.column, wanted) if isinstance(was.type, VariantType) else None
    column = java.to_type(was.column, was.type, wanted) if column is None else column
    if column is None:
        raise TransformError(f"{name!r} of type {was.type.simpleString()} cannot become {wanted.simpleString()}")
    return column


def _unconverted(name: str, before: Column, after: Column, wanted: DataType) -> Wrong:
    message = f"Cast: {name!r} cannot become {wanted.simpleString()}"
    return Wrong(when=before.isNotNull() & after.isNull(), message=message)


def by_instance(column: Column, wanted: DataType) -> Column:
    """Return a VARIANT's value in another type, by what each row holds; null for arrays and objects."""
    kind, result = F.schema_of_variant(column), F.lit(None).cast(wanted)
    for pattern, inner in INSTANCES:
        got = java.to_type(F.try_variant_get(column, "$", inner.simpleString()), inner, wanted)
        assert got is not None, (inner, wanted)
        result = F.when(kind.rlike(pattern), got).otherwise(result)
    return result


INSTANCES: Final[Sequence[tuple[str, DataType]]] = (
    ("^BIGINT$", LongType()),
    (r"^(DOUBLE|FLOAT|DECIMAL\(.*)$", DoubleType()),
    ("^BOOLEAN$", BooleanType()),
    ("^STRING$", StringType()),
)
"""What JSON holds: a pattern of schema_of_variant's names, and the type."""


class FlattenOptions(Options):
    """Delimiter between the names."""

    delimiter: str = "."
    replace_null: bool = Option(default=True, alias="replace.null.with.default")


def flatten(record: Record, options: FlattenOptions, part: Part) -> Change:
    """Put the fields of structs within structs beside the others, under joined names. Arrays and maps stay."""
    value = record.value(part)
    if value.schemaless:
        raise TransformError("Flatten needs a schema: without one, names differ per row")
    values.fields(value, "Flatten")
    assert isinstance(value.type, StructType)
    leaves = _leaves(value.column, value.type, "", options)
    return Change(columns={part: values.rebuilt(value, leaves)})


def _leaves(column: Column, kind: StructType, before: str, options: FlattenOptions) -> Iterator[Field]:
    for found in kind.fields:
        one = values.inner(column, found, options.replace_null)
        if isinstance(one.type, StructType):
            yield from _leaves(one.column, one.type, f"{before}{one.name}{options.delimiter}", options)
        else:
            yield one.named(f"{before}{one.name}")
