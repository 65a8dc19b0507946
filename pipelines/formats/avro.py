"""Avro: plain, or behind Confluent's five bytes.

`schema` is the one that is wanted. What was written with an older one is read with that (`writer.schema`; behind the
five bytes: `schemas`, by their id) and comes out in the wanted one by Avro's rules: fields added need defaults.

Rows are read and written by fastavro in Python (avro_rows). `engine: spark` uses from_avro and to_avro of the module
spark-avro, which pip does not install (spark.jars.packages: org.apache.spark:spark-avro_2.13): faster, but they accept
bytes behind a value and do not name the field that is wrong.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, model_validator
from pydantic import Field as Option
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from kvorum.pipelines.formats import avro_rows, avro_schemas, modules, schemas
from kvorum.pipelines.formats.base import Coded, FormatError, FormatOptions, Typed

NATIVE: Final = "org.apache.spark.sql.avro.AvroDataToCatalyst"
MAGIC: Final = "00"
PREFIX_BYTES: Final = 5

Schema = Annotated[str | dict[str, Any] | list[Any], AfterValidator(avro_schemas.checked)]


class AvroOptions(FormatOptions):
    """Schemas are Avro's JSON, as text, as a mapping, or as `file:PATH`."""

    schema_: Schema | None = Option(default=None, alias="schema")
    writer: Schema | None = Option(default=None, alias="writer.schema")
    wire: Literal["plain", "confluent"] = "plain"
    schemas: dict[int, Schema] = Option(default_factory=dict)
    """Of records behind the five bytes, by id."""
    id: int | None = Option(default=None, alias="schema.id")
    """What is written into the five bytes."""
    engine: Literal["auto", "spark", "fastavro"] = "auto"

    @model_validator(mode="after")
    def _wire(self) -> Self:
        if self.wire == "plain" and (self.schemas or self.id is not None):
            raise ValueError("schemas and schema.id require wire: confluent")
        return self


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """One datum a record, no container file."""

    options: AvroOptions

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return what a datum says."""
        wanted = self.options.schema_ if self.options.schema_ is not None else self.options.writer
        if wanted is None:
            raise FormatError("format avro needs a schema to read")
        reader = avro_schemas.parsed(wanted)
        if self.options.wire == "plain":
            writer = avro_schemas.parsed(self.options.writer) if self.options.writer is not None else reader
            return self._decoded(column, {None: writer}, reader, spark)
        writers: dict[int | None, Any] = {
            number: avro_schemas.parsed(schema) for number, schema in self.options.schemas.items()
        }
        if self.options.id is not None:
            writers.setdefault(self.options.id, reader)
        if not writers:
            raise FormatError("wire: confluent needs schemas, or a schema.id for the one schema")
        return self._decoded(column, writers, reader, spark)

    def _decoded(self, column: Column, writers: Mapping[int | None, Any], reader: Any, spark: SparkSession) -> Coded:
        native = self._native(spark)
        made = dict[int | None, Coded]()
        for number, writer in writers.items():
            body = column if number is None else _body(column)
            made[number] = _read_natively(body, writer, reader) if native else _read_by_rows(body, writer, reader)
        if None in made:
            return made[None]
        found = F.conv(F.hex(F.substring(column, 2, 4)), 16, 10).cast("long")
        framed = (F.hex(F.substring(column, 1, 1)) == MAGIC) & (F.length(column) >= PREFIX_BYTES)
        value, wrong = F.lit(None), F.lit(True)
        message: Column = F.concat(F.lit("avro: there is no schema of id "), found.cast("string"))
        for known, coded in made.items():
            assert coded.wrong is not None
            is_it = framed & (found == F.lit(known))
            value = F.when(is_it, coded.column).otherwise(value)
            wrong = F.when(is_it, coded.wrong).otherwise(wrong)
            text = F.lit(coded.message) if isinstance(coded.message, str) else coded.message
            message = F.when(is_it, text).otherwise(message)
        message = F.when(framed, message).otherwise("avro: not behind Confluent's five bytes")
        return Coded(column=value, wrong=column.isNotNull() & wrong, message=message)

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a value's datum. Without a schema, of the one that its type makes."""
        if self.options.schema_ is not None:
            schema = avro_schemas.parsed(self.options.schema_)
            there = avro_schemas.field_names(schema)
            unknown = [name for name in getattr(value.type, "names", ()) if there is not None and name not in there]
            if unknown:
                raise FormatError(f"the Avro schema has no field {unknown[0]!r}; it has {', '.join(there or ())}")
        else:
            schema = avro_schemas.of_type(value.type, str(value.metadata.get(schemas.NAME, "Value")))
        coded = _write_natively(value, schema) if self._native(spark) else _write_by_rows(value, schema)
        if self.options.wire == "plain":
            return coded
        if self.options.id is None:
            raise FormatError("wire: confluent needs a schema.id to write")
        prefix = F.unhex(F.lit(f"{MAGIC}{self.options.id:08X}"))
        return Coded(column=F.concat(prefix, coded.column), wrong=coded.wrong, message=coded.message)

    def _native(self, spark: SparkSession) -> bool:
        is_wanted = self.options.engine == "spark"
        if is_wanted and not modules.has(spark, NATIVE):
            raise FormatError("engine: spark needs the module spark-avro (spark.jars.packages)")
        return is_wanted


def _body(column: Column) -> Column:
    return F.substring(column, PREFIX_BYTES + 1, 0x7FFFFFFF)


# By Spark's module


def _read_natively(column: Column, writer: Any, reader: Any) -> Coded:
    """Decode within a record of one field: the bytes are the same, and a failure differs from a record of nulls."""
    from pyspark.sql.avro.functions import from_avro

    options = {"mode": "PERMISSIVE"}
    if reader != writer:
        options["avroSchema"] = avro_schemas.wrapped(reader)
    wrapped = from_avro(column, avro_schemas.wrapped(writer), options)
    got = wrapped.getField("value")
    nullable = avro_schemas.nullable(reader)
    wrong = column.isNotNull() & (wrapped.isNull() if nullable else got.isNull())
    return Coded(column=F.when(~wrong, got), wrong=wrong, message="avro: not of the schema")


def _write_natively(value: Typed, schema: Any) -> Coded:
    from pyspark.sql.avro.functions import to_avro

    # to_avro raises where a value is not of the schema: the task fails, not the row.
    return Coded(column=F.when(value.column.isNotNull(), to_avro(value.column, json.dumps(schema))))


# By fastavro


def _read_by_rows(column: Column, writer: Any, reader: Any) -> Coded:
    kind = avro_schemas.spark_type(reader)
    return modules.by_rows(partial(avro_rows.decoded, writer, reader, kind), kind, column, "avro")


def _write_by_rows(value: Typed, schema: Any) -> Coded:
    return modules.by_rows(partial(avro_rows.encoded, schema, value.type), BinaryType(), value.column, "avro")
