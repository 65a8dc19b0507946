"""JSON: with a schema or without, with Connect's envelope or without.

With a schema, text becomes its struct: fields that it does not name are left out, those that are missing are null, and
what its type does not hold exactly fails. A schema in Connect's form has required fields and defaults. Without a
schema, text becomes a VARIANT, which holds whatever comes.

`dialect: connect` writes and reads what JSON has no types for as Connect's JsonConverter does: Timestamp, Time and Date
as numbers, Decimal as base64 (or a number, decimal.format NUMERIC). Bytes are base64 in either. `schemas.enable` is
Connect's envelope, {"schema": ..., "payload": ...}, and implies that dialect.
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final, Literal

from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines.formats import modules, schemas
from kvorum.pipelines.formats.base import EXACT_TIMES, Coded, FormatError, FormatOptions, Typed
from kvorum.pipelines.formats.json_columns import ColumnReader
from kvorum.pipelines.formats.json_rows import Reader, as_text, checked

MAY_BE_INEXACT: Final = r"\d[eE]|[\d.]{18,}"
"""Numbers with an exponent or many digits; also some text, which costs time only."""
Leaf = Callable[[Column, T.DataType, T.DataType], Column]


class JsonOptions(FormatOptions):
    """See the module; `options` are Spark's own for from_json and to_json."""

    schema_: schemas.Schema | None = Option(default=None, alias="schema")
    envelope: bool = Option(default=False, alias="schemas.enable")
    dialect: Literal["plain", "connect"] | None = None
    nulls: Literal["keep", "drop"] = "keep"
    decimals: Literal["BASE64", "NUMERIC"] = Option(default="BASE64", alias="decimal.format")
    defaults: bool = Option(default=True, alias="replace.null.with.default")
    """Whether null is read as the default of its field."""
    cache: int | None = Option(default=None, alias="schemas.cache.size")
    """Connect's; nothing to do here."""
    options: dict[str, str | int | bool] = Option(default_factory=dict)

    @property
    def connect(self) -> bool:
        """Return whether times and decimals are Connect's."""
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
        if self.options.options:
            raise FormatError("json: options are those of Spark's to_json; a source's format has none")
        if self.options.schema_ is None:
            return self._read_any(column)
        kind, metadata = schemas.parsed(self.options.schema_)
        reader = Reader(
            kind=kind,
            schema=schemas.connect_form(self.options.schema_),
            connect=self.options.connect,
            envelope=self.options.envelope,
            zone=str(spark.conf.get("spark.sql.session.timeZone")),
            defaults=self.options.defaults,
        )
        reader.function()  # a type that has no JSON is an error before anything is started
        text = as_text(kind)
        coded = modules.by_rows(ColumnReader(reader).decoded, text, column, "json")
        value = converted(coded.column, text, kind, lambda one, _text, _kind: F.try_parse_json(one))
        return Coded(column=value, wrong=coded.wrong, message=coded.message, metadata=metadata)

    def _read_any(self, column: Column) -> Coded:
        """Return a VARIANT. Python checks the texts that have numbers a VARIANT may not hold, and those that fail."""
        text = F.when(F.is_valid_utf8(column.cast("string")), F.regexp_replace(column.cast("string"), "^\ufeff", ""))
        # Spark ignores what follows a value: it is read as an array whose last item no text contains.
        last = uuid.uuid4().hex
        boxed = F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{last}"]')))
        parsed = F.try_variant_get(boxed, "$[0]", "variant")
        fits = F.coalesce(F.try_variant_get(boxed, "$[1]", "string") == last, F.lit(False))
        if self.options.envelope:
            keys = F.json_object_keys(text)
            both = F.array_size(F.array_intersect(keys, F.array(F.lit("schema"), F.lit("payload")))) == 2
            fits = fits & F.coalesce(both & (F.array_size(keys) == 2), F.lit(False))
            parsed = F.try_variant_get(parsed, "$.payload", "variant")
        doubtful = column.isNotNull() & (~fits | text.rlike(MAY_BE_INEXACT))
        check = modules.by_rows(
            partial(checked, self.options.envelope), T.BooleanType(), F.when(doubtful, column), "json"
        )
        assert check.wrong is not None
        wrong = column.isNotNull() & (~fits | F.coalesce(check.wrong, F.lit(False)))
        got = F.when(~wrong & ~F.is_variant_null(parsed), parsed)
        assert isinstance(check.message, Column)
        return Coded(column=got, wrong=wrong, message=F.coalesce(check.message, F.lit("json: not read as a VARIANT")))

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a value's JSON."""
        column, kind = value.column, value.type
        if self.options.connect and not isinstance(kind, T.VariantType):
            wire = wire_type(kind, self.options)
            column, kind = converted(column, kind, wire, to_wire), wire
        nulls = {"ignoreNullFields": str(self.options.nulls == "drop").lower()}
        settings = EXACT_TIMES | nulls | self.options.spark_options()
        if isinstance(kind, T.StructType | T.MapType | T.ArrayType | T.VariantType):
            text = F.to_json(column, settings)
        else:
            inside = F.to_json(F.struct(column.alias("v")), settings)
            text = F.when(column.isNotNull(), F.substr(inside, F.lit(6), F.length(inside) - 6))
        if self.options.envelope:
            schema = json.dumps(schemas.to_connect(value.type, value.metadata), separators=(",", ":"))
            text = F.concat(F.lit(f'{{"schema":{schema},"payload":'), text, F.lit("}"))
        finer = finer_than_milliseconds(value.column, value.type) if self.options.connect else None
        if finer is None:
            return Coded(column=text.cast("binary"))
        return Coded(column=F.when(finer.isNull(), text.cast("binary")), wrong=finer.isNotNull(), message=finer)


