"""UpdateFeatures (57): v0-v2.

v1: how to upgrade, validate only (KIP-778). v2: no results by feature any more.
Order: forward to the active controller, return its response.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


async def handle(ctx: RequestContext, request: UpdateFeaturesRequest, broker: Broker) -> UpdateFeaturesResponse:
    """Forward feature updates to the controller."""
    return await forward(ctx, request, broker, UpdateFeaturesResponse, failed)


def failed(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    """Answer that it could not be taken to the controller."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


HANDLER = BrokerApi(ApiKey.UPDATE_FEATURES, handle)
