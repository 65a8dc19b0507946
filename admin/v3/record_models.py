"""Models of records in Confluent's REST API."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from kvorum.admin.v1.models import INT32_MAX, Strict

HEADERS_MAX = 100
ENTRIES_MAX = 10
"""Limit of a batch, as with Confluent (produce.batch.maximum.entries)."""
ENTRY_ID_CHARS_MAX = 80
Type = Literal["BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF"]
PLAIN = ("BINARY", "JSON", "STRING")
"""The types that need no schema."""


class ProduceRequestHeader(Strict):
    """A header of a record."""

    name: str
    value: str | None = Field(default=None, description="base64")


class ProduceRequestData(Strict):
    """Key or value of a record. Schemas are rejected: there is no schema registry."""

    type: Type | None = Field(None, description="Default: that of the subject's latest schema")
    subject: str | None = None
    subject_name_strategy: Literal["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"] | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    raw_schema: str | None = Field(None, alias="schema")
    data: Any = Field(None, description="BINARY: base64. STRING: a string. JSON: any value. null: null")


class ProduceRequest(Strict):
    """A record to write. A body can have several, with or without white space in between."""

    partition_id: Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX)] | None = None
    headers: list[ProduceRequestHeader] | None = Field(default=None, max_length=HEADERS_MAX)
    key: ProduceRequestData | None = None
    value: ProduceRequestData | None = None
    timestamp: AwareDatetime | None = None


class ProduceBatchRequestEntry(ProduceRequest):
    """A record of a batch; its id identifies the result."""

    id: str = Field(min_length=1, max_length=ENTRY_ID_CHARS_MAX)


class ProduceBatchRequest(Strict):
    """Records to write independently."""

    entries: list[ProduceBatchRequestEntry]


class ProduceResponseData(BaseModel):
    """The key or value that was written."""

    type: str
    size: int


class ProduceResponse(BaseModel):
    """Result of a record: 200 with its offset, or an error. One per record of the body."""

    error_code: int = Field(examples=[200])
    message: str | None = None
    cluster_id: str | None = None
    topic_name: str | None = None
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = Field(default=None, examples=["2023-11-14T22:13:20Z"])
    key: ProduceResponseData | None = None
    value: ProduceResponseData | None = None


class ProduceBatchResponseSuccessEntry(BaseModel):
    """A record of a batch that was written."""

    id: str
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str
    key: ProduceResponseData | None
    value: ProduceResponseData | None


class ProduceBatchResponseFailureEntry(BaseModel):
    """A record of a batch that was rejected."""

    id: str
    error_code: int
    message: str | None


class ProduceBatchResponse(BaseModel):
    """Results of a batch's records."""

    successes: list[ProduceBatchResponseSuccessEntry]
    failures: list[ProduceBatchResponseFailureEntry]
