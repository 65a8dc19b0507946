"""A process's copy of the metadata as its files have it: snapshots and log, replayed to any offset they reach."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.records import batches
from kvorum.quorum.batches import METADATA_FOLDER, decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.raft.snapshot import open_snapshot
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.snapshots import decode_snapshot
from kvorum.runtime.disk import OsDisk

CHECKPOINT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(slots=True)
class StoredMetadata:
    """One node's copy: {end offset: records} of its snapshots, {base offset: (header, bytes)} of its log."""

    snapshots: dict[int, list[MetadataRecord]] = field(default_factory=dict)
    log: dict[int, tuple[BatchHeader, bytes]] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return max([0, *self.snapshots, *(header.next_offset for header, _ in self.log.values())])

    def image_at(self, wanted: int) -> MetadataImage | None:
        """Replay up to an end offset; None where the copy begins behind it or lacks something on the way."""
        offset = max((end for end in self.snapshots if end <= wanted), default=0)
        transactions = TransactionBuffer()
        image = _replay(MetadataImage(), transactions, 0, self.snapshots.get(offset, []))
        while offset < wanted:
            if offset not in self.log:
                return None
            header, data = self.log[offset]
            image = _replay(image, transactions, offset, decode_batch(memoryview(data), 0, header))
            offset = header.next_offset
        return image


def _replay(
    image: MetadataImage, transactions: TransactionBuffer, base_offset: int, records: Iterable[MetadataRecord]
) -> MetadataImage:
    """Return the image after these records; those of an open transaction wait for its end."""
    delta = MetadataDelta(image)
    for _, record in transactions.feed_batch(base_offset, records):
        delta.replay(record)
    return delta.apply(base_offset, 1)


def read_metadata(directory: Path) -> StoredMetadata:
    """Read a metadata directory: the log of every role, a controller's Raft snapshots, a broker's checkpoints.

    Raises OSError, KafkaError, ValueError.
    """
    found = StoredMetadata()
    for path in sorted((directory / METADATA_FOLDER).glob("*.log")):
        view = memoryview(path.read_bytes())
        for position, header in batches(view):
            found.log[header.base_offset] = header, bytes(view[position : position + header.size])
    for path in (directory / METADATA_FOLDER).glob("*.checkpoint"):
        named = CHECKPOINT.fullmatch(path.name)
        if named is not None:
            found.snapshots[int(named[1])] = _records([path.read_bytes()])
    for path in (directory / "raft" / "snapshots").glob("*.snapshot"):
        snapshot = open_snapshot(OsDisk(), str(path))
        try:
            found.snapshots[snapshot.snapshot_id.end_offset] = _records(snapshot.chunks())
        finally:
            snapshot.close()
    return found


def _records(chunks: Iterable[bytes]) -> list[MetadataRecord]:
    return [record for _, records in decode_snapshot(chunks) for record in records]