# Connect's own numbers for times and decimals


def wire_type(kind: T.DataType, options: JsonOptions) -> T.DataType:
    """Return the type that a type has in Connect's JSON."""
    match kind:
        case T.TimestampType() | T.TimestampNTZType():
            return T.LongType()
        case T.DateType() | T.TimeType():
            return T.IntegerType()
        case T.DecimalType() if options.decimals == "BASE64":
            return T.StringType()
        case T.StructType():
            inner = (
                T.StructField(one.name, wire_type(one.dataType, options), metadata=one.metadata) for one in kind.fields
            )
            return T.StructType(list(inner))
        case T.ArrayType():
            return T.ArrayType(wire_type(kind.elementType, options))
        case T.MapType():
            return T.MapType(kind.keyType, wire_type(kind.valueType, options))
        case _:
            return kind


def converted(column: Column, kind: T.DataType, wanted: T.DataType, leaf: Leaf) -> Column:
    """Return a column of one type in another of the same shape, its leaves converted where they differ."""
    if kind == wanted:
        return column
    match kind, wanted:
        case T.StructType(), T.StructType():
            made = [
                converted(column.getField(one.name), one.dataType, other.dataType, leaf).alias(
                    one.name, metadata=one.metadata or {}
                )
                for one, other in zip(kind.fields, wanted.fields, strict=True)
            ]
            return F.when(column.isNotNull(), F.struct(*made))
        case T.ArrayType(), T.ArrayType():
            return F.transform(column, lambda item: converted(item, kind.elementType, wanted.elementType, leaf))
        case T.MapType(), T.MapType():
            return F.transform_values(column, lambda _, item: converted(item, kind.valueType, wanted.valueType, leaf))
        case _:
            return leaf(column, kind, wanted)


def to_wire(column: Column, kind: T.DataType, wire: T.DataType) -> Column:
    """Return a time as milliseconds, a date as days, a decimal as base64."""
    match kind:
        case T.TimestampType():
            return F.unix_millis(column)
        case T.TimestampNTZType():
            return F.unix_millis(column.cast("timestamp"))
        case T.DateType():
            return F.unix_date(column)
        case T.TimeType():
            return F.time_to_millis(column).cast("int")
        case T.DecimalType():
            return decimal_base64(column)
        case _:
            return column


def decimal_base64(column: Column) -> Column:
    """Return the base64 of a decimal's unscaled number in two's complement, as short as Java's BigInteger writes it."""
    unscaled = F.replace(column.cast("string"), F.lit("."), F.lit("")).cast("decimal(38,0)")
    negative = unscaled < 0
    # The bytes of a negative number are those of -1 - number with all bits inverted. (Spark's minus sign rounds.)
    number = F.when(negative, F.lit(Decimal(-1)) - unscaled).otherwise(unscaled).cast("decimal(38,0)")
    word = F.lit(Decimal(2**64)).cast("decimal(20,0)")
    high = F.call_function("div", number, word)
    rest = (number - high.cast("decimal(19,0)") * word).cast("decimal(20,0)")
    low = F.when(rest >= Decimal(2**63), rest - word).otherwise(rest).cast("long")
    words = [F.when(negative, F.bitwise_not(one)).otherwise(one) for one in (high, low)]
    digits = F.concat(*(F.lpad(F.hex(one), 16, "0") for one in words))
    short = F.regexp_replace(digits, "^(?:00)*(?=[0-7].)", "")
    return F.base64(F.unhex(F.when(negative, F.regexp_replace(digits, "^(?:FF)*(?=[89A-F].)", "")).otherwise(short)))


def finer_than_milliseconds(column: Column, kind: T.DataType, path: str = "") -> Column | None:
    """Return the message for a value with a time that Connect's milliseconds do not hold; None: the type has none."""
    match kind:
        case T.StructType():
            inner = ((one.name, one.dataType, column.getField(one.name)) for one in kind.fields)
            found = [finer_than_milliseconds(each, type_, f"{path}.{name}".lstrip(".")) for name, type_, each in inner]
            there = [one for one in found if one is not None]
            return F.coalesce(*there) if there else None
        case T.ArrayType() | T.MapType():
            item = kind.elementType if isinstance(kind, T.ArrayType) else kind.valueType
            items = column if isinstance(kind, T.ArrayType) else F.map_values(column)
            if finer_than_milliseconds(F.lit(None).cast(item), item) is None:
                return None

            def of_item(one: Column) -> Column:
                message = finer_than_milliseconds(one, item, f"{path}[]")
                assert message is not None
                return message

            return F.get(F.filter(F.transform(items, of_item), lambda one: one.isNotNull()), F.lit(0))
        case T.TimestampType() | T.TimestampNTZType():
            micros = F.unix_micros(column.cast("timestamp"))
            text = column.cast("string")
        case T.TimeType():
            micros, text = F.time_to_micros(column), column.cast("string")
        case _:
            return None
    what = "Connect's type has milliseconds; TimestampConverter or dialect: plain keep them"
    message = F.concat(F.lit(f"json: field {path}: "), text, F.lit(f" has microseconds, {what}"))
    return F.when(micros % 1000 != 0, message)
