"""Transaction markers: the control batches that end a transaction in a partition's log. Sans-IO.

A marker is one record in a separate batch, marked as control and transactional, without a sequence number. Key:
version int16 (0), type int16. Value: version int16 (0), coordinator epoch int32. Source: Kafka's ControlRecordType,
EndTransactionMarker and MemoryRecords.withEndTransactionMarker.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from kvorum.protocol.records import Record, build_batch

CONTROL_KEY: Final = Struct(">hh")
MARKER_VALUE: Final = Struct(">hi")
CONTROL_KEY_VERSION: Final = 0
MARKER_VERSION: Final = 0


class ControlType(IntEnum):
    """Result of a transaction. Other control records belong to the metadata quorum."""

    ABORT = 0
    COMMIT = 1


def marker(
    producer_id: int, producer_epoch: int, *, is_commit: bool, coordinator_epoch: int, timestamp: int
) -> bytearray:
    """Return the batch that ends this producer's transaction, as a leader's log takes it; `timestamp` in ms."""
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    record = Record(
        key=CONTROL_KEY.pack(CONTROL_KEY_VERSION, kind),
        value=MARKER_VALUE.pack(MARKER_VERSION, coordinator_epoch),
        timestamp=timestamp,
    )
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
