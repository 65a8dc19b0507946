"""One query's nodes as one DataFrame.

Between any two nodes flows a record frame (kvorum.pipelines.frames): `key` and `value` of the user's types, the
record's timestamp, and, until an operator makes new records, the topic, partition, offset and headers it came with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampType

from kvorum.pipelines import frames
from kvorum.pipelines.streams import functions, serdes
from kvorum.pipelines.streams.compiler.aggregates import aggregate, table_aggregate
from kvorum.pipelines.streams.compiler.joins import stream_join, table_join, table_lookup
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import (
    Aggregate,
    Branch,
    Filter,
    FlatMapValues,
    Map,
    MapValues,
    Merge,
    Node,
    Process,
    Repartition,
    SelectKey,
    Sink,
    Source,
    Split,
    StreamJoin,
    Suppress,
    TableAggregate,
    TableJoin,
    TableLookup,
    ToStream,
    ToTable,
)
from kvorum.pipelines.streams.packed import pack, type_of, unpack
from kvorum.pipelines.streams.plan import Mode, Query
from kvorum.pipelines.streams.processor import ProcessorRunner

OnBadRecord = Literal["fail", "skip"]
TIME_MODES: Mapping[str, str] = {"none": "None", "event": "EventTime", "processing": "ProcessingTime"}


class Topics(Protocol):
    """Where records come from: a cluster's topics, or a test's files."""

    def read(self, source: Source) -> DataFrame:
        """Return a stream of records whose key and value are bytes."""
        ...

    def read_internal(self, suffix: str) -> DataFrame:
        """Return the same of a topic of the application's own."""
        ...


@dataclass(slots=True, kw_only=True)
class Compiler:
    """Compiles an application's queries, in the plan's order: who reads an internal topic learns its types from it."""

    topics: Topics
    on_bad_record: OnBadRecord = "fail"
    _types: dict[Node, Mapping[str, DataType]] = field(default_factory=dict)

    def compile(self, query: Query) -> DataFrame:
        """Return the frame that the query writes: key and value are bytes or text, timestamp, headers, maybe topic."""
        made: dict[Node, DataFrame] = {}
        for node in query.nodes():
            parents = tuple(made[parent] for parent in node.parents if parent in made)
            if node is query.head:
                return self._written(node, parents[0])
            made[node] = self._frame(node, parents, query.mode)
        raise AssertionError(f"{query.name} has no end")

    def _frame(self, node: Node, above: tuple[DataFrame, ...], mode: Mode) -> DataFrame:
        operation = node.operation
        match operation:
            case Source():
                return self._source(operation)
            case Repartition():
                return self._internal(node, operation)
            case Filter() | MapValues() | Map() | FlatMapValues() | SelectKey() | Branch():
                return stateless(above[0], operation)
            case Split() | Suppress():
                return above[0]
            case ToStream(selector=selector):
                return above[0] if selector is None else stateless(above[0], SelectKey(selector=selector))
            case ToTable():
                return above[0].where(F.col("key").isNotNull())
            case Merge():
                return merge(node.name, above)
            case Aggregate():
                return aggregate(above[0], operation, mode)
            case TableAggregate():
                return table_aggregate(above[0], operation, mode)
            case StreamJoin():
                return stream_join(above[0], above[1], operation)
            case TableLookup():
                table = node.parents[1].operation
                is_global = isinstance(table, Source) and table.is_global
                return table_lookup(above[0], above[1], operation, mode, is_global=is_global)
            case TableJoin():
                return table_join(above[0], above[1], operation, mode)
            case Process():
                return process(above[0], operation, mode)
            case Sink():
                raise AssertionError(f"{node.name} is no query's end")
            case _:
                assert_never(operation)

    def _source(self, source: Source) -> DataFrame:
        frame = frames.record_frame(self.topics.read(source))
        frame = serdes.decode(frame, "key", source.key_serde)
        frame = serdes.decode(frame, "value", source.value_serde)
        frame = frames.first_failed(frame) if self.on_bad_record == "fail" else frames.well(frame)
        if source.timestamp_extractor is not None:
            extracted = functions.column(source.timestamp_extractor).cast(TimestampType())
            frame = frame.withColumn("timestamp", F.coalesce(extracted, F.col("timestamp")))
        frame = frame.select(*frames.COLUMNS)
        return frame.where(F.col("key").isNotNull()) if source.is_table else frame

    def _internal(self, node: Node, operation: Repartition) -> DataFrame:
        types = self._types[node]
        frame = frames.record_frame(self.topics.read_internal(operation.suffix))
        return frame.withColumns(
            {
                name: unpack(F.col(name).cast("string"), {name: types[name]}).getField(name).alias(name)
                for name in frames.FREE
            }
        )

    def _written(self, head: Node, frame: DataFrame) -> DataFrame:
        operation = head.operation
        columns: list[Column | str] = ["key", "value", "timestamp", "headers"]
        if isinstance(operation, Repartition):
            self._types[head] = {name: frame.schema[name].dataType for name in frames.FREE}
            frame = frame.withColumns(
                {name: F.when(F.col(name).isNotNull(), pack(name)).cast("binary") for name in frames.FREE}
            )
            return frame.select(*columns)
        assert isinstance(operation, Sink)
        if operation.topic_extractor is not None:
            frame = frame.withColumn("topic", functions.column(operation.topic_extractor).cast("string"))
            columns.append("topic")
        frame = serdes.encode(frame, "key", operation.key_serde)
        frame = serdes.encode(frame, "value", operation.value_serde)
        return frames.first_failed(frame).select(*columns)


