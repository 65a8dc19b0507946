"""Kafka Connect's transforms and predicates: one table, at the end, of functions whose parameters are their options.

Each has two forms, with a schema (structs) and without one, as Connect's: see values. Order is Connect's: a renamed or
masked field keeps its place, an inserted one comes last.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines import frames
from kvorum.pipelines.formats.schemas import BITS, NAME, TIME, VERSION
from kvorum.pipelines.transforms import conversions, values
from kvorum.pipelines.transforms.values import (
    Change,
    Clock,
    Definition,
    Name,
    Names,
    SomeNames,
    SomeText,
    Text,
    TransformError,
    Value,
)

NO_NAMES: Final[list[str]] = []
Convert = Callable[[Value], tuple[Value, list[Column]]]
"""Returns the converted value, and the errors of rows that cannot be converted."""


def changed(value: Value, new: Value, purpose: str = "", *, nulls: bool = True) -> Change:
    """Return the change of a value by what its fields became; values without fields and, on request, null fail."""
    return Change(columns={value.name: new}, errors=only_objects(value, purpose, nulls=nulls))


def only_objects(value: Value, purpose: str, *, nulls: bool = True) -> list[Column]:
    """Return the errors of values without fields (and, if requested, of null)."""
    errors = []
    if value.schemaless:
        no_fields = value.column.isNotNull() & values.as_map(value).isNull()
        errors.append(F.when(no_fields, f"{purpose}: the value has no fields"))
    if not nulls:
        errors.append(F.when(value.column.isNull(), f"{purpose}: the value is null"))
    return errors


def _named(value: Value, names: Sequence[str], purpose: str, missing: str) -> dict[str, Value]:
    """Return fields by name. Raises TransformError for the first name that a schema does not have."""
    if value.schemaless:
        return {name: values.item(value, name) for name in names}
    there = {one.name: one for one in values.fields(value, purpose)}
    absent = [name for name in names if name not in there]
    if absent:
        raise TransformError(missing.format(repr(absent[0]), ", ".join(there)))
    return {name: there[name] for name in names}


def converted_fields(value: Value, purpose: str, wanted: Mapping[str, Convert], *, nulls: bool = True) -> Change:
    """Return the change that replaces fields by what their functions return; a struct's order stays."""
    errors = only_objects(value, purpose, nulls=nulls)
    is_struct, made = not value.schemaless, list[Value]()
    for one in values.fields(value, purpose) if is_struct else [values.item(value, name) for name in wanted]:
        if one.name in wanted:
            one, more = wanted[one.name](one)
            errors += more
        made.append(one)
    return Change(
        columns={value.name: values.rebuilt(value, made) if is_struct else values.put(value, made)}, errors=errors
    )


def converted_whole(value: Value, convert: Convert) -> Change:
    """Return the change that replaces the whole key or value."""
    new, errors = convert(value)
    if value.schemaless:
        new = value.to(new.column.cast(T.VariantType()), T.VariantType())
    return Change(columns={value.name: new}, errors=errors)


# InsertField, ReplaceField


FieldName = Annotated[
    str | None, AfterValidator(lambda name: name.removesuffix("!").removesuffix("?") if name else None)
]
"""A trailing `!` makes a field required, `?` optional: Spark's columns are all nullable, so either is taken."""


def insert_field(
    value: Value,
    *,
    topic_field: FieldName = None,
    partition_field: FieldName = None,
    offset_field: FieldName = None,
    timestamp_field: FieldName = None,
    static_field: FieldName = None,
    static_value: Text | None = None,
) -> Change:
    """Add fields of the record's own, or a fixed one. A tombstone stays one."""
    moment: tuple[Column, T.DataType] = (F.col("timestamp"), T.TimestampType())
    if value.schemaless:
        moment = (F.unix_millis("timestamp"), T.LongType())
    candidates: Sequence[tuple[str | None, tuple[Column, T.DataType]]] = (
        (topic_field, (F.col("topic"), T.StringType())),
        (partition_field, (F.col("partition"), T.IntegerType())),
        (offset_field, (F.col("offset"), T.LongType())),
        (timestamp_field, moment),
        (static_field, (F.lit(static_value), T.StringType())),
    )
    added = [Value(name=name, column=column, type=kind) for name, (column, kind) in candidates if name]
    if value.schemaless:
        return changed(value, values.put(value, added), "InsertField")
    return changed(value, values.rebuilt(value, [*values.fields(value, "InsertField"), *added]))


