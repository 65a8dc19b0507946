"""Keys and values of any type as one JSON string, exactly: what state and internal topics hold.

A string costs Python nothing to look at, can be read with Spark's own state reader, and outlives a new field in the
schema: it is null then, in what was kept before. Both ways go through Spark's native expressions. What cannot be
packed is a map whose keys are not strings.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

OPTIONS: Final[Mapping[str, str]] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",  # Spark's own format ends at the millisecond
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def pack(*columns: Column | str) -> Column:
    """Return one JSON object of columns under their names; equal columns make equal strings."""
    return F.to_json(F.struct(*columns), dict(OPTIONS))


def unpack(packed: Column | str, fields: Mapping[str, DataType]) -> Column:
    """Return the struct of what was packed; null for null."""
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    return F.from_json(packed, schema, {**OPTIONS, "mode": "FAILFAST"})


def type_of(words: str) -> DataType:
    """Return a type in Spark's words: "BIGINT", or fields alone, "user STRING, at TIMESTAMP"."""
    return DataType.fromDDL(words)
