"""JSON: with a schema or without, with Connect's envelope or without.

With a schema, text becomes its struct: fields that it does not name are left out, those that are missing are null, and
what is of another type fails. Without, it becomes a VARIANT, which holds whatever comes.

`dialect: connect` writes and reads what JSON has no types for as Connect's JsonConverter does: Timestamp, Time and Date
as numbers, Decimal as base64 (or a number, decimal.format NUMERIC). Bytes are base64 in either. `schemas.enable` is
Connect's envelope, {"schema": ..., "payload": ...}, and implies that dialect.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

from kvorum.pipelines.formats import schemas
from kvorum.pipelines.formats.base import Coded, FormatError, FormatOptions, Typed, text_of
from kvorum.pipelines.formats.plain import CORRUPT

DAY_MS: Final = 86_400_000
UNSCALED_DIGITS_MAX: Final = 18
"""Decimals in base64 go through a long."""
NOT_OF_SCHEMA: Final = "json: not of the schema, or no JSON"
Leaf = Callable[[Column, DataType, DataType], Column]


class JsonOptions(FormatOptions):
    """See the module; `options` are Spark's own for from_json and to_json."""

    schema_: schemas.Schema | None = Option(default=None, alias="schema")
    envelope: bool = Option(default=False, alias="schemas.enable")
    dialect: Literal["plain", "connect"] | None = None
    nulls: Literal["keep", "drop"] = "keep"
    decimals: Literal["BASE64", "NUMERIC"] = Option(default="BASE64", alias="decimal.format")
    cache: int | None = Option(default=None, alias="schemas.cache.size")
    """Connect's; nothing to do here."""
    options: dict[str, str | int | bool] = Option(default_factory=dict)

    @property
    def connect(self) -> bool:
        """Tell whether times and decimals are Connect's."""
        return self.dialect == "connect" or (self.dialect is None and self.envelope)

    def spark_options(self) -> dict[str, str]:
        """Return Spark's options."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.options.items()
        }


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON text in UTF-8."""

    options: JsonOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return what the text says."""
        text = text_of(column)
        if self.options.schema_ is None:
            return self._read_any(text)
        kind, metadata = schemas.parsed(self.options.schema_)
        wire = wire_type(kind, self.options) if self.options.connect else kind
        body = {"payload": wire} if self.options.envelope else {"value": wire}
        inside = isinstance(wire, StructType) and not self.options.envelope
        asked = (
            wire if inside and isinstance(wire, StructType) else StructType([StructField(*one) for one in body.items()])
        )
        # A plain value is read as the only field of an object, since Spark reads objects.
        source = text if inside or self.options.envelope else F.concat(F.lit('{"value":'), text, F.lit("}"))
        settings = {**self.options.spark_options(), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        with_corrupt = StructType([*asked.fields, StructField(CORRUPT, StringType())])
        parsed = F.from_json(source, with_corrupt.json(), settings)
        is_null = F.trim(text) == "null"
        wrong = parsed.isNull() | parsed.getField(CORRUPT).isNotNull()
        if inside:
            got = F.struct(*(parsed.getField(name).alias(name) for name in asked.fieldNames()))
            got, wrong = F.when(~is_null, got), wrong & ~is_null
        else:
            got = parsed.getField(next(iter(body)))
        if self.options.envelope:
            wrong = wrong | ~_is_envelope(text)
        got = converted(got, wire, kind, from_wire) if self.options.connect else got
        wrong = text.isNotNull() & F.coalesce(wrong, F.lit(True))
        return Coded(column=F.when(~wrong, got), wrong=wrong, message=NOT_OF_SCHEMA, metadata=metadata)

    def _read_any(self, text: Column) -> Coded:
        parsed = F.try_parse_json(text)
        wrong = text.isNotNull() & parsed.isNull()
        if self.options.envelope:
            wrong = wrong | (text.isNotNull() & ~F.coalesce(_is_envelope(text), F.lit(False)))
            parsed = F.try_variant_get(parsed, "$.payload", "variant")
        got = F.when(~wrong & ~F.is_variant_null(parsed), parsed)
        return Coded(column=got, wrong=wrong, message="json: no JSON")

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a value's JSON."""
        column, kind = value.column, value.type
        if self.options.connect and not isinstance(kind, VariantType):
            wire = wire_type(kind, self.options)
            column, kind = converted(column, kind, wire, to_wire), wire
        settings = {"ignoreNullFields": str(self.options.nulls == "drop").lower(), **self.options.spark_options()}
        if isinstance(kind, StructType | MapType | ArrayType | VariantType):
            text = F.to_json(column, settings)
        else:
            inside = F.to_json(F.struct(column.alias("v")), settings)
            text = F.when(column.isNotNull(), F.substr(inside, F.lit(6), F.length(inside) - 6))
        if self.options.envelope:
            schema = json.dumps(schemas.to_connect(value.type, value.metadata), separators=(",", ":"))
            text = F.concat(F.lit(f'{{"schema":{schema},"payload":'), text, F.lit("}"))
        return Coded(column=text.cast("binary"))


