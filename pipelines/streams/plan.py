"""How a topology becomes queries: what Spark cannot do in one query is cut in two, through a topic.

Spark runs a query in one output mode, and not every operator in each; a table that is still changing (update mode)
cannot feed another operator with state; and a record's time counts for one operator of a query only. Where the
topology needs more, a topic of the application's own is put between, as Kafka Streams does where it re-partitions,
and the rest is another query. Everything here is decided from the operations' loads: no Spark, no cluster.

    operation                         output mode         may be followed by state     uses time
    aggregate (native)                update              no                           if windowed
    aggregate of windows, final       append              yes                          yes
    aggregate in Python               either              yes                          if windowed
    count of a table's groups         update              no                           no
    stream-stream join                append              yes                          yes
    table lookup, table join          either              yes                          no
    process                           either              yes                          with time="event"
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvorum.pipelines.streams.describe import described
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import BOTH, UPDATE, Load, Mode, Node, Repartition, Sink, Source, Step, ancestors


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

    def reads(self) -> Iterator[str]:
        """Yield the names of the topics that it reads; an internal one is named as its node."""
        for node in self.nodes():
            if isinstance(node.operation, Source):
                yield from node.operation.topics
            elif isinstance(node.operation, Repartition) and node is not self.head:
                yield node.name

    def writes(self) -> str | None:
        """Return the name of the topic that it writes; None if each record names its own."""
        return self.head.operation.topic if isinstance(self.head.operation, Sink) else self.head.name


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
        return cls(sinks=cut, queries=in_order([Query(head=head, mode=cutter.mode(head)) for head in heads]))

    def describe(self) -> str:
        """Draw it as Kafka Streams' Topology#describe does."""
        return described(ancestors(*self.sinks))


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
            if not own.together(load for _, load in above).modes:
                above = [self._cut(parent) if load.modes != BOTH else (parent, load) for parent, load in above]
            load = own.together(load for _, load in above)
            parents = tuple(parent for parent, _ in above)
            made = node if parents == node.parents else replace(node, parents=parents)
            self._loads[made] = load
            self._made[node] = made, Load() if isinstance(made.operation, Repartition) else load
        return self._made[node]

    def mode(self, head: Node) -> Mode:
        """Return the output mode of the query that ends here: append, unless something in it must say update."""
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


def in_order(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries, each after those that write what it reads; in a circle, as they came."""
    done: list[Query] = []
    seen: set[Query] = set()

    def visit(query: Query) -> None:
        if query not in seen:
            seen.add(query)
            for topic in query.reads():
                for writer in queries:
                    if writer.writes() == topic:
                        visit(writer)
            done.append(query)

    for query in queries:
        visit(query)
    return tuple(done)
