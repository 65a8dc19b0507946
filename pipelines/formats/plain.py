"""string, bytes, csv, and the numbers Kafka's own serialisers write: short, integer, long."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from pydantic import AfterValidator
from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines.formats import csv_values, modules, schemas
from kvorum.pipelines.formats.base import EXACT_TIMES, Coded, FormatError, FormatOptions, Typed
from kvorum.pipelines.formats.csv_values import CORRUPT
from kvorum.pipelines.formats.rows import text_decoded, text_encoded

WIDTHS: Final[Mapping[str, tuple[T.DataType, int]]] = {
    "short": (T.ShortType(), 2),
    "integer": (T.IntegerType(), 4),
    "long": (T.LongType(), 8),
}
"""{format: (type, bytes)}."""


@dataclass(frozen=True, slots=True)
class BytesFormat:
    """Bytes as they are."""

    options: FormatOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return the bytes."""
        return Coded(column=column)

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return bytes, or a text's bytes."""
        if not isinstance(value.type, T.BinaryType | T.StringType):
            raise FormatError(f"format bytes takes bytes or text, not {value.type.simpleString()}")
        return Coded(column=value.column.cast("binary"))


def known_encoding(name: str) -> str:
    """Return an encoding's name, for a validator of a model. Raises ValueError."""
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise ValueError(f"{name!r} is not an encoding, such as UTF-8 or ISO-8859-1") from error
    return name


class StringOptions(FormatOptions):
    """How text is written."""

    encoding: Annotated[str, AfterValidator(known_encoding)] = "UTF-8"

    @property
    def is_utf8(self) -> bool:
        """Return whether Spark's own text is meant."""
        return codecs.lookup(self.encoding).name == "utf-8"


@dataclass(frozen=True, slots=True)
class StringFormat:
    """Text. What is not text is written as Spark shows it, and what has parts as JSON."""

    options: StringOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return text; bytes that are not text fail."""
        if not self.options.is_utf8:
            return modules.by_rows(partial(text_decoded, self.options.encoding), T.StringType(), column, "string")
        text = column.cast("string")
        wrong = F.coalesce(~F.is_valid_utf8(text), F.lit(False))
        return Coded(column=F.when(~wrong, text), wrong=wrong, message="string: the bytes are not UTF-8")

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return the text's bytes."""
        match value.type:
            case T.StructType() | T.ArrayType() | T.MapType():
                text = F.to_json(value.column, {"ignoreNullFields": "false", **EXACT_TIMES})
            case T.VariantType():
                text = F.try_variant_get(value.column, "$", "string")
            case _:
                text = value.column.cast("string")
        if not self.options.is_utf8:
            return modules.by_rows(partial(text_encoded, self.options.encoding), T.BinaryType(), text, "string")
        return Coded(column=text.cast("binary"))


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """An integer in two's complement, its highest byte first."""

    name: str
    options: FormatOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return the number; bytes of another length fail."""
        kind, size = WIDTHS[self.name]
        digits = F.hex(column)
        fill = F.when(F.substring(digits, 1, 1) >= "8", "F").otherwise("0")
        number = F.conv(F.lpad(digits, F.lit(16), fill), 16, -10).try_cast("long").try_cast(kind)
        fits = F.length(column) == size
        message = F.concat(F.lit(f"{self.name}: {size} bytes are needed, not "), F.length(column).cast("string"))
        return Coded(column=F.when(fits, number), wrong=column.isNotNull() & ~fits, message=message)

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return the number's bytes; one that does not fit fails."""
        if not isinstance(value.type, T.ByteType | T.ShortType | T.IntegerType | T.LongType):
            raise FormatError(f"format {self.name} takes an integer, not {value.type.simpleString()}")
        kind, size = WIDTHS[self.name]
        narrow = value.column.try_cast(kind)
        digits = F.lpad(F.hex(narrow.cast("long")), 16, "0")
        wrong = value.column.isNotNull() & narrow.isNull()
        return Coded(
            column=F.unhex(F.right(digits, F.lit(2 * size))),
            wrong=wrong,
            message=f"{self.name}: the number is too large",
        )


class CsvOptions(FormatOptions):
    """A line's columns, and how Spark reads and writes them (`options`: its own, such as sep, quote, nullValue)."""

    schema_: schemas.Columns | None = Option(default=None, alias="schema")
    delimiter: str = ","
    options: dict[str, str | int | bool] = Option(default_factory=dict)

    def spark_options(self) -> dict[str, str]:
        """Return Spark's options."""
        given = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.options.items()
        }
        return {"sep": self.delimiter, **given}


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """A line of values between delimiters. Lines of too few or too many values fail, and values of another type."""

    options: CsvOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return the line's columns as a struct."""
        if self.options.schema_ is None:
            raise FormatError("format csv needs a schema to read")
        schema = schemas.fields_of(schemas.parsed(self.options.schema_)[0], "csv")
        text, given = column.cast("string"), self.options.spark_options()
        settings = {**given, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        line = F.from_csv(text, csv_values.texts(schema).simpleString(), settings)
        is_text = F.is_valid_utf8(text)
        coded = csv_values.values(line, schema, given, text)
        assert isinstance(coded.message, Column)
        message = F.when(is_text, coded.message).when(~is_text, "csv: the bytes are not UTF-8")
        return Coded(
            column=F.when(message.isNull() & column.isNotNull(), coded.column),
            wrong=message.isNotNull(),
            message=message,
        )

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a struct's fields as a line."""
        if not isinstance(value.type, T.StructType):
            raise FormatError(f"format csv takes fields, not {value.type.simpleString()}")
        return Coded(column=F.to_csv(value.column, EXACT_TIMES | self.options.spark_options()).cast("binary"))
