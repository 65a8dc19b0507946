"""ApiVersions (18): v0-v4.

v3: flexible, supported and finalized features (KIP-584). v4: a feature may begin at level 0 (KIP-1022).
Order: check the client's name; return this listener's APIs, and finalized features of the committed image.
"""

from collections.abc import Mapping

from kvorum.network.context import RequestContext
from kvorum.network.router import supported_apis
from kvorum.protocol.client_software import valid_software
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kvorum.quorum.controller.features import SUPPORTED
from kvorum.quorum.services import ControllerServices

FEATURES_FROM_ZERO_VERSION = 4
"""Older clients reject a feature whose first level is 0, so it is not returned to them (KIP-1022)."""


async def handle(
    ctx: RequestContext,
    request: ApiVersionsRequest,
    services: ControllerServices,
    versions: Mapping[int, tuple[int, int]],
) -> ApiVersionsResponse:
    """Return the APIs of this listener; `versions` is the router's table."""
    if not valid_software(request, ctx.api_version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = services.controller.image
    return ApiVersionsResponse(
        api_keys=supported_apis(versions),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.min_supported, max_version=levels.max_supported)
            for name, levels in sorted(SUPPORTED.items())
            if levels.max_supported > 0 and (levels.min_supported > 0 or ctx.api_version >= FEATURES_FROM_ZERO_VERSION)
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(image.features.levels.items())
        ],
    )
