"""Transforms of fields: InsertField, ReplaceField, MaskField, ValueToKey, HoistField, ExtractField, SetSchemaMetadata.

Each in two forms, with a schema (structs) and without one, as Connect's: see values. Order is Connect's: a renamed or
masked field keeps its place, an inserted one comes last.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, Self

from pydantic import Field as Option
from pydantic import field_validator, model_validator
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from kvorum.pipelines.transforms import values
from kvorum.pipelines.transforms.moments import Clock
from kvorum.pipelines.transforms.steps import Change, Names, Options, Part, Record, Text, Wrong
from kvorum.pipelines.transforms.values import Field, TransformError, Value

INTEGERS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


class WithDefaults(Options):
    """Options of a transform that reads fields."""

    replace_null: bool = Option(default=True, alias="replace.null.with.default")


def only_objects(value: Value, purpose: str, *, nulls: bool = True) -> list[Wrong]:
    """Return the error for values without fields (and, if requested, for null): they fail, row by row."""
    wrong = []
    if value.schemaless:
        wrong.append(Wrong(when=values.not_an_object(value), message=f"{purpose}: the value has no fields"))
    if not nulls:
        wrong.append(Wrong(when=value.column.isNull(), message=f"{purpose}: the value is null"))
    return wrong


# InsertField


class InsertFieldOptions(WithDefaults):
    """A trailing `!` makes a field required, `?` optional: Spark's columns are all nullable, so either is taken."""

    topic: str | None = Option(default=None, alias="topic.field")
    partition: str | None = Option(default=None, alias="partition.field")
    offset: str | None = Option(default=None, alias="offset.field")
    timestamp: str | None = Option(default=None, alias="timestamp.field")
    static_field: str | None = Option(default=None, alias="static.field")
    static_value: Text | None = Option(default=None, alias="static.value")

    @field_validator("topic", "partition", "offset", "timestamp", "static_field")
    @classmethod
    def _name(cls, name: str | None) -> str | None:
        return name.removesuffix("!").removesuffix("?") if name else None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.topic or self.partition or self.offset or self.timestamp or self.static_field):
            raise ValueError("no field to insert; set one of the *.field options")
        if self.static_field and self.static_value is None:
            raise ValueError("static.field needs static.value")
        return self


def insert_field(record: Record, options: InsertFieldOptions, part: Part) -> Change:
    """Add fields of the record's own, or a fixed one. A tombstone stays one."""
    value = record.value(part)
    moment: tuple[Column, DataType] = (F.col("timestamp"), TimestampType())
    if value.schemaless:
        moment = (F.unix_millis("timestamp"), LongType())
    candidates: Sequence[tuple[str | None, tuple[Column, DataType]]] = (
        (options.topic, (F.col("topic"), StringType())),
        (options.partition, (F.col("partition"), IntegerType())),
        (options.offset, (F.col("offset"), LongType())),
        (options.timestamp, moment),
        (options.static_field, (F.lit(options.static_value), StringType())),
    )
    added = [Field(name=name, column=column, type=kind) for name, (column, kind) in candidates if name]
    if value.schemaless:
        return Change(columns={part: values.put(value, added)}, wrong=only_objects(value, "InsertField"))
    there = values.fields(value, "InsertField", defaults=options.replace_null)
    return Change(columns={part: values.rebuilt(value, [*there, *added])})


# ReplaceField


class ReplaceFieldOptions(WithDefaults):
    """Which fields go and which stay, and new names: `old:new,...`."""

    exclude: Names = Option(default_factory=list)
    include: Names = Option(default_factory=list)
    renames: Names = Option(default_factory=list)

    @field_validator("renames", mode="before")
    @classmethod
    def _mapping(cls, given: Any) -> Any:
        return [f"{old}:{new}" for old, new in given.items()] if isinstance(given, dict) else given

    @field_validator("renames")
    @classmethod
    def _pairs(cls, renames: list[str]) -> list[str]:
        for pair in renames:
            if len([name for name in pair.split(":") if name.strip()]) != 2:
                raise ValueError(f"{pair!r} is not of the form old:new")
        return renames

    def new_names(self) -> dict[str, str]:
        """Return {old: new}."""
        return {old.strip(): new.strip() for old, new in (pair.split(":") for pair in self.renames)}

    def stays(self, name: str) -> bool:
        """Tell whether a field stays."""
        return name not in self.exclude and (not self.include or name in self.include)


