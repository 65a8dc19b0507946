"""Computes one partition's next state: leader, ISR, and the record (Kafka's PartitionChangeBuilder).

Sans-IO. A builder starts from a registration, gets the requested change (a target ISR, an election, ...), and builds
one PartitionChange, or none without a change. Its guarantees:

- the leader is in the ISR and acceptable (unfenced, not shutting down, its log directory online), or there is no
  leader;
- without eligible leader replicas the last member of an ISR stays in it, even if it failed: only it is known to have
  all acknowledged records;
- only an unclean election chooses a leader from outside ISR and ELR: the ISR becomes it alone, the state RECOVERING;
- the leader epoch grows when the leader changes or a replica is removed (not for an ISR that shrinks: KAFKA-15021).

With eligible leader replicas (KIP-966): a member that leaves an ISR that is, or falls, below min.insync.replicas is in
the ELR from then on. No high watermark advances while an ISR is that small, so it still has all acknowledged records;
when the ISR is empty, a live ELR member leads, cleanly. A replica that returns from an unclean shutdown may have lost
unsynced records: it leaves the ELR. When ISR and ELR are empty, elections wait only for the last leader itself (the one
member of `last_known_elr`), unless its log is known to be gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec import UNSET, UnsetType

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import Acceptable
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.records import NO_LEADER, RECOVERING, PartitionChange

NOBODY: Final = -1


class Election(Enum):
    """Kind of an election.

    PREFERRED: the first replica if it is in the ISR; else as ONLINE. ONLINE: the leader stays if it may, else the first
    replica of the ISR that may. UNCLEAN: as ONLINE, and if no such replica exists, the first live replica, with data
    loss. Replicas that a reassignment adds come last, since their logs may be empty. RELIEF: as ONLINE, but a leader in
    maintenance stays only if no other ISR member may lead.
    """

    PREFERRED = "preferred"
    RELIEF = "relief"
    ONLINE = "online"
    UNCLEAN = "unclean"


@dataclass(slots=True, kw_only=True)
class PartitionChangeBuilder:
    """Builds a PartitionChange. A target of None means unchanged."""

    topic_id: Uuid
    partition_id: int
    partition: PartitionRegistration
    is_acceptable_leader: Acceptable
    default_directory: Callable[[int], Uuid]
    is_online_directory: Callable[[int, Uuid], bool] = lambda broker_id, directory: True
    """Whether a replica in this directory of a broker works, as far as is known (KIP-858)."""
    election: Election = Election.ONLINE
    is_resting: Acceptable = lambda broker_id: False
    """Whether a broker is in maintenance: it is elected only without another candidate in the ISR."""
    target_isr: tuple[int, ...] | None = None
    target_replicas: tuple[int, ...] | None = None
    target_removing: tuple[int, ...] | None = None
    target_adding: tuple[int, ...] | None = None
    target_recovery_state: int | None = None
    target_directory: tuple[int, Uuid] | None = None
    """A replica and its log directory."""
    elr_enabled: bool = False
    min_isr: int = 1
    """The topic's effective one; it matters to the ELR alone."""
    unclean_shutdown: int = NOBODY
    """A replica that may have lost unsynced records: never eligible because of its former state."""
    lost: int = NOBODY
    """A replica whose log was lost with its directory: elections do not wait for it as the last leader."""

    def build(self) -> PartitionChange | None:
        """Return the change, None where nothing changes."""
        before = self.partition
        isr = before.isr if self.target_isr is None else self.target_isr
        replicas = before.replicas if self.target_replicas is None else self.target_replicas
        removing = before.removing_replicas if self.target_removing is None else self.target_removing
        adding = before.adding_replicas if self.target_adding is None else self.target_adding
        if removing or adding:
            isr, replicas, removing, adding = complete_reassignment(isr, replicas, removing, adding)
        elr = self._eligible(isr, replicas)
        leader, unclean = self.elect(isr, replicas, elr)
        recovery = before.leader_recovery_state if self.target_recovery_state is None else self.target_recovery_state
        if unclean:
            isr, elr, recovery = (leader,), (), RECOVERING
        elif leader in elr:
            isr = (leader,)
            elr = tuple(replica for replica in elr if replica != leader) if self.min_isr > 1 else ()
        elif not isr and not self.elr_enabled:
            isr = before.isr
        last_known = self._last_known(isr, leader)
        directories = self._directories(replicas)
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
            directories=UNSET if directories == before.directories else directories,
            elr=UNSET if elr == before.elr else elr,
            last_known_elr=UNSET if last_known == before.last_known_elr else last_known,
        )
        return None if is_no_op(change) else change

    def elect(self, isr: tuple[int, ...], replicas: tuple[int, ...], elr: tuple[int, ...] = ()) -> tuple[int, bool]:
        """Return the next leader, and whether its election is unclean. The ELR counts if the ISR is empty."""
        current = self.partition.leader
        preferred = replicas[0]
        candidates = isr or elr
        able = [replica for replica in replicas if replica in candidates and self._may_lead(replica)]
        willing = [replica for replica in able if not self.is_resting(replica)]
        if self.election is Election.PREFERRED and preferred in willing:
            return preferred, False
        if current in willing or (current in able and not (self.election is Election.RELIEF and willing)):
            return current, False
        if able:
            return (willing or able)[0], False
        last_leader = self._last_leader() if not candidates else NO_LEADER
        if last_leader in replicas and self._may_lead(last_leader):
            return last_leader, True
        if self.election is Election.UNCLEAN:
            adding = self.partition.adding_replicas if self.target_adding is None else self.target_adding
            for replica in sorted(replicas, key=adding.__contains__):
                if self._may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_lead(self, replica: int) -> bool:
        return self.is_acceptable_leader(replica) and self.is_online_directory(replica, self._directory(replica))

    def _eligible(self, isr: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Return the ELR that goes with an ISR: none where the ISR is large enough to move the high watermark."""
        if not self.elr_enabled or len(isr) >= self.min_isr:
            return ()
        had_all = (*self.partition.elr, *(each for each in self.partition.isr if each not in self.partition.elr))
        return tuple(r for r in had_all if r not in isr and r in replicas and r != self.unclean_shutdown)

    def _last_leader(self) -> int:
        """Return the last leader of a partition with empty ISR and ELR, NO_LEADER if unknown or its log is lost."""
        known = self.partition.last_known_elr
        if not self.elr_enabled or len(known) != 1 or known[0] == self.lost:
            return NO_LEADER
        return known[0]

    def _last_known(self, isr: tuple[int, ...], leader: int) -> tuple[int, ...]:
        """Return the last known leader to store: set when the ISR becomes empty, cleared with the next leader."""
        before = self.partition
        if not self.elr_enabled or leader != NO_LEADER or isr:
            return ()
        if not before.isr:
            return () if self._last_leader() == NO_LEADER else before.last_known_elr
        last = before.leader if before.leader in before.isr else before.isr[0]
        return () if last == self.lost else (last,)

    def _directories(self, replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
        """Return the directories of the replicas: unchanged for present ones, the broker's default for new ones."""
        return tuple(map(self._directory, replicas))

    def _directory(self, replica: int) -> Uuid:
        if self.target_directory is not None and self.target_directory[0] == replica:
            return self.target_directory[1]
        known = self.partition
        return known.directory(replica) if replica in known.replicas else self.default_directory(replica)


def is_no_op(change: PartitionChange) -> bool:
    """Return whether a change is empty; writing it would only bump the partition epoch."""
    return (
        change.isr is UNSET
        and change.leader is UNSET
        and change.leader_recovery_state is UNSET
        and change.replicas is UNSET
        and change.removing_replicas is UNSET
        and change.adding_replicas is UNSET
        and change.directories is UNSET
        and change.elr is UNSET
        and change.last_known_elr is UNSET
    )


def complete_reassignment(
    isr: tuple[int, ...], replicas: tuple[int, ...], removing: tuple[int, ...], adding: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return (ISR, replicas, removing, adding), finished if the ISR permits it, else unchanged.

    Finished: all added ones are in sync, and a staying one is in sync; if more leave than join, all staying ones are in
    sync (KIP-455, PartitionReassignmentReplicas).
    """
    kept_isr = tuple(replica for replica in isr if replica not in removing)
    kept = tuple(replica for replica in replicas if replica not in removing)
    needed = kept if len(adding) < len(removing) else adding
    if not kept_isr or not set(needed) <= set(kept_isr):
        return isr, replicas, removing, adding
    return kept_isr, kept, (), ()
