"""UnregisterBroker (64): v0.

Removes a broker permanently from the metadata (KIP-631).
Order: forward to the active controller, return its response.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(ctx: RequestContext, request: UnregisterBrokerRequest, broker: Broker) -> UnregisterBrokerResponse:
    """Forward the unregistration to the controller."""
    return await forward(ctx, request, broker, UnregisterBrokerResponse, failed)


def failed(request: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    """Answer that it could not be taken to the controller."""
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)


HANDLER = BrokerApi(ApiKey.UNREGISTER_BROKER, handle)
