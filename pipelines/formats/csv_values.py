"""CSV: Spark splits a line, and each text becomes its column's type exactly, or fails with the field's name.

Spark's own conversion rounds decimals to the column's scale and drops the time after a date.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from typing_extensions import override

from kvorum.pipelines.faults import SHOWN_MAX, as_texts
from kvorum.pipelines.formats import schemas
from kvorum.pipelines.formats.base import EXACT_TIMES, Coded, Format, FormatError

CORRUPT: Final = "_corrupt_record"
NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
NOT_FINITE: Final = r"^[+-]?(NaN|Inf|Infinity)$"
FINER: Final = r"\.\d{6}0*[1-9]"
"""Of a time: digits behind microseconds."""


class CsvFormat(Format):
    """A line of values between delimiters. Lines of too few or too many values fail, and values of another type."""

    schema_: schemas.Columns | None = Option(default=None, alias="schema")
    delimiter: str = ","
    options: dict[str, str | int | bool] = Option(default_factory=dict)
    """Spark's own, such as sep, quote, nullValue."""

    def spark_options(self) -> dict[str, str]:
        """Return Spark's options."""
        return {"sep": self.delimiter, **as_texts(self.options)}

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        if self.schema_ is None:
            raise FormatError("format csv needs a schema to read")
        schema = schemas.fields_of(schemas.parsed(self.schema_)[0], "csv")
        text, given = column.cast("string"), self.spark_options()
        settings = {**given, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        coded = values(F.from_csv(text, texts(schema).simpleString(), settings), schema, given, text)
        is_text = F.is_valid_utf8(text)
        error = F.when(is_text, coded.error).when(~is_text, "csv: the bytes are not UTF-8")
        return Coded(F.when(error.isNull() & column.isNotNull(), coded.column), error)

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        if not isinstance(field.dataType, T.StructType):
            raise FormatError(f"format csv takes fields, not {field.dataType.simpleString()}")
        return Coded(F.to_csv(column, EXACT_TIMES | self.spark_options()).cast("binary"))


def texts(schema: T.StructType) -> T.StructType:
    """Return the schema to split with: each column as text, and the line that could not be split."""
    return T.StructType([T.StructField(name, T.StringType()) for name in (*schema.names, CORRUPT)])


def values(line: Column, schema: T.StructType, options: Mapping[str, str], text: Column) -> Coded:
    """Return the typed columns of a split line as a struct; `text` is the whole line. Raises FormatError."""
    is_empty = (text == "") & F.lit(len(schema.names) > 1)
    count = f"csv: not a line of {len(schema.names)} values: {', '.join(schema.names)}"[:200]
    columns = list[Column]()
    errors = [
        F.when(_unclosed(text, options), "csv: a quoted value has no closing quote"),
        F.when(line.isNull() | line.getField(CORRUPT).isNotNull() | is_empty, count),
    ]
    for field in schema.fields:
        given = line.getField(field.name)
        value = _typed(given, field.dataType, options)
        columns.append(value.alias(field.name))
        shown = F.substring(given, 1, SHOWN_MAX)
        what = F.concat(F.lit(f"csv: field {field.name}: "), shown, F.lit(f" is not {field.dataType.simpleString()}"))
        errors.append(F.when(given.isNotNull() & value.isNull(), what))
    error = F.coalesce(*errors)
    return Coded(F.when(error.isNull(), F.struct(*columns)), error)


def _unclosed(text: Column, options: Mapping[str, str]) -> Column:
    """Return whether a line has an odd number of quotes, one of them at the beginning of a value."""
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    if len(quote) != 1:
        return F.lit(False)
    plain = text if len(escape) != 1 or escape == quote else F.replace(text, F.lit(escape + quote), F.lit(""))
    count = F.length(plain) - F.length(F.replace(plain, F.lit(quote), F.lit("")))
    starts = F.startswith(plain, F.lit(quote)) | F.contains(plain, F.lit(options.get("sep", ",") + quote))
    return (count % 2 == 1) & starts


def _typed(text: Column, kind: T.DataType, options: Mapping[str, str]) -> Column:
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
        case T.DateType() if "dateFormat" in options:
            return F.try_to_date(text, options["dateFormat"])
        case T.TimestampType() if "timestampFormat" in options:
            return F.try_to_timestamp(text, F.lit(options["timestampFormat"]))
        case T.DateType():
            return F.when(text.rlike(r"^\s*\d{4,}-\d\d?-\d\d?\s*$"), text.try_cast(kind))
        case T.TimestampType() | T.TimestampNTZType():
            return F.when(~text.rlike(FINER), text.try_cast(kind))
        case _:
            raise FormatError(f"csv: {kind.simpleString()} is not read from CSV: give the field another type")
