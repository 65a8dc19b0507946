"""KTable: records as the changes of a table, where the last value of a key is its row and a null value its end."""

from collections.abc import Callable
from typing import Any

from kvorum.pipelines.streams import grouped, kstream
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.graph import Graph
from kvorum.pipelines.streams.nodes import Filter, JoinKind, MapValues, Node, Operation, Suppress, TableJoin, ToStream
from kvorum.pipelines.streams.windows import Suppressed


class KTable:
    """A table. What flows is its changes, a null value for a row that ended."""

    def __init__(self, graph: Graph, node: Node) -> None:
        """Stand for what comes out of `node`."""
        self._graph = graph
        self.node = node

    def _then(self, operation: Operation, kind: str, *, named: str | None = None) -> "KTable":
        return KTable(self._graph, self._graph.add(operation, kind, self.node, named=named))

    def filter(self, predicate: Expression, *, named: str | None = None) -> "KTable":
        """Keep the rows that fulfil the predicate; a change to one that does not is its end."""
        return self._then(Filter(predicate=predicate, is_table=True), "KTABLE-FILTER", named=named)

    def filter_not(self, predicate: Expression, *, named: str | None = None) -> "KTable":
        """Keep the rows that do not fulfil the predicate."""
        operation = Filter(predicate=predicate, is_negated=True, is_table=True)
        return self._then(operation, "KTABLE-FILTER", named=named)

    def map_values(self, mapper: Expression, *, named: str | None = None) -> "KTable":
        """Give each row a new value."""
        return self._then(MapValues(mapper=mapper, is_table=True), "KTABLE-MAPVALUES", named=named)

    def group_by(self, selector: Callable[..., Any]) -> "grouped.KGroupedTable":
        """Group the rows by a new key: `lambda key, value: (new key, new value)`."""
        return grouped.KGroupedTable(self._graph, self.node, selector)

    def join(
        self, other: "KTable", joiner: Expression, *, store: str | None = None, named: str | None = None
    ) -> "KTable":
        """Join with the rows of the same key in another table; rows without a counterpart are omitted."""
        return self._join(other, joiner, "inner", store, named)

    def left_join(
        self, other: "KTable", joiner: Expression, *, store: str | None = None, named: str | None = None
    ) -> "KTable":
        """Join; a row of this table without a counterpart is included, with a null `right`."""
        return self._join(other, joiner, "left", store, named)

    def outer_join(
        self, other: "KTable", joiner: Expression, *, store: str | None = None, named: str | None = None
    ) -> "KTable":
        """Join; rows of either table without a counterpart are included."""
        return self._join(other, joiner, "outer", store, named)

    def _join(
        self, other: "KTable", joiner: Expression, kind: JoinKind, store: str | None, named: str | None
    ) -> "KTable":
        prefix = "KTABLE-JOIN"
        node = self._graph.add(
            TableJoin(joiner=joiner, kind=kind),
            prefix,
            self.node,
            other.node,
            named=named,
            store=store,
            store_kind=f"{prefix}-STORE",
        )
        return KTable(self._graph, node)

    def suppress(self, suppressed: Suppressed, *, named: str | None = None) -> "KTable":
        """Hold back what `suppressed` says."""
        assert suppressed.until_closed
        return self._then(Suppress(), "KTABLE-SUPPRESS", named=named)

    def to_stream(self, selector: Expression | None = None, *, named: str | None = None) -> "kstream.KStream":
        """Return the changes as records, with a new key if there is a selector."""
        node = self._graph.add(ToStream(selector=selector), "KTABLE-TOSTREAM", self.node, named=named)
        return kstream.KStream(self._graph, node)


class GlobalKTable:
    """A table to look up by any key."""

    def __init__(self, node: Node) -> None:
        """Stand for the table of `node`."""
        self.node = node
