"""AlterPartitionReassignments (45): v0-v1.

v1: whether the replication factor may change (KIP-860).
Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest, broker: Broker
) -> AlterPartitionReassignmentsResponse:
    """Forward reassignments to the controller."""
    return await forward(ctx, request, broker, AlterPartitionReassignmentsResponse, failed)


def failed(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    """Answer the same for the whole and for every partition."""
    code, message = error.code, error.message
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message=message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


HANDLER = BrokerApi(ApiKey.ALTER_PARTITION_REASSIGNMENTS, handle)
