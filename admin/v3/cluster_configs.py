"""Configs of all brokers together: the dynamic defaults (KIP-226)."""

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.config_kit import alter, changes_of, common, config_of, new_value, paths, removal
from kvorum.admin.v3.config_models import ClusterConfigData, ClusterConfigDataList
from kvorum.admin.v3.links import CLUSTER, Links, cluster_of, links_of
from kvorum.admin.v3.requests import AlterConfigBatchRequestData, UpdateConfigRequestData
from kvorum.client.namespaces.configs import Configs
from kvorum.client.values.config import Config
from kvorum.client.wire.cluster_client import ResourceType

ALL_BROKERS = ""


def cluster_data(links: Links, row: Config) -> ClusterConfigData:
    """Return a config of all brokers."""
    return ClusterConfigData(**common(links, row, ("broker-configs",)))


async def list_kafka_cluster_configs(call: Call[NoBody]) -> ClusterConfigDataList:
    """List the dynamic configs of all brokers."""
    links = await links_of(call)
    rows = await Configs(call.cluster).describe(ResourceType.BROKER, ALL_BROKERS)
    return ClusterConfigDataList(
        metadata=links.collection("broker-configs"), data=[cluster_data(links, row) for row in rows]
    )


async def get_kafka_cluster_config(call: Call[NoBody]) -> ClusterConfigData:
    """Return one dynamic config of all brokers."""
    return cluster_data(await links_of(call), await config_of(call, ResourceType.BROKER, ALL_BROKERS))


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


OPERATIONS = paths(
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
)
