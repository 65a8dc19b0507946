"""The bodies of the metadata's paths."""

from typing import Any

from pydantic import BaseModel, Field


class MetadataEntry(BaseModel):
    """What lies in a folder."""

    name: str
    value: str | None = Field(description="null: it is a folder")
    entries: int | None = Field(description="How many lie in it; null: it is a value")


class MetadataNode(BaseModel):
    """A folder or a value of the metadata's tree, as it was at an offset of the metadata log."""

    path: str
    at: int = Field(description="Behind the record at this offset")
    first: int = Field(description="The first offset that can be asked for: what is older stands in a snapshot")
    last: int = Field(description="The last offset there is now")
    value: str | None = Field(description="null: it is a folder")
    entries: list[MetadataEntry]
    next: str | None = Field(description="The `after` of the next page, null at the end")


class MetadataChange(BaseModel):
    """A value that is another one, came (`before` is null) or went (`after` is null)."""

    path: str
    before: str | None
    after: str | None


class MetadataDifference(BaseModel):
    """What changed between two offsets of the metadata log."""

    since: int
    at: int
    changes: list[MetadataChange]
    more: bool = Field(description="There are more than the limit")


class MetadataRecord(BaseModel):
    """A record of the metadata log; its fields are those of Kafka's metadata records."""

    offset: int
    timestamp_ms: int
    epoch: int
    type: str = Field(examples=["PartitionChange"])
    record: dict[str, Any]


class MetadataRecords(BaseModel):
    """A piece of the metadata log."""

    first: int = Field(description="The first offset that is still there as a record")
    last: int = Field(description="The last offset there is now")
    records: list[MetadataRecord]
    next: int | None = Field(description="Where to go on; null at the end")


class QuorumEpoch(BaseModel):
    """One controller's time as the active one."""

    epoch: int
    start_offset: int = Field(description="Its first record, as far as the log goes back")
    began_ms: int = Field(description="When that record was written")


class QuorumSample(BaseModel):
    """The quorum at a moment; without an active controller nobody tells of voters and observers."""

    timestamp_ms: int
    leader_id: int = Field(description="-1: none, or none that answers")
    leader_epoch: int
    high_watermark: int
    voters: list["QuorumMember"]
    observers: list["QuorumMember"]
    error: str | None = Field(description="Why nobody told")


class QuorumMember(BaseModel):
    """A voter or an observer in a sample."""

    id: int
    log_end_offset: int
    lag: int
    last_caught_up_ms: int
