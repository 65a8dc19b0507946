"""ListPartitionReassignments (46): v0 (KIP-455). The rules: controller/reassignments.py.

Order: authorise, list, respond when the listed state is committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kvorum.quorum.controller.reassignments import list_partition_reassignments
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest, services: ControllerServices
) -> ListPartitionReassignmentsResponse:
    """Return current reassignments."""
    try:
        services.authorize_cluster(ctx, Operation.DESCRIBE)
        return await services.submit(ctx, list_partition_reassignments, request, name="listPartitionReassignments")
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
