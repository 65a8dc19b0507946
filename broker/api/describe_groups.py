"""DescribeGroups (15): v0-v6: classic groups with their members.

v3: authorized operations (KIP-430). v4: static members (KIP-345). v5: flexible. v6: a missing group is
GROUP_ID_NOT_FOUND, with a message (KIP-1043); before, it is returned as dead.
Order: authorise each group, query the coordinator, respond.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType, authorized_operations
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

OPERATIONS_FROM = 3


def handle(ctx: RequestContext, request: DescribeGroupsRequest, broker: Broker) -> DescribeGroupsResponse:
    """Describe groups. Groups without authorisation come first, as in Kafka."""
    allowed, refused = [], []
    for group_id in request.groups:
        if broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            refused.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    rows = broker.groups.describe(allowed, ctx.api_version)
    if ctx.api_version >= OPERATIONS_FROM and request.include_authorized_operations:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.authorized_operations = authorized_operations(
                    broker.authorizer, ctx, ResourceType.GROUP, row.group_id
                )
    return DescribeGroupsResponse(throttle_time=broker.throttle(ctx), groups=refused + rows)


HANDLER = BrokerApi(ApiKey.DESCRIBE_GROUPS, handle)
