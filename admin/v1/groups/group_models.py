"""The bodies of the part of the HTTP API that is about groups."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from kvorum.admin.http.operations import INT64_MAX
from kvorum.admin.v1.models import UNREACHABLE_TEXT, PartitionId, Strict

Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
Assignment = dict[str, list[int]]
EXPLICIT_MAX = 10_000
GROUPS_MAX = 1_000
"""Limit of one reset."""


class GroupSummary(BaseModel):
    """A line of the list of groups."""

    group_id: str
    type: str = Field(examples=["classic", "consumer"])
    state: str = Field(examples=["Stable", "Empty"])
    protocol_type: str
    coordinator: int


class GroupLine(GroupSummary):
    """A group; with lag=true including its lag, if its coordinator responded."""

    lag: int | None = Field(None, description="Total lag of all partitions with a committed offset")
    lag_partitions: int | None = Field(None, description="Number of these partitions")
    lag_unknown: int | None = Field(
        None, description="Partitions whose log end offset is not available; not included in the total"
    )
    members: int | None = Field(None, description="With lag=true: number of members")
    topics: list[str] | None = Field(None, description="With lag=true: topics with committed offsets or subscriptions")


class GroupPage(BaseModel):
    """A page of groups by id; `next` is the `after` of the next page, null at the end."""

    groups: list[GroupLine]
    next: str | None
    unreachable: list[int] = Field(default_factory=list, description=UNREACHABLE_TEXT)


class GroupMember(BaseModel):
    """A member of a group. Topics and assignment of a classic member are known for consumers only."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    protocol: str = Field(description="Protocol of the member: classic or consumer")
    epoch: int | None
    topics: list[str]
    pattern: str | None
    assignment: Assignment = Field(description="{topic: partitions}")
    target_assignment: Assignment | None = Field(
        description="Assignment after other members revoked their partitions; null in the classic protocol"
    )


class GroupOffset(BaseModel):
    """A committed offset; `lag` is null if the log end offset of the leader is not available."""

    topic: str
    partition: int
    committed_offset: int | None = Field(description="null: assigned, without a committed offset")
    leader_epoch: int | None
    metadata: str
    end_offset: int | None
    lag: int | None
    member_id: str | None = Field(description="Present owner of the partition")


class GroupOffsetPage(BaseModel):
    """A page of committed offsets by topic and partition; `next` is the `after` of the next page, null at the end."""

    group_id: str
    state: str
    revision: str = Field(description="Changes with any committed offset of the group; basis of the ETag")
    offsets: list[GroupOffset]
    next: str | None


class Group(GroupSummary):
    """A group with its members, assignments and committed offsets."""

    protocol: str = Field(description="The assignor; empty if none is chosen")
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
    """Total lag of a group over the partitions with a committed offset."""

    group_id: str
    state: str
    lag: int
    lag_max: int
    lag_max_topic: str | None
    lag_max_partition: int | None
    partitions: int
    partitions_unknown: int = Field(
        description="Partitions without a committed offset or log end offset; not included in the totals"
    )
    topics: list[TopicLag]


class ExplicitOffset(Strict):
    """An offset to commit."""

    topic: str
    partition: PartitionId
    offset: Offset


class OffsetReset(Strict):
    """Target of an offset reset: exactly one kind of target, and the partitions."""

    to: Literal["earliest", "latest", "current"] | None = None
    offset: Offset | None = None
    timestamp_ms: Offset | None = Field(None, description="First record with at least this timestamp")
    at: datetime | None = Field(None, description="First record at or after this date and time; UTC without a zone")
    by_duration: timedelta | None = Field(
        None, description="First record not older than this ISO 8601 duration, such as PT1H"
    )
    shift_by: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    offsets: list[ExplicitOffset] | None = Field(None, min_length=1, max_length=EXPLICIT_MAX)
    csv: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="Offsets as lines of TOPIC,PARTITION,OFFSET", examples=["orders,0,1200\norders,1,7\n"]
    )
    topics: dict[str, list[PartitionId] | None] | None = Field(
        None, description="{topic: partitions, null for all}; default: all partitions with a committed offset"
    )

    @model_validator(mode="after")
    def one_way(self) -> "OffsetReset":
        """Require exactly one target."""
        ways = (self.to, self.offset, self.timestamp_ms, self.at, self.by_duration, self.shift_by, self.offsets)
        if sum(way is not None for way in (*ways, self.csv)) != 1:
            raise ValueError("give exactly one of to, offset, timestamp_ms, at, by_duration, shift_by, offsets, csv")
        if (self.offsets is not None or self.csv is not None) and self.topics is not None:
            raise ValueError("offsets and csv already contain the partitions: leave topics out")
        return self

    @field_validator("offsets")
    @classmethod
    def once_each(cls, offsets: list[ExplicitOffset] | None) -> list[ExplicitOffset] | None:
        """Reject a partition with two offsets."""
        named = [(each.topic, each.partition) for each in offsets or ()]
        if len(set(named)) < len(named):
            raise ValueError("duplicate partition")
        return offsets


class OffsetResets(OffsetReset):
    """Target of an offset reset of several groups. Each line of `csv` starts with the group."""

    groups: Annotated[list[str], Field(min_length=1, max_length=GROUPS_MAX)] | None = None
    all_groups: bool = Field(False, description="All consumer groups")

    @model_validator(mode="after")
    def which_groups(self) -> "OffsetResets":
        """Require exactly one way to name the groups."""
        if (self.groups is not None) + self.all_groups + (self.csv is not None) != 1:
            raise ValueError("give exactly one of groups, all_groups, csv")
        if self.groups is not None and len(set(self.groups)) < len(self.groups):
            raise ValueError("duplicate group")
        return self


class ResetPartition(BaseModel):
    """Result, or expected result, of an offset reset for one partition."""

    topic: str
    partition: int
    before: int | None
    after: int
    note: str | None
    error: str | None = Field(description="Kafka's error name if it was not committed")


class ResetResult(BaseModel):
    """Result, or expected result, of an offset reset."""

    group_id: str
    dry_run: bool
    partitions: list[ResetPartition]


class GroupReset(ResetResult):
    """Result of an offset reset for one of several groups. If `error` is set, no offset of the group was changed."""

    error: str | None
    message: str | None


class DeletedOffset(BaseModel):
    """Result of an offset deletion for one partition."""

    topic: str
    partition: int
    error: str | None


class RemovedMember(BaseModel):
    """Result of the removal of one member."""

    member_id: str | None = Field(description="null: removed by its group.instance.id")
    instance_id: str | None
    error: str | None
