"""Heartbeat (12): v0-v4: a member of a classic group reports that it is alive, and learns about rebalances.

v3: static members (KIP-345). v4: flexible.
Order: authorise, query the coordinator, respond.
"""

import asyncio

from kvorum.broker.api.finishing import finished
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    ctx: RequestContext, request: HeartbeatRequest, broker: Broker
) -> "HeartbeatResponse | asyncio.Future[HeartbeatResponse]":
    """Process the heartbeat of a member."""

    def finish(response: HeartbeatResponse) -> None:
        response.throttle_time = broker.throttle(ctx)

    if not broker.authorizer.authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        return finished(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED), finish)
    return finished(broker.groups.heartbeat(request), finish)


HANDLER = BrokerApi(ApiKey.HEARTBEAT, handle)
