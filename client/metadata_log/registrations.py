"""Registrations of brokers in the metadata log: epoch, incarnation, log directories.

Only the brokers are kept, and each request continues with the log where the last one ended: a small part, however large
the metadata are.
"""

from collections.abc import Sequence

from kvorum.client.metadata_log.metadata_image import MetadataProblem, Raw
from kvorum.protocol.errors import KafkaError
from kvorum.quorum.batches import decode_batch
from kvorum.quorum.image import MetadataImage, TransactionBuffer
from kvorum.quorum.image.cluster import BrokerRegistration, ClusterDelta, ClusterImage
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.records import BrokerRegistrationChange, RegisterBroker, UnknownRecord, UnregisterBroker
from kvorum.quorum.snapshots import SnapshotDamaged, load_snapshot
from kvorum.quorum.steps import finish


class Registrations:
    """Brokers in a log, up to the offset that was read. The owner has exclusive use of it."""

    def __init__(self) -> None:
        """Stand before the first record."""
        self._cluster = ClusterImage()
        self._transactions = TransactionBuffer()
        self._next = 0

    @classmethod
    def of_snapshot(cls, snapshot_id: SnapshotId, data: bytes) -> "Registrations":
        """Stand behind a snapshot. Raises MetadataProblem."""
        found = cls()
        try:
            loaded = finish(load_snapshot(snapshot_id, [data]))
        except (KafkaError, UnknownRecord, SnapshotDamaged) as error:
            raise MetadataProblem(str(error)) from error
        image: MetadataImage = loaded.image
        found._cluster, found._transactions, found._next = image.cluster, loaded.transactions, snapshot_id.end_offset
        return found

    @property
    def next_offset(self) -> int:
        """The record that is read next."""
        return self._next

    def read(self, log: Sequence[Raw]) -> dict[int, BrokerRegistration]:
        """Continue with these batches, which begin at the next record or before; return all brokers by id.

        Raises MetadataProblem: no further reads are possible then.
        """
        delta = ClusterDelta(self._cluster)
        try:
            for view, header in log:
                for offset, record in enumerate(decode_batch(view, 0, header), header.base_offset):
                    if offset < self._next:
                        continue
                    for _, ready in self._transactions.feed(offset, record):
                        match ready:
                            case RegisterBroker():
                                delta.replay_register(ready)
                            case UnregisterBroker():
                                delta.replay_unregister(ready)
                            case BrokerRegistrationChange():
                                delta.replay_change(ready)
                self._next = header.next_offset
        except (KafkaError, UnknownRecord) as error:
            raise MetadataProblem(str(error)) from error
        self._cluster = delta.apply()
        return {broker.broker_id: broker for broker in self._cluster.sorted_brokers()}
