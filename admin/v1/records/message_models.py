"""The bodies of the part of the HTTP API that is about records."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import INT64_MAX
from kvorum.admin.v1.models import PartitionId, Strict

RECORDS_MAX = 1_000
HEADERS_MAX = 100
ValueFormat = Literal["string", "json", "hex", "base64", "int32", "int64", "float", "double", "uuid"]
Format = Literal["string", "json", "hex", "base64", "size", "int32", "int64", "float", "double", "uuid", "internal"]
"""internal: a record of a coordinator's own, as Kafka's tools print it."""


class MessageHeader(BaseModel):
    """A record header; the value is text if it is UTF-8, otherwise base64."""

    key: str
    value: str | None
    format: Literal["string", "base64"]


class Message(BaseModel):
    """A decoded record. With a null value (a tombstone) `value_bytes` is null as well."""

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
    """Records, oldest first, with the reason of the end and the start of the next page."""

    messages: list[Message]
    stopped_by: Literal["limit", "scanned", "bytes", "time", "end"]
    scanned: int = Field(description="Number of records inspected")
    bytes: int = Field(description="Number of bytes read, decompressed")
    next: str = Field(description="The `offsets` of the next page", examples=["0:120,1:98"])
    before: str | None = Field(None, description="In newest: the `before` of the page of older records")


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
    """A record to write. A null or missing value is a tombstone; values other than strings are written as JSON."""

    key: Any = None
    key_format: ValueFormat | None = Field(None, description="Default: strings as they are, other values as JSON")
    value: Any = None
    value_format: ValueFormat | None = None
    headers: list[NewHeader] = Field(default_factory=list, max_length=HEADERS_MAX)
    partition: PartitionId | None = Field(None, description="Default: selected by the key, as in the Java client")
    timestamp_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None


class ProduceBody(Strict):
    """Records to write. Records of one partition are written in one batch, in this order."""

    records: list[NewRecord] = Field(min_length=1, max_length=RECORDS_MAX)
    acks: Literal["all", "1"] = "all"
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"


class Written(BaseModel):
    """Result of a record; the offset is null if it was rejected or is unknown."""

    partition: int
    offset: int | None
    timestamp_ms: int
    error: str | None = Field(
        description="Kafka's error name; CLUSTER_UNREACHABLE: no response, the record may or may not be written"
    )
    message: str | None


class ProduceResult(BaseModel):
    """Results of the records, in request order."""

    records: list[Written]
    written: int
