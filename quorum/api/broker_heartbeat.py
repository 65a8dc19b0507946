"""BrokerHeartbeat (63): v0-v2 (KIP-631). The states it moves through: controller/liveness.py.

A heartbeat is written to the log only where it changes something. One that changes nothing is answered without asking a
majority: a deposed controller's word keeps a broker only from looking for the new one until it is told so.
Replicas in a log directory that went offline lose ISR and leadership (KIP-858).
Order: authorise, note whose connection this is, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.quorum.controller.liveness import heartbeat
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: BrokerHeartbeatRequest, services: ControllerServices
) -> BrokerHeartbeatResponse:
    """Note a sign of life."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    services.fencing.connections.note(ctx.connection_id, request.broker_id)
    return await services.submit(ctx, heartbeat, request, name="brokerHeartbeat", confirm=False)
