"""All requests a controller serves.

An API that is not listed is not advertised, and a request for it closes the connection.

The listener also accepts a request that is not in the table: Raft's private key, which takes over its connection
(quorum/raft/transport.py).
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kvorum.network.context import RequestContext
from kvorum.protocol.api import CONTROLLER_APIS, ApiKey
from kvorum.protocol.schema import Message
from kvorum.quorum.api import (
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    unregister_broker,
    update_features,
    update_raft_voter,
)
from kvorum.quorum.services import ControllerServices

# Each handler takes its own request class, which a common table cannot express.
ServiceHandler = Callable[[RequestContext, Any, ControllerServices], Awaitable[Message]]

PLAIN: Final[Mapping[ApiKey, ServiceHandler]] = MappingProxyType(
    {
        ApiKey.SASL_HANDSHAKE: sasl_handshake.handle,
        ApiKey.CREATE_TOPICS: create_topics.handle,
        ApiKey.DELETE_TOPICS: delete_topics.handle,
        ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
        ApiKey.ALTER_CONFIGS: alter_configs.handle,
        ApiKey.SASL_AUTHENTICATE: sasl_authenticate.handle,
        ApiKey.CREATE_PARTITIONS: create_partitions.handle,
        ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token.handle,
        ApiKey.RENEW_DELEGATION_TOKEN: renew_delegation_token.handle,
        ApiKey.EXPIRE_DELEGATION_TOKEN: expire_delegation_token.handle,
        ApiKey.ELECT_LEADERS: elect_leaders.handle,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
        ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas.handle,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials.handle,
        ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
        ApiKey.ALTER_PARTITION: alter_partition.handle,
        ApiKey.UPDATE_FEATURES: update_features.handle,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
        ApiKey.BROKER_REGISTRATION: broker_registration.handle,
        ApiKey.BROKER_HEARTBEAT: broker_heartbeat.handle,
        ApiKey.UNREGISTER_BROKER: unregister_broker.handle,
        ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs.handle,
        ApiKey.ADD_RAFT_VOTER: add_raft_voter.handle,
        ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter.handle,
        ApiKey.UPDATE_RAFT_VOTER: update_raft_voter.handle,
    }
)
"""Those that need the services alone."""

WIRED: Final = (ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.ENVELOPE, ApiKey.FETCH_SNAPSHOT)
"""Those that need more, which the server hands them."""


def served_versions() -> dict[int, tuple[int, int]]:
    """Return {api key: (first, last version)} as ApiVersions answers it on the controller listener."""
    return {int(key): CONTROLLER_APIS[key] for key in sorted((*PLAIN, *WIRED))}
