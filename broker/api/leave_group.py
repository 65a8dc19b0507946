"""LeaveGroup (13): v0-v5: members leave a classic group, or are removed by an admin.

v3: several members at once, also by instance id (KIP-345). v4: flexible. v5: a reason (KIP-800).
Order: authorise, query the coordinator, respond when the change is written.
"""

from kvorum.broker.api.group_client import client_of
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


async def handle(ctx: RequestContext, request: LeaveGroupRequest, broker: Broker) -> LeaveGroupResponse:
    """Let members go."""
    if broker.authorizer.authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        response = await broker.groups.leave(client_of(ctx), request)
    else:
        response = LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    response.throttle_time = broker.throttle(ctx)
    return response


HANDLER = BrokerApi(ApiKey.LEAVE_GROUP, handle)
