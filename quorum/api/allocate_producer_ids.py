"""AllocateProducerIds (67): v0 (KIP-730). The rules: controller/producer_ids.py.

Order: authorise, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kvorum.quorum.controller.producer_ids import allocate_producer_ids
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AllocateProducerIdsRequest, services: ControllerServices
) -> AllocateProducerIdsResponse:
    """Allocate a block of producer ids for a broker."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    return await services.submit(ctx, allocate_producer_ids, request, name="allocateProducerIds")