def _is_envelope(text: Column) -> Column:
    return F.array_size(F.array_intersect(F.json_object_keys(text), F.array(F.lit("schema"), F.lit("payload")))) == 2


# Connect's own numbers for times and decimals


def wire_type(kind: DataType, options: JsonOptions) -> DataType:
    """Return the type that a type has in Connect's JSON."""
    match kind:
        case TimestampType() | TimestampNTZType():
            return LongType()
        case DateType() | TimeType():
            return IntegerType()
        case DecimalType() if options.decimals == "BASE64":
            return StringType()
        case StructType():
            inner = (
                StructField(one.name, wire_type(one.dataType, options), metadata=one.metadata) for one in kind.fields
            )
            return StructType(list(inner))
        case ArrayType():
            return ArrayType(wire_type(kind.elementType, options))
        case MapType():
            return MapType(kind.keyType, wire_type(kind.valueType, options))
        case _:
            return kind


def converted(column: Column, kind: DataType, wanted: DataType, leaf: Leaf) -> Column:
    """Return a column of one type in another of the same shape, its leaves converted where they differ."""
    if kind == wanted:
        return column
    match kind, wanted:
        case StructType(), StructType():
            made = [
                converted(column.getField(one.name), one.dataType, other.dataType, leaf).alias(
                    one.name, metadata=one.metadata or {}
                )
                for one, other in zip(kind.fields, wanted.fields, strict=True)
            ]
            return F.when(column.isNotNull(), F.struct(*made))
        case ArrayType(), ArrayType():
            return F.transform(column, lambda item: converted(item, kind.elementType, wanted.elementType, leaf))
        case MapType(), MapType():
            return F.transform_values(column, lambda _, item: converted(item, kind.valueType, wanted.valueType, leaf))
        case _:
            return leaf(column, kind, wanted)


def to_wire(column: Column, kind: DataType, wire: DataType) -> Column:
    """Return a time as milliseconds, a date as days, a decimal as base64."""
    match kind:
        case TimestampType():
            return F.unix_millis(column)
        case TimestampNTZType():
            return F.unix_millis(column.cast("timestamp"))
        case DateType():
            return F.unix_date(column)
        case TimeType():
            return F.time_to_millis(column).cast("int")
        case DecimalType():
            if kind.precision > UNSCALED_DIGITS_MAX:
                raise FormatError(
                    f"{kind.simpleString()} is written in base64 up to {UNSCALED_DIGITS_MAX} digits only: "
                    "set decimal.format to NUMERIC"
                )
            unscaled = (column * F.lit(10**kind.scale).cast("decimal(19,0)")).cast("long")
            return F.base64(F.unhex(F.lpad(F.hex(unscaled), 16, "0")))
        case _:
            return column


def from_wire(column: Column, wire: DataType, kind: DataType) -> Column:
    """Return what to_wire wrote."""
    match kind:
        case TimestampType():
            return F.timestamp_millis(column)
        case TimestampNTZType():
            return F.timestamp_millis(column).cast("timestamp_ntz")
        case DateType():
            return F.date_from_unix_date(column)
        case TimeType():
            return F.time_from_millis(column.cast("long")).cast(kind)
        case DecimalType():
            digits = F.hex(F.unbase64(column))
            fill = F.when(F.substring(digits, 1, 1) >= "8", "F").otherwise("0")
            # A value of more than 64 bits is null: Connect's Decimal has no limit.
            unscaled = F.when(F.length(digits) <= 16, F.conv(F.lpad(digits, F.lit(16), fill), 16, -10))
            return (unscaled.try_cast("decimal(38,0)") / F.lit(10**kind.scale).cast("decimal(38,0)")).try_cast(kind)
        case _:
            return column
