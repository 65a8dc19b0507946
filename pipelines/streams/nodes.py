"""The topology as values: a node is an operation, a name and the nodes it reads from; nothing of it ever changes.

The builder makes nodes, `plan` rewrites the graph for Spark, `describe` draws it, the compiler makes DataFrames of it.
Nodes are equal only to themselves: two filters with the same predicate are two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.serdes import Serde
from kvorum.pipelines.streams.windows import JoinWindows, Windows

JoinKind = Literal["inner", "left", "outer"]


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
class Filter:
    """Keep what fulfils the predicate (or, negated, does not); of a table, what does not becomes a tombstone."""

    predicate: Expression
    is_negated: bool = False
    is_table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A new key and a new value."""

    mapper: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValues:
    """A new value; a table's tombstones stay tombstones."""

    mapper: Expression
    is_table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapValues:
    """A record for each element of an array."""

    mapper: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectKey:
    """A new key."""

    selector: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The records of all parents, in no order between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Where branches part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Records that fulfil `predicate` and none before it; None: records that fulfil none of those."""

    before: tuple[Expression, ...]
    predicate: Expression | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """Python functions that a native aggregate cannot express, with the type of what they keep.

    `adder(key, value, aggregate)` and, for tables, `subtractor` of the same form return the new aggregate; without an
    initializer the first value is the aggregate (Kafka's reduce).
    """

    initializer: Any
    adder: Any
    subtractor: Any = None
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A table of aggregates by key, or by key and window. Records with a null key or value take no part."""

    function: Expression | Python
    """An expression of Spark's aggregate functions over `key` and `value`, or Python."""
    windows: Windows | None = None
    is_final: bool = False
    """One record a window, when it is closed; otherwise one for each micro-batch that changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppress:
    """Nothing but the final result of each window. The plan moves it into the aggregate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate:
    """A regrouped table: a changed row leaves its old group and joins its new one."""

    selector: Any
    function: Python | None
    """None: how many rows there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """Records of two streams with the same key, no further apart than the window."""

    joiner: Expression
    windows: JoinWindows
    kind: JoinKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLookup:
    """Records of a stream, each with the latest row of a table (the second parent)."""

    joiner: Expression
    kind: JoinKind
    selector: Expression | None = None
    """The table's key of a record, for a global table; None: the record's own key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin:
    """Rows of two tables with the same key."""

    joiner: Expression
    kind: JoinKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A user's Processor (see processor.py), or a StatefulProcessor of Spark's."""

    processor: Any
    key_type: str | None
    value_type: str
    stores: tuple[str, ...]
    time: Literal["none", "event", "processing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStream:
    """A table's changes as records, with another key if there is a selector."""

    selector: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTable:
    """A stream's records as changes of a table; those without a key are dropped."""


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


Operation = (
    Source
    | Filter
    | Map
    | MapValues
    | FlatMapValues
    | SelectKey
    | Merge
    | Split
    | Branch
    | Aggregate
    | Suppress
    | TableAggregate
    | StreamJoin
    | TableLookup
    | TableJoin
    | Process
    | ToStream
    | ToTable
    | Repartition
    | Sink
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step."""

    name: str
    """As Kafka Streams names it, KSTREAM-FILTER-0000000001, or as the user did."""
    operation: Operation
    parents: tuple["Node", ...] = ()
    store: str | None = None
    """Where it keeps its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dag:
    """A built topology: the sinks, and through their parents all other nodes."""

    sinks: tuple[Node, ...]

    def nodes(self) -> Sequence[Node]:
        """Return all nodes, each after its parents."""
        seen: dict[Node, None] = {}
        for sink in self.sinks:
            for node in ancestors(sink):
                seen.setdefault(node)
        return tuple(seen)


def ancestors(node: Node, *, within_query: bool = False) -> Iterator[Node]:
    """Yield what a node reads from, directly or not, each once and after its own parents; then the node.

    Within a query it ends at the Repartitions above the node, which it yields.
    """
    done: set[Node] = set()
    stack = [(node, False)]
    while stack:
        each, is_open = stack.pop()
        if each in done:
            continue
        ends = within_query and each is not node and isinstance(each.operation, Repartition)
        if is_open or ends:
            done.add(each)
            yield each
        else:
            stack.append((each, True))
            stack.extend((parent, False) for parent in reversed(each.parents))