def check_insert_field(options: Any) -> str | None:
    """Return what is wrong with InsertField's options."""
    if options.static_field and options.static_value is None:
        return "static.field needs static.value"
    named = (options.topic_field, options.partition_field, options.offset_field, options.timestamp_field)
    return None if any((*named, options.static_field)) else "no field to insert; set one of the *.field options"


def _pairs(given: Any) -> Any:
    """Take a mapping for `old:new,...`."""
    return [f"{old}:{new}" for old, new in given.items()] if isinstance(given, dict) else given


def _renames(renames: list[str]) -> list[str]:
    for pair in renames:
        if len([name for name in pair.split(":") if name.strip()]) != 2:
            raise ValueError(f"{pair!r} is not of the form old:new")
    return renames


def replace_field(
    value: Value,
    *,
    exclude: Names = NO_NAMES,
    include: Names = NO_NAMES,
    renames: Annotated[Names, BeforeValidator(_pairs), AfterValidator(_renames)] = NO_NAMES,
) -> Change:
    """Leave fields out and rename others. Names are the old ones wherever a name is compared."""
    new_names = {old.strip(): new.strip() for old, new in (pair.split(":") for pair in renames)}
    if not value.schemaless:
        there = values.fields(value, "ReplaceField")
        kept = (one for one in there if one.name not in exclude and (not include or one.name in include))
        named = (replace(one, name=new_names.get(one.name, one.name)) for one in kept)
        return changed(value, values.rebuilt(value, named))
    entries = values.without(value, exclude) if exclude else values.as_map(value)
    if include:
        entries = F.map_filter(entries, lambda key, _: key.isin(include))
    if new_names:
        flat = [F.lit(text) for pair in new_names.items() for text in pair]
        entries = F.transform_keys(entries, lambda key, _: F.coalesce(F.create_map(*flat)[key], key))
    return changed(value, values.of_map(value, entries), "ReplaceField")


# MaskField


def mask_field(value: Value, *, fields: SomeNames, replacement: SomeText | None = None) -> Change:
    """Replace fields by their zero, or by the replacement. Null stays null; a tombstone fails, as in Connect."""

    def hidden(one: Value) -> tuple[Value, list[Column]]:
        masked = mask_variant(one, replacement) if value.schemaless else mask(one.name, one.seen.type, replacement)
        return one.to(F.when(one.column.isNotNull(), masked), one.type), []

    # Connect says nothing of a name that is not there, and lets a field through whose name was misspelt.
    _named(value, sorted(fields), "MaskField", "the value has no field {}; it has {}")
    return converted_fields(value, "MaskField", dict.fromkeys(fields, hidden), nulls=False)


def mask_variant(was: Value, replacement: str | None) -> Column:
    """Return the mask of a VARIANT, by the type of each row's value."""
    kind, variant = F.schema_of_variant(was.column), T.VariantType()

    def as_type(wanted: T.DataType) -> Column:
        # A replacement that is no number cannot stand for one: null takes its place, Connect would fail the record.
        try:
            return mask("a field", wanted, replacement).cast(variant)
        except TransformError:
            return F.lit(None).cast(variant)

    is_real = (kind == "DOUBLE") | kind.startswith("DECIMAL")
    numbers = F.when(kind == "BIGINT", as_type(T.LongType())).when(is_real, as_type(T.DoubleType()))
    text = numbers.when(kind == "STRING", as_type(T.StringType()))
    if replacement is not None:
        return text
    empty = F.when(kind.startswith("ARRAY"), F.parse_json(F.lit("[]"))).otherwise(F.parse_json(F.lit("{}")))
    return text.when(kind == "BOOLEAN", F.lit(False).cast(variant)).otherwise(empty)


def mask(name: str, kind: T.DataType, replacement: str | None) -> Column:
    """Return what hides a field of a type. Raises TransformError for types that cannot be hidden, as in Connect."""
    if replacement is None:
        return _zero(name, kind)
    if isinstance(kind, T.StringType):
        return F.lit(replacement).cast(kind)
    if isinstance(kind, Clock) or not isinstance(kind, conversions.NUMBERS):
        raise TransformError(f"cannot mask {name!r} of type {kind.simpleString()} with a replacement")
    bits = BITS.get(type(kind))
    try:
        if bits is None:
            Decimal(replacement)
        elif not -(1 << (bits - 1)) <= int(replacement) < 1 << (bits - 1):
            raise ValueError
    except (ValueError, InvalidOperation) as error:
        shown = f"{replacement!r} is not of type {kind.simpleString()}"
        raise TransformError(f"cannot mask {name!r}: {shown}") from error
    return F.lit(replacement).cast(kind)


