"""The bodies of the part of the HTTP API that is about reassignments and leaders.

The partitions of a plan are those of a file of Kafka's kafka-reassign-partitions.sh: such a file is a body as it is.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from kvorum.admin.log_dir_moves import Replica
from kvorum.admin.models import ALL_TEXT, BrokerId, PartitionId, Strict, TopicName
from kvorum.admin.operations import INT64_MAX
from kvorum.admin.places import Place
from kvorum.admin.reassignments import ANY_LOG_DIR, Assignment

PARTITIONS_MAX = 10_000
REPLICAS_MAX = 1_000
"""Of one partition; there are not as many brokers."""
BROKERS_MAX = 10_000
TOPICS_MAX = 10_000
Replicas = Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICAS_MAX, examples=[[1, 2, 3]])]
LogDirectory = Annotated[str, Field(min_length=1, max_length=4_096, examples=["any", "/disk2/kvorum"])]
Rate = Annotated[int, Field(ge=1, le=INT64_MAX)]


class CopyProgress(BaseModel):
    """How far one replica that is being added has come."""

    broker: int
    in_sync: bool
    size_bytes: int | None = Field(description="What it has of the partition; null: its broker did not tell")
    end_offset: int | None
    lag: int | None = Field(description="Records behind the leader's end; null: one of the two did not tell")


class ReassignmentEntry(BaseModel):
    """A reassignment that is under way."""

    topic: str
    partition: int
    leader: int = Field(description="-1: none")
    isr: list[int]
    replicas: list[int] = Field(description="All there are now: those it is to have first, then those that leave")
    target: list[int] = Field(description="Those it is to have")
    adding: list[int]
    removing: list[int]
    size_bytes: int | None = Field(description="At the leader; null: it did not tell")
    end_offset: int | None = Field(description="At the leader")
    progress: list[CopyProgress] = Field(description="Of each replica that is being added")


class PlannedPartition(Strict):
    """One partition's target."""

    topic: TopicName
    partition: PartitionId
    replicas: Replicas = Field(description="Broker ids, the preferred leader first")
    log_dirs: list[LogDirectory] | None = Field(
        None, description="Where each of the replicas is to lie on its broker: a path, or `any`; null: any"
    )

    @model_validator(mode="after")
    def fits(self) -> "PlannedPartition":
        """Hold it to what a partition can have."""
        if len(set(self.replicas)) != len(self.replicas):
            raise ValueError(f"duplicate broker in {self.replicas}")
        if self.log_dirs is not None and len(self.log_dirs) != len(self.replicas):
            raise ValueError("log_dirs and replicas must have the same length")
        return self


class Plan(Strict):
    """Partitions and the replicas they are to have."""

    version: Literal[1] = 1
    partitions: list[PlannedPartition] = Field(min_length=1, max_length=PARTITIONS_MAX)

    @model_validator(mode="after")
    def once(self) -> "Plan":
        """Hold it to one target a partition."""
        if len({(row.topic, row.partition) for row in self.partitions}) < len(self.partitions):
            raise ValueError("duplicate partition")
        return self

    def assignment(self) -> Assignment:
        """Return it as reassignments.py has it."""
        return {Place(row.topic, row.partition): row.replicas for row in self.partitions}

    def moves(self) -> dict[Replica, str]:
        """Return where replicas are to lie, of those for which it is said."""
        return {
            Replica(row.topic, row.partition, broker): log_dir
            for row in self.partitions
            for broker, log_dir in zip(row.replicas, row.log_dirs or (), strict=False)
            if log_dir != ANY_LOG_DIR
        }


class Execute(Plan):
    """A plan to carry out."""

    throttle_bytes_per_second: Rate | None = Field(
        None, description="That each broker copies at the most, until a verify takes it off; null: as it is"
    )
    log_dirs_throttle_bytes_per_second: Rate | None = Field(
        None, description="The same between log directories of one broker"
    )
    additional: bool = Field(
        False, description="Also while others are under way; or, with the plan of those, to change the throttle"
    )
    allow_replication_factor_change: bool = Field(True, description="More or fewer replicas than before, too (KIP-860)")


class Verify(Plan):
    """A plan to look after."""

    preserve_throttles: bool = Field(False, description="Leave them, even where nothing is under way any more")


class Cancel(Strict):
    """What is to stop: what is under way of some partitions, or all."""

    partitions: dict[TopicName, Annotated[list[PartitionId], Field(min_length=1, max_length=PARTITIONS_MAX)]] | None = (
        Field(None, max_length=TOPICS_MAX, examples=[{"orders": [0, 1]}])
    )
    all: bool = Field(False, description=ALL_TEXT)
    preserve_throttles: bool = False


