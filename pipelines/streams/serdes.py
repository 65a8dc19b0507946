"""Serdes: meaning of the bytes of a topic's keys and values.

Formats are the converters of kvorum.pipelines.formats (strings, numbers as Kafka's own serializers write them, JSON,
Avro, Protobuf, CSV). Windowed keys are added here as Kafka Streams writes them: the key's bytes, then the window's
bounds in ms. All of it is native Spark expressions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

from kvorum.pipelines.formats import converter
from kvorum.pipelines.plugins import Part
from kvorum.pipelines.streams.functions import TopologyError

BOUNDS: Mapping[str, tuple[str, ...]] = {"time_windowed": ("start",), "session_windowed": ("end", "start")}
"""{format of windowed keys: bounds behind the key, 8 bytes each}."""


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
        return Serde(format="time_windowed", inner=inner)

    @staticmethod
    def session_windowed(inner: Serde) -> Serde:
        """Return Kafka's SessionWindowedSerializer: the key, then 8 bytes each of end and start. For writing."""
        return Serde(format="session_windowed", inner=inner)


def decode(frame: DataFrame, part: Part, serde: Serde) -> DataFrame:
    """Return the frame with what the bytes of `part` mean; a row whose bytes mean nothing gets `_failure`."""
    if serde.inner is not None:
        raise TopologyError(f"a windowed key can be written, not read: read its bytes ({part})")
    return converter(serde.format, serde.options).decode(frame, part)


def encode(frame: DataFrame, part: Part, serde: Serde | None) -> DataFrame:
    """Return the frame with `part` as bytes. Without a serde: bytes as they are, JSON for what has parts, else text."""
    kind = frame.schema[part].dataType
    if serde is None:
        has_parts = isinstance(kind, StructType | ArrayType | MapType | VariantType)
        serde = Serdes.bytes() if isinstance(kind, BinaryType) else Serdes.json() if has_parts else Serdes.string()
    if serde.inner is None:
        return converter(serde.format, serde.options).encode(frame, part)
    if not isinstance(kind, StructType) or kind.fieldNames() != ["key", "window"]:
        raise TopologyError(f"{serde.format} is for windowed keys; this {part} is {kind.simpleString()}")
    # A long as 8 bytes, two's complement.
    bounds = [F.unhex(F.lpad(F.hex(F.unix_millis(f"_window.{name}")), 16, "0")) for name in BOUNDS[serde.format]]
    frame = frame.withColumn("_window", F.col(f"{part}.window")).withColumn(part, F.col(f"{part}.key"))
    frame = encode(frame, part, serde.inner)
    return frame.withColumn(part, F.concat(F.col(part).cast("binary"), *bounds)).drop("_window")
