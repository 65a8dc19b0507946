"""The bodies of a topic's analysis."""

from typing import Literal

from pydantic import BaseModel, Field


class SizeFigures(BaseModel):
    """Sizes of non-null keys or values. Percentiles are accurate within 1 %."""

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
    """Record counts of one hour, by record timestamp."""

    start_ms: int
    records: int
    bytes: int


class PartitionFigures(BaseModel):
    """Counts of one partition; offsets and timestamps are null without records."""

    partition: int
    records: int
    bytes: int = Field(description="Size of keys, values and headers, decompressed")
    null_keys: int
    tombstones: int = Field(description="Records whose value is null")
    disordered: int = Field(description="Records with a lower timestamp than the previous record")
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None = Field(description="Lowest timestamp")
    last_timestamp_ms: int | None = Field(description="Highest timestamp")


class AnalysisProgress(BaseModel):
    """Progress of an analysis: the data of a `progress` event."""

    scanned: int
    bytes: int
    share: float = Field(description="Share of all offsets, 0 to 1")


class TopicAnalysis(BaseModel):
    """Statistics of a topic's records that were read: the data of the `result` event."""

    topic: str
    stopped_by: Literal["limit", "scanned", "bytes", "time", "end"] = Field(description="end: all records were read")
    next: str = Field(description="The `offsets` to continue from")
    elapsed_ms: int
    records: int
    bytes: int
    null_keys: int
    tombstones: int
    disordered: int
    distinct_keys: int = Field(description="Estimated above 4,096, typically within 0.8 %")
    distinct_values: int
    keys: SizeFigures
    values: SizeFigures
    partitions: list[PartitionFigures]
    hours: list[HourFigures] = Field(description="The newest 336 hours")