def replace_field(record: Record, options: ReplaceFieldOptions, part: Part) -> Change:
    """Leave fields out and rename others. Names are the old ones wherever a name is compared."""
    value, renames = record.value(part), options.new_names()
    if not value.schemaless:
        there = values.fields(value, "ReplaceField", defaults=options.replace_null)
        kept = [one.named(renames.get(one.name, one.name)) for one in there if options.stays(one.name)]
        return Change(columns={part: values.rebuilt(value, kept)})
    entries = values.as_map(value)
    if options.include or options.exclude:
        entries = F.map_filter(
            entries,
            lambda key, _: (
                (key.isin(options.include) if options.include else F.lit(True))
                & (~key.isin(options.exclude) if options.exclude else F.lit(True))
            ),
        )
    if renames:
        flat = [F.lit(text) for pair in renames.items() for text in pair]
        entries = F.transform_keys(entries, lambda key, _: F.coalesce(F.create_map(*flat)[key], key))
    return Change(columns={part: values.from_map(value, entries)}, wrong=only_objects(value, "ReplaceField"))


# MaskField


class MaskFieldOptions(WithDefaults):
    """Fields to hide behind nothing (zero, empty), or behind a value."""

    fields: Names = Option(min_length=1)
    replacement: Text | None = Option(default=None, min_length=1)


def mask_field(record: Record, options: MaskFieldOptions, part: Part) -> Change:
    """Replace fields by their zero, or by the replacement. Null stays null; a tombstone fails, as in Connect."""
    value = record.value(part)
    wrong = only_objects(value, "MaskField", nulls=False)
    if value.schemaless:
        return Change(columns={part: _mask_items(value, options)}, wrong=wrong)
    made = []
    there = values.fields(value, "MaskField", defaults=options.replace_null)
    absent = set(options.fields) - {one.name for one in there}
    if absent:  # Connect says nothing, and lets a field through whose name was misspelt
        raise TransformError(f"the value has no field {min(absent)!r}; it has {', '.join(one.name for one in there)}")
    for one in there:
        if one.name in options.fields:
            one = one.holding(F.when(one.column.isNotNull(), mask(one.name, one.seen.type, options.replacement)))
        made.append(one)
    return Change(columns={part: values.rebuilt(value, made)}, wrong=wrong)


def _mask_items(value: Value, options: MaskFieldOptions) -> Value:
    made = []
    for name in options.fields:
        was = values.item(value, name)
        hidden = mask_any(was, options.replacement)
        made.append(Field(name=name, column=F.when(was.column.isNotNull(), hidden), type=was.type))
    return values.put(value, made)


def mask_any(was: Value, replacement: str | None) -> Column:
    """Return the mask of a value whose type is known row by row: by JSON's types."""
    if not isinstance(was.type, VariantType):
        return mask("a map's value", was.type, replacement)
    kind, variant = F.schema_of_variant(was.column), VariantType()

    def as_type(wanted: DataType, text: str | None = replacement) -> Column:
        # A replacement that is no number cannot stand for one: null takes its place, Connect would fail the record.
        try:
            return mask("a field", wanted, text).cast(variant)
        except TransformError:
            return F.lit(None).cast(variant)

    numbers = F.when(kind == "BIGINT", as_type(LongType())).when(
        (kind == "DOUBLE") | kind.startswith("DECIMAL"), as_type(DoubleType())
    )
    text = numbers.when(kind == "STRING", as_type(StringType()))
    if replacement is not None:
        return text
    empty = F.when(kind.startswith("ARRAY"), F.parse_json(F.lit("[]"))).otherwise(F.parse_json(F.lit("{}")))
    return text.when(kind == "BOOLEAN", F.lit(False).cast(variant)).otherwise(empty)


def mask(name: str, kind: DataType, replacement: str | None) -> Column:
    """Return what hides a field of a type. Raises TransformError for types that cannot be hidden, as in Connect."""
    if replacement is None:
        zero = _zero(kind)
        if zero is None:
            raise TransformError(f"cannot mask {name!r} of type {kind.simpleString()}")
        return zero
    if isinstance(kind, StringType):
        return F.lit(replacement).cast(kind)
    numbers = ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | DecimalType
    if isinstance(kind, Clock) or not isinstance(kind, numbers):
        raise TransformError(f"cannot mask {name!r} of type {kind.simpleString()} with a replacement")
    bits = INTEGERS.get(type(kind))
    try:
        if bits is None:
            Decimal(replacement)
        elif not -(1 << (bits - 1)) <= int(replacement) < 1 << (bits - 1):
            raise ValueError
    except (ValueError, InvalidOperation) as error:
        shown = f"{replacement!r} is not of type {kind.simpleString()}"
        raise TransformError(f"cannot mask {name!r}: {shown}") from error
    return F.lit(replacement).cast(kind)


def _zero(kind: DataType) -> Column | None:
    match kind:
        case BooleanType():
            return F.lit(False)
        case ByteType() | ShortType() | IntegerType() | LongType() | FloatType() | DoubleType() | DecimalType():
            return F.lit(0).cast(kind)
        case StringType():
            return F.lit("").cast(kind)
        case DateType():
            return F.lit("1970-01-01").cast(kind)
        case TimestampType():
            return F.timestamp_millis(F.lit(0))
        case ArrayType():
            return F.array().cast(kind)
        case MapType():
            return F.from_json(F.lit("{}"), kind.json()) if values.is_map(kind) else F.create_map().cast(kind)
        case _:
            return None