def _zero(name: str, kind: T.DataType) -> Column:
    match kind:
        case T.BooleanType() | T.StringType() | T.DateType():
            zeros = {T.BooleanType: "false", T.DateType: "1970-01-01"}
            return F.lit(zeros.get(type(kind), "")).cast(kind)
        case T.TimestampType():
            return F.timestamp_millis(F.lit(0))
        case T.ArrayType():
            return F.array().cast(kind)
        case T.MapType():
            is_json = isinstance(kind.keyType, T.StringType)
            return F.from_json(F.lit("{}"), kind.json()) if is_json else F.create_map().cast(kind)
        case _ if isinstance(kind, conversions.NUMBERS):
            return F.lit(0).cast(kind)
        case _:
            raise TransformError(f"cannot mask {name!r} of type {kind.simpleString()}")


# ValueToKey, HoistField, ExtractField, Flatten


def value_to_key(value: Value, *, fields: SomeNames) -> Change:
    """Make the key of fields of the value. A tombstone has none: it fails, as in Connect."""
    there = _named(value, fields, "ValueToKey", "the value has no field {}; it has {}")
    new = values.rebuilt(value, [there[name] for name in fields])
    key = Value(column=new.column, type=new.type)
    return Change(columns={"key": key}, errors=only_objects(value, "ValueToKey", nulls=False))


def hoist_field(value: Value, *, field: str) -> Change:
    """Wrap the value in a field. Null as well: a tombstone becomes a value, as in Connect."""
    one = replace(value, name=field)
    if value.schemaless:
        return Change(columns={value.name: values.of_map(replace(value, metadata={}), values.as_entries([one]))})
    column, kind = values.struct([one])
    return Change(columns={value.name: Value(column=column, type=kind)})


def extract_field(value: Value, *, field: str, field_syntax_version: Literal["V1", "V2"] = "V1") -> Change:
    """Put a field in the place of the whole. Null stays null; without a schema a field that is not there is null.

    With V2 the field is a path of names between dots, in backticks where they have dots.
    """
    part, errors, at = value.name, list[Column](), list[str]()
    for name in [field] if field_syntax_version == "V1" else split_path(field):
        at.append(name)
        if value.schemaless:
            errors += only_objects(value, "ExtractField") if field_syntax_version == "V1" else []
            value = values.item(value, name)
            continue
        there = {one.name: one for one in values.fields(value, "ExtractField")}
        if name not in there:
            raise TransformError(f"there is no field {'.'.join(at)!r}; there are {', '.join(there)}")
        value = there[name]
    return Change(columns={part: value}, errors=errors)


def split_path(path: str) -> list[str]:
    """Return the names of a path in KIP-821's syntax. Raises TransformError for a backtick that does not end."""
    names, rest = list[str](), f".{path}"
    while rest:
        matched = re.match(r"\.`(.*?)`(?=\.|\Z)|\.(?!`)([^.]*)", rest, re.DOTALL)
        if matched is None:
            raise TransformError(f"unterminated backtick in {path!r}")
        quoted, plain = matched.groups()
        names.append(plain if quoted is None else quoted)
        rest = rest[matched.end() :]
    return names


def flatten(value: Value, *, delimiter: str = ".") -> Change:
    """Put the fields of structs within structs beside the others, under joined names. Arrays and maps stay."""
    if value.schemaless:
        raise TransformError("Flatten needs a schema: without one, names differ per row")

    def leaves(inside: Value, before: str) -> Iterator[Value]:
        for one in values.fields(inside, "Flatten"):
            if isinstance(one.type, T.StructType):
                yield from leaves(one, f"{before}{one.name}{delimiter}")
            else:
                yield replace(one, name=f"{before}{one.name}")

    return Change(columns={value.name: values.rebuilt(value, leaves(value, ""))})


def set_schema_metadata(value: Value, *, schema_name: str | None = None, schema_version: int | None = None) -> Change:
    """Set the schema's name. It is stored in the column's metadata; JSON's envelope has it."""
    if value.schemaless:
        raise TransformError("SetSchemaMetadata needs a schema: give the source's format one")
    said = {NAME: schema_name, VERSION: schema_version}
    metadata = {**value.metadata, **{key: what for key, what in said.items() if what is not None}}
    if value.defaults and isinstance(value.type, T.StructType):
        value = value.to(values.rebuilt(value, values.fields(value, "SetSchemaMetadata")).column, value.type)
    return Change(columns={value.name: replace(value, metadata=metadata)})


# Cast


def _casts(spec: list[str]) -> list[str]:
    for one in spec:
        kind = one.rpartition(":")[2].strip()
        if kind not in conversions.TYPES:
            raise ValueError(f"{kind!r} is not one of {', '.join(conversions.TYPES)}")
        if ":" not in one and len(spec) > 1:
            raise ValueError("give one type for the whole value, or field:type for each field")
    return spec


