"""How a topology becomes queries: what Spark cannot do in one query is cut in two, through a topic.

Spark runs a query in one output mode, and not every operator in each; a table that is still changing (update mode)
cannot feed another operator with state; and a record's time counts for one operator of a query only. Where the
topology asks for more, a topic of the application's own is put between, as Kafka Streams does where it re-partitions,
and the rest is another query. Everything here is decided from the operations alone: no Spark, no cluster.

    operation                         output mode         may be followed by state     uses time
    aggregate (native)                update              no                           if windowed
    aggregate of windows, final       append              yes                          yes
    aggregate in Python               either              yes                          if windowed
    count of a table's groups         update              no                           no
    stream-stream join                append              yes                          yes
    table lookup, table join          either              yes                          no
    process                           either              yes                          if it asks for it
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import (
    Aggregate,
    Dag,
    Filter,
    MapValues,
    Node,
    Operation,
    Process,
    Python,
    Repartition,
    Sink,
    Source,
    StreamJoin,
    Suppress,
    TableAggregate,
    TableJoin,
    TableLookup,
    ancestors,
)

Mode = Literal["append", "update"]
BOTH: frozenset[Mode] = frozenset(("append", "update"))
APPEND: frozenset[Mode] = frozenset(("append",))
UPDATE: frozenset[Mode] = frozenset(("update",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Operations of a query up to one of its nodes; of one operation: its own."""

    modes: frozenset[Mode] = BOTH
    has_state: bool = False
    is_closed: bool = False
    """No operator with state may follow."""
    is_timed: bool = False


