"""AlterPartitionReassignments (45): v0-v1 (KIP-455). The rules: controller/reassignments.py.

v1: whether the replication factor may change (KIP-860).
Order: authorise, decide, respond when committed. A rejection of the whole request is returned for each partition too.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kvorum.quorum.controller.reassignments import alter_partition_reassignments
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest, services: ControllerServices
) -> AlterPartitionReassignmentsResponse:
    """Begin, change and cancel reassignments."""
    try:
        services.authorize_cluster(ctx, Operation.ALTER)
        return await services.submit(ctx, alter_partition_reassignments, request, name="alterPartitionReassignments")
    except KafkaError as error:
        return _refusal(request, error)


def _refusal(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    """Set the error of the response and of every partition."""
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
