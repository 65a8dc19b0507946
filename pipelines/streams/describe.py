"""The topology as text, in the form of Kafka Streams' Topology#describe.

A sub-topology is what hangs together between topics: here that is one query, or several that share a source, since each
sink is a query. Topics of the application's own stand without its id, as they do in Kafka.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvorum.pipelines.streams.nodes import Dag, Node, Repartition, Sink, Source

INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A node as it is drawn. A Repartition is two: the end of one sub-topology and the source of another."""

    name: str
    what: str
    above: tuple[str, ...]


def described(dag: Dag) -> str:
    """Return the drawing."""
    steps = [step for node in dag.nodes() for step in _steps(node)]
    lines = ["Topologies:"]
    for number, group in enumerate(_groups(steps)):
        lines.append(f"   Sub-topology: {number}")
        for step in group:
            below = [other.name for other in group if step.name in other.above]
            lines.append(f"{INDENT}{step.what}")
            if not step.what.startswith("Sink"):
                lines.append(f"{INDENT}  --> {', '.join(below) or 'none'}")
            if not step.what.startswith("Source"):
                lines.append(f"{INDENT}  <-- {', '.join(step.above)}")
        lines.append("")
    return "\n".join(lines)


def _steps(node: Node) -> list[_Step]:
    above = tuple(_outlet(parent) for parent in node.parents)
    match node.operation:
        case Source(topics=topics, pattern=pattern, is_global=is_global):
            said = f"topics: [{', '.join(topics)}]" if pattern is None else f"topic pattern: {pattern}"
            is_said = f"{said}, global" if is_global else said
            return [_Step(name=node.name, what=f"Source: {node.name} ({is_said})", above=())]
        case Sink(topic=topic):
            to = topic if topic is not None else "each record's own"
            return [_Step(name=node.name, what=f"Sink: {node.name} (topic: {to})", above=above)]
        case Repartition(suffix=suffix):
            topic = f"{suffix}-repartition"
            end = _Step(name=f"{suffix}-sink", what=f"Sink: {suffix}-sink (topic: {topic})", above=above)
            start = f"{suffix}-source"
            return [end, _Step(name=start, what=f"Source: {start} (topics: [{topic}])", above=())]
        case _:
            stores = f"stores: [{node.store or ''}]"
            return [_Step(name=node.name, what=f"Processor: {node.name} ({stores})", above=above)]


def _outlet(node: Node) -> str:
    return f"{node.operation.suffix}-source" if isinstance(node.operation, Repartition) else node.name


def _groups(steps: Sequence[_Step]) -> list[list[_Step]]:
    """Return the steps that hang together, in their order; groups in the order of their first step."""
    group_of: dict[str, int] = {}
    for number, step in enumerate(steps):
        joined = {group_of[name] for name in step.above}
        group_of[step.name] = target = min(joined, default=number)
        for name, group in group_of.items():
            if group in joined:
                group_of[name] = target
    return [
        [step for step in steps if group_of[step.name] == group] for group in dict.fromkeys(sorted(group_of.values()))
    ]
