"""Serdes: meaning of the bytes of a topic's keys and values.

Formats are the converters of kvorum.pipelines.formats (strings, numbers as Kafka's own serializers write them, JSON,
Avro, Protobuf, CSV). Windowed keys are added here as Kafka Streams writes them: the key's bytes, then the window's
bounds in ms. All of it is native Spark expressions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, VariantType

from kvorum.pipelines.formats import converter
from kvorum.pipelines.streams.errors import TopologyError

Part = Literal["key", "value"]

TIME_WINDOWED = "time_windowed"
SESSION_WINDOWED = "session_windowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serde:
    """A format by its name, with its options; `inner` is the key's own of a windowed key."""

    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inner: "Serde | None" = None


class Serdes:
    """The serdes there are, in Kafka's words."""

    @staticmethod
    def string() -> Serde:
        """Return UTF-8 text."""
        return Serde(format="string")

    @staticmethod
    def bytes() -> Serde:
        """Return the bytes as they are."""
        return Serde(format="bytes")

    @staticmethod
    def long() -> Serde:
        """Return Kafka's LongSerializer: 8 bytes."""
        return Serde(format="long")

    @staticmethod
    def integer() -> Serde:
        """Return Kafka's IntegerSerializer: 4 bytes."""
        return Serde(format="integer")

    @staticmethod
    def json(schema: str | None = None) -> Serde:
        """Return JSON; reading it takes a schema in Spark's words: "user STRING, amount DOUBLE"."""
        return Serde(format="json", options={} if schema is None else {"schema": schema})

    @staticmethod
    def of(format: str, **options: Any) -> Serde:
        """Return any format that pipelines know: avro, protobuf, csv, or a package's own."""
        return Serde(format=format, options=options)

    @staticmethod
    def time_windowed(inner: Serde) -> Serde:
        """Return Kafka's TimeWindowedSerializer: the key, then 8 bytes of the window's start. For writing."""
        return Serde(format=TIME_WINDOWED, inner=inner)

    @staticmethod
    def session_windowed(inner: Serde) -> Serde:
        """Return Kafka's SessionWindowedSerializer: the key, then 8 bytes each of end and start. For writing."""
        return Serde(format=SESSION_WINDOWED, inner=inner)


def decode(frame: DataFrame, part: Part, serde: Serde) -> DataFrame:
    """Return the frame with what the bytes of `part` mean; a row whose bytes mean nothing gets `_failure`."""
    if serde.inner is not None:
        raise TopologyError(f"a windowed key can be written, not read: read its bytes ({part})")
    return converter(serde.format, serde.options).decode(frame, part)


def encode(frame: DataFrame, part: Part, serde: Serde | None) -> DataFrame:
    """Return the frame with `part` as bytes. Without a serde, what its type suggests: see `suggested`."""
    if serde is None:
        serde = suggested(frame.schema[part].dataType)
    if serde.inner is not None:
        return _encode_windowed(frame, part, serde, serde.inner)
    return converter(serde.format, serde.options).encode(frame, part)


def suggested(kind: DataType) -> Serde:
    """Return the serde of a type that was given none: bytes as they are, JSON for what has parts, else text."""
    if isinstance(kind, BinaryType):
        return Serdes.bytes()
    if isinstance(kind, StructType | ArrayType | MapType | VariantType):
        return Serdes.json()
    return Serdes.string()


def big_endian(number: Column) -> Column:
    """Return a long as 8 bytes, two's complement."""
    return F.unhex(F.lpad(F.hex(number), 16, "0"))


def _encode_windowed(frame: DataFrame, part: Part, serde: Serde, inner: Serde) -> DataFrame:
    kind = frame.schema[part].dataType
    if not isinstance(kind, StructType) or kind.fieldNames() != ["key", "window"]:
        raise TopologyError(f"{serde.format} is for windowed keys; this {part} is {kind.simpleString()}")
    bounds = ("end", "start") if serde.format == SESSION_WINDOWED else ("start",)
    millis = [big_endian(F.unix_millis(f"_window.{name}")) for name in bounds]
    frame = frame.withColumn("_window", F.col(f"{part}.window")).withColumn(part, F.col(f"{part}.key"))
    frame = encode(frame, part, inner)
    return frame.withColumn(part, F.concat(F.col(part).cast("binary"), *millis)).drop("_window")
