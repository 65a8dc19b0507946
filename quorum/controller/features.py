"""UpdateFeatures (57): v0-v2, the levels this release supports, and the records a new cluster begins with (KIP-584).

A feature stays at 0 until what it stands for is built; its range here says so, and grows with it.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kvorum.quorum.controller.context import MIN_INSYNC_REPLICAS, Context
from kvorum.quorum.controller.elr import disabling_records, enabling_records
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.quorum.image.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
)
from kvorum.quorum.records import Config, Feature, FeatureRange, MetadataRecord

METADATA_VERSION_LATEST: Final = 30
"""4.3-IV0 (MetadataVersion.featureLevel): what our records were made for, and the only level there has been."""

TRANSACTION_VERSION_LATEST: Final = 2
"""1: newer records in __transaction_state. 2: each transaction has an epoch of its own (KIP-890)."""
GROUP_VERSION_LATEST: Final = 1
"""1: the consumer protocol (KIP-848)."""

NONE_UPDATED: Final = "The update failed for all features since the following feature had an error: "
"""What Kafka's controller writes in front of the first problem: levels change together or not at all."""

UPGRADE_TYPE_VERSION: Final = 1
RESULTS_VERSION_LAST: Final = 1

SUPPORTED: Mapping[str, FeatureRange] = MappingProxyType(
    {
        feature.name: feature
        for feature in (
            FeatureRange(METADATA_VERSION, METADATA_VERSION_LATEST, METADATA_VERSION_LATEST),
            FeatureRange(KRAFT_VERSION, 0, 1),
            FeatureRange(TRANSACTION_VERSION, 0, TRANSACTION_VERSION_LATEST),
            FeatureRange(GROUP_VERSION, 0, GROUP_VERSION_LATEST),
            FeatureRange(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),
        )
    }
)
"""What controllers and brokers of this release support, by name; brokers register with it."""


class UpgradeType(IntEnum):
    """FeatureUpdate.UpgradeType on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def bootstrap_records(elr_level: int = 1, min_isr: int = 1) -> list[MetadataRecord]:
    """Return the first records of a new cluster: the levels of its features, metadata.version first.

    With eligible leader replicas comes min.insync.replicas for the whole cluster: `min_isr` is what its brokers are
    configured with.
    """
    records: list[MetadataRecord] = [
        Feature(name=METADATA_VERSION, level=METADATA_VERSION_LATEST),
        Feature(name=GROUP_VERSION, level=GROUP_VERSION_LATEST),
        Feature(name=TRANSACTION_VERSION, level=TRANSACTION_VERSION_LATEST),
    ]
    if elr_level:
        kind, value = ResourceType.BROKER, str(min_isr)
        records += [
            Config(resource_type=kind, resource_name=CLUSTER_DEFAULT, name=MIN_INSYNC_REPLICAS, value=value),
            Feature(name=ELIGIBLE_LEADER_REPLICAS_VERSION, level=elr_level),
        ]
    return records


def update_features(context: Context, request: UpdateFeaturesRequest) -> Result[UpdateFeaturesResponse]:
    """Set the levels of features, all or none; with `validate_only`, say what would come of it.

    Raises KafkaError INVALID_UPDATE_VERSION: a level that a broker or this controller does not support, or a step that
    does not go in the direction that the request names; INVALID_REQUEST: a feature named twice.
    """
    names = [update.feature for update in request.feature_updates]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a feature is named twice")
    records: list[MetadataRecord] = []
    for update in request.feature_updates:
        level = _checked_level(context, update)
        if level != context.image.features.level(update.feature):
            records += _records(context, update.feature, level)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= RESULTS_VERSION_LAST:
        response.results = [UpdatableFeatureResult(feature=name, error_message=None) for name in names]
    return Result(records=[] if request.validate_only else records, response=response)


def _records(context: Context, name: str, level: int) -> list[MetadataRecord]:
    """Return the record of a level, and what comes with it."""
    records: list[MetadataRecord] = [Feature(name=name, level=level)]
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION:
        return [*enabling_records(context), *records] if level else [*records, *disabling_records(context, level)]
    return records


def _checked_level(context: Context, update: FeatureUpdateKey) -> int:
    """Return the level that an update asks for. Raises KafkaError INVALID_UPDATE_VERSION."""
    level = update.max_version_level
    problem = _direction_problem(context, update) or _support_problem(context, update.feature, level)
    if problem is not None:
        message = f"{NONE_UPDATED}Invalid update version {level} for feature {update.feature}. {problem}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
    return level


def _direction_problem(context: Context, update: FeatureUpdateKey) -> str | None:
    current, level = context.image.features.level(update.feature), update.max_version_level
    downgrade = update.upgrade_type in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE)
    if context.api_version < UPGRADE_TYPE_VERSION:
        downgrade = update.allow_downgrade
    elif update.upgrade_type != UpgradeType.UPGRADE and not downgrade:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if level < current and not downgrade:
        return "Can't downgrade the version of this feature without setting the upgrade type to a downgrade."
    if level > current and downgrade:
        return "Can't downgrade to a newer version."
    return None


def _support_problem(context: Context, name: str, level: int) -> str | None:
    """Say who does not support a level: this controller, or a registered broker."""
    supported = SUPPORTED.get(name)
    if supported is None:
        return f"Local controller {context.settings.node_id} does not support this feature."
    if not supported.min_supported <= level <= supported.max_supported:
        return (
            f"Local controller {context.settings.node_id} only supports versions "
            f"{supported.min_supported}-{supported.max_supported}"
        )
    for broker in context.image.cluster.sorted_brokers():
        known = next((feature for feature in broker.features if feature.name == name), FeatureRange(name, 0, 0))
        if not known.min_supported <= level <= known.max_supported:
            return f"Broker {broker.broker_id} only supports versions {known.min_supported}-{known.max_supported}"
    return None
