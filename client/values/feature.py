"""Features of a cluster (KIP-584)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature: the supported levels of a broker, and the finalized level of the cluster (0: not finalized)."""

    name: str
    min_supported: int
    max_supported: int
    finalized: int
    epoch: int | None
    """Offset of the metadata log of the finalized levels; None: not known."""
