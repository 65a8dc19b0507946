"""The bodies of the part of the HTTP API that is about records."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kvorum.admin.models import PartitionId, Strict
from kvorum.admin.operations import INT64_MAX

RECORDS_MAX = 1_000
HEADERS_MAX = 100
ValueFormat = Literal["string", "json", "hex", "base64", "int32", "int64", "float", "double", "uuid"]
Format = Literal["string", "json", "hex", "base64", "size", "int32", "int64", "float", "double", "uuid", "internal"]
"""internal: a record of a coordinator's own, as Kafka's tools print it."""


class MessageHeader(BaseModel):
    """One header; the value is text where it is UTF-8, else base64."""

    key: str
    value: str | None
    format: Literal["string", "base64"]


class Message(BaseModel):
    """A record, decoded. A value that is null has `value_bytes` null, too: a tombstone."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    key_format: Format
    key_bytes: int | None
    value: Any
    value_format: Format
    value_bytes: int | None
    headers: list[MessageHeader]


class MessagePage(BaseModel):
    """What was found, the oldest first, why it ended, and where it goes on."""

    messages: list[Message]
    stopped_by: Literal["limit", "scanned", "bytes", "time", "end"]
    scanned: int = Field(description="Records that were looked at")
    bytes: int = Field(description="That were read for it, decompressed")
    next: str = Field(description="The `offsets` of the next page", examples=["0:120,1:98"])
    before: str | None = Field(None, description="Of the newest: the `before` of the page of older ones")


class StreamEnd(BaseModel):
    """The last word of a stream or an export."""

    stopped_by: Literal["limit", "scanned", "bytes", "time", "end"]
    scanned: int
    next: str


class NewHeader(Strict):
    """A header to write."""

    key: str = Field(max_length=1_000)
    value: str | None = None
    format: Literal["string", "hex", "base64"] = "string"


class NewRecord(Strict):
    """A record to write. A value of null (or none) is a tombstone; what is no text is written as JSON."""

    key: Any = None
    key_format: ValueFormat | None = Field(None, description="Left out: a text as it is, anything else as JSON")
    value: Any = None
    value_format: ValueFormat | None = None
    headers: list[NewHeader] = Field(default_factory=list, max_length=HEADERS_MAX)
    partition: PartitionId | None = Field(None, description="Left out: the key decides, as with Java's clients")
    timestamp_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None


class ProduceBody(Strict):
    """Records to write: those of one partition in one batch, in this order."""

    records: list[NewRecord] = Field(min_length=1, max_length=RECORDS_MAX)
    acks: Literal["all", "1"] = "all"
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"


class Written(BaseModel):
    """What became of one record; the offset is null where it was refused, or where nobody knows."""

    partition: int
    offset: int | None
    timestamp_ms: int
    error: str | None = Field(
        description="Kafka's name; CLUSTER_UNREACHABLE: no answer came, it may have been written or not"
    )
    message: str | None


class ProduceResult(BaseModel):
    """What became of each record, in the order they came."""

    records: list[Written]
    written: int
