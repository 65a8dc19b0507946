"""A frame of records as rows of columns: what files and tables hold is the value's fields."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

PLACES = ("topic", "partition", "offset", "timestamp", "headers")


def value_columns(frame: DataFrame) -> list[Column]:
    """Return the value's fields as columns; a value without fields is one column, `value`."""
    kind = frame.schema["value"].dataType
    if isinstance(kind, StructType):
        return [F.col("value").getField(field.name).alias(field.name) for field in kind]
    return [F.col("value")]


def flat(frame: DataFrame, include: Sequence[str] = ()) -> DataFrame:
    """Return the value's columns and, under `include`, what else is known of a record (key, topic, offset...).

    A tombstone has no fields: a record without a value is left out. Raises ValueError for two columns of one name.
    """
    unknown = set(include) - {*PLACES, "key"}
    if unknown:
        raise ValueError(f"include: a record has no {', '.join(sorted(unknown))}")
    rows = frame.where(F.col("value").isNotNull()).select(*value_columns(frame), *include)
    double = {name for name in rows.columns if rows.columns.count(name) > 1}
    if double:
        raise ValueError(f"include: the value has a field {', '.join(sorted(double))} already")
    return rows
