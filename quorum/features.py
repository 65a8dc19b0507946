"""Features that this release supports, for code outside the controller (KIP-584)."""

from typing import Final, NamedTuple

from kvorum.quorum.controller.features import SUPPORTED


class SupportedFeature(NamedTuple):
    """A feature and the levels of it that this release can work at; 0 is «not in use»."""

    name: str
    min_level: int
    max_level: int


SUPPORTED_FEATURES: Final = tuple(
    SupportedFeature(name, levels.min_supported, levels.max_supported) for name, levels in sorted(SUPPORTED.items())
)
"""By name. One whose highest level is 0 is not built."""
