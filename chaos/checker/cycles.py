"""Circular information flow: operations that must each precede the other (Adya's G0 and G1c, as in Elle).

Edges: wr, from the sender of a value to a reader that polled it; real time, from a completed operation to one that
began afterwards (a process's own order is part of it, while it waits for its answers); and, optionally, ww, from a
value to the next in the log. An operation of unknown outcome may take effect at any time after its begin, so nothing
follows it in time.

Edges that cannot matter are omitted: those that real time already implies, and those from a plain send to a plain poll
that ended after the send began: a cycle enters such a send and leaves such a poll by real time, and exists without
both. So a history without transactions has only polls of future values left. Real time is a chain of instants: an edge
from each completion to the next instant, one from the last instant to each begin. Nodes that can be removed (no edge
in, or no edge out) are on no cycle; only the rest is searched (Tarjan, iterative). With ww, cycles are searched among
writes and transactions.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kvorum.chaos.checker.derive import Derivation, Reader
from kvorum.chaos.checker.logs import Log
from kvorum.chaos.checker.sends import FAIL, READ_COMMITTED, SEQUENCE_MAX

CYCLES_MAX: Final = 20
"""Maximum of reported cycles; each is the shortest of its component."""


class Link(NamedTuple):
    """One edge of a reported cycle: from operation, to operation, kind; the row for wr and ww, else -1."""

    source: int
    target: int
    kind: str
    row: int


class Cycle(NamedTuple):
    """A cycle: its name (G0, G1c, with -realtime where time closes it) and its edges in order."""

    anomaly: str
    links: list[Link]


class Graph:
    """Operations as nodes, then instants; edges as lists of targets."""

    def __init__(self) -> None:
        """Create it empty."""
        self.ops: list[int] = []
        self.begin_times: list[int] = []
        self.end_times: list[int] = []
        self.targets: list[list[int]] = []
        self._index: dict[int, int] = {}

    def node(self, op: int, begun: int, done: int) -> int:
        """Return the node of an operation, a new one at its first mention."""
        index = self._index.get(op)
        if index is None:
            index = self._index[op] = len(self.ops)
            self.ops.append(op)
            self.begin_times.append(begun)
            self.end_times.append(done)
            self.targets.append([])
        return index

    def add_real_time(self) -> None:
        """Add the chain of instants and the edges to and from it."""
        moments = [(done, 0, node) for node, done in enumerate(self.end_times) if done < SEQUENCE_MAX]
        moments += [(begun, 1, node) for node, begun in enumerate(self.begin_times) if begun >= 0]
        moments.sort()
        instant, sealed = -1, True
        for _, begins, node in moments:
            if begins:
                if instant >= 0:
                    self.targets[instant].append(node)
                    sealed = True
                continue
            if sealed:
                self.targets.append([])
                following = len(self.targets) - 1
                if instant >= 0:
                    self.targets[instant].append(following)
                instant, sealed = following, False
            self.targets[node].append(instant)


def dependencies(derivation: Derivation, logs: list[Log], *, ww: bool) -> Iterator[tuple[Reader, Reader, int, str]]:
    """Yield the edges that real time does not imply: source, target, the row that makes it, its kind (wr or ww)."""
    sends, readers = derivation.sends, derivation.readers
    visible = {t.op for t in derivation.transactions if any(sends.read_flags[r] & READ_COMMITTED for r in t.rows)}
    for row, at in derivation.read_edges:
        reader = readers[at]
        if sends.kind[row] == FAIL or sends.op[row] == reader.op:
            continue
        if not reader.ok and reader.op not in visible:
            continue  # a poll of unknown outcome took part in nothing, unless its transaction shows
        if sends.transactional[row] and derivation.promises(reader.process).isolation != "read_committed":
            continue  # it reads uncommitted data
        yield _writer(derivation, row), reader, row, "wr"
    for log in logs if ww else ():
        for before, after in pairwise(log.rows):
            if before >= 0 <= after and sends.completed_sequence[before] >= sends.invoked_sequence[after]:
                yield _writer(derivation, before), _writer(derivation, after), after, "ww"


def _writer(derivation: Derivation, row: int) -> Reader:
    """Return the sending operation in the shape of a reader."""
    sends = derivation.sends
    begun, done = sends.invoked_sequence[row], sends.completed_sequence[row]
    ok = done < SEQUENCE_MAX
    return Reader(
        sends.op[row], sends.process[row], begun, done, sends.completed[row], ok, bool(sends.transactional[row])
    )


def build(derivation: Derivation, logs: list[Log], *, ww: bool) -> Graph:
    """Return the graph of a history."""
    graph = Graph()
    for before, after, _, _ in dependencies(derivation, logs, ww=ww):
        source = graph.node(before.op, before.invoked_sequence, before.completed_sequence)
        target = graph.node(after.op, after.invoked_sequence, after.completed_sequence if after.ok else SEQUENCE_MAX)
        if source != target:
            graph.targets[source].append(target)
    graph.add_real_time()
    return graph


def find(derivation: Derivation, logs: list[Log], *, ww: bool = False) -> list[Cycle]:
    """Return one shortest cycle of each knot of operations, CYCLES_MAX at most."""
    graph = build(derivation, logs, ww=ww)
    paths: list[list[int]] = []
    for knot in knots(graph.targets):
        if len(paths) < CYCLES_MAX:
            paths.append(_shortest(graph, knot))
    wanted = {(one, two) for path in paths for one, two in pairwise(path)}
    labels: dict[tuple[int, int], tuple[str, int]] = {}
    for before, after, row, kind in dependencies(derivation, logs, ww=ww):
        key = (graph.node(before.op, 0, 0), graph.node(after.op, 0, 0))
        if key in wanted and labels.get(key, ("ww", -1))[0] == "ww":
            labels[key] = (kind, row)
    return [_name(graph, path, labels) for path in paths]


def _peel(targets: list[list[int]]) -> bytearray:
    """Return one flag per node: 1 if the node is left after repeated removal of nodes without incoming edges."""
    ways_in = array("i", bytes(4 * len(targets)))
    for edges in targets:
        for target in edges:
            ways_in[target] += 1
    left = bytearray(b"\x01") * len(targets)
    free = [node for node, count in enumerate(ways_in) if count == 0]
    while free:
        node = free.pop()
        left[node] = 0
        for target in targets[node]:
            ways_in[target] -= 1
            if ways_in[target] == 0:
                free.append(target)
    return left


def knots(targets: list[list[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components of two nodes or more (Tarjan 1972, without recursion)."""
    left = _peel(targets)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root, wanted in enumerate(left):
        if not wanted or root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(targets[root]))]
        while work:
            node, edges = work[-1]
            for target in edges:
                if not left[target]:
                    continue
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(targets[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = _pop_component(stack, on_stack, node)
                    if len(component) > 1:
                        yield component


def _pop_component(stack: list[int], on_stack: set[int], root: int) -> list[int]:
    component: list[int] = []
    while not component or component[-1] != root:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return component


def _shortest(graph: Graph, component: list[int]) -> list[int]:
    """Return the nodes of the shortest cycle through the component's first operation, which begins and ends it."""
    inside = set(component)
    start = min(component)  # operations come before instants
    came: dict[int, int] = {}
    queue = deque([start])
    while start not in came:
        node = queue.popleft()
        for target in graph.targets[node]:
            if target in inside and target not in came:
                came[target] = node
                queue.append(target)
    path = [start]
    while len(path) == 1 or path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def _name(graph: Graph, path: list[int], labels: dict[tuple[int, int], tuple[str, int]]) -> Cycle:
    """Join the instants of a path into single edges of real time, and name the cycle."""
    links: list[Link] = []
    begun = path[0]
    for source, target in pairwise(path):
        if source < len(graph.ops):
            begun = source
        if target < len(graph.ops):
            kind, row = labels.get((source, target), ("realtime", -1))
            links.append(Link(graph.ops[begun], graph.ops[target], kind, row))
    kinds = {link.kind for link in links}
    name = "G1c" if "wr" in kinds else "G0"
    return Cycle(f"{name}-realtime" if "realtime" in kinds else name, links)
