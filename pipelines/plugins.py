"""Sources and sinks by name: what they must look like, which there are, where they come from.

Kvorum's own are a table below; those of other packages are entry points in the groups `kvorum.pipelines.sources` and
`.sinks`. Either names "module:attribute"; the attribute is a class that is called without arguments, and is imported
when a pipeline names it. A name of Kvorum's own cannot be taken over by a package.
"""

import importlib
import importlib.metadata
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

Delivery = Literal["exactly_once", "at_least_once"]
Connector = Literal["spark", "kvorum"]
Part = Literal["key", "value"]
Step = Callable[[DataFrame], DataFrame]
WriteBatch = Callable[[DataFrame, int], None]
"""Writes a micro-batch, by its number. A repeated call has no effect where the sink delivers exactly once."""
O_contra = TypeVar("O_contra", bound=BaseModel, contravariant=True)


class PluginError(Exception):
    """A plug-in that is unknown or not usable, with the reason."""


class Kind(StrEnum):
    """Kind of a plug-in; the value is the last word of its entry point group."""

    SOURCE = "sources"
    SINK = "sinks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a micro-batch begins: DataStreamWriter.trigger's arguments, one of them."""

    arguments: Mapping[str, str | bool] = field(default_factory=dict)

    def apply(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Set it on a writer. Without arguments the next batch begins when the last one is done."""
        return writer.trigger(**self.arguments) if self.arguments else writer  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Information on the pipeline for its source and sink."""

    name: str
    """The pipeline's name, unique where it runs: names of queries, groups and transactional ids are made from it."""
    checkpoint: str
    """The query's folder, of this pipeline alone."""
    delivery: Delivery = "exactly_once"
    trigger: Trigger = Trigger()
    parallelism: int | None = None
    """How many tasks at most, as Connect's tasks.max; None: as many as Spark sees fit."""
    connector: Connector = "kvorum"
    """Who reads and writes topics: decided at the start of the session, and logged."""


class Source(Protocol[O_contra]):
    """Where records come from."""

    Options: ClassVar[type[BaseModel]]
    """Keys of `source:` besides `type`. Forbid unknown ones, so that misspelt options are errors."""

    def read(self, spark: SparkSession, options: O_contra, context: Context) -> DataFrame:
        """Return a streaming frame of records (see kvorum.pipelines.frames)."""


class Sink(Protocol[O_contra]):
    """Where records go."""

    Options: ClassVar[type[BaseModel]]
    """As Source's, of `sink:`."""

    def used(self, options: O_contra) -> Collection[str]:
        """Return the columns of a record that are written."""

    def writer(self, frame: DataFrame, options: O_contra, context: Context) -> WriteBatch:
        """Return the function that writes the micro-batches of a stream of good records."""

    def write(self, frame: DataFrame, options: O_contra, context: Context) -> StreamingQuery:
        """Start to write; kvorum.pipelines.sinks.writing.BatchSink does it with `writer`."""


class Converter(Protocol):
    """Bytes of a topic to columns and back. A row that cannot be converted gets `_failure`; it raises nothing."""

    def decode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace the bytes of `key` or `value` by what they mean."""

    def encode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace `key` or `value` by its bytes."""


BUILT_IN: Mapping[Kind, Mapping[str, str]] = {
    Kind.SOURCE: {
        "topics": "kvorum.pipelines.sources.topics:TopicsSource",
        "files": "kvorum.pipelines.sources.files:FilesSource",
        "file-stream": "kvorum.pipelines.sources.file_stream:FileStreamSource",
        "jdbc": "kvorum.pipelines.sources.jdbc:JdbcSource",
        "generator": "kvorum.pipelines.sources.generator:GeneratorSource",
        "postgresql": "kvorum.pipelines.cdc.source:PostgresqlSource",
    },
    Kind.SINK: {
        "topics": "kvorum.pipelines.sinks.topics:TopicsSink",
        "files": "kvorum.pipelines.sinks.files:FilesSink",
        "file-stream": "kvorum.pipelines.sinks.file_stream:FileStreamSink",
        "jdbc": "kvorum.pipelines.sinks.jdbc:JdbcSink",
        "console": "kvorum.pipelines.sinks.console:ConsoleSink",
    },
}


class Plugin(NamedTuple):
    """One that is there, not imported yet."""

    kind: Kind
    name: str
    target: str
    """module:attribute."""
    package: str
    version: str

    def load(self) -> Any:
        """Import it. Raises PluginError with what is missing."""
        module, _, attribute = self.target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            where = f"{self.target} of {self.package} {self.version}"
            raise PluginError(f"{self.kind.value}: {self.name!r} cannot be loaded from {where}: {error}") from error


def source(name: str) -> Source[Any]:
    """Return a source by its type. Raises PluginError."""
    made: Source[Any] = find(Kind.SOURCE, name).load()()
    return made


def sink(name: str) -> Sink[Any]:
    """Return a sink by its type. Raises PluginError."""
    made: Sink[Any] = find(Kind.SINK, name).load()()
    return made


def find(kind: Kind, name: str) -> Plugin:
    """Return a plugin by kind and name. Raises PluginError that names those there are."""
    there = {plugin.name: plugin for plugin in plugins(kind)}
    if name not in there:
        raise PluginError(f"unknown plugin {name!r} in {kind.value}; available: {', '.join(sorted(there)) or 'none'}")
    return there[name]


def plugins(*kinds: Kind) -> Iterator[Plugin]:
    """Yield what there is (of all kinds when none is named): Kvorum's own, then the packages', each name once.

    A package that is found twice on the path counts once. Raises PluginError for two packages with the same name.
    """
    for kind in kinds or tuple(Kind):
        own = BUILT_IN.get(kind, {}).items()
        found = {name: Plugin(kind, name, target, "kvorum", own_version()) for name, target in own}
        for entry in sorted(importlib.metadata.entry_points(group=f"kvorum.pipelines.{kind.value}")):
            package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
            there = found.setdefault(entry.name, Plugin(kind, entry.name, entry.value, package, version))
            if there.package != package:
                raise PluginError(f"{kind.value}: both {there.package} and {package} provide {entry.name!r}")
        yield from found.values()


def own_version() -> str:
    """Return Kvorum's version."""
    try:
        return importlib.metadata.version("kvorum")
    except importlib.metadata.PackageNotFoundError:  # shipped to an executor as a zip: no package is installed there
        return "0"