FRESH = Load()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query: all between topics that leads to `head`, a Sink or a Repartition."""

    head: Node
    mode: Mode

    @property
    def name(self) -> str:
        """Return its name, unique in the application."""
        return self.head.name

    def nodes(self) -> Sequence[Node]:
        """Return its nodes, each after its parents; the first ones are a Source or the Repartition of another query."""
        return tuple(ancestors(self.head, within_query=True))


def planned(dag: Dag) -> tuple[Dag, tuple[Query, ...]]:
    """Return the topology as it will run, and its queries: each after those whose topics it reads, where that can be.

    Raises TopologyError.
    """
    suppressed = Dag(sinks=tuple(_Final().visit(sink, False) for sink in dag.sinks))
    cutter = _Cutter()
    cut = Dag(sinks=tuple(cutter.visit(sink)[0] for sink in suppressed.sinks))
    heads = [node for node in cut.nodes() if isinstance(node.operation, Sink | Repartition)]
    return cut, in_order([Query(head=head, mode=cutter.mode(head)) for head in heads])


def load_of(operation: Operation) -> Load:
    """Return what an operation asks of its query."""
    match operation:
        case Aggregate(function=Python(), windows=windows):
            return Load(has_state=True, is_timed=windows is not None)
        case Aggregate(is_final=True):
            return Load(modes=APPEND, has_state=True, is_timed=True)
        case Aggregate(windows=windows):
            return Load(modes=UPDATE, has_state=True, is_closed=True, is_timed=windows is not None)
        case TableAggregate(function=None):
            return Load(modes=UPDATE, has_state=True, is_closed=True)
        case StreamJoin():
            return Load(modes=APPEND, has_state=True, is_timed=True)
        case TableAggregate() | TableLookup() | TableJoin():
            return Load(has_state=True)
        case Process(time=time):
            return Load(has_state=True, is_timed=time == "event")
        case _:
            return FRESH


class _Final:
    """Moves each suppress into the windowed aggregate it stands behind."""

    def __init__(self) -> None:
        self._made: dict[tuple[Node, bool], Node] = {}

    def visit(self, node: Node, is_final: bool) -> Node:
        """Return the node as it will be, in a place where only final results count, or in any other."""
        if (node, is_final) in self._made:
            return self._made[node, is_final]
        operation = node.operation
        is_above = False
        match operation:
            case Suppress():
                is_above = True
            case Aggregate(windows=windows) if is_final and windows is not None:
                operation = replace(operation, is_final=True)
            case Filter(is_table=True) | MapValues(is_table=True):
                is_above = is_final
            case _ if is_final:
                raise TopologyError(
                    f"suppress follows a windowed aggregate, with only filter and map_values in between; "
                    f"{node.name} has no windows that close"
                )
        parents = tuple(self.visit(parent, is_above) for parent in node.parents)
        same = operation is node.operation and parents == node.parents
        made = node if same else replace(node, operation=operation, parents=parents)
        self._made[node, is_final] = made
        return made


class _Cutter:
    """Puts a topic wherever two nodes cannot be in one query."""

    def __init__(self) -> None:
        self._made: dict[Node, tuple[Node, Load]] = {}
        self._cuts: dict[Node, Node] = {}
        self._modes: dict[Node, frozenset[Mode]] = {}

    def visit(self, node: Node) -> tuple[Node, Load]:
        """Return the node as it will be, and what its query has taken on by then."""
        if node in self._made:
            return self._made[node]
        own = load_of(node.operation)
        above = [self.visit(parent) for parent in node.parents]
        above = [self._fitting(parent, load, own) for parent, load in above]
        if not _shared(own, *(load for _, load in above)):
            above = [(self._cut(parent), FRESH) if load.modes != BOTH else (parent, load) for parent, load in above]
        load = _together(own, *(load for _, load in above))
        parents = tuple(parent for parent, _ in above)
        made = node if parents == node.parents else replace(node, parents=parents)
        self._modes[made] = load.modes
        if isinstance(made.operation, Repartition):
            load = FRESH
        self._made[node] = made, load
        return made, load

    def mode(self, head: Node) -> Mode:
        """Return the output mode of the query that ends here: append, unless something in it must say update."""
        return "append" if "append" in self._modes[head] else "update"

    def _fitting(self, parent: Node, load: Load, own: Load) -> tuple[Node, Load]:
        fits = not (own.has_state and load.is_closed)
        fits = fits and not (own.is_timed and load.is_timed)
        fits = fits and bool(own.modes & load.modes)
        return (parent, load) if fits else (self._cut(parent), FRESH)

    def _cut(self, parent: Node) -> Node:
        if parent not in self._cuts:
            operation = Repartition(suffix=parent.name)
            cut = Node(name=f"{parent.name}-repartition", operation=operation, parents=(parent,))
            self._cuts[parent] = cut
            self._modes[cut] = self._modes[parent]
        return self._cuts[parent]


def _shared(*loads: Load) -> frozenset[Mode]:
    return BOTH.intersection(*(load.modes for load in loads))


def _together(*loads: Load) -> Load:
    return Load(
        modes=_shared(*loads),
        has_state=any(load.has_state for load in loads),
        is_closed=any(load.is_closed for load in loads),
        is_timed=any(load.is_timed for load in loads),
    )


def in_order(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries, each after those that write what it reads; in a circle, as they came."""
    writers: dict[str, list[Query]] = {}
    for query in queries:
        operation = query.head.operation
        if isinstance(operation, Sink) and operation.topic is not None:
            writers.setdefault(operation.topic, []).append(query)
        elif isinstance(operation, Repartition):
            writers.setdefault(query.head.name, []).append(query)
    done: dict[Query, None] = {}
    open_: set[Query] = set()

    def visit(query: Query) -> None:
        if query in done or query in open_:
            return
        open_.add(query)
        for name in _reads(query):
            for writer in writers.get(name, ()):
                visit(writer)
        done[query] = None

    for query in queries:
        visit(query)
    return tuple(done)


def _reads(query: Query) -> list[str]:
    names: list[str] = []
    for node in query.nodes():
        if isinstance(node.operation, Source):
            names.extend(node.operation.topics)
        elif isinstance(node.operation, Repartition) and node is not query.head:
            names.append(node.name)
    return names
