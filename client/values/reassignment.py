"""Reassignments, the progress of a plan, and throttles (KIP-455, KIP-73)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kvorum.client.partitions.log_dir_moves import MoveState
from kvorum.client.values.log_dir import TopicPartitionReplica
from kvorum.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from kvorum.protocol.topic_partition import TopicPartition

Assignment = dict[TopicPartition, list[int]]
"""{partition: its replicas, the preferred leader first}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A current reassignment of a partition. Replicas are broker ids."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """Present replicas: first the target replicas, then those to be removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Return the target replicas, the preferred leader first."""
        return tuple(each for each in self.replicas if each not in self.removing)


class PlanState(StrEnum):
    """Progress of a partition of a plan."""

    COMPLETED = "completed"
    IN_PROGRESS = "in progress"
    NOT_AS_WANTED = "not as wanted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPartition:
    """Progress of a plan for one partition."""

    topic: str
    partition: int
    state: PlanState
    replicas: tuple[int, ...]
    """Present replicas; none if there is no such partition."""
    target: tuple[int, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress:
    """Progress of a plan, and the throttles that were removed."""

    partitions: tuple[PlanPartition, ...]
    log_dirs: Mapping[TopicPartitionReplica, MoveState] = field(default_factory=dict)
    """Replicas for which the plan has a log directory."""
    unthrottled_brokers: tuple[int, ...] | None = None
    """None: the throttles were kept."""
    unthrottled_topics: tuple[str, ...] | None = None

    @property
    def is_completed(self) -> bool:
        """Return whether all partitions and replicas are as in the plan."""
        return all(each.state is PlanState.COMPLETED for each in self.partitions) and all(
            each.is_done for each in self.log_dirs.values()
        )


class ReplicaFile(NamedTuple):
    """A replica on a broker, or its copy in another log directory that will replace it."""

    topic_partition: TopicPartition
    broker: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerThrottle:
    """Maximum rates of a broker in bytes per second; None: not throttled."""

    broker: int
    leader_rate: int | None
    """Rate at which followers fetch from its throttled replicas."""
    follower_rate: int | None
    """Rate at which its throttled replicas fetch."""
    log_dirs_rate: int | None
    """Rate of moves between its log directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicThrottle:
    """Throttled replicas of a topic, as PARTITION:BROKER,... or *; empty: none."""

    topic: str
    leaders: str
    followers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttles:
    """All replication throttles of a cluster."""

    brokers: tuple[BrokerThrottle, ...]
    topics: tuple[TopicThrottle, ...]
    unreachable: tuple[int, ...]
    """Brokers that did not respond."""


def reassignment_value(topic: str, row: OngoingPartitionReassignment) -> Reassignment:
    """Return a reassignment of a ListPartitionReassignments response."""
    return Reassignment(
        topic=topic,
        partition=row.partition_index,
        replicas=tuple(row.replicas),
        adding=tuple(row.adding_replicas),
        removing=tuple(row.removing_replicas),
    )
