"""Common interface of formats: bytes to a value or a failure, and back.

A format decides for one column; what it cannot read or write becomes the row's `_failure`, with the value null, and the
row stays in the stream. Null bytes are null whatever the format (a tombstone), and null is null bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines import frames

Part = Literal["key", "value"]
STAGES: Final[Mapping[Part, str]] = {"key": frames.KEY_CONVERTER, "value": frames.VALUE_CONVERTER}


EXACT_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's options for text: its own default writes milliseconds only."""


class FormatError(ValueError):
    """A format that cannot be made, or cannot write the type it meets."""


class FormatOptions(BaseModel):
    """Base of all formats' options: unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A column, its type, and what its metadata say (a schema's name)."""

    column: Column
    type: T.DataType
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """The other form of a column."""

    column: Column
    wrong: Column | None = None
    """Where it could not be converted; None: it always can."""
    message: Column | str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Format(Protocol):
    """One format with its options."""

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return what bytes mean. The column is binary."""
        ...

    def write(self, value: Typed, spark: SparkSession) -> Coded:
        """Return a value's bytes. Raises FormatError for a type it has no bytes for."""
        ...


@dataclass(frozen=True, slots=True)
class FormatConverter:
    """A format at work on frames: the plugins' Converter."""

    format: Format

    def decode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace the bytes of a column by what they mean."""
        frame = frames.with_origin(frame)
        kind = frame.schema[column].dataType
        if not isinstance(kind, T.BinaryType | T.StringType):
            raise FormatError(f"the {column} must be bytes to decode, not {kind.simpleString()}")
        coded = self.format.read(F.col(column).cast("binary"), frame.sparkSession)
        return _replaced(frame, column, coded)

    def encode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace a column by its bytes."""
        frame = frames.with_origin(frame)
        found = frame.schema[column]
        value = Typed(column=F.col(column), type=found.dataType, metadata=dict(found.metadata or {}))
        return _replaced(frame, column, self.format.write(value, frame.sparkSession))


def _replaced(frame: DataFrame, column: Part, coded: Coded) -> DataFrame:
    columns = {name: F.col(name) for name in frame.columns}
    columns[column] = coded.column.alias(column, metadata=dict(coded.metadata))
    if coded.wrong is not None:
        failure = frames.failure(frame, coded.wrong, stage=STAGES[column], message=coded.message)
        # Not fenced, a filter of failures would be moved below this projection, with a second decoding of each record.
        columns[frames.FAILURE] = frames.fenced(failure).alias(frames.FAILURE)
    return frame.select(*columns.values())
