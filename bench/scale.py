"""Scale of all measures: 1 as in the documents, a thousandth to check that they run."""

from dataclasses import dataclass

SMALLEST_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Scale:
    """Multiplies counts and times."""

    factor: float = 1.0

    def count(self, whole: int, least: int = 1) -> int:
        """Return so many of something: all at scale 1, never fewer than `least`."""
        return max(least, round(whole * self.factor))

    def seconds(self, whole: float) -> float:
        """Return a scaled duration."""
        return max(SMALLEST_SECONDS, whole * self.factor)
