"""Configs of one broker, and of all brokers together (the dynamic defaults, KIP-226)."""

import asyncio
from typing import Any

from kvorum.admin.http.operations import Call, NoBody, Operation, number_of
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v3.config_kit import (
    Rows,
    alter,
    changes_of,
    common,
    new_value,
    one,
    paths,
    removal,
)
from kvorum.admin.v3.links import BROKER, CLUSTER, Links, cluster_of, links_of
from kvorum.admin.v3.models import (
    BrokerConfigData,
    BrokerConfigDataList,
    ClusterConfigData,
    ClusterConfigDataList,
)
from kvorum.admin.v3.requests import (
    AlterConfigBatchRequestData,
    UpdateConfigRequestData,
)
from kvorum.client.wire.cluster_client import ResourceType

ALL_BROKERS = ""


def broker_rows(links: Links, broker: int, rows: Rows) -> list[BrokerConfigData]:
    """Return a broker's configs, by name."""
    return [
        BrokerConfigData(broker_id=broker, **common(links, row, ("brokers", broker), ("broker", broker)))
        for row in sorted(rows, key=lambda row: row.name)
    ]


def cluster_rows(links: Links, rows: Rows) -> list[ClusterConfigData]:
    """Return the configs of all brokers, by name."""
    return [
        ClusterConfigData(**common(links, row, ("broker-configs",))) for row in sorted(rows, key=lambda row: row.name)
    ]


def broker_id(call: Call[Any]) -> int:
    """Read the broker's id in the path. Raises BadInput."""
    return number_of("broker_id", call.path["broker_id"], 0, INT32_MAX)


async def list_kafka_broker_configs(call: Call[NoBody]) -> BrokerConfigDataList:
    """List a broker's configs, including defaults."""
    links, broker = await links_of(call), broker_id(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, str(broker))
    return BrokerConfigDataList(
        metadata=links.collection("brokers", broker, "configs"), data=broker_rows(links, broker, rows)
    )


async def list_kafka_all_broker_configs(call: Call[NoBody]) -> BrokerConfigDataList:
    """List the configs of all brokers, by broker and name."""
    found = await cluster_of(call)
    links = Links(call.base_url, found.cluster_id)
    brokers = sorted(broker.broker_id for broker in found.brokers)
    described = await asyncio.gather(
        *(call.cluster.describe_configs(ResourceType.BROKER, str(each)) for each in brokers)
    )
    rows = [
        row for broker, configs in zip(brokers, described, strict=True) for row in broker_rows(links, broker, configs)
    ]
    return BrokerConfigDataList(metadata=links.collection("brokers", "-", "configs"), data=rows)


async def get_kafka_broker_config(call: Call[NoBody]) -> BrokerConfigData:
    """Return one config of a broker."""
    links, broker = await links_of(call), broker_id(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, str(broker))
    return broker_rows(links, broker, one(rows, call.path["name"]))[0]


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


async def list_kafka_cluster_configs(call: Call[NoBody]) -> ClusterConfigDataList:
    """List the dynamic configs of all brokers."""
    links = await links_of(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, ALL_BROKERS)
    return ClusterConfigDataList(metadata=links.collection("broker-configs"), data=cluster_rows(links, rows))


async def get_kafka_cluster_config(call: Call[NoBody]) -> ClusterConfigData:
    """Return one dynamic config of all brokers."""
    links = await links_of(call)
    rows = await call.cluster.describe_configs(ResourceType.BROKER, ALL_BROKERS)
    return cluster_rows(links, one(rows, call.path["name"]))[0]


async def update_kafka_cluster_config(call: Call[UpdateConfigRequestData]) -> None:
    """Set one config of all brokers."""
    await cluster_of(call)
    await call.cluster.alter_configs(ResourceType.BROKER, ALL_BROKERS, new_value(call))


async def delete_kafka_cluster_config(call: Call[NoBody]) -> None:
    """Reset one config of all brokers; 404 if it is not set."""
    await cluster_of(call)
    await alter(call, ResourceType.BROKER, ALL_BROKERS, removal(call))


async def update_kafka_cluster_configs(call: Call[AlterConfigBatchRequestData]) -> None:
    """Change several configs of all brokers."""
    await cluster_of(call)
    changes, only = changes_of(call.body.data), bool(call.body.validate_only)
    await call.cluster.alter_configs(ResourceType.BROKER, ALL_BROKERS, changes, validate_only=only)


OPERATIONS = [
    Operation.get(
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
    *paths(
        f"{CLUSTER}/broker-configs",
        ClusterConfigDataList,
        ClusterConfigData,
        (
            list_kafka_cluster_configs,
            update_kafka_cluster_configs,
            get_kafka_cluster_config,
            update_kafka_cluster_config,
            delete_kafka_cluster_config,
        ),
        "all brokers",
    ),
]
