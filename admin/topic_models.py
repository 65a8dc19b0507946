"""The bodies of the part of the HTTP API that is about topics as a whole: the list of them, copies, their groups."""

from pydantic import BaseModel, Field

from kvorum.admin.models import (
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
    """A line of the list of topics."""

    size_bytes: int | None = Field(
        None, description="Of the leaders' logs; null: not asked for (sizes=true), or one of them did not tell"
    )
    replicas_bytes: int | None = Field(None, description="Of all replicas' logs, as far as their brokers told")
    configs: Configs | None = Field(
        None, description="With configs=true: cleanup.policy, retention.ms and retention.bytes in force"
    )


class TopicPage(BaseModel):
    """A page of topics; `next` is the `after` of the next page, null at the end."""

    topics: list[TopicLine]
    next: str | None
    reassigning_known: bool = Field(
        True,
        description="false: the controller did not tell in time what is being reassigned, and replicas that are only "
        "being added count: in `replication_factor`, and as missing",
    )


class TopicClone(Strict):
    """A topic to make after another one. Left out: as that one has it."""

    name: TopicName
    partitions: int | None = Field(None, ge=1, le=PARTITIONS_MAX)
    replication_factor: int | None = Field(None, ge=1, le=REPLICAS_MAX)
    configs: dict[str, str | None] = Field(
        default_factory=dict, description="Besides, or instead of, those of the other; null: not set here"
    )


class TopicCloned(TopicCreated):
    """What was (or, when only validated, would be) created. Records are not copied."""

    configs: Configs = Field(description="What is set on it")


class TopicGroup(BaseModel):
    """A group that has a place in a topic, or a member that has partitions of it."""

    group_id: str
    type: str = Field(examples=["classic", "consumer"])
    state: str
    members: int = Field(description="Those that have partitions of the topic")
    partitions: int = Field(description="In which it has committed, or which a member has")
    lag: int = Field(description="Of the partitions of which it is known")
    partitions_unknown: int = Field(description="Nothing committed, or no leader told an end: not in the sum")


class TopicGroupPage(BaseModel):
    """A page of a topic's groups by id; `next` is the `after` of the next page, null at the end."""

    groups: list[TopicGroup]
    next: str | None
    unreachable: list[int] = Field(default_factory=list, description=UNREACHABLE_TEXT)
