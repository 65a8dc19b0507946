"""The topology as values, its drawing, and its cut into queries: no Spark, no cluster.

A node is an operation, a name and the nodes it reads from; none of it ever changes. Nodes are equal only to themselves:
two filters with the same predicate are two.

Spark runs a query in one output mode, and not every operator in each; a table that is still changing (update mode)
cannot feed another operator with state; and a record's time counts for one operator of a query only. Where the
topology needs more, a topic of the application's own is put between, as Kafka Streams does where it re-partitions,
and the rest is another query.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame

from kvorum.pipelines.streams.functions import Expression, TopologyError
from kvorum.pipelines.streams.serdes import Serde, Serdes
from kvorum.pipelines.streams.windows import JoinWindows

Mode = Literal["append", "update"]
BOTH: frozenset[Mode] = frozenset(("append", "update"))
APPEND: frozenset[Mode] = frozenset(("append",))
UPDATE: frozenset[Mode] = frozenset(("update",))


class Load(NamedTuple):
    """Limits that an operation sets for its query, or all operations of a query up to one of its nodes."""

    modes: frozenset[Mode] = BOTH
    """Output modes; behind an operator that allows `update` alone no other one with state may follow."""
    has_state: bool = False
    is_timed: bool = False

    def together(self, *others: "Load") -> "Load":
        """Return the limits of several operations of one query."""
        modes, states, times = zip(self, *others, strict=True)
        return Load(BOTH.intersection(*modes), any(states), any(times))


NO_LOAD = Load()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Records of topics."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key_serde: Serde = Serdes.string()  # noqa: RUF009
    value_serde: Serde = Serdes.string()  # noqa: RUF009
    timestamp_extractor: Expression | None = None
    offset_reset: Literal["earliest", "latest"] = "earliest"
    is_table: bool = False
    is_global: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition:
    """A topic of the application's own, between two queries: <application id>-<suffix>-repartition."""

    suffix: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Records into a topic; an expression (SQL or callable) names one for each record."""

    topic: str | None
    topic_extractor: Expression | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An operation within a query."""

    function: Callable[..., DataFrame]
    """Makes its records of those of the node's parents; with state it gets the query's output mode as `mode`, too."""
    load: Load = NO_LOAD
    final: "Callable[[], Step] | None" = None
    """Of a windowed table: makes the same step with one result for each window, when it is closed."""
    keeps_windows: bool = False
    """Whether what comes of a windowed table is one, so that it may be suppressed."""
    join_windows: JoinWindows | None = None
    """Of a join of streams: its windows, of which time buckets in its state are made."""


Operation = Source | Repartition | Sink | Step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step."""

    name: str
    """As Kafka Streams names it, KSTREAM-FILTER-0000000001, or as the user did."""
    operation: Operation
    parents: tuple["Node", ...] = ()
    store: str | None = None
    """Its state store."""


def ancestors(*nodes: Node, within_query: bool = False) -> Iterator[Node]:
    """Yield what nodes read from, directly or not, and the nodes: each once and after its own parents.

    Within a query it ends at the Repartitions above the nodes, which it yields.
    """
    done: set[Node] = set()
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        each, is_open = stack.pop()
        if each in done:
            continue
        ends = within_query and each not in nodes and isinstance(each.operation, Repartition)
        if is_open or ends:
            done.add(each)
            yield each
        else:
            stack.append((each, True))
            stack.extend((parent, False) for parent in reversed(each.parents))


class Graph:
    """The nodes of a topology that is being built.

    Names them as Kafka Streams does (kind and ten digits, counted over the whole topology) and keeps the sinks.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._count = 0
        self._names: set[str] = set()
        self.sinks: list[Node] = []

    def name(self, kind: str) -> str:
        """Return the next name of a kind."""
        self._count += 1
        return f"{kind}-{self._count - 1:010d}"

    def add(
        self,
        operation: Operation,
        kind: str,
        *parents: Node,
        named: str | None = None,
        store: str | None = None,
        store_kind: str | None = None,
    ) -> Node:
        """Return a new node. A store gets its name from `store`, or its number where `store_kind` is given.

        Raises TopologyError for a name that is taken: names are those of stores and internal topics, too.
        """
        store = self.name(store_kind) if store is None and store_kind is not None else store
        name = named or self.name(kind)
        for each in filter(None, (name, store)):
            if each in self._names:
                raise TopologyError(f"two nodes or stores are named {each}")
            self._names.add(each)
        node = Node(name=name, operation=operation, parents=parents, store=store)
        if isinstance(operation, Sink):
            self.sinks.append(node)
        return node


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query: all between topics that leads to `head`, a Sink or a Repartition."""

    head: Node
    mode: Mode

    @property
    def name(self) -> str:
        """Return its name, unique in the application."""
        return self.head.name

    @property
    def topic(self) -> str | None:
        """Return the topic that it writes, an internal one without the application id; None: records name it."""
        return self.head.operation.topic if isinstance(self.head.operation, Sink) else self.head.name

    def nodes(self) -> Sequence[Node]:
        """Return its nodes, each after its parents; the first ones are a Source or the Repartition of another query."""
        return tuple(ancestors(self.head, within_query=True))

    def internal(self) -> Iterator[Repartition]:
        """Yield the internal topics that it reads."""
        for node in self.nodes():
            if isinstance(node.operation, Repartition) and node is not self.head:
                yield node.operation

    def follows(self, other: "Query") -> bool:
        """Return whether it reads the topic that the other query writes."""
        sources = (node.operation for node in self.nodes() if isinstance(node.operation, Source))
        read = {topic for source in sources for topic in source.topics}
        return other.topic in read | {f"{each.suffix}-repartition" for each in self.internal()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A topology as it runs: its sinks, through their parents all other nodes, and the queries."""

    sinks: tuple[Node, ...]
    queries: tuple[Query, ...]

    @classmethod
    def of(cls, sinks: Sequence[Node]) -> "Topology":
        """Plan what was built. Raises TopologyError if it leads nowhere."""
        if not sinks:
            raise TopologyError("the topology has no sink: end a stream with .to(topic)")
        cutter = _Cutter()
        cut = tuple(cutter.visit(sink)[0] for sink in sinks)
        heads = [node for node in ancestors(*cut) if isinstance(node.operation, Sink | Repartition)]
        return cls(sinks=cut, queries=_in_order([Query(head=head, mode=cutter.mode(head)) for head in heads]))

    def describe(self) -> str:
        """Return the queries with their nodes, the nodes that each reads from, topics, and state stores.

        Topics of the application's own are shown without its id.
        """
        lines = list[str]()
        for query in self.queries:
            lines.append(f"Query {query.name}, output mode {query.mode}")
            for node in query.nodes():
                is_read = isinstance(node.operation, Repartition) and node is not query.head
                above = "" if is_read else "".join(f" <- {parent.name}" for parent in node.parents)
                lines.append(f"    {node.name}{above}{_details(node)}")
        return "\n".join(lines)


