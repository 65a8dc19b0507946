"""Plan of a cluster on this machine: nodes with names and complete configurations, ports resolved."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.ports import OPEN_PORT, fill_ports, free_ports, open_hosts
from kvorum.runtime.cluster_file import ClusterSpec, voters_of
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import broker_def
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import chaos_listener, metrics_listener

LOOPBACK = "127.0.0.1"
PLAN_VERSION = 1


class ClusterError(Exception):
    """An operation on the cluster in this folder is not possible, with the reason."""


class PortUnusable(ClusterError):
    """A listener of a node that cannot be bound. `key` is the config that has its port."""

    def __init__(self, reason: str, key: str) -> None:
        """Store the error and its config."""
        super().__init__(reason)
        self.key = key


class NoCluster(ClusterError):
    """A folder without a cluster."""


class BrokenPlan(ClusterError):
    """A cluster.json that cannot be read."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: its name (and folder), and its configuration by Kafka's keys."""

    name: str
    properties: Mapping[str, str]

    def with_properties(self, more: Mapping[str, str]) -> "NodePlan":
        """Return the node with further configuration."""
        return NodePlan(self.name, {**self.properties, **more})

    @property
    def roles(self) -> list[str]:
        """The node's process.roles."""
        return [role.strip() for role in self.properties["process.roles"].split(",")]


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The nodes of a cluster."""

    cluster_id: str
    nodes: Sequence[NodePlan]

    def node(self, name: str) -> NodePlan:
        """Return a node by name. Raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def endpoints(self, listener: str | None = None) -> list[str]:
        """Return HOST:PORT of each broker's client listener: the one named, else each broker's first."""
        found = []
        for node in self.nodes:
            if "broker" not in node.roles:
                continue
            hidden = {name.strip() for name in node.properties.get("controller.listener.names", "").split(",")}
            for text in node.properties["listeners"].split(","):
                name, _, address = text.strip().partition("://")
                if name not in hidden and listener in (None, name):
                    found.append(address)
                    break
        return found

    @property
    def bootstrap(self) -> str:
        """Return bootstrap.servers for clients."""
        return ",".join(self.endpoints())

    def admin_urls(self) -> list[str]:
        """Return the URLs of the admin HTTP API."""
        urls = []
        for node in self.nodes:
            for text in filter(None, (part.strip() for part in node.properties.get("admin.listeners", "").split(","))):
                urls.append(text if "://" in text else f"http://{text}")
        return urls


def plan_of(spec: ClusterSpec, cluster_id: str) -> ClusterPlan:
    """Return the plan of a cluster file (or of `dev`): every port given as 0 becomes a free one, the voters follow."""
    nodes = {node.name: {key: entry.text for key, entry in node.settings.explicit().items()} for node in spec.nodes}
    for node in spec.nodes:
        own = nodes[node.name]
        endpoint = metrics_listener(node.settings, "controller")
        if node.settings.list("process.roles") != ["controller"] and endpoint is not None and endpoint.port == 0:
            own["kvorum.controller.metrics.listener"] = endpoint.url
        if {"broker", "controller"} <= {*node.settings.list("process.roles")}:
            chaos = chaos_listener(node.settings, "controller")
            if chaos is not None and chaos.port == 0:
                own["kvorum.controller.chaos.listener"] = f"{chaos.host}:0"
    ports = iter(free_ports([LOOPBACK] * sum(len(open_hosts(own)) for own in nodes.values())))
    for own in nodes.values():
        own |= fill_ports(own, ports)
    plans = [NodePlan(name, own) for name, own in nodes.items()]
    voters = ",".join(voter for plan in plans for voter in voters_of(Settings.of(dict(plan.properties))))
    return ClusterPlan(
        cluster_id,
        [
            plan.with_properties({"controller.quorum.voters": voters})
            if OPEN_PORT.search(plan.properties.get("controller.quorum.voters", ""))
            else plan
            for plan in plans
        ],
    )


def write_node_configs(disk: Disk, paths: ClusterPaths, plan: ClusterPlan) -> None:
    """Write each node's configuration into its folder."""
    disk.mkdir(paths.folder)
    for node in plan.nodes:
        node_paths = paths.node(node.name)
        disk.mkdir(node_paths.folder)
        lines = [f"# {node.name} of cluster {plan.cluster_id}; written by kvorum when the cluster was created."]
        lines += [f"{key}={escape(value)}" for key, value in {"log.dirs": node_paths.data, **node.properties}.items()]
        disk.write_atomic(node_paths.config, ("\n".join(lines) + "\n").encode(), private=has_secrets(node.properties))


def write_plan(disk: Disk, paths: ClusterPaths, plan: ClusterPlan) -> None:
    """Write down that the cluster is made: the last step."""
    body = {
        "version": PLAN_VERSION,
        "cluster.id": plan.cluster_id,
        "nodes": {n.name: dict(n.properties) for n in plan.nodes},
    }
    private = any(has_secrets(node.properties) for node in plan.nodes)
    disk.write_atomic(paths.cluster, json.dumps(body, indent=1).encode(), private=private)


def has_secrets(properties: Mapping[str, str]) -> bool:
    """Return whether a node's configuration contains a password or a key."""
    return any((definition := broker_def(key)) is not None and definition.sensitive for key in properties)


def escape(value: str) -> str:
    """Return a value as a properties file wants it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def read_plan(disk: Disk, paths: ClusterPaths) -> ClusterPlan | None:
    """Return the plan of the cluster in this folder, None without one. Raises BrokenPlan."""
    if not disk.exists(paths.cluster):
        return None
    try:
        body = json.loads(disk.read(paths.cluster).decode())
    except (ValueError, RecursionError, OSError) as error:
        raise BrokenPlan(broken_plan(paths, f"is not JSON ({error})")) from None
    version = body.get("version") if isinstance(body, dict) else None
    if isinstance(version, int) and version > PLAN_VERSION:
        raise ClusterError(f"{paths.cluster} has version {version}, this release supports {PLAN_VERSION}")
    if version != PLAN_VERSION or not is_plan(body):
        raise BrokenPlan(broken_plan(paths, "does not describe a cluster: version, cluster.id and nodes are required"))
    return ClusterPlan(body["cluster.id"], [NodePlan(name, found) for name, found in body["nodes"].items()])


def broken_plan(paths: ClusterPaths, what: str) -> str:
    """Return the error of cluster.json, and what to do."""
    return (
        f"{paths.cluster} {what}; the nodes' data are untouched: restore this file from a backup, or start the cluster "
        "with --rebuild, which writes it again from the nodes' node.properties"
    )


def is_plan(body: Mapping[str, object]) -> bool:
    """Return whether a cluster.json has the parts that it must have, with values of the right types."""
    nodes = body.get("nodes")
    if not isinstance(body.get("cluster.id"), str) or not isinstance(nodes, dict) or not nodes:
        return False
    return all(
        isinstance(found, dict)
        and all(isinstance(value, str) for value in found.values())
        and {"process.roles", "listeners"} <= found.keys()
        for found in nodes.values()
    )
