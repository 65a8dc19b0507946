"""UpdateFeatures (57): v0-v2 (KIP-584). The rules: controller/features.py.

Not here: a change of kraft.version, which a quorum is formatted with (docs/skipped.md); other levels of
metadata.version than 4.3-IV0 (30).
Order: authorise, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kvorum.quorum.controller.features import update_features
from kvorum.quorum.image.features import KRAFT_VERSION
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: UpdateFeaturesRequest, services: ControllerServices
) -> UpdateFeaturesResponse:
    """Set the levels of features."""
    services.authorize_cluster(ctx, Operation.ALTER)
    level = 1 if services.voter_endpoints() else 0
    for update in request.feature_updates:
        if update.feature == KRAFT_VERSION and update.max_version_level != level:
            wanted = f"Invalid update version {update.max_version_level} for feature {KRAFT_VERSION}."
            message = f"{wanted} A quorum is formatted for the version {level} of it and keeps that one."
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
    return await services.submit(ctx, update_features, request, name="updateFeatures")
