"""Channels of a broker: to the controllers, one per purpose, and to its peers. Each connects on first use."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kvorum.broker.metadata.cache import MetadataCache
from kvorum.network.addresses import Address
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck
from kvorum.quorum.controller_channel import ControllerChannel, ControllerNodes
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import inter_broker_listener_name, peer_addresses
from kvorum.runtime.sockets import buffer_bytes
from kvorum.security.client import PLAINTEXT, ClientSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerChannels:
    """All connections to the controllers: one per purpose, since responses are in the order of the requests."""

    nodes: ControllerNodes
    lifecycle: ControllerChannel
    isr: ControllerChannel
    forwarding: ControllerChannel
    coordinators: ControllerChannel
    directories: ControllerChannel

    async def close(self) -> None:
        """Close all."""
        for channel in (self.lifecycle, self.isr, self.forwarding, self.coordinators, self.directories):
            await channel.close()


def open_channels(
    settings: Settings, cluster_id: str, chance: Random, security: ClientSecurity = PLAINTEXT
) -> ControllerChannels:
    """Prepare the channels to the controllers; each connects on first use. Raises ConfigError."""
    nodes = ControllerNodes.of(settings, cluster_id, peer_addresses(settings, "broker", "controller"), security)

    def channel(purpose: str) -> ControllerChannel:
        client_id = f"broker-{settings.int('node.id')}-{purpose}"
        return ControllerChannel(nodes, settings, client_id=client_id, chance=chance)

    return ControllerChannels(
        nodes=nodes,
        lifecycle=channel("lifecycle"),
        isr=channel("isr"),
        forwarding=channel("forwarding"),
        coordinators=channel("coordinators"),
        directories=channel("directories"),
    )


class PeerChannels:
    """Opens channels to other brokers, at the address each has now on the listener brokers use among themselves."""

    __slots__ = (
        *("_broker_id", "_cache", "_chance", "_check", "_listener", "_lost", "_overrides", "_purpose"),
        *("_receive_buffer_bytes", "_security"),
    )

    def __init__(
        self,
        settings: Settings,
        cache: MetadataCache,
        check: ClusterCheck,
        chance: Random,
        lost: Callable[[int], None] | None = None,
        purpose: str = "fetcher",
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Take addresses from the cache; `kvorum.peer.addresses` puts a test's proxies in their place.

        `check` judges each new connection. `lost` is called with a broker whose connection closed, or that
        refused one.
        """
        self._security = security
        self._lost = lost
        self._purpose = purpose
        self._broker_id = settings.int("node.id")
        self._cache = cache
        self._listener = inter_broker_listener_name(settings)
        self._overrides = peer_addresses(settings, "broker", "broker")
        self._receive_buffer_bytes = buffer_bytes(settings, "replica.socket.receive.buffer.bytes")
        self._chance = chance
        self._check = check

    def open(self, broker_id: int) -> Channel:
        """Return a channel to a broker; it connects on first use."""
        client_id = f"broker-{self._broker_id}-{self._purpose}-{broker_id}"
        lost = self._lost
        on_lost = None if lost is None else lambda: lost(broker_id)
        return Channel(
            lambda: self._address(broker_id),
            client_id=client_id,
            chance=self._chance,
            on_lost=on_lost,
            on_refused=on_lost,
            receive_buffer_bytes=self._receive_buffer_bytes,
            check=self._check,
            security=self._security,
        )

    def _address(self, broker_id: int) -> Address | None:
        override = self._overrides.get(broker_id)
        if override is not None:
            return override
        node = self._cache.node(broker_id, self._listener)
        return None if node is None else (node.host, node.port)
