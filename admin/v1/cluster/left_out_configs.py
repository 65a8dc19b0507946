"""Dynamic broker configs that are stored but not applied, because the broker rejects their values.

A broker's DescribeConfigs has both: the value in force, and the stored one as its strongest synonym. Only dynamic keys
are requested: those of all brokers, and every key of a broker with own ones.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable, refuse
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kvorum.runtime.config import ConfigSource
from kvorum.runtime.config_defs import ConfigDef, broker_def
from kvorum.runtime.config_types import InvalidValue
from kvorum.runtime.logs import get_logger

ASK_MS: Final = 5_000
"""Timeout of one request: the health page does not wait longer for an unresponsive broker."""
NAMED_MAX: Final = 100
DYNAMIC: Final = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)

log = get_logger("admin")


async def left_out_configs(cluster: ClusterClient, broker_ids: Iterable[int]) -> list[str] | None:
    """Return `broker ID: KEY=VALUE` of each, at most NAMED_MAX; None: a broker or the cluster did not respond."""
    try:
        listed = await cluster.ask(
            ListConfigResourcesRequest(resource_types=[ResourceType.BROKER]),
            ListConfigResourcesResponse,
            timeout_ms=ASK_MS,
        )
        names = {each.resource_name for each in listed.config_resources}
        common = await cluster.describe_configs(ResourceType.BROKER, "", timeout_ms=ASK_MS) if "" in names else []
        keys = [config.name for config in common]
        wanted = [
            (broker_id, None if str(broker_id) in names else keys)
            for broker_id in broker_ids
            if keys or str(broker_id) in names
        ]
        found = await asyncio.gather(*(describe_broker(cluster, broker_id, keys) for broker_id, keys in wanted))
    except (KafkaError, Unreachable) as error:
        log.debug("list of ignored configs not available", reason=error)
        return None
    rows = zip(wanted, found, strict=True)
    return [f"broker {broker_id}: {text}" for (broker_id, _), configs in rows for text in values_not_in_force(configs)][
        :NAMED_MAX
    ]


async def describe_broker(
    cluster: ClusterClient, broker_id: int, keys: Sequence[str] | None
) -> list[DescribeConfigsResourceResult]:
    """Return a broker's own view of some of its configs, of all for None. Raises KafkaError, Unreachable."""
    wanted = DescribeConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name=str(broker_id),
        configuration_keys=None if keys is None else list(keys),
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=False)
    address = await cluster.broker_address(broker_id)
    (answer,) = (await cluster.ask(request, DescribeConfigsResponse, address, timeout_ms=ASK_MS)).results
    refuse(answer.error_code, answer.error_message or f"broker {broker_id}")
    return answer.configs


def values_not_in_force(configs: Iterable[DescribeConfigsResourceResult]) -> list[str]:
    """Return KEY=VALUE of each stored value that is not in force; values of secrets are hidden."""
    found = []
    for config in configs:
        stored = config.synonyms[0] if config.synonyms else None
        definition = broker_def(config.name)
        if stored is None or stored.source not in DYNAMIC or stored.value is None or definition is None:
            continue
        if not is_same(definition, stored.value, config.value or ""):
            found.append(f"{config.name}={stored.value}")
    return found


def is_same(definition: ConfigDef, stored: str, in_force: str) -> bool:
    """Return whether two texts are the same value. An invalid value is not in force."""
    try:
        return definition.parse(stored) == definition.parse(in_force)
    except InvalidValue:
        return False
