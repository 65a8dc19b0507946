"""Groups on their way to a table: by key, by key and window, and of a table's rows.

An aggregate is an expression of Spark's aggregate functions over `key` and `value`, native and incremental:
`.aggregate(lambda value: F.struct(F.sum(value.amount).alias("total"), F.max(value.at).alias("last")))`. With an
initializer it is Kafka's: Python functions `(key, value, aggregate) -> aggregate`, called for each record.
"""

from collections.abc import Callable
from typing import Any

from kvorum.pipelines.streams import ktable
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression, arity
from kvorum.pipelines.streams.graph import Graph
from kvorum.pipelines.streams.nodes import Aggregate, Node, Python, TableAggregate
from kvorum.pipelines.streams.windows import SessionWindows, TimeWindows, Windows

COUNT = "count(1)"


class _Grouped:
    """Common parts of KGroupedStream and its windowed forms."""

    def __init__(self, graph: Graph, node: Node, windows: Windows | None = None) -> None:
        self._graph = graph
        self.node = node
        self._windows = windows

    def count(self, *, store: str | None = None, named: str | None = None) -> "ktable.KTable":
        """Return how many records each group has."""
        return self._aggregate(COUNT, store, named)

    def reduce(
        self, reducer: Expression, *, python: bool = False, store: str | None = None, named: str | None = None
    ) -> "ktable.KTable":
        """Return the values of each group as one: F.sum, F.max, "max_by(value, timestamp)".

        With `python=True` the reducer is Kafka's: a Python function of two values, called in the order of the records.
        """
        if not python:
            return self._aggregate(reducer, store, named)
        if isinstance(reducer, str) or arity(reducer) != 2:
            raise TopologyError("a Python reducer is a function of two values")
        return self._aggregate(Python(initializer=None, adder=_Reducer(reducer)), store, named)

    def aggregate(
        self,
        initializer: Expression,
        aggregator: Callable[[Any, Any, Any], Any] | None = None,
        *,
        schema: str | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> "ktable.KTable":
        """Return an aggregate of each group.

        One argument: an expression of aggregate functions. Two, and the aggregate's type in Spark's words: an
        initializer without arguments and an aggregator `(key, value, aggregate) -> aggregate`, in Python. Structs
        come as dicts; what the aggregator returns is kept as JSON.
        """
        if aggregator is None:
            return self._aggregate(initializer, store, named)
        if isinstance(initializer, str) or schema is None:
            raise TopologyError("an aggregator in Python needs an initializer and a schema")
        return self._aggregate(Python(initializer=initializer, adder=aggregator, schema=schema), store, named)

    def _aggregate(self, function: Expression | Python, store: str | None, named: str | None) -> "ktable.KTable":
        operation = Aggregate(
            function=function, windows=self._windows, is_final=isinstance(self._windows, SessionWindows)
        )
        prefix = "KSTREAM-AGGREGATE"
        node = self._graph.add(
            operation, prefix, self.node, named=named, store=store, store_kind=f"{prefix}-STATE-STORE"
        )
        return ktable.KTable(self._graph, node)


class KGroupedStream(_Grouped):
    """Records by key."""

    def windowed_by(self, windows: Windows) -> "TimeWindowedKStream | SessionWindowedKStream":
        """Group by window as well. The key becomes STRUCT<key, window: STRUCT<start, end>>."""
        if isinstance(windows, TimeWindows):
            return TimeWindowedKStream(self._graph, self.node, windows)
        return SessionWindowedKStream(self._graph, self.node, windows)


class TimeWindowedKStream(_Grouped):
    """Records by key and window in time."""


class SessionWindowedKStream(_Grouped):
    """Records by key and session. A session is a record when it is over, not before."""


class KGroupedTable:
    """A table's rows by another key."""

    def __init__(self, graph: Graph, node: Node, selector: Callable[..., Any]) -> None:
        """Group the rows of `node`."""
        self._graph = graph
        self.node = node
        self._selector = selector

    def count(self, *, store: str | None = None, named: str | None = None) -> "ktable.KTable":
        """Return how many rows each group has now."""
        return self._aggregate(None, store, named)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        store: str | None = None,
        named: str | None = None,
    ) -> "ktable.KTable":
        """Return the values of each group as one, in Python: `(aggregate, value) -> aggregate`, for a row that joins
        the group and for one that leaves it."""
        function = Python(initializer=None, adder=_Reducer(adder), subtractor=_Reducer(subtractor))
        return self._aggregate(function, store, named)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        schema: str,
        store: str | None = None,
        named: str | None = None,
    ) -> "ktable.KTable":
        """Return an aggregate of each group, in Python: `(key, value, aggregate) -> aggregate` both."""
        function = Python(initializer=initializer, adder=adder, subtractor=subtractor, schema=schema)
        return self._aggregate(function, store, named)

    def _aggregate(self, function: Python | None, store: str | None, named: str | None) -> "ktable.KTable":
        operation = TableAggregate(selector=self._selector, function=function)
        prefix = "KTABLE-AGGREGATE"
        node = self._graph.add(
            operation, prefix, self.node, named=named, store=store, store_kind=f"{prefix}-STATE-STORE"
        )
        return ktable.KTable(self._graph, node)


class _Reducer:
    """A function of two values in an aggregator's form."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self._function(aggregate, value)
