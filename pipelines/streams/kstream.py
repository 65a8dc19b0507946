"""KStream: records as facts, each for itself; and what becomes of a stream that is split or grouped.

Functions are SQL strings or callables of Columns, see functions.py: `lambda value: ...` or `lambda key, value: ...`.
Everything here only writes the operation down.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from kvorum.pipelines.streams import grouped, ktable
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.graph import Graph
from kvorum.pipelines.streams.nodes import (
    Branch,
    Filter,
    FlatMapValues,
    JoinKind,
    Map,
    MapValues,
    Merge,
    Node,
    Operation,
    Process,
    Repartition,
    SelectKey,
    Sink,
    Split,
    StreamJoin,
    TableLookup,
    ToTable,
)
from kvorum.pipelines.streams.processor import Processor
from kvorum.pipelines.streams.serdes import Serde
from kvorum.pipelines.streams.windows import JoinWindows


class KStream:
    """A stream of records. Methods return new streams; this one stays as it is."""

    def __init__(self, graph: Graph, node: Node) -> None:
        """Stand for what comes out of `node`."""
        self._graph = graph
        self.node = node

    def _then(self, operation: Operation, kind: str, *others: Node, named: str | None = None) -> "KStream":
        return KStream(self._graph, self._graph.add(operation, kind, self.node, *others, named=named))

    def filter(self, predicate: Expression, *, named: str | None = None) -> "KStream":
        """Keep the records that fulfil the predicate."""
        return self._then(Filter(predicate=predicate), "KSTREAM-FILTER", named=named)

    def filter_not(self, predicate: Expression, *, named: str | None = None) -> "KStream":
        """Keep the records that do not fulfil the predicate."""
        return self._then(Filter(predicate=predicate, is_negated=True), "KSTREAM-FILTER", named=named)

    def map(self, mapper: Callable[..., Any], *, named: str | None = None) -> "KStream":
        """Give each record a new key and value: `lambda key, value: (key, value)`."""
        return self._then(Map(mapper=mapper), "KSTREAM-MAP", named=named)

    def map_values(self, mapper: Expression, *, named: str | None = None) -> "KStream":
        """Give each record a new value."""
        return self._then(MapValues(mapper=mapper), "KSTREAM-MAPVALUES", named=named)

    def flat_map_values(self, mapper: Expression, *, named: str | None = None) -> "KStream":
        """Make a record of each element of the array that the mapper returns."""
        return self._then(FlatMapValues(mapper=mapper), "KSTREAM-FLATMAPVALUES", named=named)

    def select_key(self, selector: Expression, *, named: str | None = None) -> "KStream":
        """Give each record a new key."""
        return self._then(SelectKey(selector=selector), "KSTREAM-KEY-SELECT", named=named)

    def merge(self, *others: "KStream", named: str | None = None) -> "KStream":
        """Return the records of this stream and of the others; keys and values must be of the same types."""
        return self._then(Merge(), "KSTREAM-MERGE", *(other.node for other in others), named=named)

    def split(self, *, named: str | None = None) -> "BranchedKStream":
        """Begin to part the stream: .branch(predicate) as often as needed, then a default, or none."""
        return BranchedKStream(self._graph, self._graph.add(Split(), "KSTREAM-BRANCH", self.node, named=named))

    def branch(self, *predicates: Expression) -> "tuple[KStream, ...]":
        """Return a stream for each predicate: of the records that fulfil it and none before it."""
        split = self.split()
        for index, predicate in enumerate(predicates):
            split = split.branch(predicate, str(index))
        return tuple(split.no_default_branch().values())

    def group_by_key(self) -> "grouped.KGroupedStream":
        """Group the records by their key."""
        return grouped.KGroupedStream(self._graph, self.node)

    def group_by(self, selector: Expression, *, named: str | None = None) -> "grouped.KGroupedStream":
        """Group the records by a new key; those for which it is null are dropped."""
        return self.select_key(selector, named=named).group_by_key()

    def join(
        self,
        other: "KStream | ktable.KTable | ktable.GlobalKTable",
        joiner: Expression,
        windows: JoinWindows | None = None,
        *,
        key_selector: Expression | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> "KStream":
        """Join with a stream within a window, with a table's latest row, or with a global table's by `key_selector`.

        The joiner gets `left` and `right` (or `key`, `left`, `right`): two values, either as SQL or as Columns.
        """
        return self._join(other, joiner, windows, "inner", key_selector, store, named)

    def left_join(
        self,
        other: "KStream | ktable.KTable | ktable.GlobalKTable",
        joiner: Expression,
        windows: JoinWindows | None = None,
        *,
        key_selector: Expression | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> "KStream":
        """Join as join does; a record without a counterpart is emitted with a null `right`."""
        return self._join(other, joiner, windows, "left", key_selector, store, named)

    def outer_join(
        self,
        other: "KStream",
        joiner: Expression,
        windows: JoinWindows,
        *,
        store: str | None = None,
        named: str | None = None,
    ) -> "KStream":
        """Join with a stream within a window; records of either without a counterpart are emitted as well."""
        return self._join(other, joiner, windows, "outer", None, store, named)

    def _join(
        self,
        other: "KStream | ktable.KTable | ktable.GlobalKTable",
        joiner: Expression,
        windows: JoinWindows | None,
        kind: JoinKind,
        key_selector: Expression | None,
        store: str | None,
        named: str | None,
    ) -> "KStream":
        operation: Operation
        if isinstance(other, KStream):
            if windows is None:
                raise TopologyError("a join of two streams needs a window: pass JoinWindows")
            operation = StreamJoin(joiner=joiner, windows=windows, kind=kind)
            prefix = "KSTREAM-JOIN"
        else:
            is_global = isinstance(other, ktable.GlobalKTable)
            if windows is not None or (key_selector is not None) != is_global:
                raise TopologyError("a join with a table takes no window, and key_selector is for global tables")
            operation = TableLookup(joiner=joiner, kind=kind, selector=key_selector)
            prefix = "KSTREAM-GLOBALKTABLE-JOIN" if is_global else "KSTREAM-KTABLE-JOIN"
        node = self._graph.add(
            operation, prefix, self.node, other.node, named=named, store=store, store_kind=f"{prefix}-STORE"
        )
        return KStream(self._graph, node)

    def process(
        self,
        processor: "Callable[[], Processor] | StatefulProcessor",
        value_type: str,
        *,
        key_type: str | None = None,
        stores: tuple[str, ...] = (),
        time: Literal["none", "event", "processing"] = "none",
        named: str | None = None,
    ) -> "KStream":
        """Hand the records of each key to a Processor in Python, with stores and timers; see processor.py.

        `value_type` and `key_type` (default: as it is) are Spark's words for what it forwards: "BIGINT",
        "STRUCT<user: STRING, sessions: INT>". A StatefulProcessor of Spark's is taken, too: it gets the record frame's
        rows (Row API) and returns rows of key, value and timestamp.
        """
        operation = Process(processor=processor, key_type=key_type, value_type=value_type, stores=stores, time=time)
        node = self._graph.add(operation, "KSTREAM-PROCESSOR", self.node, named=named, store=",".join(stores) or None)
        return KStream(self._graph, node)

    def repartition(self, *, named: str | None = None, partitions: int | None = None) -> "KStream":
        """Send the records through a topic of the application's own, and go on in another query."""
        suffix = named or self._graph.name("KSTREAM-REPARTITION")
        return self._then(Repartition(suffix=suffix, partitions=partitions), "", named=f"{suffix}-repartition")

    def to_table(self, *, named: str | None = None) -> "ktable.KTable":
        """Take the records as changes of a table: the last value of a key is its row, null its end."""
        return ktable.KTable(self._graph, self._graph.add(ToTable(), "KSTREAM-TOTABLE", self.node, named=named))

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
        is_name = isinstance(topic, str)
        sink = Sink(
            topic=topic if isinstance(topic, str) else None,
            topic_extractor=None if is_name else topic,
            key_serde=key_serde,
            value_serde=value_serde,
        )
        self._graph.add(sink, "KSTREAM-SINK", self.node, named=named)


