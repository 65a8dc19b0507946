"""BrokerHeartbeat (63): v0-v2 (KIP-631). The states it moves through: controller/liveness.py.

A heartbeat is written to the log only if it changes something. One without changes needs no majority: a
deposed controller's response only delays the broker's search for the new one. Replicas in a log directory that went
offline lose ISR and leadership (KIP-858).
Order: authorise, store the broker of this connection, decide, respond when committed. The response to the heartbeat
that unfences a broker is sent when the brokers have published the change: once all are ready, all list the same
brokers. In Apache Kafka one may not list the last started broker, and librdkafka drops a request to a broker that a
later list lacks.
"""

from typing import Final

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.quorum.controller.liveness import heartbeat
from kvorum.quorum.services import ControllerServices

WAIT_MS_MAX: Final = 1_000


async def handle(
    ctx: RequestContext, request: BrokerHeartbeatRequest, services: ControllerServices
) -> BrokerHeartbeatResponse:
    """Process a heartbeat."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    services.fencing.connections.note(ctx.connection_id, request.broker_id)
    registration = services.store.image.cluster.brokers.get(request.broker_id)
    response = await services.submit(ctx, heartbeat, request, name="brokerHeartbeat", confirm=False)
    if registration is not None and registration.fenced and not response.is_fenced:
        await services.wait_published(WAIT_MS_MAX)
    return response
