"""Partitions by topic and number, as tools name them."""

from collections.abc import Iterable
from typing import NamedTuple


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return it as Kafka writes it: orders-3."""
        return f"{self.topic}-{self.partition}"


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Return {topic: its partitions}, in the order they come."""
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found