class StopMoves(Strict):
    """Which replicas are to stay in the log directory where they lie: those of some partitions, or all that move."""

    partitions: dict[TopicName, Annotated[list[PartitionId], Field(min_length=1, max_length=PARTITIONS_MAX)]] | None = (
        Field(None, min_length=1, max_length=TOPICS_MAX, examples=[{"orders": [0, 1]}])
    )
    all: bool = False

    @model_validator(mode="after")
    def said(self) -> "StopMoves":
        """Hold it to one of the two: nobody stops everything by leaving something out."""
        if (self.partitions is not None) == self.all:
            raise ValueError("give either partitions or all")
        return self


class Propose(Strict):
    """What to find replicas for, and on whom."""

    topics: list[TopicName] = Field(min_length=1, max_length=TOPICS_MAX)
    brokers: list[BrokerId] | None = Field(
        None, min_length=1, max_length=BROKERS_MAX, description="Who is to have them; null: all that are alive"
    )
    rack_aware: bool = Field(True, description="Spread replicas over racks, as new topics are")
    keep: bool = Field(
        False, description="Move as few replicas as it takes: those on the brokers named stay. Else all are placed anew"
    )


class ProposedPartition(BaseModel):
    """Where a partition is, and where it would go."""

    topic: str
    partition: int
    current: list[int]
    replicas: list[int] = Field(description="As the plan would have it")
    adding: list[int] = Field(description="Who would have to copy it")
    size_bytes: int | None = Field(description="Of the copy, by its leader; null: it did not tell")


class Proposal(BaseModel):
    """A plan to look at: its partitions, as `POST /v1/reassignments` takes them, are those that would change."""

    partitions: list[ProposedPartition]
    unchanged: int
    moved_replicas: int
    moved_bytes: int = Field(description="To be copied, as far as the leaders told")


class StartedMove(BaseModel):
    """What became of a replica that is to lie in a directory of its broker."""

    broker: int
    log_dir: str
    error: str | None = Field(description="REPLICA_NOT_AVAILABLE: it has no replica yet; ask for the same again")


class StartedPartition(BaseModel):
    """What became of one partition of a plan."""

    topic: str
    partition: int
    before: list[int] = Field(description="To go back by")
    replicas: list[int]
    error: str | None
    message: str | None
    log_dirs: list[StartedMove] = Field(description="Of the replicas for which the plan names a directory")


class VerifiedMove(BaseModel):
    """Where a replica lies, and where the plan wants it."""

    broker: int
    current: str | None = Field(description="null: its broker has no such replica")
    target: str
    state: str = Field(examples=["completed", "in progress", "not as wanted", "not found"])


class LogDirMove(BaseModel):
    """A replica that is on its way between two log directories of its broker."""

    topic: str
    partition: int
    broker: int
    current: str | None
    target: str
    size_bytes: int | None
    copied_bytes: int
    offset_lag: int = Field(description="Records that the copy is behind")


class MovedReplica(BaseModel):
    """What became of a move between log directories that was to stop."""

    topic: str
    partition: int
    broker: int
    error: str | None


class VerifiedPartition(BaseModel):
    """How far one partition of a plan is."""

    topic: str
    partition: int
    state: Literal["completed", "in progress", "not as wanted"]
    replicas: list[int]
    target: list[int]
    log_dirs: list[VerifiedMove] = Field(description="Of the replicas for which the plan names a directory")


class Verified(BaseModel):
    """How far a plan is, and what throttles were taken off by the way."""

    completed: bool
    partitions: list[VerifiedPartition]
    unthrottled_brokers: list[int]
    unthrottled_topics: list[str]


class CancelledPartition(BaseModel):
    """What became of one partition whose reassignment was to stop."""

    topic: str
    partition: int
    error: str | None
    message: str | None


class NewLeader(Strict):
    """Who is to lead a partition."""

    broker: BrokerId


class Led(BaseModel):
    """Who leads a partition."""

    topic: str
    partition: int
    before: int = Field(description="Who led it; -1: nobody")
    leader: int
    replicas: list[int] = Field(description="The leader is the first of them, the preferred one, from now on")


class Leadership(BaseModel):
    """A partition that another leads than should, or nobody."""

    topic: str
    partition: int
    leader: int = Field(description="-1: none")
    preferred: int = Field(description="The first of the replicas")
    replicas: list[int]
    isr: list[int]


class Leaderships(BaseModel):
    """How the leaderships of a cluster are, and the partitions where they are not as they should be."""

    partitions: int = Field(description="That there are in all")
    unpreferred: int = Field(description="Not led by their preferred replica; those without a leader, too")
    leaderless: int
    rows: list[Leadership]
    more: bool = Field(description="There are more than the limit")
