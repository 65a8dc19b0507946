"""Input and output of assignors. Sans-IO.

Source: Kafka's GroupSpec, MemberSubscription, SubscribedTopicDescriber, ConsumerGroupPartitionAssignor. No assignor of
Kafka 4.3 uses racks: a change of racks only causes a new assignment (they are in the metadata hash).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kvorum.broker.coordinator.group.words import Assignment
from kvorum.protocol.uuids import Uuid


class MemberSpec(NamedTuple):
    """One member: its existing subscribed topics, and its former target."""

    topics: frozenset[Uuid]
    assignment: Assignment
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group. `partition_counts` has every topic of every member, in a fixed order."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[Uuid, int]
    is_homogeneous: bool = field(init=False)
    """Whether all members read the same topics."""

    def __post_init__(self) -> None:
        """Look at the subscriptions."""
        first = next(iter(self.members.values()), None)
        is_homogeneous = first is None or all(each.topics == first.topics for each in self.members.values())
        object.__setattr__(self, "is_homogeneous", is_homogeneous)


Targets: TypeAlias = dict[str, Assignment]
"""A row for each member; every partition of every subscribed topic is in the row of a subscriber."""
Assignor: TypeAlias = Callable[[GroupSpec], Targets]
