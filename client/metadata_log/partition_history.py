"""History of one partition in the metadata log: leaders, ISRs, reassignments. Sans-IO.

The log has the records of all partitions. Most are only checked for the topic's id.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from kvorum.client.metadata_log.metadata_events import MetadataEvent, MetadataEventBuilder, PartitionState
from kvorum.client.metadata_log.metadata_image import Raw, Source, image_at
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import check_crc, decode_records
from kvorum.protocol.uuids import Uuid

TRANSACTIONS: Final = b"Transaction"
"""Records that begin and end a change of several records (KIP-868); such a change counts when it is complete."""


def history_of(source: Source, topic: str, topic_id: Uuid, partition: int) -> list[MetadataEvent]:
    """Return the events of a partition, oldest first. Raises MetadataProblem, KafkaError CORRUPT_MESSAGE.

    Takes milliseconds per thousand records, and the time to read a snapshot: call it outside the loop.
    """
    builder = MetadataEventBuilder(names={str(topic_id): topic})
    key = (str(topic_id), partition)
    if source.snapshots:
        known = image_at(source, source.snapshots[-1].end_offset - 1).topics.partition(topic_id, partition)
        if known is not None:
            builder.partitions[key] = PartitionState(known.leader, known.leader_epoch, list(known.isr))
    begin = source.snapshots[-1].end_offset if source.snapshots else 0
    found = events_of(builder, source.read_batches(begin), str(topic_id).encode())
    return [each for each in found if (each.topic_id, each.partition) == key]


def events_of(builder: MetadataEventBuilder, log: Iterable[Raw], naming: bytes) -> Iterator[MetadataEvent]:
    """Yield the events of records that contain some bytes. Raises KafkaError CORRUPT_MESSAGE."""
    for view, header in log:
        check_crc(view, 0, header)
        if header.is_control:
            continue
        for record in decode_records(view, 0):
            value = record.value or b""
            if naming not in value and TRANSACTIONS not in value:
                continue
            try:
                yield from builder.take(record.offset, record.timestamp, json.loads(value))
            except (ValueError, TypeError, AttributeError) as error:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"metadata at offset {record.offset}: {error}") from error
