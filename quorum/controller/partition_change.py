"""One partition's next state: who leads, who is in sync, and the record that says so (Kafka's PartitionChangeBuilder).

Sans-IO. A builder starts from a registration, is told what is wanted (a target ISR, an election, ...), and builds the
one PartitionChange that leads there, or none where nothing changes. What it guarantees:

- the leader is in the ISR and acceptable (unfenced, not shutting down), or there is none;
- the last member of an ISR stays in it, also when it is gone: only it is known to have all that was acknowledged;
- only an unclean election chooses a leader from outside the ISR: the ISR becomes it alone, the state RECOVERING;
- the leader epoch grows when the leader changes or a replica is removed (not for an ISR that shrinks: KAFKA-15021).

Eligible leader replicas (KIP-966) slot in where the target ISR is settled: their feature's level is 0 until then, and
the fields stay empty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from msgspec import UNSET, UnsetType

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import Acceptable
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.records import NO_LEADER, RECOVERING, PartitionChange


class Election(Enum):
    """What an election is for.

    PREFERRED: the first replica if it is in the ISR; else as ONLINE. ONLINE: the leader stays if it may, else the
    first replica of the ISR that may. UNCLEAN: as ONLINE, and if nobody is left, the first live replica: loss.
    """

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


@dataclass(slots=True, kw_only=True)
class PartitionChangeBuilder:
    """See the head of the module. None of a target means: as it is."""

    topic_id: Uuid
    partition_id: int
    partition: PartitionRegistration
    is_acceptable_leader: Acceptable
    default_directory: Callable[[int], Uuid]
    election: Election = Election.ONLINE
    target_isr: tuple[int, ...] | None = None
    target_replicas: tuple[int, ...] | None = None
    target_removing: tuple[int, ...] | None = None
    target_adding: tuple[int, ...] | None = None
    target_recovery_state: int | None = None

    def build(self) -> PartitionChange | None:
        """Return the change, None where nothing changes."""
        before = self.partition
        isr = before.isr if self.target_isr is None else self.target_isr
        replicas = before.replicas if self.target_replicas is None else self.target_replicas
        removing = before.removing_replicas if self.target_removing is None else self.target_removing
        adding = before.adding_replicas if self.target_adding is None else self.target_adding
        if removing or adding:
            isr, replicas, removing, adding = complete_reassignment(isr, replicas, removing, adding)
        leader, unclean = self.elect(isr, replicas)
        recovery = before.leader_recovery_state if self.target_recovery_state is None else self.target_recovery_state
        if unclean:
            isr, recovery = (leader,), RECOVERING
        elif not isr:
            isr = before.isr
        new_leader: int | UnsetType = UNSET
        if leader != before.leader or not set(before.replicas) <= set(replicas):
            new_leader = leader
        change = PartitionChange(
            topic_id=self.topic_id,
            partition_id=self.partition_id,
            isr=UNSET if isr == before.isr else isr,
            leader=new_leader,
            leader_recovery_state=UNSET if recovery == before.leader_recovery_state else recovery,
            replicas=UNSET if replicas == before.replicas else replicas,
            removing_replicas=UNSET if removing == before.removing_replicas else removing,
            adding_replicas=UNSET if adding == before.adding_replicas else adding,
            directories=UNSET if replicas == before.replicas else self._directories(replicas),
        )
        return None if is_no_op(change) else change

    def elect(self, isr: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, bool]:
        """Return who leads, and whether that is unclean."""
        current = self.partition.leader
        preferred = replicas[0]
        if self.election is Election.PREFERRED and preferred in isr and self.is_acceptable_leader(preferred):
            return preferred, False
        if current in isr and self.is_acceptable_leader(current):
            return current, False
        for replica in replicas:
            if replica in isr and self.is_acceptable_leader(replica):
                return replica, False
        if self.election is Election.UNCLEAN:
            for replica in replicas:
                if self.is_acceptable_leader(replica):
                    return replica, True
        return NO_LEADER, False

    def _directories(self, replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
        """Return where the replicas lie: those that stay where they lay, new ones in their broker's default."""
        known = dict(zip(self.partition.replicas, self.partition.directories, strict=True))
        return tuple(known[replica] if replica in known else self.default_directory(replica) for replica in replicas)


def is_no_op(change: PartitionChange) -> bool:
    """Tell whether nothing is set in a change; to write it would only bump the partition epoch."""
    return (
        change.isr is UNSET
        and change.leader is UNSET
        and change.leader_recovery_state is UNSET
        and change.replicas is UNSET
        and change.removing_replicas is UNSET
        and change.adding_replicas is UNSET
        and change.directories is UNSET
    )


def complete_reassignment(
    isr: tuple[int, ...], replicas: tuple[int, ...], removing: tuple[int, ...], adding: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return (ISR, replicas, removing, adding), finished if the ISR has what a reassignment needs, else as they are.

    Finished: all that are added are in sync, and somebody in sync stays (KIP-455, PartitionReassignmentReplicas).
    """
    kept_isr = tuple(replica for replica in isr if replica not in removing)
    if not kept_isr or not set(adding) <= set(kept_isr):
        return isr, replicas, removing, adding
    return kept_isr, tuple(replica for replica in replicas if replica not in removing), (), ()
