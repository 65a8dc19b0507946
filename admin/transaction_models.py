"""The bodies of the part of the HTTP API that is about transactions and producers."""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from kvorum.admin.models import INT32_MAX, UNREACHABLE_TEXT, PartitionId, Strict, TopicName
from kvorum.admin.operations import INT64_MAX

INT16_MAX = 2**15 - 1


class TransactionSummary(BaseModel):
    """A line of the list of transactions."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str = Field(examples=["Ongoing", "CompleteCommit"])


class TransactionPage(BaseModel):
    """A page of transactions by id; `next` is the `after` of the next page, null at the end."""

    transactions: list[TransactionSummary]
    next: str | None
    unreachable: list[int] = Field(default_factory=list, description=UNREACHABLE_TEXT)


class Transaction(TransactionSummary):
    """A transaction as its coordinator knows it."""

    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    duration_ms: int | None
    partitions: dict[str, list[int]] = Field(description="{topic: partitions} that are part of it")


class TransactionPartition(BaseModel):
    """One partition of a transaction, as its leader knows it."""

    topic: str
    partition: int
    start_offset: int | None = Field(description="Where the transaction begins there; null: it is not open there")
    last_timestamp_ms: int | None = Field(description="Of the last record of this producer")
    producer_epoch: int | None
    error: str | None = Field(description="Why the leader told nothing")


class Producer(BaseModel):
    """A producer that a partition has state of."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None = Field(description="Where its open transaction begins; null: none is open")


class Hanging(BaseModel):
    """A transaction that is open on a partition and that no coordinator will end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class Abort(Strict):
    """Which transaction on one partition to abort: by where it begins, or by its producer."""

    topic: TopicName
    partition: PartitionId
    start_offset: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    producer_id: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    producer_epoch: Annotated[int, Field(ge=0, le=INT16_MAX)] | None = None
    coordinator_epoch: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None

    @model_validator(mode="after")
    def named(self) -> "Abort":
        """Hold it to one of the two."""
        producer = (self.producer_id, self.producer_epoch, self.coordinator_epoch)
        by_producer = all(each is not None for each in producer)
        if (self.start_offset is not None) == by_producer or (not by_producer and any(p is not None for p in producer)):
            raise ValueError("give start_offset, or producer_id, producer_epoch and coordinator_epoch")
        return self
