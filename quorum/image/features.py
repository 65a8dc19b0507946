"""The finalized features (KIP-584; org.apache.kafka.image.FeaturesImage). Sans-IO, immutable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rpds import HashTrieMap

from kvorum.quorum.records import Feature, MetadataRecord

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesImage:
    """The level of each feature that is finalized above 0."""

    levels: HashTrieMap[str, int] = field(default_factory=lambda: HashTrieMap())

    def level(self, name: str) -> int:
        """Return a feature's level, 0 where it is not in use."""
        return self.levels.get(name) or 0

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version; 0 before the bootstrap records."""
        return self.level(METADATA_VERSION)

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write the features as records, metadata.version first, because it gates the others."""
        for name in sorted(self.levels, key=lambda name: (name != METADATA_VERSION, name)):
            yield Feature(name=name, level=self.levels[name])


class FeaturesDelta:
    """Changed features since `image`: name -> level."""

    __slots__ = ("changes", "image")

    def __init__(self, image: FeaturesImage) -> None:
        """Start from the present features."""
        self.image = image
        self.changes: dict[str, int] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self.changes

    def replay(self, record: Feature) -> None:
        """Apply a level."""
        assert record.level >= 0, "a level is not negative"
        self.changes[record.name] = record.level

    def apply(self) -> FeaturesImage:
        """Return the features after the changes."""
        levels = self.image.levels
        for name, level in self.changes.items():
            levels = levels.insert(name, level) if level > 0 else levels.discard(name)
        return FeaturesImage(levels=levels)
