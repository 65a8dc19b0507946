"""Kafka Streams' DSL: streams of records, tables of changes, and groups on their way to a table.

Functions are SQL strings or callables of Columns, see functions.py: `lambda value: ...` or `lambda key, value: ...`.
Everything here only writes the operation down; it runs when a query is compiled. Methods return new objects.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, Literal, TypedDict, Unpack

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kvorum.pipelines import frames
from kvorum.pipelines.streams import topology
from kvorum.pipelines.streams.functions import Expression, TopologyError, arity, column, pair, truth
from kvorum.pipelines.streams.operators import aggregate_step, stream_join, table_aggregate, table_join, table_lookup
from kvorum.pipelines.streams.serdes import Serde
from kvorum.pipelines.streams.state import JoinKind, Python
from kvorum.pipelines.streams.topology import Graph, Load, Node, Operation, Repartition, Sink, Source, Step, Topology
from kvorum.pipelines.streams.windows import JoinWindows, SessionWindows, Suppressed, Windows


class Names(TypedDict, total=False):
    """Names of a node and of its state store. Without one it gets a number."""

    named: str | None
    store: str | None


class LookupNames(Names, total=False):
    """The same of a join."""

    key_selector: Expression | None
    """Of a join with a global table: the key of its row."""


class SourceOptions(Names, total=False):
    """Serdes and names. Keys and values are strings unless serdes are given."""

    key_serde: Serde
    value_serde: Serde
    timestamp_extractor: Expression | None
    """SQL, or a callable of key and value, for event time; without it, it is the record's timestamp."""


