"""Records in Confluent's JSON, and the records to write."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kvorum.admin.http.parameters import BadInput
from kvorum.admin.v1.records.record_encoding import as_json
from kvorum.admin.v3.errors import CODES, PARTITION, PAYLOAD
from kvorum.admin.v3.record_models import PLAIN, ProduceRequest, ProduceRequestData, ProduceResponseData
from kvorum.client.values.record import NewRecord

SHOWN_MAX: Final = 100
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP_MAX: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
"""The last one that can be written as a date in the answer. With a zone behind UTC a request can have a later one."""
NO_REGISTRY: Final = "Payload error. Schema Registry must be configured when using schemas."


class RecordRejection(Exception):
    """A record that is rejected before it is sent, with error code and reason."""

    def __init__(self, error_code: int, message: str) -> None:
        """Hold both."""
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def record_of(request: ProduceRequest, now_ms: int) -> NewRecord:
    """Return a record to write. Raises RecordRejection."""
    if request.partition_id is not None and request.partition_id < 0:
        raise RecordRejection(CODES[PARTITION].error_code, "Partition not found.")
    timestamp = now_ms if request.timestamp is None else (request.timestamp - EPOCH) // timedelta(milliseconds=1)
    if timestamp < 0:
        raise RecordRejection(
            400, f"Bad Request: Invalid timestamp: {timestamp}. Timestamp should always be non-negative."
        )
    if timestamp > TIMESTAMP_MAX:
        raise RecordRejection(400, f"Bad Request: Invalid timestamp: {timestamp}. It is behind the year 9999.")
    return NewRecord(
        key=None if request.key is None else bytes_of(request.key),
        value=None if request.value is None else bytes_of(request.value),
        partition=request.partition_id,
        timestamp_ms=timestamp,
        headers=tuple((each.name, header_bytes(each.value)) for each in request.headers or ()),
    )


def bytes_of(said: ProduceRequestData) -> bytes | None:
    """Return the bytes to write. Raises RecordRejection."""
    by_schema = (said.subject, said.subject_name_strategy, said.schema_id, said.schema_version, said.raw_schema)
    if said.type not in PLAIN:
        raise RecordRejection(CODES[PAYLOAD].error_code, NO_REGISTRY)
    if any(each is not None for each in by_schema):
        raise RecordRejection(400, f"Bad Request: type={said.type} cannot be used with a subject or a schema.")
    data: Any = said.data
    if data is None:
        return None
    if said.type == "JSON":
        try:
            return as_json(data, "data")
        except BadInput as error:
            raise RecordRejection(400, f"Bad Request: {error.message}") from error
    kind = "string" if said.type == "STRING" else "base64 string"
    if not isinstance(data, str):
        raise RecordRejection(400, f"Bad Request: data={shorten_value(data)} is not a {kind}.")
    return data.encode() if said.type == "STRING" else from_base64(data, f"data={shorten_value(data)}")


def shorten_value(data: Any) -> str:
    """Return the beginning of a value for a message."""
    return json.dumps(data, ensure_ascii=False)[:SHOWN_MAX]


def from_base64(text: str, what: str) -> bytes:
    """Return the bytes of a base64 text; padding is optional. Raises RecordRejection."""
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError as error:
        raise RecordRejection(400, f"Bad Request: {what} is not a valid base64 string.") from error


def header_bytes(value: str | None) -> bytes | None:
    """Return a header's value. Raises RecordRejection."""
    return None if value is None else from_base64(value, f"header value={shorten_value(value)}")


def response_data(said: ProduceRequestData | None, written: bytes | str | None) -> ProduceResponseData | None:
    """Return the response part for a key or value."""
    if said is None or said.type is None:
        return None
    return ProduceResponseData(type=said.type, size=0 if written is None else len(written))


def instant(time_ms: int) -> str:
    """Return a time as Java writes it, without trailing zeros."""
    moment = EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")