# ValueToKey, HoistField, ExtractField


class ValueToKeyOptions(WithDefaults):
    """Fields of the value that make the key."""

    fields: Names = Option(min_length=1)


def value_to_key(record: Record, options: ValueToKeyOptions, part: Part) -> Change:
    """Make the key of fields of the value. A tombstone has none: it fails, as in Connect."""
    value = record.value("value")
    wrong = only_objects(value, "ValueToKey", nulls=False)
    if value.schemaless:
        items = [
            Field(name=name, column=got.column, type=got.type)
            for name in dict.fromkeys(options.fields)
            for got in (values.item(value, name),)
        ]
        entries = F.when(value.column.isNotNull(), values.entries_map(items, values.item_type(value)))
        key = Value(column=values.from_map(value, entries).column, type=value.type)
        return Change(columns={"key": key}, wrong=wrong)
    there = {one.name: one for one in values.fields(value, "ValueToKey", defaults=options.replace_null)}
    absent = [name for name in options.fields if name not in there]
    if absent:
        raise TransformError(f"the value has no field {absent[0]!r}; it has {', '.join(there)}")
    column, kind = values.struct((there[name] for name in options.fields), value.column)
    return Change(columns={"key": Value(column=column, type=kind)}, wrong=wrong)


class HoistFieldOptions(Options):
    """The field everything goes under."""

    field: str


def hoist_field(record: Record, options: HoistFieldOptions, part: Part) -> Change:
    """Wrap the value in a field. Null as well: a tombstone becomes a value, as in Connect."""
    value = record.value(part)
    one = Field(name=options.field, column=value.column, type=value.type, metadata=value.metadata)
    if isinstance(value.type, VariantType):
        column = values.entries_map([one], value.type)
        return Change(columns={part: Value(column=F.to_variant_object(column), type=value.type)})
    column, kind = values.struct([one])
    return Change(columns={part: Value(column=column, type=kind)})


class ExtractFieldOptions(WithDefaults):
    """The field that becomes the whole; with V2 a path of names between dots, in backticks where they have dots."""

    field: str
    syntax: Literal["V1", "V2"] = Option(default="V1", alias="field.syntax.version")

    def path(self) -> list[str]:
        """Return the names from the outside in."""
        return [self.field] if self.syntax == "V1" else split_path(self.field)


def split_path(path: str) -> list[str]:
    """Return the names of a path in KIP-821's syntax. Raises TransformError for a backtick that does not end."""
    names, rest = list[str](), path
    while True:
        if rest.startswith("`"):
            end = rest.find("`", 1)
            while end != -1 and end + 1 < len(rest) and rest[end + 1] != ".":
                end = rest.find("`", end + 1)
            if end == -1:
                raise TransformError(f"unterminated backtick in {path!r}")
            name, ends, rest = rest[1:end], end + 1 == len(rest), rest[end + 2 :]
        else:
            name, dot, rest = rest.partition(".")
            ends = not dot
        names.append(name)
        if ends:
            return names


def extract_field(record: Record, options: ExtractFieldOptions, part: Part) -> Change:
    """Put a field in the place of the whole. Null stays null; without a schema a field that is not there is null."""
    value, wrong, at = record.value(part), list[Wrong](), list[str]()
    nested = options.syntax == "V2"
    for name in options.path():
        at.append(name)
        if value.schemaless:
            if not nested:
                wrong += only_objects(value, "ExtractField")
            value = values.item(value, name)
            continue
        there = {one.name: one for one in values.fields(value, "ExtractField", defaults=options.replace_null)}
        if name not in there:
            raise TransformError(f"there is no field {'.'.join(at)!r}; there are {', '.join(there)}")
        value = Value(column=there[name].column, type=there[name].type, metadata=there[name].metadata)
    return Change(columns={part: value}, wrong=wrong)


# SetSchemaMetadata


class SetSchemaMetadataOptions(WithDefaults):
    """A schema's name and version."""

    name: str | None = Option(default=None, alias="schema.name")
    version: int | None = Option(default=None, alias="schema.version")


def set_schema_metadata(record: Record, options: SetSchemaMetadataOptions, part: Part) -> Change:
    """Set the schema's name. It is stored in the column's metadata; JSON's envelope and Avro write it."""
    value = record.value(part)
    if value.schemaless:
        raise TransformError("SetSchemaMetadata needs a schema: give the source's format one")
    said = {values.SCHEMA_NAME: options.name, values.SCHEMA_VERSION: options.version}
    metadata = {**value.metadata, **{key: what for key, what in said.items() if what is not None}}
    column = value.column
    if options.replace_null and isinstance(value.type, StructType):
        column = values.rebuilt(value, values.fields(value, "SetSchemaMetadata")).column
    return Change(columns={part: Value(column=column, type=value.type, metadata=metadata)})
