"""The bodies of the part of the HTTP API that is about groups."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from kvorum.admin.models import UNREACHABLE_TEXT, PartitionId, Strict
from kvorum.admin.operations import INT64_MAX

Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
Assignment = dict[str, list[int]]
EXPLICIT_MAX = 10_000
GROUPS_MAX = 1_000
"""Of one reset."""


class GroupSummary(BaseModel):
    """A line of the list of groups."""

    group_id: str
    type: str = Field(examples=["classic", "consumer"])
    state: str = Field(examples=["Stable", "Empty"])
    protocol_type: str
    coordinator: int


class GroupLine(GroupSummary):
    """The same, with how far it is behind, where that was asked for (lag=true) and its coordinator told."""

    lag: int | None = Field(None, description="Of all partitions it has a place in")
    lag_partitions: int | None = Field(None, description="Of so many")
    lag_unknown: int | None = Field(None, description="Partitions whose leader told no end: not in the sum")


class GroupPage(BaseModel):
    """A page of groups by id; `next` is the `after` of the next page, null at the end."""

    groups: list[GroupLine]
    next: str | None
    unreachable: list[int] = Field(default_factory=list, description=UNREACHABLE_TEXT)


class GroupMember(BaseModel):
    """A member. Topics and assignment of a classic one are known if it is a consumer."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    protocol: str = Field(description="What the member speaks: classic or consumer")
    epoch: int | None
    topics: list[str]
    pattern: str | None
    assignment: Assignment = Field(description="{topic: partitions}")
    target_assignment: Assignment | None = Field(
        description="What it is to have once others gave it up; null in the classic protocol"
    )


class GroupOffset(BaseModel):
    """A group's place in a partition; `lag` is null where the partition's leader does not tell its end."""

    topic: str
    partition: int
    committed_offset: int | None = Field(description="null: assigned, and nothing committed yet")
    leader_epoch: int | None
    metadata: str
    end_offset: int | None
    lag: int | None
    member_id: str | None = Field(description="Whose the partition is now")


class GroupOffsetPage(BaseModel):
    """A page of a group's places, by topic and partition; `next` is the `after` of the next page, null at the end."""

    group_id: str
    state: str
    revision: str = Field(description="Changes when any committed offset of the group does; the ETag is made of it")
    offsets: list[GroupOffset]
    next: str | None


class Group(GroupSummary):
    """A group with its members, what each has, and where the group is."""

    protocol: str = Field(description="The assignor; empty where none was chosen")
    epoch: int | None
    assignment_epoch: int | None
    members: list[GroupMember]
    offsets: list[GroupOffset]


class TopicLag(BaseModel):
    """A group's lag in one topic."""

    topic: str
    partitions: int
    lag: int
    lag_max: int


class LagSummary(BaseModel):
    """How far a group is behind the ends of the logs it has a place in."""

    group_id: str
    state: str
    lag: int
    lag_max: int
    lag_max_topic: str | None
    lag_max_partition: int | None
    partitions: int
    partitions_unknown: int = Field(description="Nothing committed, or no leader told an end: not in the sums")
    topics: list[TopicLag]


class ExplicitOffset(Strict):
    """A place to go to."""

    topic: str
    partition: PartitionId
    offset: Offset


class OffsetReset(Strict):
    """Where to move a group: exactly one of the ways, and for which partitions."""

    to: Literal["earliest", "latest", "current"] | None = None
    offset: Offset | None = None
    timestamp_ms: Offset | None = Field(None, description="To the first record that is not older")
    at: datetime | None = Field(None, description="The same, as a date and time; UTC where it names no zone")
    by_duration: timedelta | None = Field(None, description="The same, so long ago: ISO 8601, as PT1H")
    shift_by: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    offsets: list[ExplicitOffset] | None = Field(None, min_length=1, max_length=EXPLICIT_MAX)
    csv: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="Explicit ones as lines of TOPIC,PARTITION,OFFSET", examples=["orders,0,1200\norders,1,7\n"]
    )
    topics: dict[str, list[PartitionId] | None] | None = Field(
        None, description="{topic: partitions, null for all}; left out: all partitions the group has a place in"
    )

    @model_validator(mode="after")
    def one_way(self) -> "OffsetReset":
        """Hold it to one way."""
        ways = (self.to, self.offset, self.timestamp_ms, self.at, self.by_duration, self.shift_by, self.offsets)
        if sum(way is not None for way in (*ways, self.csv)) != 1:
            raise ValueError("give exactly one of to, offset, timestamp_ms, at, by_duration, shift_by, offsets, csv")
        if (self.offsets is not None or self.csv is not None) and self.topics is not None:
            raise ValueError("offsets and csv already contain the partitions: leave topics out")
        return self

    @field_validator("offsets")
    @classmethod
    def once_each(cls, offsets: list[ExplicitOffset] | None) -> list[ExplicitOffset] | None:
        """Refuse a partition that is to go to two places."""
        named = [(each.topic, each.partition) for each in offsets or ()]
        if len(set(named)) < len(named):
            raise ValueError("duplicate partition")
        return offsets


class OffsetResets(OffsetReset):
    """Where to move several groups. In csv the group stands first in each line, and so they are named there."""

    groups: Annotated[list[str], Field(min_length=1, max_length=GROUPS_MAX)] | None = None
    all_groups: bool = Field(False, description="Every group of consumers that there is")

    @model_validator(mode="after")
    def which_groups(self) -> "OffsetResets":
        """Hold it to one way of naming them."""
        if (self.groups is not None) + self.all_groups + (self.csv is not None) != 1:
            raise ValueError("give exactly one of groups, all_groups, csv")
        if self.groups is not None and len(set(self.groups)) < len(self.groups):
            raise ValueError("duplicate group")
        return self


class ResetPartition(BaseModel):
    """What became, or would become, of one place."""

    topic: str
    partition: int
    before: int | None
    after: int
    note: str | None
    error: str | None = Field(description="Kafka's name of why it was not committed")


class ResetResult(BaseModel):
    """What a reset did, or would do."""

    group_id: str
    dry_run: bool
    partitions: list[ResetPartition]


class GroupReset(ResetResult):
    """What became of one group of several; where it was refused `error` says why, and nothing of it was changed."""

    error: str | None
    message: str | None


class DeletedOffset(BaseModel):
    """What became of one committed offset."""

    topic: str
    partition: int
    error: str | None


class RemovedMember(BaseModel):
    """What became of one member."""

    member_id: str | None = Field(description="null: it was named by its instance")
    instance_id: str | None
    error: str | None
