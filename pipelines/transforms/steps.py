"""Interface of a transform: options and a record's columns in, changes out; and their application to the frame.

A transform decides with column expressions only, so that all of a pipeline's steps become one plan in which no row
leaves the JVM. It never looks at rows, it never starts a job.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kvorum.pipelines import frames
from kvorum.pipelines.transforms.values import Value, merged

Part = Literal["key", "value"]
Step = Callable[[DataFrame], DataFrame]


def _list(value: Any) -> Any:
    """Take Connect's `a, b` for a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _text(value: Any) -> Any:
    """Take a number or a truth of YAML for its text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Names = Annotated[list[str], BeforeValidator(_list)]
Text = Annotated[str, BeforeValidator(_text)]


class Options(BaseModel):
    """Base of all transforms' options: Connect's keys, unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


@dataclass(frozen=True, slots=True)
class Record:
    """A frame's columns, as a transform sees them."""

    frame: DataFrame

    def value(self, part: str) -> Value:
        """Return a column with its type."""
        found = self.frame.schema[part]
        return Value(column=F.col(part), type=found.dataType, metadata=dict(found.metadata or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Rows that fail."""

    when: Column
    message: Column | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A transform's change of a frame."""

    columns: Mapping[str, Value] = field(default_factory=dict)
    wrong: Sequence[Wrong] = ()
    keep: Column | None = None
    """Rows to go on; None: all."""


Transform = Callable[[Record, Any, Part], Change]
"""Called with the options its model made. Raises TransformError."""


def apply(frame: DataFrame, make: Callable[[Record], Change], condition: Column | None) -> DataFrame:
    """Return the frame with a transform applied where the condition holds (None: everywhere)."""
    record = Record(frames.with_origin(frame))
    change, frame = make(record), record.frame
    columns = {name: F.col(name) for name in frame.columns}
    for name, new in change.columns.items():
        value = new if condition is None else merged(condition, new, record.value(name))
        columns[name] = frames.fenced(value.column).alias(name, metadata=dict(value.metadata))
    failure = _failure(frame, change, condition)
    if failure is not None:
        columns[frames.FAILURE] = frames.fenced(failure).alias(frames.FAILURE)
    if change.keep is not None:
        keep = change.keep if condition is None else change.keep | ~condition
        frame = frame.where(keep | F.col(frames.FAILURE).isNotNull() if frames.FAILURE in frame.columns else keep)
    return frame.select(*columns.values()) if change.columns or failure is not None else frame


def _failure(frame: DataFrame, change: Change, condition: Column | None) -> Column | None:
    if not change.wrong:
        return None
    message = F.coalesce(*(F.when(wrong.when, _as_column(wrong.message)) for wrong in change.wrong))
    applies = message.isNotNull() if condition is None else condition & message.isNotNull()
    return frames.failure(frame, applies, stage=frames.TRANSFORMATION, message=message)


def _as_column(message: Column | str) -> Column:
    return F.lit(message) if isinstance(message, str) else message
