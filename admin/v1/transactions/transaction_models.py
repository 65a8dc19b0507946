"""The bodies of the part of the HTTP API that is about transactions and producers."""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from kvorum.admin.http.parameters import INT64_MAX
from kvorum.admin.v1.models import INT32_MAX, UNREACHABLE_TEXT, PartitionId, Strict, TopicName

INT16_MAX = 2**15 - 1


class TransactionSummary(BaseModel):
    """A transaction in the list of transactions."""

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
    """A transaction in its coordinator's state."""

    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    duration_ms: int | None
    partitions: dict[str, list[int]] = Field(description="{topic: partitions} of the transaction")


class TransactionPartition(BaseModel):
    """A partition of a transaction in its leader's state."""

    topic: str
    partition: int
    start_offset: int | None = Field(description="First offset of the transaction; null: not open there")
    last_timestamp_ms: int | None = Field(description="Timestamp of the producer's last record")
    producer_epoch: int | None
    error: str | None = Field(description="Why the leader's state is not available")


class Producer(BaseModel):
    """A producer with state on a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None = Field(description="Start of its open transaction; null: none")


class Hanging(BaseModel):
    """An open transaction on a partition that no coordinator will end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class Abort(Strict):
    """A transaction to abort on one partition, identified by its start offset or its producer."""

    topic: TopicName
    partition: PartitionId
    start_offset: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    producer_id: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    producer_epoch: Annotated[int, Field(ge=0, le=INT16_MAX)] | None = None
    coordinator_epoch: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None

    @model_validator(mode="after")
    def require_one_identity(self) -> "Abort":
        """Require one of the two."""
        producer = (self.producer_id, self.producer_epoch, self.coordinator_epoch)
        by_producer = all(each is not None for each in producer)
        if (self.start_offset is not None) == by_producer or (not by_producer and any(p is not None for p in producer)):
            raise ValueError("give start_offset, or producer_id, producer_epoch and coordinator_epoch")
        return self
