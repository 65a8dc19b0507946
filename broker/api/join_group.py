"""JoinGroup (11): v0-v9: join a classic group, or rejoin it for its next generation.

v1: a rebalance timeout; before, the session timeout is both. v4: a new member first receives its id (KIP-394).
v5: static members (KIP-345). v6: flexible. v7: the protocol type in the response (KIP-559). v8: a reason (KIP-800).
v9: skip_assignment (KIP-814).
Order: authorise, query the coordinator, respond when all members have joined.
"""

from kvorum.broker.api.group_client import client_of
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


async def handle(ctx: RequestContext, request: JoinGroupRequest, broker: Broker) -> JoinGroupResponse:
    """Add a member to a group."""
    if broker.authorizer.authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        if ctx.api_version < 1:
            request.rebalance_timeout = request.session_timeout
        response = await broker.groups.join(client_of(ctx), request)
    else:
        protocol_name = None if ctx.api_version >= 7 else ""
        response = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=protocol_name)
    response.throttle_time = broker.throttle(ctx)
    return response


HANDLER = BrokerApi(ApiKey.JOIN_GROUP, handle)
