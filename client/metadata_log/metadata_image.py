"""The metadata at an offset, from a snapshot and the log after it, of any source.

Commands and the HTTP API read the log over the wire (metadata_fetch), or from files (the command line's). Records that
a snapshot has replaced are not available. Sans-IO except for the Source.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.errors import ErrorCode, KafkaError, KafkaException
from kvorum.quorum.batches import decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.records import UnknownRecord
from kvorum.quorum.snapshots import SnapshotDamaged, load_snapshot
from kvorum.quorum.steps import finish

Raw = tuple[memoryview, BatchHeader]
"""A batch's bytes, and its header."""


class MetadataProblem(KafkaException):
    """Metadata that are unreadable or missing; the message has the reason."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class LogSizeError(MetadataProblem):
    """The metadata log is larger than the caller's limit."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source of metadata: existing snapshots, their reader, and the batches from an offset on."""

    snapshots: Sequence[SnapshotId]
    read_snapshot: Callable[[SnapshotId], Iterator[bytes]]
    read_batches: Callable[[int], Iterator[Raw]]


def image_at(source: Source, at: int | None) -> MetadataImage:
    """Return the image behind the record at an offset, or the last there is. Raises MetadataProblem, OSError.

    An offset inside a batch counts the records up to it; a transaction that is open there does not count.
    """
    usable = [each for each in source.snapshots if at is None or each.end_offset - 1 <= at]
    image, transactions = MetadataImage(), TransactionBuffer()
    try:
        if usable:
            loaded = finish(load_snapshot(usable[-1], source.read_snapshot(usable[-1])))
            image, transactions = loaded.image, loaded.transactions
        offset, epoch, expected = image.offset, image.epoch, image.offset + 1
        delta = MetadataDelta(image)
        for view, header in source.read_batches(expected):
            if header.next_offset <= expected:
                continue
            if header.base_offset > expected:
                begins = f"the log begins at {header.base_offset}"
                raise MetadataProblem(f"offset {expected} is not available: {begins}, and no snapshot covers it")
            if at is not None and header.base_offset > at:
                break
            for number, record in enumerate(decode_batch(view, 0, header), header.base_offset):
                if at is not None and number > at:
                    break
                for place, ready in transactions.feed(number, record):
                    delta.replay(ready, place)
                offset = number
            epoch, expected = header.partition_leader_epoch, header.next_offset
    except (KafkaError, UnknownRecord, SnapshotDamaged) as error:
        raise MetadataProblem(str(error)) from error
    if at is not None and (at > offset or offset < 0):
        raise MetadataProblem(f"offset {at} does not exist: the log ends at {offset}")
    return delta.apply(offset, epoch)
