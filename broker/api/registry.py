"""All requests that a broker serves.

An API that is not listed is not advertised, and a request for it closes the connection.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvorum.broker.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.router import Handler, HandlerFunction, supported_apis
from kvorum.protocol.api import BROKER_APIS, PRODUCE_VERSION_MIN, TELEMETRY_APIS, ApiKey

APIS: Final[tuple[BrokerApi, ...]] = (
    produce.HANDLER,
    fetch.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    offset_commit.HANDLER,
    offset_fetch.HANDLER,
    find_coordinator.HANDLER,
    join_group.HANDLER,
    heartbeat.HANDLER,
    leave_group.HANDLER,
    sync_group.HANDLER,
    describe_groups.HANDLER,
    list_groups.HANDLER,
    sasl_handshake.HANDLER,
    api_versions.HANDLER,
    create_topics.HANDLER,
    delete_topics.HANDLER,
    delete_records.HANDLER,
    init_producer_id.HANDLER,
    offset_for_leader_epoch.HANDLER,
    add_partitions_to_txn.HANDLER,
    add_offsets_to_txn.HANDLER,
    end_txn.HANDLER,
    write_txn_markers.HANDLER,
    txn_offset_commit.HANDLER,
    describe_configs.HANDLER,
    alter_configs.HANDLER,
    alter_replica_log_dirs.HANDLER,
    describe_log_dirs.HANDLER,
    sasl_authenticate.HANDLER,
    create_partitions.HANDLER,
    create_delegation_token.HANDLER,
    renew_delegation_token.HANDLER,
    expire_delegation_token.HANDLER,
    describe_delegation_token.HANDLER,
    delete_groups.HANDLER,
    elect_leaders.HANDLER,
    incremental_alter_configs.HANDLER,
    alter_partition_reassignments.HANDLER,
    list_partition_reassignments.HANDLER,
    offset_delete.HANDLER,
    describe_client_quotas.HANDLER,
    alter_client_quotas.HANDLER,
    describe_user_scram_credentials.HANDLER,
    alter_user_scram_credentials.HANDLER,
    describe_quorum.HANDLER,
    update_features.HANDLER,
    describe_cluster.HANDLER,
    describe_producers.HANDLER,
    unregister_broker.HANDLER,
    describe_transactions.HANDLER,
    list_transactions.HANDLER,
    consumer_group_heartbeat.HANDLER,
    consumer_group_describe.HANDLER,
    list_config_resources.HANDLER,
    describe_topic_partitions.HANDLER,
    add_raft_voter.HANDLER,
    remove_raft_voter.HANDLER,
)
"""By key. Versions are those of BROKER_APIS."""

TELEMETRY: Final[tuple[BrokerApi, ...]] = (get_telemetry_subscriptions.HANDLER, push_telemetry.HANDLER)
"""Served where clients' metrics are received. Versions are those of TELEMETRY_APIS."""

SERVED_FROM: Final[Mapping[int, int]] = MappingProxyType({ApiKey.PRODUCE: PRODUCE_VERSION_MIN})
"""APIs whose first served version is above the first advertised one."""


def handlers(broker: Broker) -> list[Handler]:
    """Return every handler, bound to the broker, and store the advertised versions in it."""
    versions = advertised()
    if broker.telemetry is not None:
        versions.update(TELEMETRY_APIS.items())
    bound = [
        Handler(
            api_key=api.api_key,
            versions=(SERVED_FROM.get(api.api_key, versions[api.api_key][0]), versions[api.api_key][1]),
            handle=bind(api, broker),
            abandon=api.abandon,
        )
        for api in (*APIS, *TELEMETRY)
        if api.api_key in versions
    ]
    broker.served_apis = supported_apis(versions)
    return bound


def bind(api: BrokerApi, broker: Broker) -> HandlerFunction:
    """Return the handler as the router calls it."""
    handle = api.handle
    return lambda ctx, request: handle(ctx, request, broker)


def advertised() -> dict[int, tuple[int, int]]:
    """Return {api key: (first, last version)} of ApiVersions with default settings."""
    return {api.api_key: BROKER_APIS[api.api_key] for api in APIS}
