"""Models of the HTTP API for reassignments and leaders.

The partitions of a plan are those of a file of Kafka's kafka-reassign-partitions.sh: such a file is a valid body.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from kvorum.admin.http.parameters import INT64_MAX
from kvorum.admin.v1.models import ALL_TEXT, BrokerId, PartitionId, Strict, TopicName
from kvorum.client.reassignments.assignment_file import ANY_LOG_DIR
from kvorum.client.values.log_dir import TopicPartitionReplica
from kvorum.client.values.reassignment import Assignment
from kvorum.protocol.topic_partition import TopicPartition

PARTITIONS_MAX = 10_000
REPLICAS_MAX = 1_000
"""Limit of one partition; there are fewer brokers."""
BROKERS_MAX = 10_000
TOPICS_MAX = 10_000
Replicas = Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICAS_MAX, examples=[[1, 2, 3]])]
LogDirectory = Annotated[str, Field(min_length=1, max_length=4_096, examples=["any", "/disk2/kvorum"])]
Rate = Annotated[int, Field(ge=1, le=INT64_MAX)]


class CopyProgress(BaseModel):
    """Progress of a replica that is being added."""

    broker: int
    in_sync: bool
    size_bytes: int | None = Field(description="Size of the replica; null: its broker did not respond")
    end_offset: int | None
    lag: int | None = Field(description="Records behind the leader; null: one of the two did not respond")


class ReassignmentEntry(BaseModel):
    """A reassignment in progress."""

    topic: str
    partition: int
    leader: int = Field(description="-1: none")
    isr: list[int]
    replicas: list[int] = Field(description="Present replicas: first the target replicas, then those to be removed")
    target: list[int] = Field(description="Target replicas")
    adding: list[int]
    removing: list[int]
    size_bytes: int | None = Field(description="Size at the leader; null: it did not respond")
    end_offset: int | None = Field(description="Log end offset of the leader")
    progress: list[CopyProgress] = Field(description="Per replica that is being added")


class PlannedPartition(Strict):
    """Target of a partition in a plan."""

    topic: TopicName
    partition: PartitionId
    replicas: Replicas = Field(description="Broker ids, the preferred leader first")
    log_dirs: list[LogDirectory] | None = Field(
        None, description="Log directory per replica: a path, or `any`; null: any"
    )

    @model_validator(mode="after")
    def fits(self) -> "PlannedPartition":
        """Require valid replicas."""
        if len(set(self.replicas)) != len(self.replicas):
            raise ValueError(f"duplicate broker in {self.replicas}")
        if self.log_dirs is not None and len(self.log_dirs) != len(self.replicas):
            raise ValueError("log_dirs and replicas must have the same length")
        return self


class Plan(Strict):
    """Partitions and their target replicas."""

    version: Literal[1] = 1
    partitions: list[PlannedPartition] = Field(min_length=1, max_length=PARTITIONS_MAX)

    @model_validator(mode="after")
    def once(self) -> "Plan":
        """Require one target per partition."""
        if len({(row.topic, row.partition) for row in self.partitions}) < len(self.partitions):
            raise ValueError("duplicate partition")
        return self

    def assignment(self) -> Assignment:
        """Return it as reassignments.py has it."""
        return {TopicPartition(row.topic, row.partition): row.replicas for row in self.partitions}

    def moves(self) -> dict[TopicPartitionReplica, str]:
        """Return the directories of replicas that have one in the plan."""
        return {
            TopicPartitionReplica(row.topic, row.partition, broker): log_dir
            for row in self.partitions
            for broker, log_dir in zip(row.replicas, row.log_dirs or (), strict=False)
            if log_dir != ANY_LOG_DIR
        }


class Execute(Plan):
    """A reassignment plan to execute."""

    throttle_bytes_per_second: Rate | None = Field(
        None, description="Maximum rate per broker, until a verify removes it; null: unchanged"
    )
    log_dirs_throttle_bytes_per_second: Rate | None = Field(
        None, description="Maximum rate between log directories of a broker, until a verify removes it; null: unchanged"
    )
    additional: bool = Field(
        False, description="Permit other reassignments in progress; with their own plan: change the throttle"
    )
    allow_replication_factor_change: bool = Field(True, description="Permit a different number of replicas (KIP-860)")


class Verify(Plan):
    """A plan to verify."""

    preserve_throttles: bool = Field(False, description="Keep the throttles when nothing is in progress")


class Cancel(Strict):
    """Reassignments or moves to cancel: those of some partitions, or all."""

    partitions: dict[TopicName, Annotated[list[PartitionId], Field(min_length=1, max_length=PARTITIONS_MAX)]] | None = (
        Field(None, max_length=TOPICS_MAX, examples=[{"orders": [0, 1]}])
    )
    all: bool = Field(False, description=ALL_TEXT)
    preserve_throttles: bool = False


class StopMoves(Strict):
    """Moves between log directories to stop: those of some partitions, or all. Replicas stay in their directories."""

    partitions: dict[TopicName, Annotated[list[PartitionId], Field(min_length=1, max_length=PARTITIONS_MAX)]] | None = (
        Field(None, min_length=1, max_length=TOPICS_MAX, examples=[{"orders": [0, 1]}])
    )
    all: bool = False

    @model_validator(mode="after")
    def require_one_selection(self) -> "StopMoves":
        """Require exactly one of the two, so that an omission does not stop everything."""
        if (self.partitions is not None) == self.all:
            raise ValueError("give either partitions or all")
        return self


class Propose(Strict):
    """Topics to propose replicas for, and the brokers to use."""

    topics: list[TopicName] = Field(min_length=1, max_length=TOPICS_MAX)
    brokers: list[BrokerId] | None = Field(
        None, min_length=1, max_length=BROKERS_MAX, description="Brokers to use; null: all live brokers"
    )
    rack_aware: bool = Field(True, description="Spread replicas over racks, as for new topics")
    keep: bool = Field(
        False,
        description="Move as few replicas as possible; false: place all replicas again",
    )


class ProposedPartition(BaseModel):
    """Present and proposed replicas of a partition."""

    topic: str
    partition: int
    current: list[int]
    replicas: list[int] = Field(description="Proposed replicas")
    adding: list[int] = Field(description="Brokers that would copy it")
    size_bytes: int | None = Field(description="Size at the leader; null: it did not respond")


class Proposal(BaseModel):
    """A proposed plan. `partitions`, in the format of `POST /v1/reassignments`, has only partitions that change."""

    partitions: list[ProposedPartition]
    unchanged: int
    moved_replicas: int
    moved_bytes: int = Field(description="Bytes to copy, without partitions whose leader did not respond")


class StartedMove(BaseModel):
    """Result of a requested move of a replica to a log directory."""

    broker: int
    log_dir: str
    error: str | None = Field(description="REPLICA_NOT_AVAILABLE: it has no replica yet; send the same request again")


class StartedPartition(BaseModel):
    """Result of a plan for one partition."""

    topic: str
    partition: int
    before: list[int] = Field(description="Former replicas, to revert the plan")
    replicas: list[int]
    error: str | None
    message: str | None
    log_dirs: list[StartedMove] = Field(description="Replicas for which the plan has a log directory")


class VerifiedMove(BaseModel):
    """Present and planned log directory of a replica."""

    broker: int
    current: str | None = Field(description="null: its broker has no replica")
    target: str
    state: str = Field(examples=["completed", "in progress", "not as wanted", "not found"])


class LogDirMove(BaseModel):
    """A replica that moves between log directories of its broker."""

    topic: str
    partition: int
    broker: int
    current: str | None
    target: str
    size_bytes: int | None
    copied_bytes: int
    offset_lag: int = Field(description="Records that the copy is behind")


class MoveReplica(Strict):
    """A replica to move to another log directory of its broker."""

    topic: TopicName
    partition: PartitionId
    broker: BrokerId
    log_dir: LogDirectory = Field(description="Path of the directory, as in `log.dirs` of the broker")


class MovedReplica(BaseModel):
    """Result of the cancellation of a move between log directories."""

    topic: str
    partition: int
    broker: int
    error: str | None


class VerifiedPartition(BaseModel):
    """Progress of a plan for one partition."""

    topic: str
    partition: int
    state: Literal["completed", "in progress", "not as wanted"]
    replicas: list[int]
    target: list[int]
    log_dirs: list[VerifiedMove] = Field(description="Replicas for which the plan has a log directory")


class Verified(BaseModel):
    """Progress of a plan, and the throttles that were removed."""

    completed: bool
    partitions: list[VerifiedPartition]
    unthrottled_brokers: list[int]
    unthrottled_topics: list[str]


class CancelledPartition(BaseModel):
    """Result of a cancellation for one partition."""

    topic: str
    partition: int
    error: str | None
    message: str | None


class NewLeader(Strict):
    """The replica to make leader of a partition."""

    broker: BrokerId


class Led(BaseModel):
    """The new leader of a partition."""

    topic: str
    partition: int
    before: int = Field(description="Former leader; -1: none")
    leader: int
    replicas: list[int] = Field(description="Replicas; the new leader is the first one and preferred")


class Leadership(BaseModel):
    """A partition without a leader, or not led by its preferred replica."""

    topic: str
    partition: int
    leader: int = Field(description="-1: none")
    preferred: int = Field(description="First replica")
    replicas: list[int]
    isr: list[int]


class Leaderships(BaseModel):
    """Counts of partitions by leadership, and the partitions not led by their preferred replica."""

    partitions: int = Field(description="Total number of partitions")
    unpreferred: int = Field(description="Number not led by their preferred replica, including those without a leader")
    leaderless: int
    rows: list[Leadership]
    more: bool = Field(description="The limit was reached")
