"""The topology as text, in the form of Kafka Streams' Topology#describe.

A sub-topology is what hangs together between topics: here that is one query, or several that share a source, since each
sink is a query. Topics of the application's own stand without its id, as they do in Kafka.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvorum.pipelines.streams.nodes import Node, Repartition, Sink, Source


class _Step(NamedTuple):
    """A node as it is drawn. A Repartition is two: the end of one sub-topology and the source of another."""

    kind: str
    name: str
    details: str
    above: tuple[str, ...] = ()


def described(nodes: Iterable[Node]) -> str:
    """Return the drawing of nodes, each of which comes after its parents."""
    lines = ["Topologies:"]
    for number, group in enumerate(_groups([step for node in nodes for step in _steps(node)])):
        lines.append(f"   Sub-topology: {number}")
        for step in group:
            below = [other.name for other in group if step.name in other.above]
            lines.append(f"    {step.kind}: {step.name} ({step.details})")
            if step.kind != "Sink":
                lines.append(f"      --> {', '.join(below) or 'none'}")
            if step.kind != "Source":
                lines.append(f"      <-- {', '.join(step.above)}")
        lines.append("")
    return "\n".join(lines)


def _steps(node: Node) -> list[_Step]:
    above = tuple(
        f"{parent.operation.suffix}-source" if isinstance(parent.operation, Repartition) else parent.name
        for parent in node.parents
    )
    match node.operation:
        case Source(topics=topics, pattern=pattern, is_global=is_global):
            details = f"topics: [{', '.join(topics)}]" if pattern is None else f"topic pattern: {pattern}"
            return [_Step("Source", node.name, f"{details}, global" if is_global else details)]
        case Sink(topic=topic):
            return [_Step("Sink", node.name, f"topic: {topic or 'named by each record'}", above)]
        case Repartition(suffix=suffix):
            end = _Step("Sink", f"{suffix}-sink", f"topic: {suffix}-repartition", above)
            return [end, _Step("Source", f"{suffix}-source", f"topics: [{suffix}-repartition]")]
        case _:
            return [_Step("Processor", node.name, f"stores: [{node.store or ''}]", above)]


def _groups(steps: Sequence[_Step]) -> list[list[_Step]]:
    """Return the steps that hang together, in their order; groups in the order of their first step."""
    group_of: dict[str, int] = {}
    for number, step in enumerate(steps):
        joined = {number, *(group_of[name] for name in step.above)}
        group_of[step.name] = number
        for name, group in group_of.items():
            if group in joined:
                group_of[name] = min(joined)
    return [[step for step in steps if group_of[step.name] == group] for group in sorted(set(group_of.values()))]
