"""All requests a broker serves. An API that is not here is not advertised, and asking for it closes the connection."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvorum.broker.api import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    unregister_broker,
    update_features,
)
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.router import Handler, HandlerFunction, supported_apis
from kvorum.protocol.api import BROKER_APIS, PRODUCE_VERSION_MIN, ApiKey

APIS: Final[tuple[BrokerApi, ...]] = (
    produce.HANDLER,
    fetch.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    find_coordinator.HANDLER,
    api_versions.HANDLER,
    create_topics.HANDLER,
    delete_topics.HANDLER,
    delete_records.HANDLER,
    init_producer_id.HANDLER,
    offset_for_leader_epoch.HANDLER,
    describe_configs.HANDLER,
    alter_configs.HANDLER,
    describe_log_dirs.HANDLER,
    create_partitions.HANDLER,
    elect_leaders.HANDLER,
    incremental_alter_configs.HANDLER,
    describe_quorum.HANDLER,
    update_features.HANDLER,
    describe_cluster.HANDLER,
    describe_producers.HANDLER,
    unregister_broker.HANDLER,
    list_config_resources.HANDLER,
    describe_topic_partitions.HANDLER,
)
"""By key. Versions are those of BROKER_APIS."""

SERVED_FROM: Final[Mapping[int, int]] = MappingProxyType({ApiKey.PRODUCE: PRODUCE_VERSION_MIN})
"""Where the first version served is above the first advertised."""


def handlers(broker: Broker) -> list[Handler]:
    """Return every handler, bound to the broker, and note in it what is advertised."""
    bound = [
        Handler(
            api_key=api.api_key,
            versions=(SERVED_FROM.get(api.api_key, BROKER_APIS[api.api_key][0]), BROKER_APIS[api.api_key][1]),
            handle=bind(api, broker),
            abandon=api.abandon,
        )
        for api in APIS
    ]
    broker.served_apis = supported_apis(advertised())
    return bound


def bind(api: BrokerApi, broker: Broker) -> HandlerFunction:
    """Return the handler as the router calls it."""
    handle = api.handle
    return lambda ctx, request: handle(ctx, request, broker)


def advertised() -> dict[int, tuple[int, int]]:
    """Return {api key: (first, last version)} as ApiVersions answers it."""
    return {api.api_key: BROKER_APIS[api.api_key] for api in APIS}
