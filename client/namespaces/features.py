"""Features of a cluster (KIP-584)."""

from collections.abc import Mapping, Sequence

from kvorum.client.features import UpgradeType, describe_features, update_features
from kvorum.client.values.feature import Feature
from kvorum.client.wire.cluster_client import ClusterClient


class Features:
    """Features of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(self, broker_id: int | None = None) -> Sequence[Feature]:
        """Return the features by name, as one broker supports them; None: any broker."""
        address = None if broker_id is None else await self._client.broker_address(broker_id)
        return await describe_features(self._client, address)

    async def update(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Set features to levels (0: disable), all or none. Raises KafkaError INVALID_UPDATE_VERSION, ..."""
        outcome = await update_features(self._client, levels, upgrade_type, validate_only=validate_only)
        for error in outcome.values():
            if error is not None:
                raise error