def cast(value: Value, *, spec: Annotated[SomeNames, BeforeValidator(_pairs), AfterValidator(_casts)]) -> Change:
    """Give fields, or the whole, another type by Java's rules. What cannot be converted fails."""

    def to(kind: str) -> Convert:
        return lambda one: _cast(one.seen, conversions.TYPES[kind.strip()])

    if ":" not in spec[0]:
        return converted_whole(value, to(spec[0]))
    wanted = {name.strip(): to(kind) for name, _, kind in (one.rpartition(":") for one in spec)}
    return converted_fields(value, "Cast", wanted)


def _cast(was: Value, wanted: T.DataType) -> tuple[Value, list[Column]]:
    if was.schemaless:
        column: Column | None = conversions.by_instance(was.column, wanted)
    else:
        column = conversions.to_type(was.column, was.type, wanted)
    what = f"cannot become {wanted.simpleString()}"
    if column is None:
        raise TransformError(f"{was.name!r} of type {was.type.simpleString()} {what}")
    error = F.when(was.column.isNotNull() & column.isNull(), f"Cast: {was.name!r} {what}")
    return was.becoming(column, wanted), [error]


# TimestampConverter, TimestampRouter: moments in other types, and in topics' names. All in UTC, as Connect.


Target = Literal["string", "unix", "Date", "Time", "Timestamp"]
Precision = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]


def timestamp_converter(
    value: Value, *, target_type: Target, field: str = "", format: str = "", unix_precision: Precision = "milliseconds"
) -> Change:
    """Convert between text, unix time, Date, Time and Timestamp. Null stays null; invalid text fails.

    `format` is a pattern of Java's SimpleDateFormat, where text is read or written.
    """
    per_second, kind = conversions.PER_SECOND[unix_precision], conversions.TARGETS[target_type]
    message = f"TimestampConverter: {repr(field) if field else 'the value'} is no time"

    def convert(one: Value) -> tuple[Value, list[Column]]:
        moment = conversions.moment_of(one.seen, format, per_second)
        column = conversions.moment_as(moment, target_type, format, per_second)
        made = one.becoming(column, kind, TIME if target_type == "Time" else None)
        return made, [F.when(one.column.isNotNull() & moment.isNull(), message)]

    if not field:
        return converted_whole(value, convert)
    return converted_fields(value, "TimestampConverter", {field: convert})


def check_timestamp_converter(options: Any) -> str | None:
    """Return what is wrong with TimestampConverter's options."""
    if options.target_type == "string" and not options.format.strip():
        return "a format is needed to write text"
    conversions.tokens(options.format)
    return None


def timestamp_router(
    value: Value, *, topic_format: str = "${topic}-${timestamp}", timestamp_format: str = "yyyyMMdd"
) -> Change:
    """Name the topic after the record's time. A record without one fails."""
    moment = conversions.formatted(F.unix_millis("timestamp"), timestamp_format)
    named = F.replace(F.lit(topic_format), F.lit("${topic}"), F.col("topic"))
    named = F.replace(named, F.lit("${timestamp}"), moment)
    error = F.when(F.col("timestamp").isNull(), "TimestampRouter: the record has no timestamp")
    return Change(columns={"topic": Value(column=named, type=T.StringType())}, errors=[error])


# Topics and records: RegexRouter, Filter


def _java_pattern(pattern: str) -> str:
    """Reject invalid patterns, as far as Python's and Java's syntax agree."""
    try:
        re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))
    except re.error as error:
        if not re.search(r"\\[pPQEhHRzZXG]|[+*?}]\+|&&|\\k<", pattern):  # Java has these, Python has not
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


JavaPattern = Annotated[str, AfterValidator(_java_pattern)]


def matches(column: Column, pattern: str) -> Column:
    """Return whether a pattern matches from the first letter to the last."""
    return column.rlike(rf"\A(?:{pattern})\z")


def regex_router(value: Value, *, regex: JavaPattern, replacement: str) -> Change:
    """Rename the topics that the pattern matches whole: their first match is replaced, which starts at the start."""
    topic = F.col("topic")
    renamed = F.regexp_replace(topic, rf"\A(?:{regex})", replacement)
    column = F.when(matches(topic, regex), renamed).otherwise(topic)
    return Change(columns={"topic": Value(column=column, type=T.StringType())})


def drop(value: Value) -> Change:
    """Drop every record that the transform is applied to."""
    return Change(keep=F.lit(False))


# Headers


