"""The bodies of the part of the HTTP API that is about topics as a whole: the list of them, copies, their groups."""

from pydantic import BaseModel, Field

from kvorum.admin.v1.models import (
    PARTITIONS_MAX,
    REPLICAS_MAX,
    UNREACHABLE_TEXT,
    Configs,
    Strict,
    TopicCreated,
    TopicName,
    TopicSummary,
)


class TopicLine(TopicSummary):
    """A topic in the list of topics."""

    size_bytes: int | None = Field(
        None, description="Size of the leaders' logs; null: not requested (sizes=true), or a leader did not respond"
    )
    replicas_bytes: int | None = Field(
        None, description="Size of all replicas' logs, without those of brokers that did not respond"
    )
    configs: Configs | None = Field(
        None, description="With configs=true: cleanup.policy, retention.ms and retention.bytes in force"
    )


class TopicPage(BaseModel):
    """A page of topics; `next` is the `after` of the next page, null at the end."""

    topics: list[TopicLine]
    next: str | None
    reassigning_known: bool = Field(
        True,
        description="false: the controller did not list reassignments in time, so replicas that are being added are "
        "included in `replication_factor` and count as missing",
    )


class TopicClone(Strict):
    """A topic to create as a copy. Omitted fields are taken from the original."""

    name: TopicName
    partitions: int | None = Field(None, ge=1, le=PARTITIONS_MAX)
    replication_factor: int | None = Field(None, ge=1, le=REPLICAS_MAX)
    configs: dict[str, str | None] = Field(
        default_factory=dict, description="Override configs of the original; null: do not set"
    )


class TopicCloned(TopicCreated):
    """The topic that was created, or validated. Records are not copied."""

    configs: Configs = Field(description="Configs set on the topic")


class TopicGroup(BaseModel):
    """A group with committed offsets in a topic, or with members that own partitions of it."""

    group_id: str
    type: str = Field(examples=["classic", "consumer"])
    state: str
    members: int = Field(description="Members that own partitions of the topic")
    partitions: int = Field(description="Partitions with a committed offset or an owner")
    lag: int = Field(description="Total of the known lags")
    partitions_unknown: int = Field(
        description="Partitions without a committed offset or log end offset; not included in the total"
    )


class TopicGroupPage(BaseModel):
    """A page of a topic's groups by id; `next` is the `after` of the next page, null at the end."""

    groups: list[TopicGroup]
    next: str | None
    unreachable: list[int] = Field(default_factory=list, description=UNREACHABLE_TEXT)
