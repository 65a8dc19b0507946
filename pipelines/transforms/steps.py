"""Interface of a transform: a frame and options in, changes out; and their application to the frame.

A transform decides with column expressions only, so that all of a pipeline's steps become one plan in which no row
leaves the JVM. It never looks at rows, it never starts a job.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kvorum.pipelines import frames
from kvorum.pipelines.transforms.values import Value, merged, value_of

DEFAULTS: Final = "replace_null_with_default"


def _list(value: Any) -> Any:
    """Return the items of Connect's `a, b`."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _text(value: Any) -> Any:
    """Return the text of a number or a boolean of YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Names = Annotated[list[str], BeforeValidator(_list)]
SomeNames = Annotated[list[str], Field(min_length=1), BeforeValidator(_list)]
Text = Annotated[str, BeforeValidator(_text)]
SomeText = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
Name = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Definition:
    """One transform, or one predicate: a row of their table."""

    function: Callable[..., Any]
    """Called with the record's key or value (predicates: without) and the options. Raises TransformError.

    Its keyword-only parameters are the options: `topic_field` is Connect's `topic.field`.
    """
    forms: bool = False
    """Whether the type ends in $Key or $Value."""
    defaults: bool = False
    """Whether it reads fields, and so has the option `replace.null.with.default`."""
    check: Callable[[Any], str | None] = lambda options: None
    """Returns an error of the options together."""

    @cached_property
    def options(self) -> type[BaseModel]:
        """Return the model of the options; unknown ones are rejected."""
        parameters = inspect.signature(self.function).parameters.values()
        given = {each.name: (each.annotation, each.default) for each in parameters if each.kind is each.KEYWORD_ONLY}
        if self.defaults:
            given[DEFAULTS] = bool, True
        fields: dict[str, Any] = {
            name: (kind, Field(... if default is inspect.Parameter.empty else default, alias=name.replace("_", ".")))
            for name, (kind, default) in given.items()
        }

        def checked(options: Any) -> Any:
            error = self.check(options)
            if error is not None:
                raise ValueError(error)
            return options

        validators: dict[str, Any] = {"checked": model_validator(mode="after")(checked)}
        config = ConfigDict(extra="forbid", frozen=True)
        return create_model(self.function.__name__, __config__=config, __validators__=validators, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A transform's change of a frame."""

    columns: Mapping[str, Value] = field(default_factory=dict)
    errors: Sequence[Column] = ()
    """Why a row fails; null for rows that do not."""
    keep: Column | None = None
    """Rows to go on; None: all."""


def apply(frame: DataFrame, make: Callable[[DataFrame], Change], condition: Column | None) -> DataFrame:
    """Return the frame with a transform applied where the condition holds (None: everywhere)."""
    frame = frames.with_origin(frame)
    change = make(frame)
    columns = {name: F.col(name) for name in frame.columns}
    for name, new in change.columns.items():
        value = new if condition is None else merged(condition, new, value_of(frame, name))
        columns[name] = frames.fenced(value.column).alias(name, metadata=dict(value.metadata))
    if change.errors:
        error = F.coalesce(*change.errors)
        applies = error.isNotNull() if condition is None else condition & error.isNotNull()
        failure = frames.failure(frame, applies, stage=frames.TRANSFORMATION, message=error)
        columns[frames.FAILURE] = frames.fenced(failure).alias(frames.FAILURE)
    if change.keep is not None:
        keep = change.keep if condition is None else change.keep | ~condition
        frame = frame.where(keep | F.col(frames.FAILURE).isNotNull() if frames.FAILURE in frame.columns else keep)
    return frame.select(*columns.values()) if change.columns or change.errors else frame
