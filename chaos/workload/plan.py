"""Plan of a workload in scenario files: kinds of clients, number, rate, topics."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

CLIENTS_MAX = 50
RATE_MAX = 20_000.0

Library: TypeAlias = Literal["confluent-kafka", "aiokafka", "kvorum"]


class Strict(BaseModel):
    """Unknown keys are errors, and text is not accepted as a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SendClients(Strict):
    """Producers of numbered, keyed records."""

    kind: Literal["send"]
    client: Library = "confluent-kafka"
    """`kvorum`: this project's channel, one attempt a send: the only one whose refusals are definite."""
    count: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    topics: tuple[str, ...] = ()
    """All topics of the scenario, when none is named. `orders*` names all that begin so."""
    acks: Literal["all", "1", "0"] = "all"
    idempotent: bool = True
    rate: float = Field(default=100.0, gt=0, le=RATE_MAX)
    """Sends per second, of each client."""
    in_flight: int = Field(default=100, ge=1, le=100_000)
    """Sends that a client has open at most; it waits at the limit."""
    hot_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the sends to the first partition of the first topic: a hot partition."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds until a send gets a response or fails (delivery.timeout.ms).

    Longer than any unavailability, if idempotence is required: librdkafka begins a new producer epoch when a send
    times out, and repeats under it records that may already be written.
    """
    bytes: int = Field(default=100, ge=20, le=10_000_000)
    crash_every: float | None = Field(default=None, gt=0)
    """Seconds after which a client dies and another takes its place, on average."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    group: str = "clients"
    """The group of clients to which they belong: links are cut by group."""

    @field_validator("acks", mode="before")
    @classmethod
    def _normalize_acks(cls, value: object) -> object:
        """YAML makes a number of 1, and -1 is Kafka's other word for all."""
        return {-1: "all", 0: "0", 1: "1", "-1": "all"}.get(value, value) if isinstance(value, int | str) else value

    @model_validator(mode="after")
    def _can_be(self) -> "SendClients":
        if self.idempotent and self.acks != "all":
            raise ValueError("idempotent producers need acks: all (set idempotent: false)")
        if self.client == "kvorum" and self.idempotent:
            raise ValueError("client kvorum sends each record once: set idempotent: false")
        if self.client == "kvorum" and self.acks == "0":
            raise ValueError("client kvorum needs responses: set acks to all or 1")
        return self


class AssignClients(Strict):
    """Consumers with assigned partitions that read on, and compare their positions with the records."""

    kind: Literal["assign"]
    client: Literal["confluent-kafka", "aiokafka"] = "confluent-kafka"
    count: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    topics: tuple[str, ...] = ()
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    crash_every: float | None = Field(default=30.0, gt=0)
    reassign_every: float = Field(default=20.0, gt=0)
    """Average seconds after which a consumer's partitions are drawn again."""
    rack: str = ""
    """Their racks (client.rack): they read from the follower in their rack, if the brokers have racks (KIP-392)."""
    group: str = "clients"

    @model_validator(mode="after")
    def _can_be(self) -> "AssignClients":
        if self.rack and self.client == "aiokafka":
            raise ValueError("client aiokafka does not support racks")
        return self


class AdminClients(Strict):
    """Creates topics, adds partitions, alters configs, deletes topics, and holds the cluster to it at the end."""

    kind: Literal["admin"]
    every: float = Field(default=1.5, gt=0)
    """Seconds between two changes."""
    replication_factor: int = Field(default=3, ge=1)
    partitions: int = Field(default=2, ge=1, le=100)
    group: str = "clients"


class GroupClients(Strict):
    """Common options of members of a group."""

    group_id: str = Field(min_length=1)
    protocol: Literal["classic", "consumer"] = "classic"
    """`consumer`: KIP-848's."""
    assignor: Literal["range", "roundrobin", "cooperative-sticky"] = "range"
    """Classic protocol only."""
    count: int = Field(default=2, ge=1, le=CLIENTS_MAX)
    session: float = Field(default=6.0, gt=0)
    """Seconds. For the consumer protocol it is the brokers' value (group.consumer.session.timeout.ms)."""
    crash_every: float | None = Field(default=None, gt=0)
    """Mean seconds until a member dies without leaving the group and another replaces it."""
    leave_every: float | None = Field(default=None, gt=0)
    """Seconds after which a member leaves in order and another takes its place, on average."""
    rack: str = ""
    """Their racks (client.rack), see `assign`."""
    group: str = "clients"