def _details(node: Node) -> str:
    match node.operation:
        case Source(topics=topics, pattern=pattern, is_global=is_global):
            return f" (topics: {pattern or ', '.join(topics)}{', global' if is_global else ''})"
        case Sink(topic=topic):
            return f" (topic: {topic or 'named by each record'})"
        case Repartition(suffix=suffix):
            return f" (internal topic: {suffix}-repartition)"
        case _:
            return "" if node.store is None else f" (store: {node.store})"


class _Cutter:
    """Puts a topic wherever two nodes cannot be in one query."""

    def __init__(self) -> None:
        self._made: dict[Node, tuple[Node, Load]] = {}
        self._cuts: dict[Node, Node] = {}
        self._loads: dict[Node, Load] = {}

    def visit(self, node: Node) -> tuple[Node, Load]:
        """Return the node as it will be, and what its query has taken on by then."""
        if node not in self._made:
            own = node.operation.load if isinstance(node.operation, Step) else Load()
            above = [self._fitting(*self.visit(parent), own) for parent in node.parents]
            if not own.together(*(load for _, load in above)).modes:
                above = [self._cut(parent) if load.modes != BOTH else (parent, load) for parent, load in above]
            load = own.together(*(load for _, load in above))
            parents = tuple(parent for parent, _ in above)
            made = node if parents == node.parents else replace(node, parents=parents)
            self._loads[made] = load
            self._made[node] = made, Load() if isinstance(made.operation, Repartition) else load
        return self._made[node]

    def mode(self, head: Node) -> Mode:
        """Return the output mode of the query that ends here: append, unless an operation allows update only."""
        return "append" if "append" in self._loads[head].modes else "update"

    def _fitting(self, parent: Node, load: Load, own: Load) -> tuple[Node, Load]:
        fits = not (own.has_state and load.modes == UPDATE) and not (own.is_timed and load.is_timed)
        return (parent, load) if fits and own.modes & load.modes else self._cut(parent)

    def _cut(self, parent: Node) -> tuple[Node, Load]:
        if parent not in self._cuts:
            operation = Repartition(suffix=parent.name)
            cut = Node(name=f"{parent.name}-repartition", operation=operation, parents=(parent,))
            self._cuts[parent] = cut
            self._loads[cut] = self._loads[parent]
        return self._cuts[parent], Load()


def _in_order(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries, each after those that write what it reads; in a circle, as they came."""
    seen: set[Query] = set()

    def visit(query: Query) -> Iterator[Query]:
        if query not in seen:
            seen.add(query)
            for writer in filter(query.follows, queries):
                yield from visit(writer)
            yield query

    return tuple(each for query in queries for each in visit(query))
