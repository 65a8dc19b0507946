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
from decimal import Decimal
from functools import partial
from typing import Final, Literal

from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from typing_extensions import override

from kvorum.pipelines.faults import as_texts
from kvorum.pipelines.formats import schemas
from kvorum.pipelines.formats.base import EXACT_TIMES, Coded, Format, FormatError, by_rows
from kvorum.pipelines.formats.json_columns import ColumnReader
from kvorum.pipelines.formats.json_rows import Reader, as_text, checked

MAY_BE_INEXACT: Final = r"\d[eE]|[\d.]{18,}"
"""Numbers with an exponent or many digits; also some text, which costs time only."""
FINER: Final = " has microseconds, Connect's type has milliseconds; TimestampConverter or dialect: plain keep them"


class JsonFormat(Format):
    """JSON text in UTF-8."""

    schema_: schemas.Schema | None = Option(default=None, alias="schema")
    envelope: bool = Option(default=False, alias="schemas.enable")
    dialect: Literal["plain", "connect"] | None = None
    nulls: Literal["keep", "drop"] = "keep"
    decimals: Literal["BASE64", "NUMERIC"] = Option(default="BASE64", alias="decimal.format")
    defaults: bool = Option(default=True, alias="replace.null.with.default")
    """Whether null is read as the default of its field."""
    cache: int | None = Option(default=None, alias="schemas.cache.size")
    """Connect's; without effect."""
    options: dict[str, str | int | bool] = Option(default_factory=dict)
    """Spark's own for to_json."""

    @property
    def connect(self) -> bool:
        """Return whether times and decimals are Connect's."""
        return self.dialect == "connect" or (self.dialect is None and self.envelope)

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        if self.options:
            raise FormatError("json: options are those of Spark's to_json; a source's format has none")
        if self.schema_ is None:
            return self._read_any(column)
        kind, metadata = schemas.parsed(self.schema_)
        reader = Reader(
            kind=kind,
            schema=None if isinstance(self.schema_, str) else self.schema_,
            connect=self.connect,
            envelope=self.envelope,
            zone=str(spark.conf.get("spark.sql.session.timeZone")),
            defaults=self.defaults,
        )
        reader.function()  # a type that has no JSON is an error before anything is started
        coded = by_rows(ColumnReader(reader).decoded, as_text(kind), column, "json")
        return Coded(converted(coded.column, kind, of_text), coded.error, metadata)

    def _read_any(self, column: Column) -> Coded:
        """Return a VARIANT. Python checks the texts that have numbers a VARIANT may not hold, and those that fail."""
        text = F.when(F.is_valid_utf8(column.cast("string")), F.regexp_replace(column.cast("string"), "^\ufeff", ""))
        # Spark ignores what follows a value: it is read as an array whose last item no text contains.
        last = uuid.uuid4().hex
        boxed = F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{last}"]')))
        parsed = F.try_variant_get(boxed, "$[0]", "variant")
        fits = F.coalesce(F.try_variant_get(boxed, "$[1]", "string") == last, F.lit(False))
        if self.envelope:
            keys = F.json_object_keys(text)
            both = F.array_size(F.array_intersect(keys, F.array(F.lit("schema"), F.lit("payload")))) == 2
            fits = fits & F.coalesce(both & (F.array_size(keys) == 2), F.lit(False))
            parsed = F.try_variant_get(parsed, "$.payload", "variant")
        doubtful = column.isNotNull() & (~fits | text.rlike(MAY_BE_INEXACT))
        check = by_rows(partial(checked, self.envelope), T.BooleanType(), F.when(doubtful, column), "json")
        assert check.error is not None
        error = F.coalesce(check.error, F.when(column.isNotNull() & ~fits, "json: not read as a VARIANT"))
        return Coded(F.when(error.isNull() & ~F.is_variant_null(parsed), parsed), error)

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        kind, given = field.dataType, column
        if self.connect:
            column = converted(column, kind, lambda inner: to_wire(inner, base64=self.decimals == "BASE64"))
        settings = EXACT_TIMES | {"ignoreNullFields": str(self.nulls == "drop").lower()} | as_texts(self.options)
        if isinstance(kind, T.StructType | T.MapType | T.ArrayType | T.VariantType):
            text = F.to_json(column, settings)
        else:
            inside = F.to_json(F.struct(column.alias("v")), settings)
            text = F.when(column.isNotNull(), F.substr(inside, F.lit(6), F.length(inside) - 6))
        if self.envelope:
            schema = json.dumps(schemas.to_connect(kind, field.metadata or {}), separators=(",", ":"))
            text = F.concat(F.lit(f'{{"schema":{schema},"payload":'), text, F.lit("}"))
        error = finer_than_milliseconds(given, kind) if self.connect else None
        return Coded(text.cast("binary") if error is None else F.when(error.isNull(), text.cast("binary")), error)


Convert = Callable[[Column], Column]
Leaf = Callable[[T.DataType], Convert | None]
"""The conversion of a type without parts; None: it stays."""


def converted(column: Column, kind: T.DataType, leaf: Leaf) -> Column:
    """Return a column with its leaves converted."""
    convert = conversion(kind, leaf)
    return column if convert is None else convert(column)


def conversion(kind: T.DataType, leaf: Leaf) -> Convert | None:
    """Return the conversion of a type's leaves; None: all stay."""
    match kind:
        case T.StructType():
            inner = [(one, conversion(one.dataType, leaf)) for one in kind.fields]

            def convert(column: Column) -> Column:
                parts = ((one, column.getField(one.name), each) for one, each in inner)
                made = ((one, part if each is None else each(part)) for one, part, each in parts)
                named = (part.alias(one.name, metadata=one.metadata or {}) for one, part in made)
                return F.when(column.isNotNull(), F.struct(*named))

            return None if all(each is None for _, each in inner) else convert
        case T.ArrayType():
            item = conversion(kind.elementType, leaf)
            return None if item is None else lambda column: F.transform(column, item)
        case T.MapType():
            value = conversion(kind.valueType, leaf)
            return None if value is None else lambda column: F.transform_values(column, lambda _, one: value(one))
        case _:
            return leaf(kind)


def of_text(kind: T.DataType) -> Convert | None:
    """Return the conversion of what json_rows.as_text returns for a type."""
    if isinstance(kind, T.VariantType):
        return F.try_parse_json
    return None


# Connect's own numbers for times and decimals


def to_wire(kind: T.DataType, *, base64: bool) -> Convert | None:
    """Return the conversion of a time to milliseconds, of a date to days, of a decimal to base64."""
    match kind:
        case T.TimestampType():
            return F.unix_millis
        case T.TimestampNTZType():
            return lambda column: F.unix_millis(column.cast("timestamp"))
        case T.DateType():
            return F.unix_date
        case T.TimeType():
            return lambda column: F.time_to_millis(column).cast("int")
        case T.DecimalType() if base64:
            return decimal_base64
        case _:
            return None


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
            messages = F.transform(items, lambda one: finer_than_milliseconds(one, item, f"{path}[]"))  # type: ignore
            return F.get(F.filter(messages, lambda one: one.isNotNull()), F.lit(0))
        case T.TimestampType() | T.TimestampNTZType():
            micros = F.unix_micros(column.cast("timestamp"))
        case T.TimeType():
            micros = F.time_to_micros(column)
        case _:
            return None
    message = F.concat(F.lit(f"json: field {path}: "), column.cast("string"), F.lit(FINER))
    return F.when(micros % 1000 != 0, message)