class StreamsBuilder:
    """Collects what is built; build() returns it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._graph = Graph()

    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        offset_reset: Literal["earliest", "latest"] = "earliest",
        **options: Unpack[SourceOptions],
    ) -> "KStream":
        """Return the records of a topic, of several, or of all whose name a compiled pattern matches in full."""
        pattern = topics.pattern if isinstance(topics, re.Pattern) else None
        names = () if isinstance(topics, re.Pattern) else (topics,) if isinstance(topics, str) else tuple(topics)
        if pattern is None and not (names and all(names)):
            raise TopologyError("a stream needs at least one topic, and topic names are not empty")
        place: dict[str, Any] = {"topics": names, "pattern": pattern, "offset_reset": offset_reset}
        return KStream(self._graph, self._source("KSTREAM-SOURCE", **place, **options))

    def table(self, topic: str, **options: Unpack[SourceOptions]) -> "KTable":
        """Return a topic as a changelog: the last value of a key is its row, a null value its end."""
        return KTable(self._graph, self._source("KTABLE-SOURCE", topics=(topic,), is_table=True, **options))

    def global_table(self, topic: str, **options: Unpack[SourceOptions]) -> "GlobalKTable":
        """Return a table that streams may look up by any key, not only their own; its rows come before theirs."""
        return GlobalKTable(self._source("KTABLE-SOURCE", topics=(topic,), is_table=True, is_global=True, **options))

    def _source(self, kind: str, *, named: str | None = None, store: str | None = None, **source: Any) -> Node:
        return self._graph.add(Source(**source), kind, named=named, store=store)

    def build(self) -> Topology:
        """Return what leads to a topic. Raises TopologyError for what cannot run."""
        return Topology.of(self._graph.sinks)


@dataclass(frozen=True, slots=True, eq=False)
class _Built:
    """The records that come out of a node."""

    _graph: Graph
    node: Node

    def _add(self, operation: Operation, kind: str, *others: Node, **names: str | None) -> Node:
        return self._graph.add(operation, kind, self.node, *others, **names)


class KStream(_Built):
    """A stream of records as facts, each for itself."""

    def _then(self, function: Callable[..., DataFrame], kind: str, *others: Node, named: str | None) -> "KStream":
        return KStream(self._graph, self._add(Step(function=function), kind, *others, named=named))

    def filter(self, predicate: Expression, *, named: str | None = None) -> "KStream":
        """Keep the records that fulfil the predicate."""
        return self._then(lambda frame: frame.where(truth(predicate)), "KSTREAM-FILTER", named=named)

    def filter_not(self, predicate: Expression, *, named: str | None = None) -> "KStream":
        """Keep the records that do not fulfil the predicate."""
        return self._then(lambda frame: frame.where(~truth(predicate)), "KSTREAM-FILTER", named=named)

    def map(self, mapper: Callable[..., Any], *, named: str | None = None) -> "KStream":
        """Give each record a new key and value: `lambda key, value: (key, value)`."""
        return self._then(lambda frame: frame.withColumns(pair(mapper)), "KSTREAM-MAP", named=named)

    def map_values(self, mapper: Expression, *, named: str | None = None) -> "KStream":
        """Give each record a new value."""
        return self._then(lambda frame: frame.withColumn("value", column(mapper)), "KSTREAM-MAPVALUES", named=named)

    def flat_map_values(self, mapper: Expression, *, named: str | None = None) -> "KStream":
        """Make a record of each element of the array that the mapper returns."""
        return self._then(
            lambda frame: frame.withColumn("value", F.explode(column(mapper))), "KSTREAM-FLATMAPVALUES", named=named
        )

    def select_key(self, selector: Expression, *, named: str | None = None) -> "KStream":
        """Give each record a new key."""
        return self._then(lambda frame: frame.withColumn("key", column(selector)), "KSTREAM-KEY-SELECT", named=named)

    def merge(self, *others: "KStream", named: str | None = None) -> "KStream":
        """Return the records of this stream and of the others; keys and values must be of the same types."""
        name = named or self._graph.name("KSTREAM-MERGE")

        def merged(*above: DataFrame) -> DataFrame:
            for part in frames.FREE:
                kinds = sorted({frame.schema[part].dataType.simpleString() for frame in above})
                if len(kinds) > 1:
                    raise TopologyError(
                        f"{name}: the {part}s of merged streams must have one type, found {', '.join(kinds)}"
                    )
            return reduce(DataFrame.unionByName, above)

        return self._then(merged, "", *(other.node for other in others), named=name)

    def split(self, *, named: str | None = None) -> "BranchedKStream":
        """Begin to part the stream: .branch(predicate) as often as needed, then a default, or none."""
        return BranchedKStream(self._then(lambda frame: frame, "KSTREAM-BRANCH", named=named))

    def group_by_key(self) -> "KGroupedStream":
        """Group the records by their key."""
        return KGroupedStream(self._graph, self.node)

    def group_by(self, selector: Expression, *, named: str | None = None) -> "KGroupedStream":
        """Group the records by a new key; those for which it is null are dropped."""
        return self.select_key(selector, named=named).group_by_key()

    def join(
        self, other: "Joined", joiner: Expression, windows: JoinWindows | None = None, **names: Unpack[LookupNames]
    ) -> "KStream":
        """Join with a stream within a window, with a table's latest row, or with a global table's by `key_selector`.

        The joiner gets `left` and `right` (or `key`, `left`, `right`): two values, either as SQL or as Columns.
        """
        return self._join("inner", other, joiner, windows, **names)

    def left_join(
        self, other: "Joined", joiner: Expression, windows: JoinWindows | None = None, **names: Unpack[LookupNames]
    ) -> "KStream":
        """Join as join does; a record without a counterpart is emitted with a null `right`."""
        return self._join("left", other, joiner, windows, **names)

    def outer_join(
        self, other: "KStream", joiner: Expression, windows: JoinWindows, **names: Unpack[Names]
    ) -> "KStream":
        """Join with a stream within a window; records of either without a counterpart are emitted as well."""
        return self._join("outer", other, joiner, windows, **names)

    def _join(
        self,
        kind: JoinKind,
        other: "Joined",
        joiner: Expression,
        windows: JoinWindows | None,
        key_selector: Expression | None = None,
        **names: str | None,
    ) -> "KStream":
        is_global = isinstance(other, GlobalKTable)
        if isinstance(other, KStream):
            if windows is None:
                raise TopologyError("a join of two streams needs a window: pass JoinWindows")
            join = partial(stream_join, joiner=joiner, windows=windows, kind=kind)
            load = Load(topology.APPEND, has_state=True, is_timed=True)
            operation = Step(function=join, load=load, join_windows=windows)
            prefix = "KSTREAM-JOIN"
        else:
            if windows is not None or (key_selector is not None) != is_global:
                raise TopologyError("a join with a table takes no window, and key_selector is for global tables")
            lookup = partial(table_lookup, joiner=joiner, kind=kind, selector=key_selector, is_global=is_global)
            operation = Step(function=lookup, load=Load(has_state=True))
            prefix = "KSTREAM-GLOBALKTABLE-JOIN" if is_global else "KSTREAM-KTABLE-JOIN"
        return KStream(self._graph, self._add(operation, prefix, other.node, store_kind=f"{prefix}-STORE", **names))

    def repartition(self, *, named: str | None = None, partitions: int | None = None) -> "KStream":
        """Send the records through a topic of the application's own, and continue in another query."""
        suffix = named or self._graph.name("KSTREAM-REPARTITION")
        operation = Repartition(suffix=suffix, partitions=partitions)
        return KStream(self._graph, self._add(operation, "", named=f"{suffix}-repartition"))

    def to_table(self, *, named: str | None = None) -> "KTable":
        """Take the records as changes of a table: the last value of a key is its row, null its end."""
        operation = Step(function=lambda frame: frame.where(F.col("key").isNotNull()))
        return KTable(self._graph, self._add(operation, "KSTREAM-TOTABLE", named=named))

    def to(
        self,
        topic: Expression,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        named: str | None = None,
    ) -> None:
        """Write the records to a topic; a callable of key and value names one for each record.

        Without a serde, bytes and text are written as they are, what has parts as JSON, anything else as text.
        """
        name, extractor = (topic, None) if isinstance(topic, str) else (None, topic)
        sink = Sink(topic=name, topic_extractor=extractor, key_serde=key_serde, value_serde=value_serde)
        self._add(sink, "KSTREAM-SINK", named=named)


