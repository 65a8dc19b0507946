"""Quantiles of measured times."""

from collections.abc import Sequence


def quantile(found: Sequence[float], share: float) -> float:
    """Return the value of a quantile."""
    ranked = sorted(found)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]
