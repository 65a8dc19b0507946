"""ListPartitionReassignments (46): v0.

Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def handle(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest, broker: Broker
) -> ListPartitionReassignmentsResponse:
    """Request the present reassignments from the active controller."""
    return await forward(ctx, request, broker, ListPartitionReassignmentsResponse, failed)


def failed(request: ListPartitionReassignmentsRequest, error: KafkaError) -> ListPartitionReassignmentsResponse:
    """Return an error with the named partitions if the controller is unreachable, as Kafka does."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[OngoingPartitionReassignment(partition_index=each) for each in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


HANDLER = BrokerApi(ApiKey.LIST_PARTITION_REASSIGNMENTS, handle)