@dataclass(frozen=True, slots=True, eq=False)
class BranchedKStream:
    """A stream that is being parted. A record goes to the first branch whose predicate it fulfils."""

    _split: KStream
    _taken: tuple[Expression, ...] = ()
    _branches: Mapping[str, KStream] = field(default_factory=dict)

    def _with(self, predicate: Expression | None, name: str) -> dict[str, KStream]:
        split = self._split.node.name
        if name in self._branches:
            raise TopologyError(f"two branches of {split} are named {name}")

        def matching(frame: DataFrame) -> DataFrame:
            for taken in self._taken:
                frame = frame.where(~truth(taken))
            return frame if predicate is None else frame.where(truth(predicate))

        return {**self._branches, name: self._split._then(matching, "", named=f"{split}-{name}")}

    def branch(self, predicate: Expression, name: str | None = None) -> "BranchedKStream":
        """Add a branch; its name is the key of what default_branch and no_default_branch return."""
        branches = self._with(predicate, name or str(len(self._branches) + 1))
        return BranchedKStream(self._split, (*self._taken, predicate), branches)

    def default_branch(self, name: str = "0") -> dict[str, KStream]:
        """Return the branches by name, with one more for all the rest."""
        return self._with(None, name)

    def no_default_branch(self) -> dict[str, KStream]:
        """Return the branches by name; the rest is dropped."""
        return dict(self._branches)


