"""Configs of brokers, each with its own."""

import asyncio
from typing import Any

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.config_kit import alter, changes_of, common, config_of, new_value, paths, removal
from kvorum.admin.v3.config_models import BrokerConfigData, BrokerConfigDataList
from kvorum.admin.v3.links import BROKER, CLUSTER, Links, cluster_of, links_of
from kvorum.admin.v3.path_parameters import BROKER_ID, get_operation
from kvorum.admin.v3.requests import AlterConfigBatchRequestData, UpdateConfigRequestData
from kvorum.client.namespaces.configs import Configs
from kvorum.client.values.config import Config
from kvorum.client.wire.cluster_client import ResourceType


def broker_data(links: Links, broker: int, row: Config) -> BrokerConfigData:
    """Return a broker's config."""
    return BrokerConfigData(broker_id=broker, **common(links, row, ("brokers", broker), ("broker", broker)))


def broker_id(call: Call[Any]) -> int:
    """Read the broker's id in the path. Raises BadInput."""
    return BROKER_ID.of(call)


async def list_kafka_broker_configs(call: Call[NoBody]) -> BrokerConfigDataList:
    """List a broker's configs, including defaults."""
    links, broker = await links_of(call), broker_id(call)
    rows = await Configs(call.cluster).describe(ResourceType.BROKER, broker)
    return BrokerConfigDataList(
        metadata=links.collection("brokers", broker, "configs"), data=[broker_data(links, broker, row) for row in rows]
    )


async def list_kafka_all_broker_configs(call: Call[NoBody]) -> BrokerConfigDataList:
    """List the configs of all brokers, by broker and name."""
    found = await cluster_of(call)
    links, configs = Links(call.base_url, found.cluster_id), Configs(call.cluster)
    described = await asyncio.gather(*(configs.describe(ResourceType.BROKER, each.id) for each in found.brokers))
    rows = [broker_data(links, each.id, row) for each, of in zip(found.brokers, described, strict=True) for row in of]
    return BrokerConfigDataList(metadata=links.collection("brokers", "-", "configs"), data=rows)


async def get_kafka_broker_config(call: Call[NoBody]) -> BrokerConfigData:
    """Return one config of a broker."""
    links, broker = await links_of(call), broker_id(call)
    return broker_data(links, broker, await config_of(call, ResourceType.BROKER, str(broker)))


async def update_kafka_broker_config(call: Call[UpdateConfigRequestData]) -> None:
    """Set one config of a broker."""
    await cluster_of(call)
    await alter(call, ResourceType.BROKER, str(broker_id(call)), new_value(call))


async def delete_kafka_broker_config(call: Call[NoBody]) -> None:
    """Reset one config of a broker."""
    await cluster_of(call)
    await alter(call, ResourceType.BROKER, str(broker_id(call)), removal(call))


async def update_kafka_broker_config_batch(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change several configs of a broker."""
    await cluster_of(call)
    only = bool(call.body.validate_only)
    await alter(call, ResourceType.BROKER, str(broker_id(call)), changes_of(call.body.data), only=only)


OPERATIONS = [
    get_operation(
        f"{CLUSTER}/brokers/-/configs",
        "List configs of every broker",
        list_kafka_all_broker_configs,
        BrokerConfigDataList,
    ),
    *paths(
        f"{BROKER}/configs",
        BrokerConfigDataList,
        BrokerConfigData,
        (
            list_kafka_broker_configs,
            update_kafka_broker_config_batch,
            get_kafka_broker_config,
            update_kafka_broker_config,
            delete_kafka_broker_config,
        ),
        "a broker",
    ),
]
