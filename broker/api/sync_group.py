"""SyncGroup (14): v0-v5: a member requests its assignment; the leader sends all assignments.

v3: static members (KIP-345). v4: flexible. v5: protocol type and name, and they are mandatory (KIP-559).
Order: check the protocol, authorise, query the coordinator, respond when the assignment is committed.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def handle(ctx: RequestContext, request: SyncGroupRequest, broker: Broker) -> SyncGroupResponse:
    """Return a member's assignment."""
    if ctx.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        response = SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not broker.authorizer.authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        response = SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    else:
        response = await broker.groups.sync(request)
    response.throttle_time = broker.throttle(ctx)
    return response


HANDLER = BrokerApi(ApiKey.SYNC_GROUP, handle)
