"""ConsumerGroupDescribe (69): v0-v1: consumer groups with their members, current and target assignments (KIP-848).

v1: the protocol of each member (KIP-1099).
Order: check group.version, authorise each group, send to the coordinator, authorise the topics in the response.
"""

from kvorum.broker.api.consumer_group_heartbeat import has_consumer_groups
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType, authorized_operations
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(ctx: RequestContext, request: ConsumerGroupDescribeRequest, broker: Broker) -> ConsumerGroupDescribeResponse:
    """Describe groups. Groups without authorisation come first, as in Kafka."""
    throttle_time = broker.throttle(ctx)
    if not has_consumer_groups(broker):
        unsupported = [refused(each, ErrorCode.UNSUPPORTED_VERSION) for each in request.group_ids]
        return ConsumerGroupDescribeResponse(throttle_time=throttle_time, groups=unsupported)
    rows, allowed = [], []
    for group_id in request.group_ids:
        if broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            rows.append(refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    for row in broker.groups.describe_consumer(allowed):
        if request.include_authorized_operations and row.error_code == ErrorCode.NONE:
            row.authorized_operations = authorized_operations(broker.authorizer, ctx, ResourceType.GROUP, row.group_id)
        rows.append(with_allowed_topics(ctx, row, broker))
    return ConsumerGroupDescribeResponse(throttle_time=throttle_time, groups=rows)


def with_allowed_topics(ctx: RequestContext, row: DescribedGroup, broker: Broker) -> DescribedGroup:
    """Return the row of a group, or an error if its members have a topic that the client may not describe."""
    names = {
        topic.topic_name
        for member in row.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if all(broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return row
    message = "The group has described topic(s) that the client is not authorized to describe."
    return refused(row.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)


def refused(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    """Return the row of a group that is not described."""
    return DescribedGroup(group_id=group_id, error_code=code, error_message=message)


HANDLER = BrokerApi(ApiKey.CONSUMER_GROUP_DESCRIBE, handle)
