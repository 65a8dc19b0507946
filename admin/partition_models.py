"""The bodies of the part of the HTTP API that is about partitions and where they lie."""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.models import Partition, PartitionId, Strict
from kvorum.admin.operations import INT64_MAX

PARTITIONS_MAX = 10_000
Before = Annotated[int, Field(ge=-1, le=INT64_MAX)]


class Replica(BaseModel):
    """One replica of a partition."""

    broker: int
    leader: bool
    in_sync: bool
    offline: bool
    log_dir: str | None = Field(description="null: the broker did not tell")
    size_bytes: int | None
    offset_lag: int | None = Field(description="Behind the partition's high watermark, as the broker sees it")


class PartitionDetail(Partition):
    """A partition with its replicas."""

    topic: str
    last_stable_offset: int | None = Field(description="Where reading committed ends; null: the leader did not answer")
    details: list[Replica]


class DeleteBefore(Strict):
    """Up to where to delete records."""

    partitions: dict[PartitionId, Before] = Field(
        min_length=1,
        max_length=PARTITIONS_MAX,
        description="{partition: the first offset that stays; -1: the high watermark, so that none stays}",
    )


class DeletedBefore(BaseModel):
    """What became of one partition's records."""

    partition: int
    low_watermark: int | None = Field(description="The first offset that there is now")
    error: str | None


class DirPartition(BaseModel):
    """A replica in a log directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    future: bool = Field(description="A copy that is on its way to this directory")


class LogDir(BaseModel):
    """A log directory of a broker."""

    log_dir: str
    error: str | None
    size_bytes: int = Field(description="Of all those replicas")
    total_bytes: int | None
    usable_bytes: int | None
    replicas: int = Field(description="In it, or of the topic that was asked for; `partitions` has a page of them")
    partitions: list[DirPartition]
    next: str | None = Field(description="The `after` to go on with in this directory; null at the end")
