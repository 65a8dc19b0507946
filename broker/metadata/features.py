"""Features that this broker supports, for ApiVersions and for the registration.

Only implemented levels are supported: share.version and streams.version do not exist. The controller has the same list
(quorum.controller.features); a test compares them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kvorum.quorum.image.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
)

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
        GROUP_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (30, 30),
        TRANSACTION_VERSION: (0, 2),
    }
)
"""{name: (lowest, highest level)}. Features with level 0 only are not exposed, as in Kafka."""
