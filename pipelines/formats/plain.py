"""string, bytes, and the numbers Kafka's own serialisers write: short, integer, long."""

import codecs
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import pyarrow as pa
from pydantic import AfterValidator
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from typing_extensions import override

from kvorum.pipelines.formats.base import EXACT_TIMES, Coded, Format, FormatError, by_row, by_rows

BIG_ENDIAN: Final = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}


class BytesFormat(Format):
    """Bytes as they are."""

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        return Coded(column)

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        if not isinstance(field.dataType, T.BinaryType | T.StringType):
            raise FormatError(f"format bytes takes bytes or text, not {field.dataType.simpleString()}")
        return Coded(column.cast("binary"))


def known_encoding(name: str) -> str:
    """Return an encoding's name, for a validator of a model. Raises ValueError."""
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise ValueError(f"{name!r} is not an encoding, such as UTF-8 or ISO-8859-1") from error
    return name


class StringFormat(Format):
    """Text. What is not text is written as Spark shows it, and what has parts as JSON."""

    encoding: Annotated[str, AfterValidator(known_encoding)] = "UTF-8"

    @property
    def is_utf8(self) -> bool:
        """Return whether Spark's own text is meant."""
        return codecs.lookup(self.encoding).name == "utf-8"

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        if not self.is_utf8:
            return by_rows(partial(text_decoded, self.encoding), T.StringType(), column, "string")
        text = column.cast("string")
        error = F.when(~F.is_valid_utf8(text), "string: the bytes are not UTF-8")
        return Coded(F.when(error.isNull(), text), error)

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        match field.dataType:
            case T.StructType() | T.ArrayType() | T.MapType():
                text = F.to_json(column, {"ignoreNullFields": "false", **EXACT_TIMES})
            case T.VariantType():
                text = F.try_variant_get(column, "$", "string")
            case _:
                text = column.cast("string")
        if not self.is_utf8:
            return by_rows(partial(text_encoded, self.encoding), T.BinaryType(), text, "string")
        return Coded(text.cast("binary"))


def text_decoded(encoding: str, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return bytes as text of an encoding; without a mark, UTF-16 and UTF-32 are big-endian, as in Java."""
    name = codecs.lookup(encoding).name

    def one(value: bytes) -> str:
        has_mark = value[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff") or value[:2] in (b"\xff\xfe", b"\xfe\xff")
        return value.decode(name if has_mark else BIG_ENDIAN.get(name, name))

    return by_row(data, one, pa.string())


def text_encoded(encoding: str, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return text as bytes of an encoding; UTF-16 and UTF-32 as Java writes them."""
    name = codecs.lookup(encoding).name
    mark, wanted = b"\xfe\xff" if name == "utf-16" else b"", BIG_ENDIAN.get(name, name)
    return by_row(data, lambda value: mark + value.encode(wanted), pa.binary())


class LongFormat(Format):
    """An integer in two's complement, its highest byte first."""

    name: ClassVar[str] = "long"
    kind: ClassVar[T.DataType] = T.LongType()
    size: ClassVar[int] = 8

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
        digits = F.hex(column)
        fill = F.when(F.substring(digits, 1, 1) >= "8", "F").otherwise("0")
        number = F.conv(F.lpad(digits, F.lit(16), fill), 16, -10).try_cast("long").try_cast(self.kind)
        fits = F.length(column) == self.size
        message = F.concat(F.lit(f"{self.name}: {self.size} bytes are needed, not "), F.length(column).cast("string"))
        return Coded(F.when(fits, number), F.when(~fits, message))

    @override
    def write(self, column: Column, field: T.StructField) -> Coded:
        if not isinstance(field.dataType, T.ByteType | T.ShortType | T.IntegerType | T.LongType):
            raise FormatError(f"format {self.name} takes an integer, not {field.dataType.simpleString()}")
        narrow = column.try_cast(self.kind)
        digits = F.lpad(F.hex(narrow.cast("long")), 16, "0")
        error = F.when(column.isNotNull() & narrow.isNull(), f"{self.name}: the number is too large")
        return Coded(F.unhex(F.right(digits, F.lit(2 * self.size))), error)


class IntegerFormat(LongFormat):
    """The same in 4 bytes."""

    name, kind, size = "integer", T.IntegerType(), 4


class ShortFormat(LongFormat):
    """The same in 2 bytes."""

    name, kind, size = "short", T.ShortType(), 2
