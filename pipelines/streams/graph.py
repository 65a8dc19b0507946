"""The one thing that grows while a topology is built: the numbers of names, and the sinks so far."""

from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import Dag, Node, Operation, Sink


class Graph:
    """Names nodes as Kafka Streams does (kind and ten digits, counted over the whole topology) and keeps the sinks."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._count = 0
        self._names: set[str] = set()
        self._sinks: list[Node] = []

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
            self._sinks.append(node)
        return node

    def dag(self) -> Dag:
        """Return what was built. Raises TopologyError if it leads nowhere."""
        if not self._sinks:
            raise TopologyError("the topology has no sink: end a stream with .to(topic)")
        return Dag(sinks=tuple(self._sinks))
