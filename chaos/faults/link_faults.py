"""Faults between named parties: cut, slow, lose one direction; by proxies, or by namespaces if the lab has those.

*Between a and b* is every connection that one of them opens to the other. *From a to b* is all data that a sends:
requests on a's connections, and responses on b's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kvorum.chaos.faults.events import ActiveFault, FaultRegister, Unsupported
from kvorum.chaos.faults.links import BOTH, PROXY_KINDS, STREAMS_OF, Links, ProxyToxics, toxics_of
from kvorum.chaos.faults.namespaces import Namespaces, Rule
from kvorum.chaos.faults.topology import Parties, Proxy, Topology, node_of
from kvorum.chaos.faults.toxiproxy import Stream

CONNECTION_KINDS: Final = ("refuse", "reset", "lose_requests", "lose_responses")
"""Belong to connections as a whole or to one stream of them: their direction is that of the connection."""
NAMESPACE_KINDS: Final = ("drop", "drop_syn", "packet_loss")
LINK_KINDS: Final = (*PROXY_KINDS, *NAMESPACE_KINDS)


class NotThisNetwork(Unsupported):
    """A fault that the lab's kind of network cannot make."""


@dataclass(frozen=True, slots=True)
class LinkFault:
    """One fault: its kind, the parties at both ends, and how much of their connections is affected."""

    kind: str
    targets: Sequence[str]
    story: str
    own: Sequence[str]
    others: Sequence[str]
    one_way: bool = False
    share: float = 1.0
    attributes: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class LinkFaults:
    """The faults on links. This class is that of a cluster without proxies and namespaces, which supports none."""

    register: FaultRegister
    parties: Parties
    kinds: ClassVar[Sequence[str]] = ()
    """Kinds of LINK_KINDS that this network supports."""
    cut_kind: ClassVar[str] = "black_hole"
    """Default kind of a cut."""

    def between(
        self,
        kind: str,
        a: str,
        b: str,
        *,
        one_way: bool = False,
        share: float = 1.0,
        attributes: Mapping[str, int] | None = None,
    ) -> ActiveFault:
        """Start a fault between a and b, or (one way) from a to b.

        `share`: of connections; of packets for packet_loss. `attributes`: Toxiproxy's (latency, jitter, rate, ...).
        Raises NotThisNetwork, ValueError (UnknownParty among them), and the errors of proxies or namespaces.
        """
        more = "".join(f", {name} {value}" for name, value in (attributes or {}).items())
        story = f"{kind} {'from' if one_way else 'between'} {a} {'to' if one_way else 'and'} {b}{more}"
        own, others = self._ends(a), self._ends(b)
        return self._begin(LinkFault(kind, [a, b], story, own, others, one_way, share, attributes or {}))

    def cut(self, a: str, b: str, kind: str | None = None, *, one_way: bool = False) -> ActiveFault:
        """Cut the links between a and b: bytes are lost; or `refuse`, or `freeze` (bytes arrive at the end)."""
        return self.between(kind or self.cut_kind, a, b, one_way=one_way)

    def isolate(self, name: str, kind: str | None = None, *, clients: bool = True) -> ActiveFault:
        """Cut a node (or process, or group) off from all others; its own processes still reach each other."""
        chosen = kind or self.cut_kind
        own, others = self.parties.around(name)
        others = [each for each in others if clients or each not in self.parties.groups]
        story = f"{chosen} between {name} and all others" + ("" if clients else " except clients")
        return self._begin(LinkFault(chosen, [name], story, own, others))

    def heal(self) -> None:
        """End every fault of links."""
        for fault in self.register.in_force(*LINK_KINDS):
            fault.end()

    def _ends(self, name: str) -> list[str]:
        """Return the parties of one end."""
        return self.parties.resolve(name)

    def _begin(self, fault: LinkFault) -> ActiveFault:
        raise NotThisNetwork("this cluster has no proxies, so links cannot have faults")


@dataclass(slots=True)
class ProxyFaults(LinkFaults):
    """Faults on the proxies."""

    topology: Topology
    links: Links
    kinds = PROXY_KINDS

    def _begin(self, fault: LinkFault) -> ActiveFault:
        if fault.kind not in PROXY_KINDS:
            raise NotThisNetwork(f"{fault.kind} needs network namespaces; proxies support {', '.join(PROXY_KINDS)}")
        where = self._streams(fault.own, fault.others, fault.kind, fault.one_way)
        if not where:
            raise ValueError(f"{' and '.join(fault.targets)} never connect to each other")
        number = self.register.take_id()
        placed = [
            ProxyToxics(proxy.name, toxics_of(fault.kind, number, streams, fault.attributes, fault.share))
            for proxy, streams in where
        ]
        return self.register.begin(
            fault.kind,
            fault.targets,
            fault.story,
            do=lambda: self.links.inject(placed),
            undo=lambda: self.links.remove(placed),
            fault_id=number,
        )

    def _streams(
        self, own: Sequence[str], others: Sequence[str], kind: str, one_way: bool
    ) -> list[tuple[Proxy, tuple[Stream, ...]]]:
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


@dataclass(slots=True)
class NamespaceFaults(LinkFaults):
    """Packet faults between nodes; processes of one node are not distinguished."""

    network: Namespaces
    kinds = NAMESPACE_KINDS
    cut_kind = "drop"

    def _begin(self, fault: LinkFault) -> ActiveFault:
        if fault.kind not in NAMESPACE_KINDS:
            raise NotThisNetwork(f"{fault.kind} needs proxies; namespaces support {', '.join(NAMESPACE_KINDS)}")
        members, peers = _members(fault.own), _members(fault.others)
        pairs = [(a, b) for a in members for b in peers if a != b]
        pairs += [] if fault.one_way else [(b, a) for a, b in pairs]
        rules: list[Rule] = []

        def do() -> None:
            for source, target in pairs:
                match fault.kind:
                    case "drop":
                        rules.extend(self.network.drop(source, target))
                    case "drop_syn":
                        rules.extend(self.network.drop_syn(source, target))
                    case _:
                        rules.extend(self.network.lose(source, target, max(1, round(fault.share * 100))))

        return self.register.begin(
            fault.kind, fault.targets, fault.story, do=do, undo=lambda: self.network.remove(rules)
        )

    def _ends(self, name: str) -> list[str]:
        if "/" in name:
            raise NotThisNetwork(f"{name}: the processes of a node share its namespace")
        return self.parties.resolve(name)


def _members(parties: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(node_of(each) or each for each in parties))
