"""BrokerRegistration (62): v0-v4 (KIP-631).

The checks, in order: controller/registration.py.

Order: authorise, decide, note whose connection this is, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kvorum.quorum.controller.registration import register_broker
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: BrokerRegistrationRequest, services: ControllerServices
) -> BrokerRegistrationResponse:
    """Register a broker's incarnation."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    response = await services.submit(ctx, register_broker, request, name="registerBroker")
    services.fencing.connections.note(ctx.connection_id, request.broker_id)
    return response
