"""ApiVersions (18): v0-v4.

v3: flexible, software name and version (KIP-511), features (KIP-584). v4: features whose lowest level is 0 (KIP-1022).
Never authorised, as in Kafka: a client sends it before it can authenticate. An unknown version is the router's.
Order: check the software's name, answer.
"""

from kvorum.broker.metadata.features import SUPPORTED_FEATURES
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.client_software import valid_software
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


def handle(ctx: RequestContext, request: ApiVersionsRequest, broker: Broker) -> ApiVersionsResponse:
    """Return the APIs of this broker and the features of the cluster."""
    if not valid_software(request, ctx.api_version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, throttle_time=broker.throttle(ctx))
    image = broker.metadata.image
    return ApiVersionsResponse(
        api_keys=list(broker.served_apis),
        throttle_time=broker.throttle_handshake(ctx, request.client_software_name),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
            if low > 0 or ctx.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(image.features.levels.items())
        ],
    )


HANDLER = BrokerApi(ApiKey.API_VERSIONS, handle)
