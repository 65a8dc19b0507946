"""The end of throttles in a simulated run: an operator removes those that would delay moves, as Kafka's tool does."""

import asyncio
from typing import Final

from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.quorum.controller.departure_throttle import RATES, throttles_in
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE
from sim.client import NoAnswer, SimClient
from sim.cluster import SimCluster
from sim.reassignment_throttles import DEPARTURE_KIND, RATE_KIND, REPLICAS_KIND

EVERY_S: Final = 1.0
DELETE: Final = 1


def has_throttles(cluster: SimCluster) -> bool:
    """Return whether a run has any."""
    return not {RATE_KIND, DEPARTURE_KIND}.isdisjoint(cluster.options.fault_kinds)


def has_rates_of_its_own(cluster: SimCluster) -> bool:
    """Return whether an operator sets rates, or marks replicas: then their owner is unknown."""
    return not {RATE_KIND, REPLICAS_KIND}.isdisjoint(cluster.options.fault_kinds)


def in_the_way(image: MetadataImage, *, rates: bool) -> list[tuple[str, str]]:
    """Return the configs of brokers (name, key) that may delay a move for longer than the timeouts here."""
    found = [(str(broker_id), DECOMMISSION_THROTTLE) for broker_id in throttles_in(image)]
    present = image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)
    return found + [(CLUSTER_DEFAULT, key) for key in RATES if rates and key in present]


async def take_off(cluster: SimCluster, client: SimClient) -> None:
    """Remove them, again as long as there are any."""
    while True:
        for name, key in in_the_way(cluster.metadata.newest, rates=has_rates_of_its_own(cluster)):
            if name != CLUSTER_DEFAULT:
                cluster.metadata.unthrottled.add(int(name))
            config = AlterableConfig(name=key, config_operation=DELETE, value=None)
            resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=name, configs=[config])
            try:
                await client.ask_any(
                    IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
                )
            except NoAnswer as error:
                cluster.note(f"the operator's end of {key} of broker {name}: {error}")
        await asyncio.sleep(EVERY_S)
