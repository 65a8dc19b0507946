"""A partition by topic and number (Kafka's TopicPartition)."""

from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition. The folder of its log has the same text."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return it as Kafka writes it: orders-3."""
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return {topic: its partitions}, in the order they come."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found
