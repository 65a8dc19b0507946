"""A cluster's folder without a readable cluster.json: its contents, and cluster.json written from them again.

cluster.json has nothing that the nodes' folders do not have: each node.properties is the node's configuration, and
each meta.properties names the cluster. Nothing is written before all of it fits together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvorum.cluster.local.formatting import log_directories
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import BrokenPlan, ClusterError, ClusterPlan, NodePlan
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import Disk
from kvorum.storage.checkpoints import CheckpointError, read_meta_properties

FLAG = "--rebuild"


@dataclass(slots=True)
class NodeRemains:
    """Remains of a node: its configuration, and its directories with and without an identity."""

    name: str
    settings: Settings | None = None
    formatted: dict[str, str] = field(default_factory=dict)
    """{directory: cluster id}"""
    unformatted: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def description(self) -> str:
        """The node for a message."""
        ids = ", ".join(sorted(set(self.formatted.values())))
        return f"{self.name} (of cluster {ids})" if ids else f"{self.name} ({'; '.join(self.broken)})"


def find_nodes(disk: Disk, paths: ClusterPaths, planned: ClusterPlan | None = None) -> list[NodeRemains]:
    """Return the nodes with a configuration in the folder or with data where the plan has them, by name."""
    names = disk.listdir(paths.folder) if disk.is_dir(paths.folder) else []
    found = [read_node(disk, paths, name) for name in names if disk.exists(paths.node(name).config)]
    there = {each.name for each in found}
    for node in () if planned is None else planned.nodes:
        if node.name not in there:
            own = Settings.of({"log.dirs": paths.node(node.name).data, **node.properties})
            look_at(disk, planned_node := NodeRemains(node.name), own)
            found += [planned_node] if planned_node.formatted or planned_node.broken else []
    return sorted(found, key=lambda each: each.name)


def read_node(disk: Disk, paths: ClusterPaths, name: str) -> NodeRemains:
    """Return the state of a node whose folder has a configuration."""
    found = NodeRemains(name)
    try:
        found.settings = load_node(paths.node(name).config, environment={}, has_secrets=False, check=False).settings
        look_at(disk, found, found.settings)
    except ConfigError as error:
        found.broken.append(str(error))
    return found


def look_at(disk: Disk, found: NodeRemains, settings: Settings) -> None:
    """Note which of a node's directories have an identity, and whose."""
    for folder in log_directories(settings):
        try:
            identity = read_meta_properties(disk, folder)
        except (CheckpointError, OSError) as error:
            found.broken.append(str(error))
            continue
        if identity is None:
            found.unformatted.append(folder)
        elif identity.node_id != settings.int("node.id"):
            found.broken.append(f"{folder} belongs to node {identity.node_id}, not to {found.name}")
        else:
            found.formatted[folder] = identity.cluster_id


def refuse_remains(disk: Disk, paths: ClusterPaths, planned: ClusterPlan | None = None) -> None:
    """Raise BrokenPlan where the folder has no cluster.json, but nodes with data."""
    found = [each for each in find_nodes(disk, paths, planned) if each.formatted or each.broken]
    if found:
        there = {each.name for each in found}
        missing = ["cluster.json", *(name for name in names_of(planned) if name not in there)]
        raise BrokenPlan(
            f"{paths.folder} has data, but no cluster.json: found {', '.join(each.description for each in found)}, "
            f"missing {', '.join(missing)}; check that all disks are mounted and restore what is missing, or start the "
            f"cluster with {FLAG}, which writes cluster.json from the nodes' node.properties and leaves the data as "
            f"they are"
        )


def rebuild_plan(disk: Disk, paths: ClusterPaths, planned: ClusterPlan) -> ClusterPlan:
    """Return the plan of the cluster that the nodes' folders hold. Raises ClusterError where something is missing."""
    found = {each.name: each for each in find_nodes(disk, paths, planned)}
    problems = [f"{name} is missing" for name in names_of(planned) if name not in found]
    problems += [f"{name} belongs to no node of the cluster" for name in found if name not in names_of(planned)]
    for each in found.values():
        problems += each.broken
        problems += [f"{folder} of {each.name} has no meta.properties" for folder in each.unformatted]
        if each.settings is None and not each.broken and any(other.settings for other in found.values()):
            problems.append(f"{paths.node(each.name).config} is missing")
    ids = sorted({cluster_id for each in found.values() for cluster_id in each.formatted.values()})
    if len(ids) != 1:
        problems.append(f"the data belong to the clusters {', '.join(ids)}" if ids else "there is no data")
    if problems:
        raise ClusterError(
            f"cluster.json of {paths.folder} cannot be written again: {'; '.join(problems)}; check that all disks are "
            "mounted, nothing was changed"
        )
    return ClusterPlan(ids[0], [NodePlan(each.name, properties_of(found[each.name], each)) for each in planned.nodes])


def names_of(plan: ClusterPlan | None) -> Sequence[str]:
    """Return the names of the plan's nodes."""
    return [] if plan is None else [node.name for node in plan.nodes]


def properties_of(found: NodeRemains, planned: NodePlan) -> dict[str, str]:
    """Return a node's configuration by key: its own file's, as planned where no node has one."""
    if found.settings is None:
        return dict(planned.properties)
    return {key: entry.text for key, entry in found.settings.explicit().items()}
