"""UpdateFeatures (57): v0-v2, the levels this release supports, and the records a new cluster begins with (KIP-584).

A feature stays at 0 until it is implemented; its range here shows that.
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
"""1: newer records in __transaction_state. 2: each transaction has a separate epoch (KIP-890)."""
GROUP_VERSION_LATEST: Final = 1
"""1: the consumer protocol (KIP-848)."""

NONE_UPDATED: Final = "The update failed for all features since the following feature had an error: "
"""Prefix of Kafka's controller before the first problem: levels change atomically."""

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
"""Features of controllers and brokers of this release, by name; brokers register with them."""


class UpgradeType(IntEnum):
    """FeatureUpdate.UpgradeType on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


UPGRADE_TYPES: Final = frozenset(UpgradeType)


def bootstrap_records(elr_level: int = 1, min_isr: int = 1) -> list[MetadataRecord]:
    """Return the first records of a new cluster: the levels of its features, metadata.version first.

    With eligible leader replicas, min.insync.replicas is set for the whole cluster: `min_isr` is the configured value
    of its brokers.
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
    """Set the levels of features, all or none; with `validate_only`, return only the result.

    Raises KafkaError INVALID_UPDATE_VERSION: a level that a broker or this controller does not support, or a step that
    does not go in the direction that the request names.
    """
    records: list[MetadataRecord] = []
    for update in wanted(request).values():
        check_level(context, update)
        level = update.max_version_level
        if level != context.image.features.level(update.feature):
            records += _records(context, update.feature, level)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= RESULTS_VERSION_LAST:
        names = [update.feature for update in request.feature_updates]
        response.results = [UpdatableFeatureResult(feature=name, error_message=None) for name in names]
    return Result(records=[] if request.validate_only else records, response=response)


def wanted(request: UpdateFeaturesRequest) -> dict[str, FeatureUpdateKey]:
    """Return the updates by feature. Of duplicates the last one counts, as in Kafka."""
    return {update.feature: update for update in request.feature_updates}


def _records(context: Context, name: str, level: int) -> list[MetadataRecord]:
    """Return the record of a level, with accompanying records."""
    records: list[MetadataRecord] = [Feature(name=name, level=level)]
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION:
        return [*enabling_records(context), *records] if level else [*records, *disabling_records(context, level)]
    return records


def check_level(context: Context, update: FeatureUpdateKey) -> None:
    """Raise KafkaError INVALID_UPDATE_VERSION where a level may not be, for the reason Kafka has first."""
    name, level = update.feature, update.max_version_level
    problem = _request_problem(update) or _support_problem(context, name, level)
    problem = problem or direction_problem(update, context.image.features.level(name))
    if problem is None and name not in SUPPORTED:
        problem = f"Feature {name} not found."  # level 0, which every node has for unknown features
    if problem is not None:
        raise not_updated(update, problem)


def not_updated(update: FeatureUpdateKey, problem: str) -> KafkaError:
    """Return the refusal of an update, in Kafka's words."""
    message = f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, NONE_UPDATED + message)


def _request_problem(update: FeatureUpdateKey) -> str | None:
    """Return the updates that every controller rejects.

    Version 0 has no upgrade type and counts as UPGRADE, whatever it allows.
    """
    if update.upgrade_type not in UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    return "A feature version cannot be less than 0." if update.max_version_level < 0 else None


def direction_problem(update: FeatureUpdateKey, current: int) -> str | None:
    """Return the fault of a step from the current level."""
    upgrade, level = update.upgrade_type == UpgradeType.UPGRADE, update.max_version_level
    if level < current and upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and not upgrade:
        return "Can't downgrade to a newer version."
    return None


def _support_problem(context: Context, name: str, level: int) -> str | None:
    """Return the nodes that do not support a level: this controller, or registered brokers."""
    none = FeatureRange(name, 0, 0)
    known = [(f"Local controller {context.settings.node_id}", SUPPORTED.get(name, none))]
    for broker in context.image.cluster.sorted_brokers():
        theirs = next((feature for feature in broker.features if feature.name == name), none)
        known.append((f"Broker {broker.broker_id}", theirs))
    for who, supported in known:
        least, most = supported.min_supported, supported.max_supported
        if not least <= level <= most:
            if most == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {least if least == most else f'{least}-{most}'}"
    return None