def stateless(frame: DataFrame, operation: Filter | MapValues | Map | FlatMapValues | SelectKey | Branch) -> DataFrame:
    """Return what becomes of each record by itself."""
    match operation:
        case Filter(predicate=predicate, is_negated=is_negated, is_table=is_table):
            holds = ~functions.truth(predicate) if is_negated else functions.truth(predicate)
            if is_table:
                return frame.withColumn("value", F.when(F.col("value").isNotNull() & holds, F.col("value")))
            return frame.where(holds)
        case MapValues(mapper=mapper, is_table=is_table):
            value = functions.column(mapper)
            return frame.withColumn("value", F.when(F.col("value").isNotNull(), value) if is_table else value)
        case Map(mapper=mapper):
            key, value = functions.pair(mapper)
            return frame.withColumns({"key": key, "value": value})
        case FlatMapValues(mapper=mapper):
            return frame.withColumn("value", F.explode(functions.column(mapper)))
        case SelectKey(selector=selector):
            return frame.withColumn("key", functions.column(selector))
        case Branch(before=before, predicate=predicate):
            for taken in before:
                frame = frame.where(~functions.truth(taken))
            return frame if predicate is None else frame.where(functions.truth(predicate))
        case _:
            assert_never(operation)


def merge(name: str, above: tuple[DataFrame, ...]) -> DataFrame:
    """Return all frames' records. Raises TopologyError for keys or values of different types."""
    for part in frames.FREE:
        kinds = {frame.schema[part].dataType.simpleString() for frame in above}
        if len(kinds) > 1:
            raise TopologyError(
                f"{name}: the {part}s of merged streams must have one type, found {', '.join(sorted(kinds))}"
            )
    made = above[0]
    for frame in above[1:]:
        made = made.unionByName(frame)
    return made


def process(frame: DataFrame, operation: Process, mode: Mode) -> DataFrame:
    """Return what a Processor forwards."""
    key_type = frame.schema["key"].dataType
    runner = operation.processor
    has_own_keys = operation.key_type is not None
    if operation.time == "event":
        frame = frame.withWatermark("timestamp", "0 milliseconds")
    if isinstance(runner, StatefulProcessor):
        has_own_keys = True
    else:
        make: Callable[[], object] = runner
        runner = ProcessorRunner(make, operation.stores, has_own_keys)
    made_key: DataType = key_type if has_own_keys else StringType()
    if operation.key_type is not None:
        made_key = type_of(operation.key_type)
    made_value = StructField("value", type_of(operation.value_type))
    output = StructType([StructField("key", made_key), made_value, StructField("timestamp", TimestampType())])
    # A time without what says that a watermark is on it: a Processor sees late records, too.
    untimed = F.timestamp_micros(F.unix_micros("timestamp")).alias("timestamp")
    rows = frame.select(pack("key").alias("_key"), "key", "value", untimed, "topic", "partition", "offset", "headers")
    made = rows.groupBy("_key").transformWithState(
        statefulProcessor=runner, outputStructType=output, outputMode=mode, timeMode=TIME_MODES[operation.time]
    )
    if has_own_keys:
        return frames.record_frame(made)
    return frames.record_frame(made, key=unpack("key", {"key": key_type}).getField("key"))
