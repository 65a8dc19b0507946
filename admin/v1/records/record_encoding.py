"""Records of HTTP as batches have them: encoding, partitioning, results."""

import base64
import binascii
import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from kvorum.admin.http.parameters import BadInput
from kvorum.admin.v1.records.message_models import NewHeader, NewRecord, ProduceBody, Written
from kvorum.client.records import record_producer, serdes
from kvorum.client.records.partitioner import partition_of
from kvorum.client.values.record import RecordMetadata
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.records import Record

UNREACHABLE: Final = "CLUSTER_UNREACHABLE"


def bytes_of(value: Any, form: str | None, field: str) -> bytes | None:
    """Return the bytes to write for a value of JSON. Raises BadInput naming the field."""
    if value is None:
        return None
    if form == "json" or (form is None and not isinstance(value, str)):
        return as_json(value, field)
    if form in serdes.TYPES:
        return serialize_value(form, value, field)
    if not isinstance(value, str):
        raise BadInput(field, f"a value in {form} must be a string")
    try:
        if form == "hex":
            return bytes.fromhex(value)
        if form == "base64":
            return base64.b64decode(value, validate=True)
        return value.encode()
    except (ValueError, binascii.Error) as error:
        raise BadInput(field, f"not a {form or 'string'}: {error}") from error


def serialize_value(form: str, value: Any, field: str) -> bytes:
    """Return a number or a UUID as Kafka's serializers write it. Raises BadInput for invalid ones."""
    try:
        return serdes.write(form, value)
    except ValueError as error:
        raise BadInput(field, str(error)) from error


def as_json(value: Any, field: str) -> bytes:
    """Return a value as JSON. Raises BadInput for a number that JSON has not."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise BadInput(field, f"not JSON: {error}") from error


def header_of(header: NewHeader, field: str) -> tuple[str, bytes | None]:
    """Return a header as records have it. Raises BadInput."""
    try:
        header.key.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{field}.key", f"not a string: {error}") from error
    return header.key, bytes_of(header.value, header.format, f"{field}.value")


def record_of(new: NewRecord, field: str, now_ms: int) -> Record:
    """Return a record as batches have it. Raises BadInput."""
    return Record(
        key=bytes_of(new.key, new.key_format, f"{field}.key"),
        value=bytes_of(new.value, new.value_format, f"{field}.value"),
        timestamp=now_ms if new.timestamp_ms is None else new.timestamp_ms,
        headers=tuple(header_of(each, f"{field}.headers.{index}") for index, each in enumerate(new.headers)),
    )


def choose_partitions(body: ProduceBody, count: int, now_ms: int, chance: Random) -> list[tuple[int, Record]]:
    """Return (partition, record) for each; those without key and partition go to one that chance chooses.

    Raises BadInput for a partition that is not among `count`, or bytes that cannot be read.
    """
    anywhere = chance.randrange(count)
    found = []
    for index, new in enumerate(body.records):
        field = f"records.{index}"
        record = record_of(new, field, now_ms)
        if new.partition is not None:
            if new.partition >= count:
                raise BadInput(f"{field}.partition", f"the topic has partitions 0 to {count - 1}")
            partition = new.partition
        else:
            partition = anywhere if record.key is None else partition_of(record.key, count)
        found.append((partition, record))
    return found


async def produce(
    cluster: ClusterClient,
    topic: MetadataResponseTopic,
    rows: Sequence[tuple[int, Record]],
    *,
    acks: int = record_producer.ALL,
    codec: Codec = Codec.NONE,
) -> list[Written]:
    """Write the records; a row for each, in their order."""
    return [write_result(each) for each in await record_producer.produce(cluster, topic, rows, acks=acks, codec=codec)]


def write_result(found: RecordMetadata) -> Written:
    """Return the result of a record for HTTP."""
    error, message = None, None
    if isinstance(found.error, KafkaError):
        error, message = found.error.code.name, found.error.message
    elif found.error is not None:
        error, message = UNREACHABLE, str(found.error)
    return Written(
        partition=found.partition,
        offset=found.offset,
        timestamp_ms=found.timestamp_ms,
        error=error,
        message=message,
    )