class KTable(_Built):
    """A table: the last value of a key is its row. What flows is its changes, a null value for a row that ended."""

    def _with_value(self, value: Callable[[], Column], kind: str, named: str | None) -> "KTable":
        """Return the table with other values; a row that ended stays so."""

        def changed(frame: DataFrame) -> DataFrame:
            return frame.withColumn("value", F.when(F.col("value").isNotNull(), value()))

        return KTable(self._graph, self._add(Step(function=changed, keeps_windows=True), kind, named=named))

    def filter(self, predicate: Expression, *, named: str | None = None) -> "KTable":
        """Keep the rows that fulfil the predicate; a change to one that does not is its end."""
        return self._with_value(lambda: F.when(truth(predicate), F.col("value")), "KTABLE-FILTER", named)

    def filter_not(self, predicate: Expression, *, named: str | None = None) -> "KTable":
        """Keep the rows that do not fulfil the predicate."""
        return self._with_value(lambda: F.when(~truth(predicate), F.col("value")), "KTABLE-FILTER", named)

    def map_values(self, mapper: Expression, *, named: str | None = None) -> "KTable":
        """Give each row a new value."""
        return self._with_value(lambda: column(mapper), "KTABLE-MAPVALUES", named)

    def group_by(self, selector: Callable[..., Any]) -> "KGroupedTable":
        """Group the rows by a new key: `lambda key, value: (new key, new value)`."""
        return KGroupedTable(self, selector)

    def join(self, other: "KTable", joiner: Expression, **names: Unpack[Names]) -> "KTable":
        """Join with the rows of the same key in another table; rows without a counterpart are omitted."""
        return self._join("inner", other, joiner, **names)

    def left_join(self, other: "KTable", joiner: Expression, **names: Unpack[Names]) -> "KTable":
        """Join; a row of this table without a counterpart is included, with a null `right`."""
        return self._join("left", other, joiner, **names)

    def outer_join(self, other: "KTable", joiner: Expression, **names: Unpack[Names]) -> "KTable":
        """Join; rows of either table without a counterpart are included."""
        return self._join("outer", other, joiner, **names)

    def _join(self, kind: JoinKind, other: "KTable", joiner: Expression, **names: str | None) -> "KTable":
        operation = Step(function=partial(table_join, joiner=joiner, kind=kind), load=Load(has_state=True))
        node = self._add(operation, "KTABLE-JOIN", other.node, store_kind="KTABLE-JOIN-STORE", **names)
        return KTable(self._graph, node)

    def suppress(self, suppressed: Suppressed, *, named: str | None = None) -> "KTable":
        """Hold back the results of windows that are still open. Raises TopologyError if the table has no windows."""
        operation = Step(function=lambda frame: frame, keeps_windows=True)
        node = self._graph.add(operation, "KTABLE-SUPPRESS", _final(self.node), named=named)
        return KTable(self._graph, node)

    def to_stream(self, selector: Expression | None = None, *, named: str | None = None) -> KStream:
        """Return the changes as records, with a new key if there is a selector."""

        def records(frame: DataFrame) -> DataFrame:
            return frame if selector is None else frame.withColumn("key", column(selector))

        return KStream(self._graph, self._add(Step(function=records), "KTABLE-TOSTREAM", named=named))


def _final(node: Node) -> Node:
    """Return a windowed table with its final results only. Raises TopologyError for a table without windows."""
    operation = node.operation
    if isinstance(operation, Step) and operation.final is not None:
        return replace(node, operation=operation.final())
    if isinstance(operation, Step) and operation.keeps_windows:
        return replace(node, parents=(_final(node.parents[0]),))
    raise TopologyError(
        f"suppress follows a windowed aggregate, with only filter and map_values in between; "
        f"{node.name} has no windows that close"
    )


@dataclass(frozen=True, slots=True, eq=False)
class GlobalKTable:
    """A table to look up by any key."""

    node: Node


Joined = KStream | KTable | GlobalKTable


