"""Names of mirrored topics, selection of topics, and avoidance of loops. Pure.

Names follow MirrorMaker's policies. `default` puts the source's alias in front: `orders` of cluster `a` is `a.orders`
on `b`. A topic that has the target's alias among its prefixes came from there, and is not sent back. `identity` keeps
names; there every record says in a header which clusters it has passed, and one that has passed the target is dropped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvorum.pipelines.bridge.offsets import TopicPartition

PolicyName = Literal["default", "identity"]

PROVENANCE: Final = "kvorum-mirror-source"
"""The header's key; its value is the alias of the cluster the record was read from. One header a hop."""

HEARTBEATS: Final = "heartbeats"
"""The topic (on the target) of heartbeats, MirrorMaker's name for it."""

INTERNAL: Final = (r"__.*", r".*[-.]internal", r".*\.replica", r"mm2-.*", r"kvorum-offset-map\..*", HEARTBEATS)
"""Never mirrored: what clusters and mirrors keep for themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How names are made from names."""

    name: PolicyName
    source: str
    target: str
    separator: str = "."

    @property
    def prefix(self) -> str:
        """Return the text in front of a topic's name on the target."""
        return "" if self.name == "identity" else f"{self.source}{self.separator}"

    def to_target(self, topic: str) -> str:
        """Return the target's name of a topic of the source."""
        return f"{self.prefix}{topic}"

    def there(self, place: TopicPartition) -> TopicPartition:
        """Return a partition by its name on the target."""
        return TopicPartition(self.to_target(place.topic), place.partition)

    @property
    def map_topic(self) -> str:
        """Return the topic (on the target) that keeps which source offset is which target offset."""
        return f"kvorum-offset-map.{self.source}.internal"

    @property
    def opposite_map_topic(self) -> str:
        """Return the topic (on the source) where mirrors from the target to the source keep theirs."""
        return f"kvorum-offset-map.{self.target}.internal"

    @property
    def checkpoints_topic(self) -> str:
        """Return the topic (on the target) of translated group offsets, MirrorMaker's name for it."""
        return f"{self.source}.checkpoints.internal"


def pattern(policy: Policy, topics: Sequence[str], exclude: Sequence[str] = ()) -> str:
    """Return one regular expression that matches exactly the whole names of the topics to mirror.

    Python's re and Java's both read it.
    """
    wanted = "|".join(f"(?:{each})" for each in topics)
    unwanted = [*INTERNAL, *exclude]
    if policy.name == "default":
        separator, target = re.escape(policy.separator), re.escape(policy.target)
        # Any of its prefixes is the target: it has been there. (MirrorMaker's isCycle.)
        unwanted.append(rf"(?:.*{separator})?{target}{separator}.*")
    without = "|".join(f"(?:{each})" for each in unwanted)
    return f"(?!(?:{without})$)(?:{wanted})"


def group_pattern(groups: Sequence[str], exclude: Sequence[str]) -> re.Pattern[str]:
    """Return what matches the whole names of the groups to follow."""
    wanted = "|".join(f"(?:{each})" for each in groups)
    without = "|".join(f"(?:{each})" for each in exclude) or r"(?!)"
    return re.compile(f"(?!(?:{without})$)(?:{wanted})")
