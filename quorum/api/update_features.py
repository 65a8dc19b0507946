"""UpdateFeatures (57): v0-v2 (KIP-584). The rules: controller/features.py.

Not here: other levels of metadata.version than 4.3-IV0 (30).
Order: authorise, decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kvorum.quorum.controller.features import update_features
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: UpdateFeaturesRequest, services: ControllerServices
) -> UpdateFeaturesResponse:
    """Set the levels of features."""
    services.authorize_cluster(ctx, Operation.ALTER)
    return await services.submit(ctx, update_features, request, name="updateFeatures")
