"""ConsumerGroupHeartbeat (68): v0-v1: members of consumer groups join, send heartbeats and leave (KIP-848).

v1: subscriptions by pattern, member ids made by clients (KIP-1082).
Order: check group.version, authorise the group and each topic subscribed to, send to the coordinator.
"""

import asyncio

from kvorum.broker.api.finishing import finished
from kvorum.broker.api.group_client import client_of
from kvorum.broker.coordinator.group.consumer.heartbeat import Asker
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kvorum.quorum.image.features import GROUP_VERSION


def has_consumer_groups(broker: Broker) -> bool:
    """Return whether the cluster's finalized features have the consumer protocol."""
    return broker.metadata.image.features.level(GROUP_VERSION) >= 1


def handle(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, broker: Broker
) -> "ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]":
    """Process the heartbeat of a member."""
    authorizer = broker.authorizer

    def finish(response: ConsumerGroupHeartbeatResponse) -> None:
        response.throttle_time = broker.throttle(ctx)

    def may_describe(topic: str) -> bool:
        return authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    refusal = None
    if not has_consumer_groups(broker):
        refusal = ErrorCode.UNSUPPORTED_VERSION
    elif not authorizer.authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif not all(map(may_describe, set(request.subscribed_topic_names or ()))):
        refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if refusal is not None:
        return finished(ConsumerGroupHeartbeatResponse(error_code=refusal), finish)
    asker = Asker(client=client_of(ctx), may_describe=may_describe)
    return finished(broker.groups.consumer_heartbeat(asker, request), finish)


HANDLER = BrokerApi(ApiKey.CONSUMER_GROUP_HEARTBEAT, handle)
