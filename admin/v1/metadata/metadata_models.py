"""The bodies of the metadata's paths."""

from typing import Any

from pydantic import BaseModel, Field


class MetadataEntry(BaseModel):
    """An entry of a folder."""

    name: str
    value: str | None = Field(description="null for a folder")
    entries: int | None = Field(description="Number of entries in it; null for a value")


class MetadataNode(BaseModel):
    """A folder or a value of the metadata tree, at an offset of the metadata log."""

    path: str
    at: int = Field(description="Offset of the last record included")
    first: int = Field(description="First available offset; older records are in a snapshot")
    last: int = Field(description="Last available offset")
    value: str | None = Field(description="null for a folder")
    entries: list[MetadataEntry]
    next: str | None = Field(description="The `after` of the next page, null at the end")


class MetadataChange(BaseModel):
    """A changed value; `before` is null if it was added, `after` if it was removed."""

    path: str
    before: str | None
    after: str | None


class MetadataDifference(BaseModel):
    """Differences of the metadata between two offsets of the metadata log."""

    since: int
    at: int
    changes: list[MetadataChange]
    more: bool = Field(description="The limit was reached")


class MetadataRecord(BaseModel):
    """A record of the metadata log; its fields are those of Kafka's metadata records."""

    offset: int
    timestamp_ms: int
    epoch: int
    type: str = Field(examples=["PartitionChange"])
    record: dict[str, Any]


class MetadataRecords(BaseModel):
    """A page of the metadata log."""

    first: int = Field(description="First offset that is available as a record")
    last: int = Field(description="Last available offset")
    records: list[MetadataRecord]
    next: int | None = Field(description="Start of the next page; null at the end")


class QuorumEpoch(BaseModel):
    """A controller epoch."""

    epoch: int
    start_offset: int = Field(description="First record of the epoch that the log still has")
    began_ms: int = Field(description="Timestamp of that record")


class QuorumSample(BaseModel):
    """Sample of the quorum; without an active controller it has no voters and observers."""

    timestamp_ms: int
    leader_id: int = Field(description="-1: none, or it did not respond")
    leader_epoch: int
    high_watermark: int
    voters: list["QuorumMember"]
    observers: list["QuorumMember"]
    error: str | None = Field(description="Why the leader is unknown")


class QuorumMember(BaseModel):
    """A voter or an observer in a sample."""

    id: int
    log_end_offset: int
    lag: int
    last_caught_up_ms: int
