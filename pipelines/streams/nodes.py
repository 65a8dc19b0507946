"""The topology as values: a node is an operation, a name and the nodes it reads from; none of it ever changes.

Nodes are equal only to themselves: two filters with the same predicate are two.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame

from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.serdes import Serde
from kvorum.pipelines.streams.windows import JoinWindows

Mode = Literal["append", "update"]
BOTH: frozenset[Mode] = frozenset(("append", "update"))
APPEND: frozenset[Mode] = frozenset(("append",))
UPDATE: frozenset[Mode] = frozenset(("update",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Limits that an operation sets for its query, or all operations of a query up to one of its nodes."""

    modes: frozenset[Mode] = BOTH
    """Output modes; behind an operator that allows `update` alone no other one with state may follow."""
    has_state: bool = False
    is_timed: bool = False

    def together(self, others: Iterable["Load"]) -> "Load":
        """Return the limits of several operations of one query."""
        loads = (self, *others)
        return Load(
            modes=BOTH.intersection(*(load.modes for load in loads)),
            has_state=any(load.has_state for load in loads),
            is_timed=any(load.is_timed for load in loads),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Records of topics."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key_serde: Serde
    value_serde: Serde
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
    load: Load = Load()
    final: "Callable[[], Step] | None" = None
    """Of a windowed table: makes the same step with one result for each window, when it is closed."""
    keeps_windows: bool = False
    """Whether what comes of a windowed table is one, so that it may be suppressed."""
    join_windows: JoinWindows | None = None
    """Of a join of streams: its windows, of which time buckets in its state are made."""

    def frame(self, above: Iterable[DataFrame], mode: Mode) -> DataFrame:
        """Return its records in a query of this output mode."""
        return self.function(*above, mode=mode) if self.load.has_state else self.function(*above)


Operation = Source | Repartition | Sink | Step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step."""

    name: str
    """As Kafka Streams names it, KSTREAM-FILTER-0000000001, or as the user did."""
    operation: Operation
    parents: tuple["Node", ...] = ()
    store: str | None = None
    """Where it keeps its state."""


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
        made = f"{kind}-{self._count:010d}"
        self._count += 1
        return made

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
        if store is None and store_kind is not None:
            store = self.name(store_kind)
        name = named or self.name(kind)
        for each in filter(None, (name, store)):
            if each in self._names:
                raise TopologyError(f"two nodes or stores are named {each}")
            self._names.add(each)
        node = Node(name=name, operation=operation, parents=parents, store=store)
        if isinstance(operation, Sink):
            self.sinks.append(node)
        return node
