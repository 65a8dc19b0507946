"""Protobuf: messages of a descriptor file, by the protobuf package in Python (protobuf_rows).

`protoc --include_imports --descriptor_set_out=orders.desc orders.proto` makes the file. A field without presence that
was not sent has its zero, one with presence is null; enums are their names, unsigned numbers the next wider type.

`engine: spark` uses the module spark-protobuf (org.apache.spark:spark-protobuf_2.13), as with Avro.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from pydantic import Field as Option
from pydantic import ValidationInfo, field_validator
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from kvorum.pipelines.formats import modules, protobuf_rows
from kvorum.pipelines.formats.base import Coded, FormatError, FormatOptions, Typed

NATIVE: Final = "org.apache.spark.sql.protobuf.ProtobufDataToCatalyst"
NATIVE_OPTIONS: Final = {"mode": "PERMISSIVE", "emit.default.values": "true", "upcast.unsigned.ints": "true"}


class ProtobufOptions(FormatOptions):
    """A descriptor file and a message's full name."""

    descriptor: str = Option(alias="descriptor.file")
    message: str
    engine: Literal["auto", "spark", "protobuf"] = "auto"

    @field_validator("descriptor")
    @classmethod
    def _readable(cls, path: str) -> str:
        descriptors_of(path)
        return path

    @field_validator("message")
    @classmethod
    def _there(cls, message: str, info: ValidationInfo) -> str:
        if "descriptor" in info.data:  # otherwise that is what is wrong
            protobuf_rows.spark_type(descriptors_of(info.data["descriptor"]), message)
        return message


def descriptors_of(path: str) -> bytes:
    """Return a descriptor file's bytes. Raises FormatError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """One message a record."""

    options: ProtobufOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return a message's fields as a struct."""
        descriptors = descriptors_of(self.options.descriptor)
        kind = protobuf_rows.spark_type(descriptors, self.options.message)
        if self._native(spark):
            from pyspark.sql.protobuf.functions import from_protobuf

            got = from_protobuf(
                column, self.options.message, binaryDescriptorSet=descriptors, options=dict(NATIVE_OPTIONS)
            )
            wrong = column.isNotNull() & got.isNull()
            return Coded(column=got, wrong=wrong, message="protobuf: no such message")
        decode = partial(protobuf_rows.decoded, descriptors, self.options.message, kind)
        return modules.by_rows(decode, kind, column, "protobuf")

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a struct as a message's bytes; a field that the message does not have is refused."""
        if not isinstance(value.type, StructType):
            raise FormatError(f"format protobuf takes fields, not {value.type.simpleString()}")
        descriptors = descriptors_of(self.options.descriptor)
        there = protobuf_rows.spark_type(descriptors, self.options.message).fieldNames()
        unknown = [name for name in value.type.fieldNames() if name not in there]
        if unknown:
            raise FormatError(f"{self.options.message} has no field {unknown[0]!r}; it has {', '.join(there)}")
        if self._native(spark):
            from pyspark.sql.protobuf.functions import to_protobuf

            made = to_protobuf(value.column, self.options.message, binaryDescriptorSet=descriptors)
            return Coded(column=F.when(value.column.isNotNull(), made))
        encode = partial(protobuf_rows.encoded, descriptors, self.options.message)
        return modules.by_rows(encode, BinaryType(), value.column, "protobuf")

    def _native(self, spark: SparkSession) -> bool:
        is_wanted = self.options.engine == "spark"
        if is_wanted and not modules.has(spark, NATIVE):
            raise FormatError("engine: spark needs the module spark-protobuf (spark.jars.packages)")
        return is_wanted
