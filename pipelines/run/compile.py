"""From a pipeline to a running query: source, decode, transforms, encode, what becomes of failures, sink."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType

from kvorum.pipelines import formats, frames, plugins, transforms
from kvorum.pipelines.bridge.ledger import Folder
from kvorum.pipelines.plugins import Connector, Context, Kind, Part, PluginError, Trigger
from kvorum.pipelines.run import errors
from kvorum.pipelines.sinks.topics import TopicsSinkOptions
from kvorum.pipelines.spec import Endpoint, Format, Parts, Pipeline, Problem, SpecError, draft
from kvorum.pipelines.spec.problems import Places

logger = logging.getLogger(__name__)

PARTS: Sequence[Part] = ("key", "value")
CONNECTOR_FOLDER = "kvorum-source"
"""In the checkpoint: which connector wrote the offsets."""
BYTES = (BinaryType, StringType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """A pipeline's source and sink with their options, held against their models."""

    source: plugins.Source[Any]
    source_options: BaseModel
    sink: plugins.Sink[Any]
    sink_options: BaseModel


def models(parts: Parts) -> dict[str, type[BaseModel]]:
    """Return the models of what a pipeline may name: for Parts.wrong_settings. Raises PluginError.

    Of sources and sinks only the one that is used is imported: another one may lack what it needs.
    """
    found: dict[str, type[BaseModel]] = {**transforms.models(), **formats.models()}
    for word, kind, used in (("source", Kind.SOURCE, parts.source), ("sink", Kind.SINK, parts.sink)):
        for plugin in plugins.plugins(kind):
            is_used = used is not None and plugin.name == used.type
            found[f"{word}.{plugin.name}"] = plugin.load().Options if is_used else BaseModel
    return found


def problems_of(parts: Parts, places: Places) -> list[Problem]:
    """Return the errors in plug-ins' options that can be found without Spark. Raises PluginError."""
    problems = parts.wrong_settings(models(parts), places)
    for index, transform in parts.transforms.items():
        wrong = transforms.wrong_form(transform)
        if wrong is not None:
            problems.append(places.problem(("transforms", index, "type"), wrong))
    return problems


def loaded(path: str | Path) -> Pipeline:
    """Return the pipeline of a file. Raises SpecError with everything that is wrong with it, PluginError."""
    found = draft(path)
    found.add(problems_of(found.parts, found.places))
    if found.pipeline is not None and found.pipeline.errors.tolerance == "dead-letter":
        try:
            errors.bootstrap_of(found.pipeline)
        except PluginError as error:
            found.add([found.places.problem(("errors",), str(error))])
    return found.finished()


def validate(pipeline: Pipeline) -> Ends:
    """Check all that can be checked without Spark. Raises SpecError (with lines), PluginError."""
    problems = problems_of(pipeline.parts, pipeline.places)
    if problems:
        raise SpecError(problems)
    if pipeline.errors.tolerance == "dead-letter":
        errors.bootstrap_of(pipeline)
    source, sink = plugins.source(pipeline.source.type), plugins.sink(pipeline.sink.type)
    return Ends(
        source=source,
        source_options=source.Options.model_validate(pipeline.source.settings),
        sink=sink,
        sink_options=sink.Options.model_validate(pipeline.sink.settings),
    )


def context_of(pipeline: Pipeline, checkpoint: str, connector: Connector) -> Context:
    """Return the context for source and sink."""
    return Context(
        name=pipeline.name,
        checkpoint=checkpoint,
        delivery=pipeline.delivery,
        trigger=Trigger(arguments=pipeline.trigger.arguments()),
        parallelism=pipeline.parallelism,
        connector=connector,
    )


def frame_of(spark: SparkSession, pipeline: Pipeline, ends: Ends, context: Context) -> DataFrame:
    """Return the frame that the sink gets, failed records and all."""
    frame = ends.source.read(spark, ends.source_options, context)
    frame = converted(frame, pipeline.source, encode=False)
    frame = transforms.build(pipeline.transforms, pipeline.predicates)(frame)
    frame = converted(frame, pipeline.sink, encode=True)
    if pipeline.sink.type == "topics":
        frame = as_bytes(frame)
    # Fewer tasks, each with whole partitions of the source: their order, and which task has what, stay the same.
    return frame if pipeline.parallelism is None else frame.coalesce(pipeline.parallelism)


def converted(frame: DataFrame, end: Endpoint, *, encode: bool) -> DataFrame:
    """Return the frame with key and value as an end's formats say."""
    for part in PARTS:
        wanted: Format | None = getattr(end, part)
        if wanted is not None:
            converter = formats.converter(wanted.format, wanted.settings)
            frame = converter.encode(frame, part) if encode else converter.decode(frame, part)
    return frame


def as_bytes(frame: DataFrame) -> DataFrame:
    """Return the frame with what topics hold: key and value that no format was named for become JSON."""
    for part in PARTS:
        if not isinstance(frame.schema[part].dataType, BYTES):
            frame = formats.converter("json", {}).encode(frame, part)
    return frame


def start(spark: SparkSession, pipeline: Pipeline, ends: Ends, context: Context) -> StreamingQuery:
    """Start the pipeline's query."""
    if pipeline.source.type == "topics":
        context = replace(context, connector=connector_of(spark, pipeline, context))
    frame = frame_of(spark, pipeline, ends, context)
    match pipeline.errors.tolerance:
        case "fail":
            return ends.sink.write(frames.first_failed(frame), ends.sink_options, context)
        case "skip":
            return ends.sink.write(frames.well(frame), ends.sink_options, context)
        case "dead-letter":
            return with_dead_letters(frame, pipeline, ends, context)


def connector_of(spark: SparkSession, pipeline: Pipeline, context: Context) -> Connector:
    """Return the connector that reads the topics: the checkpoint's, which is recorded there at its first start.

    A checkpoint is never continued with the other connector: the sink may have to repeat a micro-batch exactly. Raises
    PluginError if the checkpoint's is not at hand, or the pipeline requires the other one.
    """
    folder = Folder(spark, context.checkpoint, CONNECTOR_FOLDER)
    recorded = folder.read("connector")
    if recorded is None:
        folder.write("connector", context.connector)
    if recorded is None or recorded == context.connector:
        return context.connector
    if recorded == "kvorum" and pipeline.connector == "auto":
        logger.info("connector: kvorum, the checkpoint's: %s", context.checkpoint)
        return "kvorum"
    hint = f"set connector: {recorded}, or use a new checkpoint"
    raise PluginError(f"checkpoint {context.checkpoint} was written with connector {recorded}; {hint}")


def with_dead_letters(frame: DataFrame, pipeline: Pipeline, ends: Ends, context: Context) -> StreamingQuery:
    """Start a query that writes the good records to the sink and the failed ones to the dead-letter topic."""
    sink, options = ends.sink, ends.sink_options
    if frames.FAILURE not in frame.columns:
        return sink.write(frame, options, context)
    bootstrap = errors.bootstrap_of(pipeline)
    if isinstance(options, TopicsSinkOptions) and options.bootstrap == bootstrap:
        merged = errors.routed(frame, pipeline, options.topic)
        return sink.write(merged, options.model_copy(update={"topic": None}), context)
    letters = TopicsSinkOptions(bootstrap=bootstrap, topic=pipeline.errors.topic, options=dict(pipeline.errors.options))
    return errors.written_beside(frame, pipeline, sink, options, letters, context)
