"""Common interface of formats: bytes to a value or a failure, and back.

A format converts one column. A value that it cannot read or write becomes null, with the row's `_failure`, and the row
stays in the stream. Null bytes are null in every format (a tombstone), and null is written as null bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Part

STAGES: Final[Mapping[Part, str]] = {"key": frames.KEY_CONVERTER, "value": frames.VALUE_CONVERTER}
EXACT_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's options for text: its own default writes milliseconds only."""


class FormatError(ValueError):
    """A format that cannot be made, or cannot write the type it meets."""


@dataclass(frozen=True, slots=True)
class Coded:
    """The other form of a column."""

    column: Column
    error: Column | None = None
    """Why a value could not be converted, null where it could be; None: it always can."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Format(BaseModel):
    """A format; the fields of its model are its options. Unknown options are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return the values of bytes."""
        raise NotImplementedError

    def write(self, column: Column, field: T.StructField) -> Coded:
        """Return the bytes of values, whose type and metadata `field` has. Raises FormatError for other types."""
        raise NotImplementedError

    def decode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace the bytes of `key` or `value` by their values."""
        kind = frame.schema[column].dataType
        if not isinstance(kind, T.BinaryType | T.StringType):
            raise FormatError(f"the {column} must be bytes to decode, not {kind.simpleString()}")
        return _replaced(frame, column, self.read(F.col(column).cast("binary"), frame.sparkSession))

    def encode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace `key` or `value` by its bytes."""
        return _replaced(frame, column, self.write(F.col(column), frame.schema[column]))


def _replaced(frame: DataFrame, column: Part, coded: Coded) -> DataFrame:
    frame = frames.with_origin(frame)
    columns = {name: F.col(name) for name in frame.columns}
    columns[column] = coded.column.alias(column, metadata=dict(coded.metadata))
    if coded.error is not None:
        failure = frames.failure(frame, coded.error.isNotNull(), stage=STAGES[column], message=coded.error)
        # Not fenced, a filter of failures would be moved below this projection, with a second decoding of each record.
        columns[frames.FAILURE] = frames.fenced(failure).alias(frames.FAILURE)
    return frame.select(*columns.values())


def in_spark(options: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Return options as Spark's readers and writers take them."""
    return {key: str(one).lower() if isinstance(one, bool) else str(one) for key, one in options.items()}
