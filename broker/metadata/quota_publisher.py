"""Applies client quotas of the metadata at once (Kafka's ClientQuotaMetadataManager).

Quotas of users and client ids apply from the update on. An ip entity that is a host name is resolved off the loop,
without waiting; it applies to all its addresses once they are known, and to none without addresses.
"""

import asyncio
from collections.abc import Mapping, Sequence

from kvorum.network.ip_rates import CONNECTION_CREATION_RATE, IpConnectionRates, is_address
from kvorum.network.quotas import BrokerQuotas
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.client_quotas import IP, ClientQuotasImage, entity_of
from kvorum.quorum.publisher import LoaderManifest
from kvorum.runtime.logs import get_logger

log = get_logger("broker")


class QuotaPublisher:
    """A publisher of the metadata, behind the configs."""

    __slots__ = ("_resolving", "ip_rates", "quotas")

    def __init__(self, quotas: BrokerQuotas, ip_rates: IpConnectionRates) -> None:
        """Apply the quotas on this broker."""
        self.quotas = quotas
        self.ip_rates = ip_rates
        self._resolving: asyncio.Task[None] | None = None

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher."""
        changes = delta.client_quotas_delta.changes
        if not changes:
            return
        entities = image.client_quotas.sorted_entities()
        self.quotas.update(entities)
        if any(IP in dict(entity) for entity in changes):
            self._update_addresses(image.client_quotas)
        log.info("client quotas changed", changed=len(changes), entities=len(entities))

    async def close(self) -> None:
        """Stop resolving."""
        if self._resolving is not None:
            self._resolving.cancel()
            await asyncio.wait([self._resolving])

    def _update_addresses(self, image: ClientQuotasImage) -> None:
        if self._resolving is not None:
            self._resolving.cancel()
            self._resolving = None
        default = image.of(entity_of([(IP, None)])).get(CONNECTION_CREATION_RATE)
        limits: dict[str, float] = {}
        for entity, quotas in image.sorted_entities():
            name = dict(entity).get(IP)
            if name is not None and CONNECTION_CREATION_RATE in quotas:
                limits[name] = quotas[CONNECTION_CREATION_RATE]
        addresses = [(name, limit) for name, limit in limits.items() if is_address(name)]
        self.ip_rates.update(default, addresses)
        hosts = {name: limit for name, limit in limits.items() if not is_address(name)}
        if hosts:
            work = self._resolve(default, addresses, hosts)
            self._resolving = asyncio.get_running_loop().create_task(work)

    async def _resolve(
        self, default: float | None, addresses: Sequence[tuple[str, float]], hosts: Mapping[str, float]
    ) -> None:
        """Add the addresses of hosts to the limits; an address that has its own keeps it."""
        loop = asyncio.get_running_loop()
        found: list[tuple[str, float]] = []
        for host, limit in hosts.items():
            try:
                rows = await loop.getaddrinfo(host, None)
            except (OSError, UnicodeError) as error:
                log.error("quota of an IP address ignored", ip=host, reason=error)
                continue
            found += [(str(row[4][0]), limit) for row in rows]
        self.ip_rates.update(default, [*found, *addresses])
