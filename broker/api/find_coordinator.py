"""FindCoordinator (10): v0-v6.

v1: transactional ids as keys. v4: several keys at once (KIP-699). v6: share groups (KIP-932). The first request for a
group or a transactional id creates the internal topic and waits for it. Kafka answers COORDINATOR_NOT_AVAILABLE at
once, so the client has to retry.
Not here: share coordinators; a key of theirs returns COORDINATOR_NOT_AVAILABLE.
Order: check the type, authorise each key, create the topic, answer the leader of the key's partition.
"""

import asyncio
from typing import Final

from kvorum.broker.coordinator.runtime.placing import coordinator_partitions, partition_for
from kvorum.broker.metadata.cache import Node
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kvorum.protocol.topic_names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kvorum.protocol.uuids import ZERO_UUID, Uuid

NO_NODE: Final = Node(-1, "", -1, None)


async def handle(ctx: RequestContext, request: FindCoordinatorRequest, broker: Broker) -> FindCoordinatorResponse:
    """Answer for one key (before v4) or several."""
    throttle_time = broker.throttle(ctx)
    if ctx.api_version < 4:
        row = await find(ctx, request.key_type, request.key, broker)
        return FindCoordinatorResponse(
            throttle_time=throttle_time,
            error_code=row.error_code,
            error_message=row.error_message or "NONE",
            node_id=row.node_id,
            host=row.host,
            port=row.port,
        )
    # Together: all of them wait for the same topic, and for many keys that must not take longer than for one.
    rows = await asyncio.gather(*(find(ctx, request.key_type, key, broker) for key in request.coordinator_keys))
    return FindCoordinatorResponse(throttle_time=throttle_time, coordinators=list(rows))


async def find(ctx: RequestContext, key_type: int, key: str, broker: Broker) -> Coordinator:
    """Return the coordinator of one key, or an error and a word for people."""
    try:
        node = await coordinator_of(ctx, key_type, key, broker)
    except KafkaError as error:
        node, code, message = NO_NODE, error.code, error.message or ""
    else:
        code, message = ErrorCode.NONE, ""
    return Coordinator(
        key=key, node_id=node.broker_id, host=node.host, port=node.port, error_code=code, error_message=message
    )


async def coordinator_of(ctx: RequestContext, key_type: int, key: str, broker: Broker) -> Node:
    """Return where a key's coordinator listens. Raises KafkaError."""
    topic = topic_of(ctx, key_type, key, broker)
    await broker.internal_topics.ensure(topic)
    count = coordinator_partitions(broker.metadata.image, topic)
    if count is not None:
        leader_id, _ = broker.metadata.leader_and_epoch(topic, partition_for(key, count))
        node = broker.metadata.node(leader_id, ctx.listener)
        if node is not None and broker.metadata.has_live_broker(leader_id):
            return node
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available")


def topic_of(ctx: RequestContext, key_type: int, key: str, broker: Broker) -> str:
    """Return the topic a key's coordinator lives on. Raises KafkaError if the client is not authorised for it."""
    authorize = broker.authorizer.authorize
    match key_type:
        case 0:  # GROUP
            if not authorize(ctx, Operation.DESCRIBE, ResourceType.GROUP, key):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Not authorized to describe the group")
            return OFFSETS_TOPIC
        case 1:  # TRANSACTION
            if not authorize(ctx, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Not authorized to describe the id")
            return TRANSACTION_TOPIC
        case 2 if ctx.api_version >= 6:  # SHARE
            if not authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not authorized to find share coordinators")
            if not is_share_key(key):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "A share coordinator key must be GROUP:TOPIC_ID:PARTITION")
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This cluster has no share coordinators")
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"The coordinator type {key_type} is not known")


def is_share_key(key: str) -> bool:
    """Return whether a key names a partition of a share group (Kafka's SharePartitionKey)."""
    group, _, rest = key.rpartition(":")
    group, _, topic_id = group.rpartition(":")
    try:
        return bool(group) and rest.isdecimal() and len(Uuid.parse(topic_id)) == len(ZERO_UUID)
    except ValueError:
        return False


HANDLER = BrokerApi(ApiKey.FIND_COORDINATOR, handle)
