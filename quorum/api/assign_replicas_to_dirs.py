"""AssignReplicasToDirs (73): v0 (KIP-858). The checks, in order: controller/assign_directories.py.

Order: authorise, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kvorum.quorum.controller.assign_directories import assign_replicas_to_dirs
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AssignReplicasToDirsRequest, services: ControllerServices
) -> AssignReplicasToDirsResponse:
    """Store the log directories of a broker's replicas."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    return await services.submit(ctx, assign_replicas_to_dirs, request, name="assignReplicasToDirs")
