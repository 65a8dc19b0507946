"""Shape of a lab's cluster, and the resulting plan: pure except for the ports, which are passed in.

Each broker has a listener for the brokers (INTERNAL, advertised unchanged: fast fencing probes it) and one for every
group of clients, which advertises the group's own proxy. Peers are reached by `kvorum.peer.addresses`, one direction
each.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvorum.chaos.faults.lab_security import SCRAM, LabSecurity, Mechanism
from kvorum.chaos.faults.topology import BROKER, CLIENTS, CONTROLLER, Direction, Parties, Proxy, Topology, node_of
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import ClusterPlan, plan_of
from kvorum.runtime.cluster_file import assemble
from kvorum.runtime.config import Entry
from kvorum.runtime.config_files import known, override_entries, static

INTERNAL: Final = "INTERNAL"
CONTROLLER_LISTENER: Final = "CONTROLLER"
LOOPBACK: Final = "127.0.0.1"
CONTROLLER_ID_BASE: Final = 100
NODES_MAX: Final = 20
"""Processes on one machine, each with its links to all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabShape:
    """Numbers of nodes. Combined nodes are node-1 to node-N, the first also controllers; else names have the role."""

    brokers: int = 3
    controllers: int = 3
    combined: bool = True
    log_dirs: int = 1
    """Log directories of each broker."""
    groups: Sequence[str] = (CLIENTS,)
    """Groups of clients that can be cut off one by one."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """By Kafka's keys, for every node."""
    node_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """{node: its own configs}."""
    secure: bool = False
    """TLS on all listeners; nodes authenticate by certificates, clients by the mechanism."""
    mechanism: Mechanism = SCRAM

    def nodes(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """Return {name: (node.id, its roles)}. Raises ValueError for a shape that cannot be."""
        if not (1 <= self.brokers <= NODES_MAX and 1 <= self.controllers <= NODES_MAX):
            raise ValueError(f"a lab has 1 to {NODES_MAX} brokers and 1 to {NODES_MAX} controllers")
        if not self.combined:
            found: dict[str, tuple[int, tuple[str, ...]]] = {
                f"controller-{number}": (CONTROLLER_ID_BASE + number, (CONTROLLER,))
                for number in range(1, self.controllers + 1)
            }
            return found | {f"broker-{number}": (number, (BROKER,)) for number in range(1, self.brokers + 1)}
        if self.controllers > self.brokers:
            raise ValueError("combined nodes cannot have more controllers than brokers")
        both = (BROKER, CONTROLLER)
        return {
            f"node-{number}": (number, both if number <= self.controllers else (BROKER,))
            for number in range(1, self.brokers + 1)
        }

    def parties(self) -> Parties:
        """Return the connections between parties."""
        return Parties({name: roles for name, (_, roles) in self.nodes().items()}, tuple(self.groups))


def listener_of(group: str) -> str:
    """Return the name of a client group's listener: `clients-b` has CLIENTS_B."""
    return group.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class LabPlan:
    """A cluster's plan with its proxies."""

    cluster: ClusterPlan
    topology: Topology
    direct: Mapping[str, str]
    """{party: HOST:PORT} of each process's own listener: INTERNAL, CONTROLLER."""
    addresses: Mapping[str, Mapping[str, str]]
    """{client group: {node: HOST:PORT}}: the bootstrap servers of its clients."""


def lab_plan(
    shape: LabShape,
    folder: str,
    cluster_id: str,
    port: Callable[[], int],
    *,
    proxied: bool,
    host_of: Callable[[str], str] = lambda node: LOOPBACK,
    security: LabSecurity | None = None,
) -> LabPlan:
    """Return the plan of a lab's cluster in a folder; `port` returns a free one at each call.

    Raises ValueError, ConfigError.
    """
    parties = shape.parties()
    strangers = sorted(shape.node_configs.keys() - parties.roles.keys())
    if strangers:
        raise ValueError(f"{', '.join(strangers)}: configs for an unknown node; known: {', '.join(parties.roles)}")
    direct = {
        party: f"{host_of(str(node_of(party)))}:{port()}" for party in parties.every() if party not in parties.groups
    }
    listening = {
        (group, broker): f"{host_of(str(node_of(broker)))}:{port()}"
        for group in parties.groups
        for broker in parties.processes(BROKER)
    }
    upstreams = {way: listening.get((way.source, way.target), direct[way.target]) for way in parties.ways()}
    proxies = {way: Proxy(way, port(), upstream) for way, upstream in upstreams.items()} if proxied else {}
    reached = {
        group: {
            str(node_of(broker)): _through(proxies, Direction(group, broker), listening[group, broker])
            for broker in parties.processes(BROKER)
        }
        for group in parties.groups
    }
    nodes = {
        name: _entries(shape, name, direct, listening, reached, proxies, host_of(name), port, security)
        for name in parties.roles
    }
    if shape.log_dirs > 1:
        for broker in map(node_of, parties.processes(BROKER)):
            data = ClusterPaths(os.path.abspath(folder)).node(str(broker)).data
            paths = [data, *(f"{data}-{number}" for number in range(2, shape.log_dirs + 1))]
            nodes[str(broker)].setdefault("log.dirs", Entry(",".join(paths), static("lab")))
    plan = plan_of(assemble("lab", cluster_id, os.path.abspath(folder), nodes, []), cluster_id)
    return LabPlan(plan, Topology(parties, proxies), direct, reached)


def _through(proxies: Mapping[Direction, Proxy], way: Direction, address: str) -> str:
    return f"{LOOPBACK}:{proxies[way].listen_port}" if way in proxies else address


def _entries(
    shape: LabShape,
    name: str,
    direct: Mapping[str, str],
    listening: Mapping[tuple[str, str], str],
    reached: Mapping[str, Mapping[str, str]],
    proxies: Mapping[Direction, Proxy],
    host: str,
    port: Callable[[], int],
    security: LabSecurity | None,
) -> dict[str, Entry]:
    """Return one node's configuration: the lab's keys over those of the shape, and these over those of security."""
    node_id, roles = shape.nodes()[name]
    broker, controller = f"{name}/{BROKER}", f"{name}/{CONTROLLER}"
    names = [listener_of(group) for group in shape.groups]
    own: list[str] = []
    advertised: list[str] = []
    if BROKER in roles:
        own = [f"{INTERNAL}://{direct[broker]}"]
        own += [f"{listener_of(group)}://{listening[group, broker]}" for group in shape.groups]
        advertised = [own[0], *(f"{listener_of(group)}://{reached[group][name]}" for group in shape.groups)]
    if CONTROLLER in roles:
        own.append(f"{CONTROLLER_LISTENER}://{direct[controller]}")
    between_nodes, of_clients = ("PLAINTEXT", "PLAINTEXT") if security is None else ("SSL", "SASL_SSL")
    lab = {
        "node.id": str(node_id),
        "process.roles": ",".join(roles),
        "listeners": ",".join(own),
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": ",".join(
            [f"{each}:{between_nodes}" for each in (INTERNAL, CONTROLLER_LISTENER)]
            + [f"{each}:{of_clients}" for each in names]
        ),
        "metrics.listener": f"http://{host}:{port()}",
        "kvorum.peer.addresses": peer_addresses(shape, name, proxies),
        "inter.broker.listener.name": INTERNAL,  # also for controllers: they probe brokers at this address
    }
    if advertised:
        lab["advertised.listeners"] = ",".join(advertised)
    if BROKER in roles and CONTROLLER in roles:
        lab["kvorum.controller.metrics.listener"] = f"http://{host}:{port()}"
    secured = {} if security is None else security.configs(names) | security.files.node_configs(name)
    given = {**secured, **shape.configs, **shape.node_configs.get(name, {})}
    fixed = sorted(given.keys() & lab.keys())
    if fixed:
        raise ValueError(f"{', '.join(fixed)}: set by the lab")
    wrong: list[str] = []
    wished = known(override_entries([f"{key}={value}" for key, value in given.items()]), wrong)
    if wrong:
        raise ValueError("; ".join(each.partition(": ")[2] for each in wrong))
    return {key: Entry(value, static("lab")) for key, value in lab.items() if value} | dict(wished)


def peer_addresses(shape: LabShape, name: str, proxies: Mapping[Direction, Proxy]) -> str:
    """Return `kvorum.peer.addresses` of a node: the proxy of each connection from one of its processes."""
    ids = {node: node_id for node, (node_id, _) in shape.nodes().items()}
    found = []
    for way, proxy in proxies.items():
        if node_of(way.source) != name:
            continue
        target = str(node_of(way.target))
        roles = f"{way.source.partition('/')[2]}>{way.target.partition('/')[2]}"
        found.append(f"{roles}/{ids[target]}={LOOPBACK}:{proxy.listen_port}")
    return ",".join(found)
