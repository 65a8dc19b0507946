"""Registration of one partition (org.apache.kafka.metadata.PartitionRegistration). Sans-IO."""

from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET

from kvorum.protocol.uuids import ONE_UUID, ZERO_UUID, Uuid
from kvorum.quorum.records import NO_LEADER, RECOVERING, Partition, PartitionChange

UNASSIGNED_DIRECTORY: Final = ZERO_UUID
"""The broker has not assigned the replica to a log directory yet (KIP-858)."""
LOST_DIRECTORY: Final = ONE_UUID
"""The replica was in a directory that went offline."""


SharedDirectories: TypeAlias = dict[tuple[Uuid, ...], tuple[Uuid, ...]]
"""Equal ones are one object: there are few of them and many partitions, and the garbage collector walks each."""


class PartitionRegistration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition: its replicas (the first is the preferred leader), its ISR, its leader, and the epochs.

    `leader_epoch` grows with each change of leader and when a replica is removed, `partition_epoch` with every change.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int
    directories: tuple[Uuid, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: Partition, shared: SharedDirectories) -> "PartitionRegistration":
        """Make the registration that a Partition record describes."""
        directories = record.directories or (UNASSIGNED_DIRECTORY,) * len(record.replicas)
        assert len(directories) == len(record.replicas), "a directory for each replica"
        directories = shared.setdefault(directories, directories)
        return cls(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            leader_recovery_state=record.leader_recovery_state,
            directories=directories,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            elr=record.elr,
            last_known_elr=record.last_known_elr,
        )

    def to_record(self, topic_id: Uuid, partition_id: int) -> Partition:
        """Return the record that describes the whole of it, for a snapshot."""
        return Partition(
            topic_id=topic_id,
            partition_id=partition_id,
            replicas=self.replicas,
            isr=self.isr,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            leader_recovery_state=self.leader_recovery_state,
            removing_replicas=self.removing_replicas,
            adding_replicas=self.adding_replicas,
            directories=self.directories,
            elr=self.elr,
            last_known_elr=self.last_known_elr,
        )

    def merge(self, change: PartitionChange) -> "PartitionRegistration":
        """Return the registration after the change: partition epoch + 1, leader epoch + 1 where a leader is set."""
        replicas = self.replicas if change.replicas is UNSET else change.replicas
        merged = PartitionRegistration(
            replicas=replicas,
            isr=self.isr if change.isr is UNSET else change.isr,
            leader=self.leader if change.leader is UNSET else change.leader,
            leader_epoch=self.leader_epoch if change.leader is UNSET else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=(
                self.leader_recovery_state if change.leader_recovery_state is UNSET else change.leader_recovery_state
            ),
            directories=self.directories if change.directories is UNSET else change.directories,
            removing_replicas=self.removing_replicas if change.removing_replicas is UNSET else change.removing_replicas,
            adding_replicas=self.adding_replicas if change.adding_replicas is UNSET else change.adding_replicas,
            elr=self.elr if change.elr is UNSET else change.elr,
            last_known_elr=self.last_known_elr if change.last_known_elr is UNSET else change.last_known_elr,
        )
        assert len(merged.directories) == len(replicas), "a change of replicas brings their directories"
        return merged

    @property
    def has_leader(self) -> bool:
        """Return whether it is online."""
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        """The first replica."""
        return self.replicas[0]

    @property
    def eligible(self) -> tuple[int, ...]:
        """The ELR and the last known leader: replicas that may lead although they are not in the ISR (KIP-966)."""
        return self.elr if not self.last_known_elr else tuple(dict.fromkeys((*self.elr, *self.last_known_elr)))

    @property
    def recovering(self) -> bool:
        """Return whether it was elected uncleanly and the leader has not finished recovery (KIP-704)."""
        return self.leader_recovery_state == RECOVERING

    @property
    def is_imbalanced(self) -> bool:
        """Return whether the partition is not led by its preferred leader."""
        return self.leader != self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        """Return whether replicas are being added or removed."""
        return bool(self.removing_replicas or self.adding_replicas)

    def directory(self, broker_id: int) -> Uuid:
        """Return the log directory of this broker's replica. The broker has to be a replica."""
        return self.directories[self.replicas.index(broker_id)]