def drop_headers(value: Value, *, headers: SomeNames) -> Change:
    """Drop headers by name, each as often as it is there."""
    return Change(columns=_headers(F.filter(F.col("headers"), lambda header: ~header["key"].isin(headers))))


def insert_header(value: Value, *, header: Name, value_literal: Text) -> Change:
    """Add a header after those there are. Its value is what Connect reads as a literal: 1.50 is a number."""
    text = conversions.header_text(value_literal)
    return Change(columns=_headers(_and_headers((header, F.lit(text).cast("binary")))))


def header_from(value: Value, *, fields: SomeNames, headers: SomeNames, operation: Literal["move", "copy"]) -> Change:
    """Copy or move fields into headers, as text (what Connect's SimpleHeaderConverter writes)."""
    got = _named(value, fields, "HeaderFrom", "there is no field {}; there are {}")
    columns: dict[str, Value] = {}
    if operation == "move" and value.schemaless:
        columns[value.name] = values.of_map(value, values.without(value, fields))
    elif operation == "move":
        left = [one for one in values.fields(value, "HeaderFrom") if one.name not in fields]
        columns[value.name] = values.rebuilt(value, left)
    pairs = [(header, _header(got[name].seen)) for name, header in zip(fields, headers, strict=True)]
    added = F.when(value.column.isNotNull(), _and_headers(*pairs)).otherwise(F.col("headers"))
    return Change(columns={**columns, **_headers(added)}, errors=only_objects(value, "HeaderFrom", nulls=False))


def check_header_from(options: Any) -> str | None:
    """Return what is wrong with HeaderFrom's options."""
    fields, headers = len(options.fields), len(options.headers)
    return None if fields == headers else f"{fields} fields cannot become {headers} headers"


def _header(value: Value) -> Column:
    if value.schemaless:
        return F.try_variant_get(value.column, "$", "string").cast("binary")
    text = conversions.to_text(value.column, value.type)
    if text is None:
        if not isinstance(value.type, T.StructType | T.ArrayType | T.MapType):
            raise TransformError(f"{value.type.simpleString()} cannot be a header")
        text = F.to_json(value.column, {"ignoreNullFields": "false"})
    return text.cast("binary")


def _and_headers(*pairs: tuple[str, Column]) -> Column:
    none = F.array().cast(frames.HEADERS_TYPE)
    added = F.array(*(F.struct(F.lit(name).alias("key"), value.alias("value")) for name, value in pairs))
    return F.concat(F.coalesce(F.col("headers"), none), added)


def _headers(column: Column) -> dict[str, Value]:
    return {"headers": Value(column=column.cast(frames.HEADERS_TYPE), type=frames.HEADERS_TYPE)}


# Predicates


def topic_name_matches(*, pattern: JavaPattern) -> Column:
    """Return whether the topic's name matches from start to end."""
    return F.coalesce(matches(F.col("topic"), pattern), F.lit(False))


def has_header_key(*, name: Name) -> Column:
    """Return whether there is a header of that name."""
    names = F.transform(F.col("headers"), lambda header: header["key"])
    return F.coalesce(F.array_contains(names, name), F.lit(False))


def record_is_tombstone() -> Column:
    """Return whether the value is null."""
    return F.col("value").isNull()


TRANSFORMS: Final[Mapping[str, Definition]] = {
    "InsertField": Definition(insert_field, forms=True, defaults=True, check=check_insert_field),
    "ReplaceField": Definition(replace_field, forms=True, defaults=True),
    "MaskField": Definition(mask_field, forms=True, defaults=True),
    "ValueToKey": Definition(value_to_key, defaults=True),
    "HoistField": Definition(hoist_field, forms=True),
    "ExtractField": Definition(extract_field, forms=True, defaults=True),
    "SetSchemaMetadata": Definition(set_schema_metadata, forms=True, defaults=True),
    "TimestampRouter": Definition(timestamp_router),
    "RegexRouter": Definition(regex_router),
    "Filter": Definition(drop),
    "Cast": Definition(cast, forms=True, defaults=True),
    "Flatten": Definition(flatten, forms=True, defaults=True),
    "TimestampConverter": Definition(timestamp_converter, forms=True, defaults=True, check=check_timestamp_converter),
    "DropHeaders": Definition(drop_headers),
    "InsertHeader": Definition(insert_header),
    "HeaderFrom": Definition(header_from, forms=True, defaults=True, check=check_header_from),
}
PREDICATES: Final[Mapping[str, Definition]] = {
    "TopicNameMatches": Definition(topic_name_matches),
    "HasHeaderKey": Definition(has_header_key),
    "RecordIsTombstone": Definition(record_is_tombstone),
}
