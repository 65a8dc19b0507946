"""Values of CSV: Spark splits a line, and each text becomes its column's type exactly, or fails with the field's name.

Spark's own conversion rounds decimals to the column's scale and drops the time after a date.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines.faults import SHOWN_MAX
from kvorum.pipelines.formats.base import Coded, FormatError

CORRUPT: Final = "_corrupt_record"
NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
NOT_FINITE: Final = r"^[+-]?(NaN|Inf|Infinity)$"
FINER: Final = r"\.\d{6}0*[1-9]"
"""Of a time: digits behind microseconds."""
Options = Mapping[str, str]


def texts(schema: T.StructType) -> T.StructType:
    """Return the schema to split with: each column as text, and the line that could not be split."""
    return T.StructType(
        [*(T.StructField(name, T.StringType()) for name in schema.names), T.StructField(CORRUPT, T.StringType())]
    )


def values(line: Column, schema: T.StructType, options: Options, text: Column) -> Coded:
    """Return the typed columns of a split line as a struct; `text` is the whole line. Raises FormatError."""
    corrupt = line.getField(CORRUPT)
    count = f"csv: not a line of {len(schema.names)} values: {', '.join(schema.names)}"[:200]
    columns = list[Column]()
    messages = [
        F.when(_unclosed(text, options), "csv: a quoted value has no closing quote"),
        F.when(line.isNull() | corrupt.isNotNull() | _empty(text, schema), count),
    ]
    for field in schema.fields:
        given = line.getField(field.name)
        value = _typed(given, field.dataType, options)
        columns.append(value.alias(field.name))
        shown = F.substring(given, 1, SHOWN_MAX)
        what = F.concat(F.lit(f"csv: field {field.name}: "), shown, F.lit(f" is not {field.dataType.simpleString()}"))
        messages.append(F.when(given.isNotNull() & value.isNull(), what))
    message = F.coalesce(*messages)
    return Coded(column=F.when(message.isNull(), F.struct(*columns)), wrong=message.isNotNull(), message=message)


def _empty(text: Column, schema: T.StructType) -> Column:
    """Return whether a line has no value although its schema has several."""
    return (text == "") & F.lit(len(schema.names) > 1)


def _unclosed(text: Column, options: Options) -> Column:
    """Return whether a line has an odd number of quotes, one of them at the beginning of a value."""
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    if len(quote) != 1:
        return F.lit(False)
    plain = text if len(escape) != 1 or escape == quote else F.replace(text, F.lit(escape + quote), F.lit(""))
    count = F.length(plain) - F.length(F.replace(plain, F.lit(quote), F.lit("")))
    starts = F.startswith(plain, F.lit(quote)) | F.contains(plain, F.lit(options.get("sep", ",") + quote))
    return (count % 2 == 1) & starts


def _typed(text: Column, kind: T.DataType, options: Options) -> Column:
    """Return a text as a type; null where the type does not hold it exactly."""
    match kind:
        case T.StringType():
            return text
        case T.BinaryType():
            return text.cast("binary")
        case T.BooleanType():
            return F.when(F.lower(text) == "true", True).when(F.lower(text) == "false", False)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return F.when(text.rlike(r"^\s*[+-]?\d+\s*$"), text.try_cast(kind))
        case T.DoubleType() | T.FloatType():
            number = text.try_cast(kind)
            infinite = F.abs(number) == F.lit(float("inf")).cast(kind)
            return F.when(text.rlike(NOT_FINITE) | (text.rlike(NUMBER) & ~infinite), number)
        case T.DecimalType():
            exact = rf"^\s*[+-]?\d*\.?\d{{0,{kind.scale}}}0*\s*$" if kind.scale else r"^\s*[+-]?\d+(\.0*)?\s*$"
            return F.when(text.rlike(exact), text.try_cast(kind))
        case T.DateType():
            return _formatted(text, kind, options.get("dateFormat"), r"^\s*\d{4,}-\d\d?-\d\d?\s*$", F.try_to_date)
        case T.TimestampType():
            return _formatted(text, kind, options.get("timestampFormat"), "", F.try_to_timestamp)
        case T.TimestampNTZType():
            return _formatted(text, kind, None, "", F.try_to_timestamp)
        case _:
            raise FormatError(f"csv: {kind.simpleString()} is not read from CSV: give the field another type")


def _formatted(text: Column, kind: T.DataType, pattern: str | None, plain: str, parse: Callable[..., Column]) -> Column:
    if pattern is not None:
        return parse(text, F.lit(pattern))
    return F.when(text.rlike(plain) & ~text.rlike(FINER), text.try_cast(kind))
