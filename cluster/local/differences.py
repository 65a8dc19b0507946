"""Requested configs that an existing cluster does not have, and that are therefore ignored."""

from collections.abc import Collection, Mapping

from kvorum.cluster.local.plan import ClusterPlan
from kvorum.cluster.local.ports import OPEN_PORT
from kvorum.runtime.cluster_file import DERIVED_WHERE, ClusterSpec
from kvorum.runtime.config import shown

FILLED_IN = ("kvorum.controller.metrics.listener", "kvorum.controller.chaos.listener", "controller.quorum.voters")
"""When the cluster is made: they differ only where something else does."""


def differences(made: ClusterPlan, requested: ClusterSpec) -> list[str]:
    """Return the differences to the cluster, one line each: nodes, then configs with both values."""
    found = []
    if requested.cluster_id not in (None, made.cluster_id):
        found.append(f"cluster.id {requested.cluster_id} is ignored; the cluster's id is {made.cluster_id}")
    there = {node.name: node.properties for node in made.nodes}
    names = [node.name for node in requested.nodes]
    if names != list(there):
        found.append(f"the cluster keeps its nodes {', '.join(there)}; requested: {', '.join(names)}")
    changes: dict[str, list[str]] = {}
    for node in requested.nodes:
        if node.name in there:
            entries = node.settings.explicit()
            derived = {key for key, entry in entries.items() if entry.source.where == DERIVED_WHERE}
            wanted = {key: entry.text for key, entry in entries.items()}
            for change in changed_configs(there[node.name], wanted, derived):
                changes.setdefault(change, []).append(node.name)
    for change, nodes in changes.items():
        found.append(f"{'every node' if len(nodes) == len(names) else ', '.join(nodes)}: {change}")
    return found


def changed_configs(there: Mapping[str, str], wanted: Mapping[str, str], derived: Collection[str]) -> list[str]:
    """Return the configs that differ, each with both values; a port requested as 0 may be any.

    Those derived from the nodes differ only because the nodes do, which is reported.
    """
    found = []
    for key in sorted(there.keys() | wanted.keys()):
        before, after = there.get(key), wanted.get(key)
        if key in FILLED_IN or key in derived:
            continue
        if before != after and not (before and after and same_but_ports(before, after)):
            old, new = (None if text is None else shown(key, text) for text in (before, after))
            if new is None:
                found.append(f"{key} is no longer set but keeps its value {old}")
            else:
                found.append(f"{key}={new} is ignored; it {'is not set' if old is None else f'stays {old}'}")
    return found


def same_but_ports(there: str, wanted: str) -> bool:
    """Return whether two lists of addresses differ only in ports that `wanted` gives as 0."""
    pairs = list(zip(there.split(","), wanted.split(","), strict=False))
    return there.count(",") == wanted.count(",") and all(
        one == other or (OPEN_PORT.search(other) and one.rpartition(":")[0] == other.rpartition(":")[0])
        for one, other in pairs
    )
