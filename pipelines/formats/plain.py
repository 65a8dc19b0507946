"""string, bytes, and the numbers Kafka's own serialisers write: short, integer, long."""

from typing import ClassVar

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from typing_extensions import override

from kvorum.pipelines.formats.base import EXACT_TIMES, Coded, Format, FormatError


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


class StringFormat(Format):
    """Text in UTF-8. What is not text is written as Spark shows it, and what has parts as JSON."""

    @override
    def read(self, column: Column, spark: SparkSession) -> Coded:
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
        return Coded(text.cast("binary"))


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
