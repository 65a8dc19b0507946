"""ListGroups (16): v0-v5: the groups whose coordinator this broker is.

v3: flexible. v4: by state (KIP-518). v5: by type (KIP-848).
Order: query the coordinator, omit groups that the client may not describe (DESCRIBE on the cluster shows all), respond.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(ctx: RequestContext, request: ListGroupsRequest, broker: Broker) -> ListGroupsResponse:
    """List groups."""
    authorize = broker.authorizer.authorize
    response = broker.groups.list_groups(request.states_filter, request.types_filter)
    if not authorize(ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        response.groups = [
            row for row in response.groups if authorize(ctx, Operation.DESCRIBE, ResourceType.GROUP, row.group_id)
        ]
    response.throttle_time = broker.throttle(ctx)
    return response


HANDLER = BrokerApi(ApiKey.LIST_GROUPS, handle)