class BranchedKStream:
    """A stream that is being parted. A record goes to the first branch whose predicate it fulfils."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        taken: tuple[Expression, ...] = (),
        branches: Mapping[str, KStream] | None = None,
    ) -> None:
        """Take what branches there are, and their predicates."""
        self._graph = graph
        self.node = node
        self._taken = taken
        self._branches = dict(branches or {})

    def _with(self, predicate: Expression | None, name: str) -> dict[str, KStream]:
        if name in self._branches:
            raise TopologyError(f"two branches of {self.node.name} are named {name}")
        operation = Branch(before=self._taken, predicate=predicate)
        node = self._graph.add(operation, "", self.node, named=f"{self.node.name}-{name}")
        return self._branches | {name: KStream(self._graph, node)}

    def branch(self, predicate: Expression, name: str | None = None) -> "BranchedKStream":
        """Add a branch; its name is the key of what default_branch and no_default_branch return."""
        branches = self._with(predicate, name or str(len(self._branches) + 1))
        return BranchedKStream(self._graph, self.node, (*self._taken, predicate), branches)

    def default_branch(self, name: str = "0") -> dict[str, KStream]:
        """Return the branches by name, with one more for all the rest."""
        return self._with(None, name)

    def no_default_branch(self) -> dict[str, KStream]:
        """Return the branches by name; the rest is dropped."""
        return dict(self._branches)
