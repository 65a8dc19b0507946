"""Connections in a cluster, and the proxy of each: pure. A way is the connections from one party to another.

Parties are the processes ("node-1/broker", "node-1/controller") and the client groups ("clients", "clients-b"). Names
in calls mean one or several: "node-1" is both of its processes, "brokers" and "controllers" all of a role,
"clients" all groups (or the one so named), "node-1,node-2" both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
CLIENTS: Final = "clients"
SEPARATOR: Final = ","


class UnknownParty(ValueError):
    """A name that matches no node or process of this cluster."""


@dataclass(frozen=True, slots=True)
class Direction:
    """Source and target of connections."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """The proxy's name: both parties, in letters that need no escapes in a path."""
        return f"{self.source}--{self.target}".replace("/", ".")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A way with its proxy."""

    way: Direction
    listen_port: int
    upstream: str
    """HOST:PORT of the target."""

    @property
    def name(self) -> str:
        """The proxy's name."""
        return self.way.name


@dataclass(frozen=True, slots=True)
class Parties:
    """The parties of a cluster: {node: its roles} and the groups of clients."""

    roles: Mapping[str, Sequence[str]]
    groups: Sequence[str] = (CLIENTS,)

    def processes(self, role: str) -> list[str]:
        """Return the processes of a role."""
        return [f"{node}/{role}" for node, roles in self.roles.items() if role in roles]

    def resolve(self, name: str) -> list[str]:
        """Return the parties of a name. Raises UnknownParty."""
        if SEPARATOR in name:
            return list(dict.fromkeys(party for each in name.split(SEPARATOR) for party in self.resolve(each.strip())))
        if name in self.groups:
            return [name]
        if name == CLIENTS:
            return list(self.groups)
        if name in ("brokers", "controllers"):
            return self.processes(name[:-1])
        node, slash, role = name.partition("/")
        if node in self.roles and (not slash or role in self.roles[node]):
            return [name] if slash else [f"{node}/{each}" for each in self.roles[node]]
        known = [*self.roles, *self.groups, "brokers", "controllers"]
        raise UnknownParty(
            f"{name!r} is not a node or process; known: {', '.join(known)}, and a node's NODE/broker, NODE/controller"
        )

    def every(self) -> list[str]:
        """Return all parties."""
        return [f"{node}/{role}" for node, roles in self.roles.items() for role in roles] + list(self.groups)

    def around(self, name: str) -> tuple[list[str], list[str]]:
        """Return (the parties named, all others that are on no node with them). Raises UnknownParty."""
        own = self.resolve(name)
        nodes = {node_of(each) for each in own} - {None}
        return own, [each for each in self.every() if each not in own and node_of(each) not in nodes]

    def ways(self) -> list[Direction]:
        """Return every way that has connections.

        Clients to brokers, brokers to each other, brokers to controllers (their own node's too), controllers to each
        other. Controllers connect to brokers only to check whether their direct address refuses connections.
        """
        brokers, controllers = self.processes(BROKER), self.processes(CONTROLLER)
        found = [Direction(group, broker) for group in self.groups for broker in brokers]
        found += [Direction(one, other) for one in brokers for other in brokers if one != other]
        found += [Direction(broker, controller) for broker in brokers for controller in controllers]
        found += [Direction(one, other) for one in controllers for other in controllers if one != other]
        return found


def node_of(party: str) -> str | None:
    """Return a process's node, None for a client group."""
    node, slash, _ = party.partition("/")
    return node if slash else None


@dataclass(frozen=True, slots=True)
class Topology:
    """Proxies of a cluster, by source and target."""

    parties: Parties
    proxies: Mapping[Direction, Proxy] = field(default_factory=dict)

    def towards(self, sources: Sequence[str], targets: Sequence[str]) -> list[Proxy]:
        """Return the proxies of connections from any source to any target, each once."""
        wanted, reached = set(sources), set(targets)
        return [each for way, each in self.proxies.items() if way.source in wanted and way.target in reached]
