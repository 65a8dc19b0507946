"""What the metadata copies of stopped nodes say: each node's snapshot and log, replayed and compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kvorum.cluster.local import LocalCluster
from kvorum.protocol.records import BatchHeader, batches
from kvorum.quorum.batches import METADATA_FOLDER, decode_batch
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.raft.snapshot import open_snapshot
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.snapshots import SnapshotFiles, decode_snapshot
from kvorum.runtime.disk import OsDisk


@dataclass(slots=True)
class StoredCopy:
    """One node's copy: {end offset: records} of its snapshots, {base offset: (header, bytes)} of its log."""

    name: str
    snapshots: dict[int, list[MetadataRecord]] = field(default_factory=dict)
    log: dict[int, tuple[BatchHeader, bytes]] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        """What the next record's offset would be."""
        ends = [header.next_offset for header, _ in self.log.values()]
        return max([0, *self.snapshots, *ends])

    def image_at(self, wanted: int) -> MetadataImage:
        """Replay up to an end offset, or to the end of the oldest snapshot where the copy begins later."""
        usable = [end for end in self.snapshots if end <= wanted] or sorted(self.snapshots)[:1]
        offset = max(usable, default=0)
        wanted = max(wanted, offset)
        transactions = TransactionBuffer()
        image = replayed(MetadataImage(), transactions, 0, self.snapshots.get(offset, []))
        while offset < wanted:
            assert offset in self.log, f"{self.name}: nothing stored follows offset {offset}"
            header, data = self.log[offset]
            image = replayed(image, transactions, offset, decode_batch(memoryview(data), 0, header))
            offset = header.next_offset
        return image


def replayed(
    image: MetadataImage, transactions: TransactionBuffer, base_offset: int, records: Iterable[MetadataRecord]
) -> MetadataImage:
    """Return the image after these records; those of an open transaction wait for its end."""
    delta = MetadataDelta(image)
    for _, record in transactions.feed_batch(base_offset, records):
        delta.replay(record)
    return delta.apply(base_offset, 1)


def stored_copy(cluster: LocalCluster, name: str) -> StoredCopy:
    """Read a stopped node's copy: the log of every role, a controller's Raft snapshots, a broker's checkpoints."""
    data = Path(cluster.node(name).data)
    disk, copy = OsDisk(), StoredCopy(name)
    for path in sorted((data / METADATA_FOLDER).glob("*.log")):
        view = memoryview(path.read_bytes())
        for position, header in batches(view):
            copy.log[header.base_offset] = header, bytes(view[position : position + header.size])
    files = SnapshotFiles(disk, str(data / METADATA_FOLDER))
    for snapshot_id in files.ids():
        copy.snapshots[snapshot_id.end_offset] = records_of(files.read(snapshot_id))
    for path in (data / "raft" / "snapshots").glob("*.snapshot"):
        snapshot = open_snapshot(disk, str(path))
        copy.snapshots[snapshot.snapshot_id.end_offset] = records_of(snapshot.chunks())
        snapshot.close()
    return copy


def records_of(chunks: Iterable[bytes]) -> list[MetadataRecord]:
    """Return all records of a snapshot, which has to be whole."""
    return [record for _, records in decode_snapshot(chunks) for record in records]


def assert_copies_are_equal(cluster: LocalCluster, *names: str) -> list[StoredCopy]:
    """The nodes' stored batches are equal where they overlap, and so are their images at the common end.

    A copy that begins behind the common end with its snapshot is compared there: nothing but signs of life may lie
    between the two, as after a pause. Returns the copies.
    """
    copies = [stored_copy(cluster, name) for name in names]
    known: dict[int, tuple[str, bytes]] = {}
    for copy in copies:
        for offset, (_, data) in copy.log.items():
            other, before = known.setdefault(offset, (copy.name, data))
            assert before == data, f"the batches at {offset} of {other} and {copy.name} differ"
    common = min(copy.end_offset for copy in copies)
    assert common > 0
    digests = {copy.name: copy.image_at(common).digest() for copy in copies}
    assert len(set(digests.values())) == 1, digests
    return copies
