"""Faults between named parties: cut, slow, lose one direction; by proxies, or by namespaces if the lab has those.

*Between a and b* is every connection that one of them opens to the other. *From a to b* is all data that a sends:
requests on a's connections, and responses on b's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kvorum.chaos.faults.events import FaultRegister, Injected
from kvorum.chaos.faults.links import BOTH, STREAMS_OF, Links, Placed, toxics_of
from kvorum.chaos.faults.namespaces import Namespaces
from kvorum.chaos.faults.topology import Parties, Proxied, Topology, node_of
from kvorum.chaos.faults.toxiproxy import Stream

CONNECTION_KINDS: Final = ("refuse", "reset", "lose_requests", "lose_responses")
"""Belong to connections as a whole or to one stream of them: their direction is that of the connection."""
PROXY_KINDS: Final = (
    *("refuse", "black_hole", "freeze", "latency", "bandwidth", "slicer", "reset", "lose_requests", "lose_responses"),
)
NAMESPACE_KINDS: Final = ("drop", "drop_syn", "packet_loss")
LINK_KINDS: Final = (*PROXY_KINDS, *NAMESPACE_KINDS)


class NotThisNetwork(Exception):
    """A fault that the lab's kind of network cannot make."""


class Cuts(Protocol):
    """Common interface of both kinds of network."""

    cut_kind: str
    """Default kind of a cut."""

    def between(
        self, kind: str, a: str, b: str, *, one_way: bool, share: float, attributes: Mapping[str, int]
    ) -> Injected:
        """Start a fault between a and b, or (one way) from a to b.

        Raises NotThisNetwork, ValueError (UnknownParty among them), and the errors of proxies or namespaces.
        """
        ...

    def isolate(self, name: str, kind: str, *, clients: bool) -> Injected:
        """Start a fault between a party and all others, with or without the clients."""
        ...


def story_of(kind: str, a: str, b: str, one_way: bool, attributes: Mapping[str, int]) -> str:
    """Return the story of a fault on links."""
    more = "".join(f", {name} {value}" for name, value in attributes.items())
    return f"{kind} {'from' if one_way else 'between'} {a} {'to' if one_way else 'and'} {b}{more}"


def others_of(topology: Topology, name: str, clients: bool) -> tuple[list[str], list[str]]:
    """Return (isolated parties, the others)."""
    own, others = topology.around(name)
    return own, [each for each in others if clients or each not in topology.parties.groups]


@dataclass(slots=True)
class ProxyCuts:
    """Faults on the proxies."""

    topology: Topology
    links: Links
    register: FaultRegister
    cut_kind: str = "black_hole"

    def between(
        self, kind: str, a: str, b: str, *, one_way: bool, share: float, attributes: Mapping[str, int]
    ) -> Injected:
        """See Cuts."""
        named = self.topology.parties.named
        placed_by = self._by_data(named(a), named(b), kind, one_way)
        return self._begin(kind, [a, b], story_of(kind, a, b, one_way, attributes), placed_by, share, attributes)

    def isolate(self, name: str, kind: str, *, clients: bool) -> Injected:
        """See Cuts."""
        own, others = others_of(self.topology, name, clients)
        story = f"{kind} between {name} and all others" + ("" if clients else " except clients")
        return self._begin(kind, [name], story, self._by_data(own, others, kind, False), 1.0, {})

    def _by_data(
        self, own: Sequence[str], others: Sequence[str], kind: str, one_way: bool
    ) -> list[tuple[Proxied, tuple[Stream, ...]]]:
        """Return the proxies concerned and which of their streams."""
        there, back = self.topology.towards(own, others), self.topology.towards(others, own)
        if kind in CONNECTION_KINDS:
            streams = STREAMS_OF.get(kind, BOTH)
            one_direction = one_way or kind in ("lose_requests", "lose_responses")
            return [(each, streams) for each in (there if one_direction else dict.fromkeys([*there, *back]))]
        if one_way:
            upstream, downstream = BOTH[:1], BOTH[1:]
            return [(each, upstream) for each in there] + [(each, downstream) for each in back]
        return [(each, BOTH) for each in dict.fromkeys([*there, *back])]

    def _begin(
        self,
        kind: str,
        targets: Sequence[str],
        story: str,
        where: Sequence[tuple[Proxied, tuple[Stream, ...]]],
        share: float,
        attributes: Mapping[str, int],
    ) -> Injected:
        if kind not in PROXY_KINDS:
            raise NotThisNetwork(f"{kind} needs network namespaces; proxies support {', '.join(PROXY_KINDS)}")
        if not where:
            raise ValueError(f"{' and '.join(targets)} never connect to each other")
        number = self.register.take_id()
        placed = [Placed(proxy.name, toxics_of(kind, number, streams, attributes, share)) for proxy, streams in where]
        return self.register.begin(
            kind,
            targets,
            story,
            do=lambda: self.links.inject(placed),
            undo=lambda: self.links.remove(placed),
            fault_id=number,
        )


@dataclass(slots=True)
class NamespaceCuts:
    """Packet faults between nodes; processes of one node are not distinguished."""

    parties: Parties
    network: Namespaces
    register: FaultRegister
    cut_kind: str = "drop"

    def between(
        self, kind: str, a: str, b: str, *, one_way: bool, share: float, attributes: Mapping[str, int]
    ) -> Injected:
        """See Cuts; `share` is the share of packets that packet_loss loses."""
        own, others = self.members(a), self.members(b)
        return self._begin(kind, [a, b], story_of(kind, a, b, one_way, attributes), own, others, one_way, share)

    def isolate(self, name: str, kind: str, *, clients: bool) -> Injected:
        """See Cuts."""
        own, others = others_of(Topology(self.parties), name, clients)
        story = f"{kind} between {name} and all others" + ("" if clients else " except clients")
        return self._begin(kind, [name], story, _members(own), _members(others), False, 1.0)

    def members(self, name: str) -> list[str]:
        """Return the namespaces of a name. Raises UnknownParty, NotThisNetwork."""
        if "/" in name:
            raise NotThisNetwork(f"{name}: the processes of a node share its namespace")
        return _members(self.parties.named(name))

    def _begin(
        self,
        kind: str,
        targets: Sequence[str],
        story: str,
        own: Sequence[str],
        others: Sequence[str],
        one_way: bool,
        share: float,
    ) -> Injected:
        if kind not in NAMESPACE_KINDS:
            raise NotThisNetwork(f"{kind} needs proxies; namespaces support {', '.join(NAMESPACE_KINDS)}")
        pairs = [(a, b) for a in own for b in others if a != b]
        pairs += [] if one_way else [(b, a) for a, b in pairs]
        rules = []

        def do() -> None:
            for source, target in pairs:
                match kind:
                    case "drop":
                        rules.extend(self.network.drop(source, target))
                    case "drop_syn":
                        rules.extend(self.network.drop_syn(source, target))
                    case _:
                        rules.extend(self.network.lose(source, target, max(1, round(share * 100))))

        return self.register.begin(kind, targets, story, do=do, undo=lambda: self.network.remove(rules))


def _members(parties: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(node_of(each) or each for each in parties))
