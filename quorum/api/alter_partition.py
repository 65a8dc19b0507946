"""AlterPartition (56): v2-v3 (KIP-497, KIP-841, KIP-903). The checks, in order: controller/alter_partition.py.

Order: authorise, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AlterPartitionRequest, services: ControllerServices
) -> AlterPartitionResponse:
    """Apply the ISRs that leaders propose."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    return await services.submit(ctx, alter_partition, request, name="alterPartition")
