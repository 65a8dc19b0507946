"""Formatters of kafka-console-consumer for the coordinators' internal topics: records as JSON.

Source: OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from kvorum.cli.kafka.deserializers import as_bytes
from kvorum.cli.records.record_decoders import DELETED, Decoder, compact, offsets_decoder, transaction_log_decoder
from kvorum.protocol.records import Record

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFormatter:
    """Prints the records of a coordinator's topic as JSON; other types are not printed, as in Kafka."""

    decoder: Decoder
    types: frozenset[int]

    def write(self, message: "Message", out: BinaryIO) -> None:
        """Write one record."""
        key, payload = self.decoder(Record(key=as_bytes(message.key()), value=as_bytes(message.value())))
        if key is None or not key.startswith("{"):
            return
        fields = json.loads(key)
        fields["type"] = int(fields["type"])
        if fields["type"] not in self.types:
            return
        value = None
        if payload is not None and payload != DELETED:
            value = json.loads(payload)
            value["version"] = int(value["version"])
        out.write(compact({"key": fields, "value": value}).encode() + b"\n")


COORDINATOR_FORMATTERS = {
    "OffsetsMessageFormatter": CoordinatorFormatter(decoder=offsets_decoder, types=frozenset({0, 1})),
    "GroupMetadataMessageFormatter": CoordinatorFormatter(
        decoder=offsets_decoder, types=frozenset({2, 3, 4, 5, 6, 7, 8, 16})
    ),
    "TransactionLogMessageFormatter": CoordinatorFormatter(decoder=transaction_log_decoder, types=frozenset({0})),
}
"""By Kafka's class name, each with the record types that it prints."""
