"""The bodies of the admin HTTP API: requests are validated and responses are built by these models."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$", examples=["orders"])]
Configs = dict[str, str]
PARTITIONS_MAX = 100_000
REPLICAS_MAX = 32_767
ALL_TEXT = "true instead of `partitions`: all partitions of the cluster"
UNREACHABLE_TEXT = "Brokers that did not respond; their entries are missing"
INT32_MAX = 2**31 - 1
"""Ids of brokers and partitions are int32 in every request of Kafka's."""
BrokerId = Annotated[int, Field(ge=0, le=INT32_MAX)]
PartitionId = Annotated[int, Field(ge=0, le=INT32_MAX)]


class Strict(BaseModel):
    """A body in which an unknown field is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class Me(BaseModel):
    """The caller."""

    name: str = Field(description="Principal, or label of the token", examples=["User:alice", "grafana"])
    role: str = Field(examples=["read", "operate", "admin"])
    guarded: bool = Field(
        description="Whether the server requires authentication; otherwise every local user has the role admin"
    )


class Cluster(BaseModel):
    """Overview of the cluster."""

    cluster_id: str
    controller_id: int = Field(description="The active controller's node, -1 if unknown")
    brokers: int
    brokers_fenced: int
    topics: int
    partitions: int


class Health(BaseModel):
    """Health of the cluster."""

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
        description="Dynamic configs that are stored but not applied by their broker; null: unknown for some broker",
        examples=[["broker 1: log.cleaner.threads=1000"]],
    )
    controller_id: int = Field(
        description="Node of the active controller; -1: unknown, and the other values may be out of date"
    )
    controller_error: str | None = Field(
        description="Why the active controller is unknown", examples=["REQUEST_TIMED_OUT"]
    )


class Partition(BaseModel):
    """A partition; offsets are null if its leader did not respond."""

    partition: int
    leader: int = Field(description="-1: none")
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None = Field(None, description="Eligible leader replicas (KIP-966); null: not available")
    last_known_elr: list[int] | None = Field(None, description="Last leader of a partition whose ISR is empty")
    offline_replicas: list[int]
    adding_replicas: list[int] | None = Field(
        default=None, description="Of a reassignment; null: none in progress, or not known"
    )
    removing_replicas: list[int] | None = Field(default=None, description="Of a reassignment; null: as above")
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
    """Desired state of a topic. Omitted fields have the cluster's defaults."""

    partitions: int | None = Field(
        None, ge=1, le=PARTITIONS_MAX, description="Number of partitions (default: num.partitions)"
    )
    replication_factor: int | None = Field(
        None,
        ge=1,
        le=REPLICAS_MAX,
        description="Number of replicas (default: default.replication.factor of the cluster)",
    )
    configs: Configs = Field(default_factory=dict, description="Configs that differ from the defaults")


class TopicCreate(TopicSpec):
    """A topic to create."""

    name: TopicName
    assignments: dict[PartitionId, list[BrokerId]] | None = Field(
        None, description="Broker ids per partition, preferred leader first; replaces the two counts"
    )

    @model_validator(mode="after")
    def one_way(self) -> "TopicCreate":
        """Require either counts or assignments."""
        if self.assignments and (self.partitions is not None or self.replication_factor is not None):
            raise ValueError("assignments define the numbers of partitions and replicas: leave these fields out")
        return self


class TopicCreated(BaseModel):
    """The topic that was created, or validated."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    validated_only: bool


class Change(BaseModel):
    """One difference between the former and the present state of a topic."""

    what: str = Field(examples=["partitions", "configs.retention.ms"])
    before: str | int | None
    after: str | int | None


class TopicApplied(BaseModel):
    """Changes made by PUT; empty without any."""

    name: str
    created: bool
    changes: list[Change]
    validated_only: bool


class PartitionCount(Strict):
    """New total number of partitions."""

    count: int = Field(ge=1, le=PARTITIONS_MAX)


class ConfigEntry(BaseModel):
    """A config with its source."""

    name: str
    value: str | None
    source: str = Field(examples=["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"])
    read_only: bool
    sensitive: bool
    type: str | None = Field(default=None, description="With documentation=true", examples=["LONG", "LIST"])
    documentation: str | None = Field(default=None, description="With documentation=true, if the broker returns one")
    choices: list[str] | None = Field(
        default=None, description="With documentation=true: the allowed values, if only some are"
    )


class ConfigAlter(Strict):
    """Changes of configs; configs that are not listed are unchanged."""

    set: Configs = Field(default_factory=dict, description="New values")
    delete: list[str] = Field(default_factory=list, description="Configs to reset to their defaults")
    append: Configs = Field(default_factory=dict, description="Values to add to list configs")
    subtract: Configs = Field(default_factory=dict, description="Values to remove from list configs")


class Election(Strict):
    """Leaders to elect: those of some partitions, or all."""

    unclean: bool = Field(False, description="Elect any live replica. Records that only other replicas have are lost.")
    partitions: dict[str, list[PartitionId] | None] | None = Field(
        None, description="{topic: partitions, null for all of the topic}", examples=[{"orders": [0, 1], "audit": None}]
    )
    all: bool = Field(False, description=ALL_TEXT)


class ElectionResult(BaseModel):
    """Result of an election for one partition; `error` is null if a leader was elected."""

    topic: str
    partition: int
    error: str | None
    message: str | None


class QuorumListener(BaseModel):
    """Listener of a voter."""

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
    last_fetch_ms: int = Field(description="Time of its last fetch from the leader; -1: unknown")
    listeners: list[QuorumListener] = Field(description="Of a voter; not available for observers")


class Quorum(BaseModel):
    """The metadata quorum. Without a leader: the state of the brokers; other values are -1 or empty."""

    leader_id: int = Field(description="-1: none, or it did not respond")
    leader_epoch: int
    high_watermark: int = Field(description="Without a leader: end of a broker's copy of the log")
    voters: list[Voter]
    observers: list[Voter]
    error: str | None = Field(default=None, description="Why the leader is unknown")
