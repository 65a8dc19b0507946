"""A cluster, from one YAML file: on this machine (`kvorum up`) or on several (`kvorum configs render`).

    cluster: {name: three-nodes}          # id: optional, else chosen at format time
    defaults: {default.replication.factor: 3}
    nodes:
      - {id: 1, roles: [broker, controller], listeners: [...], any.kafka.key: ...}
      - {id: 2, host: kafka-2.example}

Every key but `name`, `host`, `id` (node.id) and `roles` (process.roles) is a config, under `defaults` for all nodes.
`host` is the address of the node's machine, which its listeners on all addresses advertise. Missing keys of a node are
derived: the name node-ID, both roles, listeners at 19090 + ID (clients) and 19190 + ID (controllers), on 127.0.0.1 if
there is no `host`, log.dirs DIR/NAME/data, the voters, and replication factors of internal topics no larger than the
cluster.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvorum.runtime.cluster_hosts import (
    ADVERTISED,
    advertise,
    check_hosts,
    default_controller_listener,
    host_of,
)
from kvorum.runtime.config import ConfigError, Entry, Settings, Source
from kvorum.runtime.config_checks import check_node
from kvorum.runtime.config_files import (
    compose,
    flatten,
    known,
    map_items,
    override_entries,
    read_text,
    static,
    without_references,
)
from kvorum.runtime.listeners import ANY_ADDRESS, LOOPBACK, address, admin_listeners, listeners
from kvorum.runtime.properties import format_properties

if TYPE_CHECKING:
    import yaml

CLIENT_PORT_BASE = 19_090
CONTROLLER_PORT_BASE = 19_190
DEV_LISTENERS = ("PLAINTEXT",)
NODES_MAX = 100  # one machine; also keeps the derived port ranges apart
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}")
HOST_KEY = "host"
OWN_KEYS = ("name", HOST_KEY)
"""Keys of a node that are not configs."""
SHORT_KEYS: Mapping[str, str] = {"id": "node.id", "roles": "process.roles"}
DERIVED_WHERE = "derived from the nodes"
"""Source of a config that follows from the number of nodes."""
SECTIONS = ("cluster", "defaults", "nodes")
CLUSTER_KEYS = ("name", "id")

# Internal topics want three replicas; a smaller cluster has no room for them (upgrade notes of Kafka 4.2).
REPLICATION_WANTED: Mapping[str, int] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node of the cluster."""

    name: str
    directory: str
    settings: Settings
    """With references in place of secrets."""

    def with_secrets(self) -> Settings:
        """Return the settings with references replaced. Raises ConfigError."""
        return Settings(without_references(self.settings.explicit(), os.environ))

    @property
    def host(self) -> str:
        """Return the address at which other machines reach the node, empty if there is none."""
        return host_of(self.settings)

    def properties(self) -> str:
        """Return the node's configuration as a properties file, for `kvorum node`."""
        return format_properties({key: entry.text for key, entry in self.settings.explicit().items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The nodes that form a cluster, and warnings for the operator."""

    name: str
    cluster_id: str | None
    directory: str
    nodes: tuple[NodeSpec, ...]
    warnings: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the nodes, each once; one for a cluster on this machine."""
        return tuple(dict.fromkeys(node.host for node in self.nodes))


def load_cluster(path: str, directory: str, overrides: Sequence[str] = ()) -> ClusterSpec:
    """Read a cluster file; the overrides win: KEY=VALUE on every node, NODE:KEY=VALUE on one.

    Raises ConfigError with file and line.
    """
    warnings: list[str] = []
    sections = read_sections(path)
    cluster = read_cluster(path, sections.get("cluster"))
    common = known(flatten(path, sections["defaults"], "") if "defaults" in sections else (), warnings, doubles=True)
    shared, own = by_node(overrides)
    wins = known(override_entries(shared, "--set"), warnings)
    written = [common | node | wins for node in read_nodes(path, sections["nodes"], warnings)]
    nodes = with_own(named(path, written), own, warnings)
    name = cluster.get("name", os.path.basename(path).partition(".")[0])
    return assemble(name, cluster.get("id"), directory, nodes, warnings)


def dev_cluster(
    count: int,
    first_port: int,
    directory: str,
    overrides: Sequence[str] = (),
    admin_port: int = 0,
    broker_listeners: Sequence[str] = DEV_LISTENERS,
) -> ClusterSpec:
    """Return the cluster of `kvorum dev`: nodes node-1 to node-N, clients on ports P to P+N-1, all else on free ports.

    One controller below three nodes, three for 3 and 4, five from 5 on. The admin API is on node-1. The first of
    `broker_listeners` is that of clients. Raises ConfigError.
    """
    if not 1 <= count <= NODES_MAX:
        raise ConfigError("", None, "--nodes", f"must be between 1 and {NODES_MAX}")
    voters = 1 if count < 3 else 3 if count < 5 else 5
    warnings: list[str] = []
    shared, alone = by_node(overrides)
    wins = known(override_entries(shared, "--set"), warnings)
    given = static("kvorum dev")
    nodes: dict[str, dict[str, Entry]] = {}
    for number in range(1, count + 1):
        own = [f"{broker_listeners[0]}://127.0.0.1:{first_port + number - 1 if first_port else 0}"]
        own += [f"{name}://127.0.0.1:0" for name in broker_listeners[1:]]
        own += ["CONTROLLER://127.0.0.1:0"] if number <= voters else []
        nodes[f"node-{number}"] = {
            "node.id": Entry(str(number), given),
            "process.roles": Entry("broker,controller" if number <= voters else "broker", given),
            "listeners": Entry(",".join(own), given),
            "metrics.listener": Entry("http://127.0.0.1:0", given),
        } | wins
    nodes["node-1"].setdefault("admin.listeners", Entry(f"http://127.0.0.1:{admin_port}", given))
    nodes = with_own(nodes, alone, warnings)
    return assemble("dev", None, directory, nodes, warnings, is_local=True)


def by_node(overrides: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the overrides of every node, and those of single ones by the node's name. Raises ConfigError."""
    shared: list[str] = []
    own: dict[str, list[str]] = {}
    for text in overrides:
        name, colon, rest = text.partition(":")
        if not colon or "=" in name:  # a colon in a value
            shared.append(text)
        elif not name.strip():
            raise ConfigError("", None, "--set", f"{text!r} is neither KEY=VALUE nor NODE:KEY=VALUE")
        else:
            own.setdefault(name.strip(), []).append(rest)
    return shared, own


def with_own(
    nodes: Mapping[str, Mapping[str, Entry]], own: Mapping[str, Sequence[str]], warnings: list[str]
) -> dict[str, dict[str, Entry]]:
    """Return the nodes' entries with the overrides of single nodes. Raises ConfigError for an unknown node."""
    for name in own:
        if name not in nodes:
            raise ConfigError("", None, "--set", f"there is no node {name!r}; there are {', '.join(nodes)}")
    return {
        name: {**entries, **known(override_entries(own.get(name, ()), f"--set {name}"), warnings)}
        for name, entries in nodes.items()
    }


def assemble(
    name: str,
    cluster_id: str | None,
    directory: str,
    nodes: Mapping[str, Mapping[str, Entry]],
    warnings: list[str],
    *,
    is_local: bool = False,
) -> ClusterSpec:
    """Derive the missing keys of the nodes, and check them against each other. Raises ConfigError.

    `is_local`: all nodes are on this machine, whatever they advertise.
    """
    settings = {node: Settings(with_derived(directory, node, entries)) for node, entries in nodes.items()}
    check_apart(settings)
    if not is_local:
        warnings += check_hosts(settings)
    derived = Source(static("").layer, DERIVED_WHERE)
    voters = ",".join(voter for each in settings.values() for voter in voters_of(each))
    brokers = sum("broker" in each.list("process.roles") for each in settings.values())
    shared = {key: str(min(wanted, max(1, brokers))) for key, wanted in REPLICATION_WANTED.items()}
    shared["controller.quorum.voters"] = voters
    if not voters or not brokers:
        raise ConfigError("", None, name, "a cluster needs at least one controller and one broker")
    specs: list[NodeSpec] = []
    for node, each in settings.items():
        missing = {key: text for key, text in shared.items() if key not in each.explicit()}
        if each.list("controller.quorum.bootstrap.servers"):
            missing.pop("controller.quorum.voters", None)
        whole = each.with_overrides(missing, source=derived)
        warnings += [f"{node}: {warning}" for warning in check_node(whole)]
        specs.append(NodeSpec(name=node, directory=os.path.join(directory, node), settings=whole))
    return ClusterSpec(
        name=name, cluster_id=cluster_id, directory=directory, nodes=tuple(specs), warnings=tuple(warnings)
    )


def with_derived(directory: str, name: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Add the entries that follow from a node's id and name."""
    host, entries = entries.get(HOST_KEY), {key: entry for key, entry in entries.items() if key != HOST_KEY}
    own = Settings(entries)
    node, source = own.int("node.id"), Source(static("").layer, f"derived for {name}")
    roles = own.list("process.roles") or ["broker", "controller"]
    bind = LOOPBACK if host is None else ""
    urls = [f"PLAINTEXT://{bind}:{CLIENT_PORT_BASE + node}"] if "broker" in roles else []
    urls += [f"CONTROLLER://{bind}:{CONTROLLER_PORT_BASE + node}"] if "controller" in roles else []
    derived = {
        "process.roles": ",".join(roles),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(urls),
        "log.dirs": os.path.join(directory, name, "data"),
    }
    if "log.dir" in entries:
        del derived["log.dirs"]
    if host is not None:
        listening = entries["listeners"].text if "listeners" in entries else derived["listeners"]
        derived[ADVERTISED] = advertise(host.text, listening)
    return {key: Entry(text, source) for key, text in derived.items()} | dict(entries)


def voters_of(settings: Settings) -> list[str]:
    """Return this node's entry in the voters, none if it is not a controller. Port 0 is filled in at format time."""
    own = default_controller_listener(settings)
    return [f"{settings.int('node.id')}@{address(own.host, own.port)}"] if own is not None else []


def check_apart(nodes: Mapping[str, Settings]) -> None:
    """No two nodes may share an id, nor on one machine a port or a log directory. Raises ConfigError naming both."""
    ids: dict[str, str] = {}
    taken: dict[str, dict[str, str]] = {}
    for name, settings in nodes.items():
        _take(settings, name, ids, [("node.id", f"node id {settings.int('node.id')}")])
        mine = [("log.dirs", f"directory {os.path.abspath(path)}") for path in settings.list("log.dirs")]
        mine += [("listeners", f"port {endpoint.port}") for endpoint in listeners(settings) if endpoint.port]
        mine += [("admin.listeners", f"port {http.port}") for http in admin_listeners(settings) if http.port]
        _take(settings, name, taken.setdefault(host_of(settings), {}), mine)


def _take(settings: Settings, name: str, taken: dict[str, str], mine: Sequence[tuple[str, str]]) -> None:
    for key, what in mine:
        other = taken.setdefault(what, name)
        if other != name:
            where = settings.source(key).where
            raise ConfigError(key, settings.raw(key), where, f"{name} uses the same {what} as {other}")


def read_sections(path: str) -> "dict[str, yaml.Node]":
    """Return the parts of a cluster file. Raises ConfigError when one is wrong or `nodes` is missing."""
    import yaml

    root = compose(path, read_text(path))
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("", None, path, f"a cluster file must be a map of {', '.join(SECTIONS)}")
    sections: dict[str, yaml.Node] = {}
    lines: dict[str, str] = {}
    for key, where, value in map_items(path, root):
        if key not in SECTIONS:
            raise ConfigError("", None, where, f"{key!r} is not one of {', '.join(SECTIONS)}")
        lines[key] = where
        if not (isinstance(value, yaml.ScalarNode) and value.tag.endswith(":null")):
            sections[key] = value
    where = lines.get("nodes", path)
    if not isinstance(sections.get("nodes"), yaml.SequenceNode) or not sections["nodes"].value:
        raise ConfigError("", None, where, "nodes must be a list of at least one node, such as `- id: 1`")
    if len(sections["nodes"].value) > NODES_MAX:
        raise ConfigError("", None, where, f"more than {NODES_MAX} nodes")
    if "defaults" in sections and not isinstance(sections["defaults"], yaml.MappingNode):
        raise ConfigError("", None, lines["defaults"], "defaults must be a map of configs")
    return sections


def read_cluster(path: str, node: "yaml.Node | None") -> dict[str, str]:
    """Return the cluster's name and id, if given. Raises ConfigError."""
    found: dict[str, str] = {}
    for key, entry in flatten(path, node) if node is not None else ():
        if key not in CLUSTER_KEYS:
            raise ConfigError("", None, entry.source.where, f"{key!r} is not one of {', '.join(CLUSTER_KEYS)}")
        if not NAME.fullmatch(entry.text):
            raise ConfigError(f"cluster.{key}", entry.text, entry.source.where, "letters, digits, dots, dashes only")
        found[key] = entry.text
    return found


def read_nodes(path: str, nodes: "yaml.Node", warnings: list[str]) -> list[dict[str, Entry]]:
    """Return each node's own entries, `name` and `host` among them if given. Raises ConfigError."""
    import yaml

    found: list[dict[str, Entry]] = []
    for number, node in enumerate(nodes.value, start=1):
        where = f"{path}:{node.start_mark.line + 1}"
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError("", None, where, "a node must be a map, such as `- id: 1`")
        written = [(SHORT_KEYS.get(key, key), entry) for key, entry in flatten(path, node, "")]
        own = {key: entry for key, entry in written if key in OWN_KEYS}
        entries = known(((key, entry) for key, entry in written if key not in OWN_KEYS), warnings, doubles=True)
        if "node.id" not in entries and "broker.id" not in entries:
            entries["node.id"] = Entry(str(number), static(where))
        host = own.get(HOST_KEY)
        if host is not None and (not HOST.fullmatch(host.text) or host.text in ANY_ADDRESS):
            reason = "must be a host name or an address that other machines connect to"
            raise ConfigError(HOST_KEY, host.text, host.source.where, reason)
        found.append(entries | own)
    return found


def named(path: str, written: Sequence[Mapping[str, Entry]]) -> dict[str, dict[str, Entry]]:
    """Return {name: entries}, the name node-ID where none is given. Raises ConfigError for a name twice."""
    found: dict[str, dict[str, Entry]] = {}
    for entries in written:
        own = {key: entry for key, entry in entries.items() if key != "name"}
        identity = own.get("node.id") or own["broker.id"]
        name = entries.get("name", Entry(f"node-{identity.text}", identity.source))
        if not NAME.fullmatch(name.text):
            raise ConfigError("name", name.text, name.source.where, "letters, digits, dots, dashes only")
        if name.text in found:
            raise ConfigError("name", name.text, name.source.where, f"duplicate node name {name.text}")
        found[name.text] = own
    return found
