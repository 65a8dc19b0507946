"""Quantiles of what was timed."""

from collections.abc import Sequence


def quantile(found: Sequence[float], share: float) -> float:
    """Return the value below which this share lies."""
    ranked = sorted(found)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]
