"""Keys and values of records as text: plain data, and the records of Kafka's own topics. Sans-IO.

A decoder takes a record and returns key and payload, None where there is nothing to print. What cannot be read is said
in the key's place and stops nothing. Source: Kafka's DumpLogSegments (CoordinatorRecordMessageParser,
OffsetsMessageParser, ClusterMetadataLogMessageParser), StringDecoder and its siblings.
"""

import base64
import json
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from kvorum.admin.consumer_protocol import CONSUMER_PROTOCOL, read_assignment, read_subscription
from kvorum.admin.places import Place, by_topic
from kvorum.broker.coordinator.records.classic import GroupMetadataValue
from kvorum.broker.coordinator.records.codec import (
    GROUP_SHAPES,
    TRANSACTION_SHAPES,
    Shape,
    UnknownRecordType,
    decode_record,
)
from kvorum.broker.coordinator.records.transactions import TransactionLogValue
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.cli.struct_json import to_json
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.records import Record

Decoder = Callable[[Record], tuple[str | None, str | None]]
Text = Callable[[bytes], str]

DELETED = "<DELETE>"
TRANSACTION_ORDER = (
    *("producerId", "previousProducerId", "nextProducerId", "producerEpoch", "nextProducerEpoch"),
    *("transactionTimeoutMs", "transactionStatus", "transactionPartitions", "transactionLastUpdateTimestampMs"),
    *("transactionStartTimestampMs", "clientTransactionVersion"),
)
"""Kafka's schema has what is tagged beside what it belongs to, our struct as it lies in the bytes."""
RACK_VERSION = 3
"""From here on a subscription names a rack."""
_INTEGER = Struct(">i")
_LONG = Struct(">q")


def number(struct: Struct, data: bytes) -> str:
    """Return a number's digits, or the bytes of what is none."""
    return str(struct.unpack(data)[0]) if len(data) == struct.size else repr(data)


TEXTS: Mapping[str, Text] = {
    "string": lambda data: data.decode(errors="replace"),
    "integer": lambda data: number(_INTEGER, data),
    "long": lambda data: number(_LONG, data),
    "bytes": lambda data: repr(data)[2:-1],
    "base64": lambda data: base64.b64encode(data).decode(),
}
"""How bytes are printed, by name."""


def plain(key: Text, value: Text) -> Decoder:
    """Return the decoder of plain data."""

    def decode(record: Record) -> tuple[str | None, str | None]:
        return (
            None if record.key is None else key(record.key),
            None if record.value is None else value(record.value),
        )

    return decode


def compact(value: Any) -> str:
    """Return JSON as Kafka's tools print it, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def coordinator(shapes: Mapping[int, Shape]) -> Decoder:
    """Return the decoder of a coordinator's topic."""

    def decode(record: Record) -> tuple[str | None, str | None]:
        if record.key is None:
            text = f"Failed to decode message at offset {record.offset} using the specified decoder"
            return f"{text} (message had a missing key)", None
        try:
            found = decode_record(shapes, CoordinatorRecord(record.key, record.value))
        except UnknownRecordType as error:
            return f"Unknown record {error} at offset {record.offset}, skipping.", None
        except ProtocolError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None
        key = compact({"type": str(int(found.type)), "data": to_json(found.key, 0)})
        if found.value is None or record.value is None:
            return key, DELETED
        version = int.from_bytes(record.value[:2], "big", signed=True)
        data = to_json(found.value, version)
        if isinstance(found.value, TransactionLogValue):
            data = {name: data[name] for name in sorted(data, key=TRANSACTION_ORDER.index)}
        if isinstance(found.value, GroupMetadataValue) and found.value.protocol_type == CONSUMER_PROTOCOL:
            read_members(found.value, data)
        return key, compact({"version": str(version), "data": data})

    return decode


def read_members(value: GroupMetadataValue, data: dict[str, Any]) -> None:
    """Put subscriptions and assignments of a group of consumers in the place of their bytes."""
    for member, shown in zip(value.members, data["members"], strict=True):
        subscription = read_subscription(member.subscription)
        if subscription is not None:
            told: dict[str, Any] = {"topics": subscription.topics, "userData": base64_of(subscription.user_data)}
            if subscription.owned is not None:
                told["ownedPartitions"] = partitions_of(subscription.owned)
            if subscription.generation_id is not None:
                told |= {"generationId": subscription.generation_id}
            if subscription.version >= RACK_VERSION:
                told["rackId"] = subscription.rack_id
            shown["subscription"] = told
        assignment = read_assignment(member.assignment) if member.assignment else None
        if assignment is not None:
            shown["assignment"] = {
                "assignedPartitions": partitions_of(assignment.places),
                "userData": base64_of(assignment.user_data),
            }


def partitions_of(places: list[Place]) -> list[dict[str, Any]]:
    """Return partitions below their topics."""
    return [{"topic": topic, "partitions": indexes} for topic, indexes in by_topic(places).items()]


def base64_of(data: bytes | None) -> str | None:
    """Return bytes as text."""
    return None if data is None else base64.b64encode(data).decode()


def cluster_metadata(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of the metadata log, which is JSON already: type, version, and the rest as its data."""
    try:
        found = json.loads(record.value or b"")
        shown = {"type": found.pop("type"), "version": found.pop("version", 0), "data": found}
    except (ValueError, AttributeError, KeyError, UnicodeDecodeError) as error:
        return None, f"Error at {record.offset}, skipping. {error!r}"
    return None, compact(shown)


offsets_decoder: Decoder = coordinator(GROUP_SHAPES)
transaction_log_decoder: Decoder = coordinator(TRANSACTION_SHAPES)
