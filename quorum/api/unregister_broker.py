"""UnregisterBroker (64): v0 (KIP-631).

The consequences: controller/registration.py.

Order: authorise, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kvorum.quorum.controller.registration import unregister_broker
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: UnregisterBrokerRequest, services: ControllerServices
) -> UnregisterBrokerResponse:
    """Unregister a broker."""
    services.authorize_cluster(ctx, Operation.ALTER)
    return await services.submit(ctx, unregister_broker, request, name="unregisterBroker")
