"""DeleteGroups (42): v0-v2: groups without members, with their offsets.

v2: flexible.
Order: authorise each group, query the coordinator, respond when the change is written.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(ctx: RequestContext, request: DeleteGroupsRequest, broker: Broker) -> DeleteGroupsResponse:
    """Delete groups, each once; those that may not be deleted come last, as Kafka has them."""
    allowed, refused = [], []
    for group_id in dict.fromkeys(request.groups_names):
        if broker.authorizer.authorize(ctx, Operation.DELETE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            refused.append(DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    rows = await broker.groups.delete_groups(allowed)
    return DeleteGroupsResponse(throttle_time=broker.throttle(ctx), results=rows + refused)


HANDLER = BrokerApi(ApiKey.DELETE_GROUPS, handle)
