"""The features of a cluster: supported and finalized levels, and changes (KIP-584, KIP-778).

Source: Kafka's Admin.describeFeatures, updateFeatures; FeatureUpdate.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from kvorum.client.wire.cluster_client import ClusterClient, code_of, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class UpgradeType(IntEnum):
    """In which direction a level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureRow(NamedTuple):
    """A feature: the levels that are supported, and the one in use (0: none)."""

    feature: str
    min_supported: int
    max_supported: int
    finalized: int
    epoch: int | None


async def describe_features(cluster: ClusterClient, address: Address | None = None) -> list[FeatureRow]:
    """Return the features of one broker. Raises KafkaError, Unreachable."""
    answer = await ask_versions(cluster, address)
    refuse(answer.error_code, "ApiVersions")
    return features_in(answer)


async def ask_versions(cluster: ClusterClient, address: Address | None) -> ApiVersionsResponse:
    """Return the API versions of a broker. Raises Unreachable."""
    request = ApiVersionsRequest(client_software_name="kvorum", client_software_version="0.1.0")
    return await cluster.ask(request, ApiVersionsResponse, address)


def features_in(answer: ApiVersionsResponse) -> list[FeatureRow]:
    """Return the features in a broker's response, by name."""
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    epoch = None if answer.finalized_features_epoch < 0 else answer.finalized_features_epoch
    return [
        FeatureRow(each.name, each.min_version, each.max_version, levels.get(each.name, 0), epoch)
        for each in sorted(answer.supported_features, key=lambda each: each.name)
    ]


async def update_features(
    cluster: ClusterClient, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Set features to levels on the controller; return the errors, by feature.

    Raises Unreachable.

    From v2 on it is all or none, and the one error belongs to all.
    """
    updates = [
        FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind is not UpgradeType.UPGRADE
        )
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(timeout=cluster.wait_ms, feature_updates=updates, validate_only=validate_only)
    answer = await cluster.ask(request, UpdateFeaturesResponse)
    if answer.error_code:
        error = KafkaError(code_of(answer.error_code), answer.error_message or "")
        return dict.fromkeys(levels, error)
    found: dict[str, KafkaError | None] = dict.fromkeys(levels)
    for row in answer.results:
        if row.error_code:
            found[row.feature] = KafkaError(code_of(row.error_code), row.error_message or "")
    return found
