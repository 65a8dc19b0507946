"""Faults on the proxied links: sets, verifies and removes their toxics. fault_kinds describes the effects.

A proxy refuses the handshake only as `refuse`: lost SYNs need namespaces. Toxics of several faults stack.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from kvorum.chaos.faults.events import FaultError
from kvorum.chaos.faults.topology import Proxy
from kvorum.chaos.faults.toxiproxy import ProxyState, Stream, Toxic, ToxiproxyApi, ToxiproxyError

BOTH: Final[tuple[Stream, Stream]] = ("upstream", "downstream")
REFUSE: Final = "refuse"

TOXIC_OF: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "black_hole": ("timeout", {"timeout": 0}),
    "freeze": ("bandwidth", {"rate": 0}),
    "latency": ("latency", {"latency": 0, "jitter": 0}),
    "bandwidth": ("bandwidth", {"rate": 1}),
    "slicer": ("slicer", {"average_size": 64, "size_variation": 32, "delay": 0}),
    "reset": ("reset_peer", {"timeout": 0}),
    "lose_requests": ("timeout", {"timeout": 0}),
    "lose_responses": ("timeout", {"timeout": 0}),
}
"""{kind: (Toxiproxy's type, its default attributes)}."""
PROXY_KINDS: Final = (REFUSE, *TOXIC_OF)
STREAMS_OF: Final[Mapping[str, tuple[Stream, ...]]] = {
    "lose_requests": ("upstream",),
    "lose_responses": ("downstream",),
    "reset": ("downstream",),
}
"""Kinds of one stream only: the reset of one ends the connection."""


class LinkFaultError(FaultError):
    """A fault that the server did not accept, or did not remove."""


@dataclass(frozen=True, slots=True)
class ProxyToxics:
    """One fault on one proxy: its toxics, or (without any) the proxy's refusal."""

    proxy: str
    toxics: tuple[Toxic, ...]


def toxics_of(
    kind: str, fault_id: int, streams: Sequence[Stream], attributes: Mapping[str, int], share: float
) -> tuple[Toxic, ...]:
    """Return the toxics of a fault of this kind; none for `refuse`. Raises ValueError."""
    if kind == REFUSE:
        return ()
    if kind not in TOXIC_OF:
        raise ValueError(f"{kind!r} is not a link fault; use one of {', '.join(PROXY_KINDS)}")
    toxic_type, usual = TOXIC_OF[kind]
    unknown = attributes.keys() - usual.keys()
    if unknown or any(value < 0 for value in attributes.values()):
        raise ValueError(f"{kind} needs non-negative {', '.join(usual)}, not {dict(attributes)}")
    return tuple(
        Toxic(f"{kind}-{fault_id}-{stream}", toxic_type, stream, {**usual, **attributes}, share) for stream in streams
    )


@dataclass(slots=True)
class Links:
    """The proxies of a cluster and the faults on them. Thread safe."""

    api: ToxiproxyApi
    proxies: Sequence[Proxy]
    listen_host: str = "127.0.0.1"
    _lock: Lock = field(default_factory=Lock)
    _refusals: dict[str, int] = field(default_factory=dict)
    """{proxy: how many faults want it to refuse}."""
    _toxics: dict[str, dict[str, Toxic]] = field(default_factory=dict)
    """{proxy: {name: toxic}}."""

    def open(self) -> None:
        """Make all proxies. Raises ToxiproxyError."""
        self.api.populate(
            [(each.name, f"{self.listen_host}:{each.listen_port}", each.upstream) for each in self.proxies]
        )

    def inject(self, placed: Sequence[ProxyToxics]) -> None:
        """Put faults into force and read them back. Raises LinkFaultError, ToxiproxyError; then none of it is left."""
        with self._lock:
            try:
                for each in placed:
                    for toxic in each.toxics:
                        self.api.add(each.proxy, toxic)
                        self._toxics.setdefault(each.proxy, {})[toxic.name] = toxic
                    if not each.toxics:
                        self._refuse(each.proxy)
                self._check(placed, present=True)
            except (LinkFaultError, ToxiproxyError):
                self._remove(placed)
                raise

    def remove(self, placed: Sequence[ProxyToxics]) -> None:
        """Take faults out and check that they are. Raises LinkFaultError, ToxiproxyError."""
        with self._lock:
            self._remove(placed)
            self._check(placed, present=False)

    def _refuse(self, proxy: str) -> None:
        self._refusals[proxy] = self._refusals.get(proxy, 0) + 1
        self.api.enable(proxy, False)

    def _remove(self, placed: Sequence[ProxyToxics]) -> None:
        for each in placed:
            for toxic in each.toxics:
                if self._toxics.get(each.proxy, {}).pop(toxic.name, None) is None:
                    continue
                try:
                    self.api.remove(each.proxy, toxic.name)
                except ToxiproxyError:
                    # The server may wait for a connection that another toxic blocks; without the proxy there is none.
                    self._renew(each.proxy)
            if not each.toxics and self._refusals.get(each.proxy):
                self._refusals[each.proxy] -= 1
                if not self._refusals[each.proxy]:
                    self.api.enable(each.proxy, True)

    def _renew(self, name: str) -> None:
        """Recreate a proxy with the toxics of the remaining faults."""
        proxy = next(each for each in self.proxies if each.name == name)
        self.api.destroy(name)
        self.api.populate([(name, f"{self.listen_host}:{proxy.listen_port}", proxy.upstream)])
        for toxic in self._toxics.get(name, {}).values():
            self.api.add(name, toxic)
        if self._refusals.get(name):
            self.api.enable(name, False)

    def _check(self, placed: Sequence[ProxyToxics], *, present: bool) -> None:
        """Compare the server's own state with the requested one. Raises LinkFaultError, ToxiproxyError."""
        states = self.api.proxies()
        wrong = [fault for each in placed if (fault := self._wrong(each, states.get(each.proxy), present)) is not None]
        if wrong:
            raise LinkFaultError("; ".join(wrong))

    def _wrong(self, placed: ProxyToxics, state: ProxyState | None, present: bool) -> str | None:
        if state is None:
            return f"{placed.proxy} no longer exists"
        names = {toxic.name for toxic in placed.toxics}
        if names:
            differing = names - state.toxics if present else names & state.toxics
            return f"{placed.proxy}: {', '.join(sorted(differing))}" if differing else None
        wanted = not (present or self._refusals.get(placed.proxy, 0))
        return None if state.enabled == wanted else f"{placed.proxy} is {'enabled' if state.enabled else 'disabled'}"
