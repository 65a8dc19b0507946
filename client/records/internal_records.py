"""Records of the coordinators' topics as objects: groups and their offsets, transactions. Sans-IO.

    {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}      a key
    {"version": "3", "data": {"offset": 7, ...}}                             a value

Source: Kafka's DumpLogSegments (CoordinatorRecordMessageParser, OffsetsMessageParser, TransactionLogMessageParser).
"""

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
from kvorum.protocol.consumer_protocol import CONSUMER_PROTOCOL, read_assignment, read_subscription
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.records import Record
from kvorum.protocol.struct_json import to_json
from kvorum.protocol.topic_partition import TopicPartition, by_topic

TRANSACTION_ORDER: Final = (
    *("producerId", "previousProducerId", "nextProducerId", "producerEpoch", "nextProducerEpoch"),
    *("transactionTimeoutMs", "transactionStatus", "transactionPartitions", "transactionLastUpdateTimestampMs"),
    *("transactionStartTimestampMs", "clientTransactionVersion"),
)
"""Kafka's schema has tagged fields next to their owners, our struct has them in byte order."""
RACK_VERSION: Final = 3
"""From here on a subscription names a rack."""
SHAPES_OF: Final[Mapping[str, Mapping[int, Shape]]] = MappingProxyType(
    {"__consumer_offsets": GROUP_SHAPES, "__transaction_state": TRANSACTION_SHAPES}
)
"""{topic: decoder of its records}."""


class Unreadable(Exception):
    """A record that this release cannot decode; the message is that of Kafka's tool."""


class DecodedRecord(NamedTuple):
    """A record's key, and its value: None forgets the key."""

    key: dict[str, Any]
    value: dict[str, Any] | None


def readable_record(shapes: Mapping[int, Shape], record: Record) -> DecodedRecord:
    """Decode a record of an internal topic. Raises Unreadable."""
    if record.key is None:
        text = f"Failed to decode message at offset {record.offset} using the specified decoder"
        raise Unreadable(f"{text} (message had a missing key)")
    try:
        found = decode_record(shapes, CoordinatorRecord(record.key, record.value))
    except UnknownRecordType as error:
        raise Unreadable(f"Unknown record {error} at offset {record.offset}, skipping.") from error
    except ProtocolError as error:
        raise Unreadable(f"Error at offset {record.offset}, skipping. {error}") from error
    key = {"type": str(int(found.type)), "data": to_json(found.key, 0)}
    if found.value is None or record.value is None:
        return DecodedRecord(key, None)
    version = int.from_bytes(record.value[:2], "big", signed=True)
    data = to_json(found.value, version)
    if isinstance(found.value, TransactionLogValue):
        data = {name: data[name] for name in sorted(data, key=TRANSACTION_ORDER.index)}
    if isinstance(found.value, GroupMetadataValue) and found.value.protocol_type == CONSUMER_PROTOCOL:
        read_members(found.value, data)
    return DecodedRecord(key, {"version": str(version), "data": data})


def read_members(value: GroupMetadataValue, data: dict[str, Any]) -> None:
    """Put subscriptions and assignments of a group of consumers in the place of their bytes."""
    for member, shown in zip(value.members, data["members"], strict=True):
        subscription = read_subscription(member.subscription)
        if subscription is not None:
            fields: dict[str, Any] = {"topics": subscription.topics, "userData": base64_of(subscription.user_data)}
            if subscription.owned is not None:
                fields["ownedPartitions"] = partitions_of(subscription.owned)
            if subscription.generation_id is not None:
                fields |= {"generationId": subscription.generation_id}
            if subscription.version >= RACK_VERSION:
                fields["rackId"] = subscription.rack_id
            shown["subscription"] = fields
        assignment = read_assignment(member.assignment) if member.assignment else None
        if assignment is not None:
            shown["assignment"] = {
                "assignedPartitions": partitions_of(assignment.places),
                "userData": base64_of(assignment.user_data),
            }


def partitions_of(places: list[TopicPartition]) -> list[dict[str, Any]]:
    """Return partitions below their topics."""
    return [{"topic": topic, "partitions": indexes} for topic, indexes in by_topic(places).items()]


def base64_of(data: bytes | None) -> str | None:
    """Return bytes as text."""
    return None if data is None else base64.b64encode(data).decode()