class SubscribeClients(GroupClients):
    """Members of a group that subscribe, read on, and commit offsets."""

    kind: Literal["subscribe"]
    topics: tuple[str, ...] = ()
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    commit_every: float = Field(default=0.5, gt=0)
    """Seconds between two commits of a member."""


class WorkerClients(GroupClients):
    """Members of a group that read, make a record of each, and send it in a transaction with the offset behind it."""

    kind: Literal["rpw"]
    source: str
    sink: str
    """A topic with the same number of partitions: the output of partition n goes to partition n."""
    records: int = Field(default=50, ge=1, le=1000)
    """The maximum number of records in one transaction."""
    abort: float = Field(default=0.1, ge=0, lt=1)
    """Share of transactions that a worker aborts itself."""
    timeout: float = Field(default=10.0, gt=0)
    """Seconds after which the coordinator aborts a transaction (transaction.timeout.ms)."""


class TransactionClients(Strict):
    """Producers that send transactions over several partitions. `bank`: each moves money, and the sum must stay."""

    kind: Literal["txn", "bank"]
    count: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    topics: tuple[str, ...] = ()
    rate: float = Field(default=10.0, gt=0, le=RATE_MAX)
    """Transactions per second, of each client."""
    records: int = Field(default=4, ge=2, le=1000)
    """Records of one transaction; an even number for a bank."""
    abort: float = Field(default=0.1, ge=0, lt=1)
    """Share of transactions that a client aborts itself."""
    timeout: float = Field(default=10.0, gt=0)
    """Seconds after which the coordinator aborts a transaction (transaction.timeout.ms)."""
    crash_every: float | None = Field(default=None, gt=0)
    """Seconds after which a client dies, in a transaction or not, and another takes over its id, on average."""
    group: str = "clients"

    @model_validator(mode="after")
    def _even(self) -> "TransactionClients":
        if self.kind == "bank" and self.records % 2:
            raise ValueError("transactions of a bank need an even number of records, because their amounts sum to zero")
        return self


ClientPlan: TypeAlias = Annotated[
    SendClients | AssignClients | AdminClients | SubscribeClients | WorkerClients | TransactionClients,
    Field(discriminator="kind"),
]


def select_topics(wanted: tuple[str, ...], topics: dict[str, int]) -> dict[str, int]:
    """Return {topic: partitions} of the topics named. Raises ValueError for an invalid name."""
    found: dict[str, int] = {}
    for each in wanted or ("*",):
        matching = {
            name: count
            for name, count in topics.items()
            if name == each or (each.endswith("*") and name.startswith(each[:-1]))
        }
        if not matching:
            raise ValueError(f"topic {each!r} does not exist; topics: {', '.join(topics)}")
        found |= matching
    return found


def transactions_end_within(plans: Sequence[ClientPlan]) -> float | None:
    """Return the longest timeout of a transaction in seconds, None without transactions."""
    timeouts = [plan.timeout for plan in plans if isinstance(plan, TransactionClients | WorkerClients)]
    return max(timeouts, default=None)


def groups_of(plans: Sequence[ClientPlan], topics: dict[str, int]) -> dict[str, list[str]]:
    """Return {group: the partitions that it reads}. Raises ValueError as `chosen`."""
    found: dict[str, list[str]] = {}
    for plan in plans:
        if isinstance(plan, SubscribeClients | WorkerClients):
            wanted = (plan.source,) if isinstance(plan, WorkerClients) else plan.topics
            names = [f"{name}-{n}" for name, count in select_topics(wanted, topics).items() for n in range(count)]
            found[plan.group_id] = sorted({*found.get(plan.group_id, ()), *names})
    return found
