"""Connect's transforms as native column expressions: no row leaves the JVM (docs/pipelines/transforms.md).

run = transforms.build(pipeline.transforms, pipeline.predicates)
frame = run(frame)                                              # a record frame, see kvorum.pipelines.frames
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from pydantic import BaseModel, ValidationError
from pyspark.sql import Column, DataFrame

from kvorum.pipelines.plugins import Step
from kvorum.pipelines.spec.model import Predicate, Transform
from kvorum.pipelines.transforms.connect import PREDICATES, TRANSFORMS
from kvorum.pipelines.transforms.sql import sql
from kvorum.pipelines.transforms.values import DEFAULTS, Change, Definition, TransformError, apply, value_of

__all__ = ["TransformError", "build", "models", "wrong_form"]

DEFINITIONS = {**TRANSFORMS, "sql": Definition(sql)}


def models() -> dict[str, type[BaseModel]]:
    """Return the options' models by `transform.NAME` and `predicate.NAME`, for Parts.wrong_settings."""
    found = {f"transform.{name}": definition.options for name, definition in DEFINITIONS.items()}
    return found | {f"predicate.{name}": definition.options for name, definition in PREDICATES.items()}


def wrong_form(transform: Transform) -> str | None:
    """Return the error of a type's $Key or $Value; None: none, or an unknown transform."""
    name = transform.plain
    if name not in DEFINITIONS or DEFINITIONS[name].forms == (transform.part is not None):
        return None
    return f"write {name}$Key or {name}$Value" if DEFINITIONS[name].forms else f"{name} has no $Key and $Value"


def build(transforms: Sequence[Transform], predicates: Mapping[str, Predicate] | None = None) -> Step:
    """Return the function that applies the transforms to a record frame, in their order.

    Raises TransformError for unknown names and for options that are not right; the function raises it for types that a
    transform cannot work on.
    """
    conditions = {name: _condition(name, predicate) for name, predicate in (predicates or {}).items()}
    return _chained([_step(index, transform, conditions) for index, transform in enumerate(transforms)])


def _chained(steps: Sequence[Step]) -> Step:
    return lambda frame: reduce(lambda before, step: step(before), steps, frame)


def _condition(name: str, predicate: Predicate) -> Column:
    if predicate.plain not in PREDICATES:
        there = ", ".join(PREDICATES)
        raise TransformError(f"predicates.{name}: there is no predicate {predicate.plain!r}; there are {there}")
    definition = PREDICATES[predicate.plain]
    made: Column = definition.function(**_options(f"predicates.{name}", definition, predicate.settings))
    return made


def _step(index: int, transform: Transform, conditions: Mapping[str, Column]) -> Step:
    where = f"transforms[{index}] {transform.name or transform.type}"
    condition = None
    if transform.predicate is not None:
        if transform.predicate not in conditions:
            raise TransformError(f"{where}: there is no predicate {transform.predicate!r}")
        condition = conditions[transform.predicate]
        condition = ~condition if transform.negate else condition
    if transform.plain not in DEFINITIONS:
        raise TransformError(f"{where}: there is no transform {transform.plain!r}; there are {', '.join(DEFINITIONS)}")
    wrong = wrong_form(transform)
    if wrong is not None:
        raise TransformError(f"{where}: {wrong}")
    definition = DEFINITIONS[transform.plain]
    options = _options(where, definition, transform.settings)
    if transform.plain == "sql":
        changes: list[Callable[[DataFrame], Change]] = definition.function(**options)
    else:
        part, defaults = transform.part or "value", options.pop(DEFAULTS, False)
        changes = [lambda frame: definition.function(value_of(frame, part, defaults=defaults), **options)]
    return _chained([partial(_apply, where, change, condition) for change in changes])


def _options(where: str, definition: Definition, settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(definition.options.model_validate(settings))
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TransformError(f"{where}: {found}") from error


def _apply(where: str, change: Callable[[DataFrame], Change], condition: Column | None, frame: DataFrame) -> DataFrame:
    try:
        return apply(frame, change, condition)
    except TransformError as error:
        raise TransformError(f"{where}: {error}") from error
