"""What a workload is made of, as scenario files say it: kinds of clients, how many, how fast, on which topics."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

CLIENTS_MAX = 50
RATE_MAX = 20_000.0

Library: TypeAlias = Literal["confluent-kafka", "aiokafka", "kvorum"]


class Strict(BaseModel):
    """Unknown keys are errors, and text is no number."""

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
    """Sends a second, of each client."""
    in_flight: int = Field(default=100, ge=1, le=100_000)
    """Sends that a client has open at most; it waits at the limit."""
    hot_share: float = Field(default=0.0, ge=0, le=1)
    """Of the sends, to the first partition of the first topic: a hot partition."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds in which a send is answered or given up (delivery.timeout.ms).

    Longer than any unavailability, where idempotence is to hold: librdkafka begins a new producer epoch when a send
    times out, and repeats under it what may be written already.
    """
    bytes: int = Field(default=100, ge=20, le=10_000_000)
    crash_every: float | None = Field(default=None, gt=0)
    """Seconds after which a client dies and another takes its place, on average."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    group: str = "clients"
    """Of which group of clients they are: links are cut by group."""

    @field_validator("acks", mode="before")
    @classmethod
    def _spelled(cls, value: object) -> object:
        """YAML makes a number of 1, and -1 is Kafka's other word for all."""
        return {-1: "all", 0: "0", 1: "1", "-1": "all"}.get(value, value) if isinstance(value, int | str) else value

    @model_validator(mode="after")
    def _can_be(self) -> "SendClients":
        if self.idempotent and self.acks != "all":
            raise ValueError("idempotent producers need acks: all (say idempotent: false)")
        if self.client == "kvorum" and self.idempotent:
            raise ValueError("client kvorum sends each record once: say idempotent: false")
        if self.client == "kvorum" and self.acks == "0":
            raise ValueError("client kvorum waits for answers: acks all or 1")
        return self


class AssignClients(Strict):
    """Consumers that are assigned partitions, read on, and hold their positions against what they got."""

    kind: Literal["assign"]
    client: Literal["confluent-kafka", "aiokafka"] = "confluent-kafka"
    count: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    topics: tuple[str, ...] = ()
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    crash_every: float | None = Field(default=30.0, gt=0)
    reassign_every: float = Field(default=20.0, gt=0)
    """Seconds after which a consumer's partitions are drawn anew, on average."""
    group: str = "clients"


class AdminClients(Strict):
    """Creates topics, adds partitions, alters configs, deletes topics, and holds the cluster to it at the end."""

    kind: Literal["admin"]
    every: float = Field(default=1.5, gt=0)
    """Seconds between two changes."""
    replication_factor: int = Field(default=3, ge=1)
    partitions: int = Field(default=2, ge=1, le=100)
    group: str = "clients"


class SubscribeClients(Strict):
    """The place of consumer groups: they come with the group coordinator."""

    kind: Literal["subscribe"]
    count: int = 1


class TransactionClients(Strict):
    """The place of transactions: they come with the transaction coordinator."""

    kind: Literal["txn"]
    count: int = 1


ClientPlan: TypeAlias = Annotated[
    SendClients | AssignClients | AdminClients | SubscribeClients | TransactionClients, Field(discriminator="kind")
]


def chosen(wanted: tuple[str, ...], topics: dict[str, int]) -> dict[str, int]:
    """Return {topic: partitions} of the topics named. Raises ValueError for a name that is none."""
    found: dict[str, int] = {}
    for each in wanted or ("*",):
        matching = {
            name: count
            for name, count in topics.items()
            if name == each or (each.endswith("*") and name.startswith(each[:-1]))
        }
        if not matching:
            raise ValueError(f"no topic is called {each!r}; there are {', '.join(topics)}")
        found |= matching
    return found
