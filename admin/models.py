"""The bodies of the admin HTTP API: what comes in is checked by these, what goes out is shaped by these."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$", examples=["orders"])]
Configs = dict[str, str]
PARTITIONS_MAX = 100_000
REPLICAS_MAX = 32_767
ALL_TEXT = "true, where no partitions are named: every one of the cluster"
UNREACHABLE_TEXT = "Brokers that did not answer: what only they know is missing here"
INT32_MAX = 2**31 - 1
"""Ids of brokers and partitions are int32 in every request of Kafka's."""
BrokerId = Annotated[int, Field(ge=0, le=INT32_MAX)]
PartitionId = Annotated[int, Field(ge=0, le=INT32_MAX)]


class Strict(BaseModel):
    """A body in which an unknown field is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What was wrong with a request (RFC 9457); `error` is Kafka's name for it where Kafka has one."""

    type: str = Field(default="about:blank", description="There is nothing to read about an error beyond its name")
    title: str = Field(examples=["Unprocessable Entity"])
    status: int
    detail: str = Field(description="The same as `message`")
    error: str = Field(examples=["INVALID_PARTITIONS"])
    message: str
    field: str | None = Field(
        None, description="Where in the body, as a dotted path; or the parameter in path or query"
    )


class Me(BaseModel):
    """Who asks."""

    role: str = Field(examples=["read", "operate", "admin"])
    guarded: bool = Field(
        description="Whether the server wants tokens; where it does not, everybody on this machine is admin"
    )


class Cluster(BaseModel):
    """The cluster at a glance."""

    cluster_id: str
    controller_id: int = Field(description="The active controller's node, -1 if unknown")
    brokers: int
    brokers_fenced: int
    topics: int
    partitions: int


class Health(BaseModel):
    """Whether anything needs looking at."""

    healthy: bool
    under_replicated_partitions: int
    under_min_isr_partitions: int | None = Field(
        description="Fewer in-sync replicas than min.insync.replicas, or no leader; null: topic configs not available"
    )
    at_min_isr_partitions: int | None = Field(
        description="A replica is out of sync and exactly min.insync.replicas are left; null: as above"
    )
    offline_partitions: int
    brokers_fenced: list[int]
    partitions: list[str] = Field(
        description="The first hundred with a problem, as topic-partition: by topic and number, internal topics last"
    )
    configs_left_out: list[str] | None = Field(
        description="Dynamic broker configs that are stored and not in force: their broker cannot take them over; "
        "null: not every broker tells",
        examples=[["broker 1: log.cleaner.threads=1000"]],
    )
    controller_id: int = Field(
        description="The active controller's node; -1: nobody tells of one, and all else may be old"
    )
    controller_error: str | None = Field(description="Why nobody tells", examples=["REQUEST_TIMED_OUT"])


class Partition(BaseModel):
    """One partition; offsets are null where its leader did not answer."""

    partition: int
    leader: int = Field(description="-1: none")
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None = Field(
        None, description="Eligible leader replicas (KIP-966); null: the cluster does not tell"
    )
    last_known_elr: list[int] | None = Field(None, description="The last leader, of a partition whose ISR died out")
    offline_replicas: list[int]
    earliest_offset: int | None = None
    latest_offset: int | None = None


class TopicSummary(BaseModel):
    """A line of the topic list."""

    name: str
    topic_id: str
    internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int


class Topic(TopicSummary):
    """A topic with its partitions and the configs that differ from the defaults."""

    details: list[Partition]
    configs: Configs


class TopicSpec(Strict):
    """What a topic should be. Left out: the cluster's default."""

    partitions: int | None = Field(None, ge=1, le=PARTITIONS_MAX)
    replication_factor: int | None = Field(None, ge=1, le=REPLICAS_MAX)
    configs: Configs = Field(default_factory=dict)


class TopicCreate(TopicSpec):
    """A topic to create."""

    name: TopicName
    assignments: dict[PartitionId, list[BrokerId]] | None = Field(
        None, description="Broker ids of each partition, preferred leader first; instead of the two numbers"
    )

    @model_validator(mode="after")
    def one_way(self) -> "TopicCreate":
        """Hold it to one way."""
        if self.assignments and (self.partitions is not None or self.replication_factor is not None):
            raise ValueError("assignments define the numbers of partitions and replicas: leave these fields out")
        return self


class TopicCreated(BaseModel):
    """What was (or, when only validated, would be) created."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    validated_only: bool


class Change(BaseModel):
    """One difference between what a topic was and what it is now."""

    what: str = Field(examples=["partitions", "configs.retention.ms"])
    before: str | int | None
    after: str | int | None


class TopicApplied(BaseModel):
    """What PUT did: nothing at all if `changes` is empty."""

    name: str
    created: bool
    changes: list[Change]
    validated_only: bool


class PartitionCount(Strict):
    """How many partitions the topic is to have in all."""

    count: int = Field(ge=1, le=PARTITIONS_MAX)


class ConfigEntry(BaseModel):
    """One config with where its value comes from."""

    name: str
    value: str | None
    source: str = Field(examples=["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"])
    read_only: bool
    sensitive: bool


class ConfigAlter(Strict):
    """Changes of configs; the rest stays as it is."""

    set: Configs = Field(default_factory=dict)
    delete: list[str] = Field(default_factory=list)
    append: Configs = Field(default_factory=dict, description="To configs that are lists")
    subtract: Configs = Field(default_factory=dict, description="From configs that are lists")


class Election(Strict):
    """Which leaders to elect: partitions, or all."""

    unclean: bool = Field(False, description="Elect any living replica. Loses what only others have.")
    partitions: dict[str, list[PartitionId] | None] | None = Field(
        None, description="{topic: partitions, null for all of the topic}", examples=[{"orders": [0, 1], "audit": None}]
    )
    all: bool = Field(False, description=ALL_TEXT)


class ElectionResult(BaseModel):
    """What became of one partition's election; `error` is null where a leader was elected."""

    topic: str
    partition: int
    error: str | None
    message: str | None


class QuorumListener(BaseModel):
    """Where a voter listens."""

    name: str
    host: str
    port: int


class Voter(BaseModel):
    """A member of the metadata quorum, or an observer."""

    id: int
    directory_id: str
    log_end_offset: int
    lag: int
    last_caught_up_ms: int
    last_fetch_ms: int = Field(description="When it asked the leader last; -1: not known")
    listeners: list[QuorumListener] = Field(description="Of a voter; observers' are not told")


class Quorum(BaseModel):
    """The metadata quorum. Without a leader: what brokers know by themselves, and -1 or nothing for the rest."""

    leader_id: int = Field(description="-1: there is none, or none that answers")
    leader_epoch: int
    high_watermark: int = Field(description="Without a leader: the end of a broker's copy of the log")
    voters: list[Voter]
    observers: list[Voter]
    error: str | None = Field(default=None, description="Why there is no leader's answer")
