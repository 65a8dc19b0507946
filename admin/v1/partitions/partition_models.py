"""Models of the HTTP API for partitions and their log directories."""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import INT64_MAX
from kvorum.admin.v1.models import Partition, PartitionId, Strict

PARTITIONS_MAX = 10_000
Before = Annotated[int, Field(ge=-1, le=INT64_MAX)]


class Replica(BaseModel):
    """One replica of a partition."""

    broker: int
    leader: bool
    in_sync: bool
    offline: bool
    log_dir: str | None = Field(description="null: the broker did not respond")
    size_bytes: int | None
    offset_lag: int | None = Field(description="Records behind the high watermark, in the state of its broker")


class PartitionDetail(Partition):
    """A partition with its replicas."""

    topic: str
    last_stable_offset: int | None = Field(
        description="End offset for read_committed; null: the leader did not respond"
    )
    details: list[Replica]


class DeleteBefore(Strict):
    """Offsets before which records are deleted."""

    partitions: dict[PartitionId, Before] = Field(
        min_length=1,
        max_length=PARTITIONS_MAX,
        description="{partition: first offset to keep; -1: the high watermark, which deletes all records}",
    )


class DeletedBefore(BaseModel):
    """Result of a record deletion for one partition."""

    partition: int
    low_watermark: int | None = Field(description="First offset after the deletion")
    error: str | None


class DirPartition(BaseModel):
    """A replica in a log directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    future: bool = Field(description="A copy that moves to this directory")


class LogDir(BaseModel):
    """A log directory of a broker."""

    log_dir: str
    error: str | None
    size_bytes: int = Field(description="Size of these replicas")
    total_bytes: int | None
    usable_bytes: int | None
    replicas: int = Field(
        description="Number of replicas in it, or of the requested topic; `partitions` has a page of them"
    )
    partitions: list[DirPartition]
    next: str | None = Field(description="The `after` of the next page of this directory; null at the end")
