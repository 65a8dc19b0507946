"""UpdateFeatures (57): v0-v2 (KIP-584). The rules: controller/features.py; those of kraft.version are here.

kraft.version 1 makes a static quorum a dynamic one (KIP-853): Raft's voters change first, committed, in membership.py;
the record of the level only informs brokers and clients. A new active controller writes the record if it is missing.
Not here: levels of metadata.version other than 4.3-IV0 (30).
Order: authorise, kraft.version's direction, decide all without a change, upgrade the quorum, decide, answer when
committed. Source: Kafka's FeatureControlManager, LeaderState.maybeAppendUpgradedKRaftVersion.
"""

import asyncio
from dataclasses import replace
from functools import partial

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kvorum.quorum.api.raft_voters import committed
from kvorum.quorum.controller.features import (
    NONE_UPDATED,
    UPGRADE_TYPES,
    direction_problem,
    not_updated,
    update_features,
    wanted,
)
from kvorum.quorum.image.features import KRAFT_VERSION
from kvorum.quorum.records import Feature
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: UpdateFeaturesRequest, services: ControllerServices
) -> UpdateFeaturesResponse:
    """Set the levels of features."""
    services.authorize_cluster(ctx, Operation.ALTER)
    update = wanted(request).get(KRAFT_VERSION)
    level = 1 if services.voter_endpoints() else 0
    if update is not None and 0 <= update.max_version_level < level:
        _refuse_downgrade(update, level)
    if update is not None and update.max_version_level > level:
        tried = replace(request, validate_only=True)
        checked = await services.submit(ctx, update_features, tried, name="checkFeatures")
        await _upgrade(request, services)
        if request.validate_only:
            return checked
    return await services.submit(ctx, update_features, request, name="updateFeatures")


def _refuse_downgrade(update: FeatureUpdateKey, current: int) -> None:
    """Raise KafkaError: the voters are in the log permanently."""
    if update.upgrade_type in UPGRADE_TYPES:
        problem = direction_problem(update, current) or "Can't downgrade the version of this feature."
        raise not_updated(update, problem)


async def _upgrade(request: UpdateFeaturesRequest, services: ControllerServices) -> None:
    """Make the quorum a dynamic one, or see whether it could be. Raises KafkaError."""
    assert services.membership is not None, "a controller's log has voters"
    try:
        if request.validate_only:
            services.membership.check_upgrade()
            return
        change = services.membership.upgrade()
    except KafkaError as error:
        raise _of_the_controller(error) from error
    if change is None:
        return
    change.add_done_callback(partial(_tell, services))
    try:
        await committed(change, request.timeout)
    except KafkaError as error:
        raise _of_the_controller(error) from error


def _of_the_controller(error: KafkaError) -> KafkaError:
    """Return Raft's refusal as the active controller words it."""
    match error.code:
        case ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return KafkaError(ErrorCode.NOT_CONTROLLER, error.message or "")
        case ErrorCode.INVALID_UPDATE_VERSION:
            return KafkaError(error.code, f"{NONE_UPDATED}{error.message}")
        case _:
            return error


def _tell(services: ControllerServices, change: asyncio.Future[None]) -> None:
    """Write the level when the upgrade is committed, even if the client has disconnected."""
    if not change.cancelled() and change.exception() is None and services.controller.is_active():
        services.controller.write_nowait("kraftVersion", [Feature(name=KRAFT_VERSION, level=1)])
