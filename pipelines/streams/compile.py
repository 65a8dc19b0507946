"""One query's nodes as one DataFrame.

Between any two nodes flows a record frame (kvorum.pipelines.frames): `key` and `value` of the user's types, the
record's timestamp, and, until an operator makes new records, the topic, partition, offset and headers it came with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType, TimestampType

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.streams import functions, serdes
from kvorum.pipelines.streams.state import pack, unpack
from kvorum.pipelines.streams.topology import Node, Query, Repartition, Sink, Source, Step

OnBadRecord = Literal["fail", "skip"]


class Topics(Protocol):
    """Where records come from and go to: a cluster's topics, or a test's files."""

    def read(self, source: Source) -> DataFrame:
        """Return a stream of records whose key and value are bytes."""
        ...

    def read_internal(self, suffix: str) -> DataFrame:
        """Return the same of a topic of the application's own."""
        ...

    def write(self, frame: DataFrame, query: Query, trigger: Trigger) -> StreamingQuery:
        """Start a query."""
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
        *nodes, head = query.nodes()
        for node in nodes:
            match node.operation:
                case Source() as source:
                    made[node] = self._source(source)
                case Repartition(suffix=suffix):
                    frame = frames.record_frame(self.topics.read_internal(suffix))
                    made[node] = frame.withColumns(
                        {
                            name: unpack(F.col(name).cast("string"), {name: kind}).getField(name)
                            for name, kind in self._types[node].items()
                        }
                    )
                case Step() as step:
                    mode = {"mode": query.mode} if step.load.has_state else {}
                    made[node] = step.function(*(made[parent] for parent in node.parents), **mode)
                case Sink():
                    raise AssertionError(f"{node.name} is no query's end")
        return self._written(head, made[head.parents[0]])

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

    def _written(self, head: Node, frame: DataFrame) -> DataFrame:
        operation = head.operation
        columns: list[Column | str] = ["key", "value", "timestamp", "headers"]
        if isinstance(operation, Repartition):
            self._types[head] = {name: frame.schema[name].dataType for name in frames.FREE}
            packed = {name: F.when(F.col(name).isNotNull(), pack(name)).cast("binary") for name in frames.FREE}
            return frame.withColumns(packed).select(*columns)
        assert isinstance(operation, Sink)
        if operation.topic_extractor is not None:
            frame = frame.withColumn("topic", functions.column(operation.topic_extractor).cast("string"))
            columns.append("topic")
        frame = serdes.encode(frame, "key", operation.key_serde)
        frame = serdes.encode(frame, "value", operation.value_serde)
        return frames.first_failed(frame).select(*columns)