@dataclass(frozen=True, slots=True, eq=False)
class WindowedKStream(_Built):
    """Records by key, or by key and window. A session is a record when it is over, not before.

    An aggregate is an expression of Spark's aggregate functions over `key` and `value`, native and incremental:
    `.aggregate(lambda value: F.struct(F.sum(value.amount).alias("total"), F.max(value.at).alias("last")))`. With an
    initializer it is Kafka's: Python functions `(key, value, aggregate) -> aggregate`, called for each record.
    """

    _windows: Windows | None = None

    def count(self, **names: Unpack[Names]) -> KTable:
        """Return how many records each group has."""
        return self._aggregate("count(1)", **names)

    def reduce(self, reducer: Expression, *, python: bool = False, **names: Unpack[Names]) -> KTable:
        """Return the values of each group as one: F.sum, F.max, "max_by(value, timestamp)".

        With `python=True` the reducer is Kafka's: a Python function of two values, called in the order of the records.
        """
        if not python:
            return self._aggregate(reducer, **names)
        if isinstance(reducer, str) or arity(reducer) != 2:
            raise TopologyError("a Python reducer is a function of two values")
        return self._aggregate(Python(initializer=None, adder=_adder(reducer)), **names)

    def aggregate(
        self,
        initializer: Expression,
        aggregator: Callable[[Any, Any, Any], Any] | None = None,
        *,
        schema: str | None = None,
        **names: Unpack[Names],
    ) -> KTable:
        """Return an aggregate of each group.

        One argument: an expression of aggregate functions. Two, and the aggregate's type in Spark's words: an
        initializer without arguments and an aggregator `(key, value, aggregate) -> aggregate`, in Python. Structs
        come as dicts; what the aggregator returns is kept as JSON.
        """
        if aggregator is None:
            return self._aggregate(initializer, **names)
        if isinstance(initializer, str) or schema is None:
            raise TopologyError("an aggregator in Python needs an initializer and a schema")
        return self._aggregate(Python(initializer=initializer, adder=aggregator, schema=schema), **names)

    def _aggregate(self, function: Expression | Python, **names: str | None) -> KTable:
        operation = aggregate_step(function, self._windows, is_final=isinstance(self._windows, SessionWindows))
        store_kind = "KSTREAM-AGGREGATE-STATE-STORE"
        return KTable(self._graph, self._add(operation, "KSTREAM-AGGREGATE", store_kind=store_kind, **names))


class KGroupedStream(WindowedKStream):
    """Records by key."""

    def windowed_by(self, windows: Windows) -> WindowedKStream:
        """Group by window as well. The key becomes STRUCT<key, window: STRUCT<start, end>>."""
        return WindowedKStream(self._graph, self.node, windows)


@dataclass(frozen=True, slots=True, eq=False)
class KGroupedTable:
    """A table's rows by another key. A changed row leaves its old group and joins its new one."""

    _table: KTable
    _selector: Callable[..., Any]

    def count(self, **names: Unpack[Names]) -> KTable:
        """Return how many rows each group has now."""
        return self._aggregate(None, **names)

    def reduce(
        self, adder: Callable[[Any, Any], Any], subtractor: Callable[[Any, Any], Any], **names: Unpack[Names]
    ) -> KTable:
        """Return the values of each group as one, in Python: `(aggregate, value) -> aggregate`, for a row that joins
        the group and for one that leaves it."""
        function = Python(initializer=None, adder=_adder(adder), subtractor=_adder(subtractor))
        return self._aggregate(function, **names)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        schema: str,
        **names: Unpack[Names],
    ) -> KTable:
        """Return an aggregate of each group, in Python: `(key, value, aggregate) -> aggregate` both."""
        function = Python(initializer=initializer, adder=adder, subtractor=subtractor, schema=schema)
        return self._aggregate(function, **names)

    def _aggregate(self, function: Python | None, **names: str | None) -> KTable:
        load = Load(has_state=True) if function else Load(topology.UPDATE, has_state=True)
        operation = Step(function=partial(table_aggregate, selector=self._selector, function=function), load=load)
        store_kind = "KTABLE-AGGREGATE-STATE-STORE"
        node = self._table._add(operation, "KTABLE-AGGREGATE", store_kind=store_kind, **names)
        return KTable(self._table._graph, node)


def _adder(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a function of two values in an aggregator's form."""
    return lambda key, value, aggregate: function(aggregate, value)
