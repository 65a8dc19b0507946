"""The bodies of a topic's analysis."""

from typing import Literal

from pydantic import BaseModel, Field


class SizeFigures(BaseModel):
    """Of keys, or of values: those that are not null. Percentiles are within 1 %."""

    count: int
    total_bytes: int
    min: int
    max: int
    mean: float
    p50: int
    p75: int
    p95: int
    p99: int
    p999: int


class HourFigures(BaseModel):
    """The records of an hour, by their timestamps."""

    start_ms: int
    records: int
    bytes: int


class PartitionFigures(BaseModel):
    """What was seen of one partition; offsets and times are null where there was no record."""

    partition: int
    records: int
    bytes: int = Field(description="Of keys, values and headers, decompressed")
    null_keys: int
    tombstones: int = Field(description="Records whose value is null")
    disordered: int = Field(description="Records with a lower timestamp than the one before them has")
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None = Field(description="The least one")
    last_timestamp_ms: int | None = Field(description="The largest one")


class AnalysisProgress(BaseModel):
    """How far an analysis is: what comes as `progress`."""

    scanned: int
    bytes: int
    share: float = Field(description="Of all offsets, 0 to 1")


class TopicAnalysis(BaseModel):
    """What the records of a topic are like, as far as they were looked at: what comes as `result`."""

    topic: str
    stopped_by: Literal["limit", "scanned", "bytes", "time", "end"] = Field(description="end: all was looked at")
    next: str = Field(description="The `offsets` to go on from")
    elapsed_ms: int
    records: int
    bytes: int
    null_keys: int
    tombstones: int
    disordered: int
    distinct_keys: int = Field(description="Of more than 4,096 about: off by 0.8 % as a rule")
    distinct_values: int
    keys: SizeFigures
    values: SizeFigures
    partitions: list[PartitionFigures]
    hours: list[HourFigures] = Field(description="The newest 336")
