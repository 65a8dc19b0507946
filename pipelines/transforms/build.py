"""From a pipeline's transforms to one function of frames, and the table of those there are."""

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pyspark.sql import Column, DataFrame

from kvorum.pipelines import frames, plugins
from kvorum.pipelines.spec.parts import Predicate
from kvorum.pipelines.spec.parts import Transform as TransformSpec
from kvorum.pipelines.transforms import cast, fields, routing, sql, timestamps
from kvorum.pipelines.transforms.steps import Options, Part, Step, Transform, apply
from kvorum.pipelines.transforms.values import TransformError

FORMED: Final[Mapping[str, tuple[type[Options], Transform]]] = {
    "InsertField": (fields.InsertFieldOptions, fields.insert_field),
    "ReplaceField": (fields.ReplaceFieldOptions, fields.replace_field),
    "MaskField": (fields.MaskFieldOptions, fields.mask_field),
    "HoistField": (fields.HoistFieldOptions, fields.hoist_field),
    "ExtractField": (fields.ExtractFieldOptions, fields.extract_field),
    "SetSchemaMetadata": (fields.SetSchemaMetadataOptions, fields.set_schema_metadata),
    "Cast": (cast.CastOptions, cast.cast),
    "Flatten": (cast.FlattenOptions, cast.flatten),
    "TimestampConverter": (timestamps.TimestampConverterOptions, timestamps.timestamp_converter),
    "HeaderFrom": (routing.HeaderFromOptions, routing.header_from),
}
"""Those whose type ends in $Key or $Value."""

FORMLESS: Final[Mapping[str, tuple[type[Options], Transform]]] = {
    "ValueToKey": (fields.ValueToKeyOptions, fields.value_to_key),
    "TimestampRouter": (timestamps.TimestampRouterOptions, timestamps.timestamp_router),
    "RegexRouter": (routing.RegexRouterOptions, routing.regex_router),
    "Filter": (routing.FilterOptions, routing.drop),
    "DropHeaders": (routing.DropHeadersOptions, routing.drop_headers),
    "InsertHeader": (routing.InsertHeaderOptions, routing.insert_header),
    "sql": (sql.SqlOptions, partial(sql.sql, 0)),
}


def models() -> dict[str, type[BaseModel]]:
    """Return the options' models by `transform.NAME` and `predicate.NAME`, for Pipeline.validate_with."""
    return {
        **{f"transform.{name}": model for name, (model, _) in {**FORMED, **FORMLESS}.items()},
        **{f"predicate.{name}": model for name, (model, _) in routing.PREDICATES.items()},
    }


def wrong_form(transform: TransformSpec) -> str | None:
    """Return the error of a type's $Key or $Value; None: none, or not a transform of ours."""
    if transform.plain in FORMED and transform.part is None:
        return f"write {transform.plain}$Key or {transform.plain}$Value"
    if transform.plain in FORMLESS and transform.part is not None:
        return f"{transform.plain} has no $Key and $Value"
    return None


def build(transforms: Sequence[TransformSpec], predicates: Mapping[str, Predicate] | None = None) -> Step:
    """Return what the transforms do to a record frame, in their order.

    Raises TransformError for options that are not right; what is called with a frame raises it for types that a
    transform cannot work on. A transform that is none of ours is looked for among the plugins (PluginError).
    """
    conditions = {name: _condition(name, predicate) for name, predicate in (predicates or {}).items()}
    return _chained([_step(index, transform, conditions) for index, transform in enumerate(transforms)])


def _chained(steps: Sequence[Step]) -> Step:
    def run(frame: DataFrame) -> DataFrame:
        return reduce(lambda before, step: step(before), steps, frame)

    return run


def _condition(name: str, predicate: Predicate) -> Column:
    if predicate.plain not in routing.PREDICATES:
        there = ", ".join(routing.PREDICATES)
        raise TransformError(f"predicates.{name}: there is no predicate {predicate.plain!r}; there are {there}")
    model, condition = routing.PREDICATES[predicate.plain]
    return condition(_options(f"predicates.{name}", model, predicate.settings))


def _step(index: int, transform: TransformSpec, conditions: Mapping[str, Column]) -> Step:
    where = f"transforms[{index}] {transform.name or transform.type}"
    condition = None
    if transform.predicate is not None:
        if transform.predicate not in conditions:
            raise TransformError(f"{where}: there is no predicate {transform.predicate!r}")
        condition = conditions[transform.predicate]
        condition = ~condition if transform.negate else condition
    if transform.plain not in FORMED and transform.plain not in FORMLESS:
        made = plugins.transform(transform.plain)(transform.settings, transform.part)
        return made if condition is None else partial(_where, made, condition)
    wrong = wrong_form(transform)
    if wrong is not None:
        raise TransformError(f"{where}: {wrong}")
    model, function = {**FORMED, **FORMLESS}[transform.plain]
    options = _options(where, model, transform.settings)
    functions = [function]
    if isinstance(options, sql.SqlOptions):
        functions = [partial(sql.sql, number) for number in range(len(options.statements))]
    return _chained([partial(_apply, where, each, options, transform.part or "value", condition) for each in functions])


def _options(where: str, model: type[Options], settings: Mapping[str, Any]) -> Options:
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TransformError(f"{where}: {found}") from error


def _apply(
    where: str, function: Transform, options: Options, part: Part, condition: Column | None, frame: DataFrame
) -> DataFrame:
    try:
        return apply(frame, lambda record: function(record, options, part), condition)
    except TransformError as error:
        raise TransformError(f"{where}: {error}") from error


def _where(step: Step, condition: Column, frame: DataFrame) -> DataFrame:
    """Return the frame with a plugin's step applied where the condition holds.

    Such a step may drop rows or make more of them, so the frame is parted and put together again. Order between the
    two is not kept; they read the same batch.
    """
    frame = frames.with_origin(frame)
    return step(frame.where(condition)).unionByName(frame.where(~condition), allowMissingColumns=True)
