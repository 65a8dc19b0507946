"""The in-sync replicas of a partition, in its leader's view: committed, or with one change in flight.

Sans-IO.

    Committed --expand--> PendingExpand --response--> Committed (the controller's ISR)
              --shrink--> PendingShrink --response--> PendingShrink, until newer metadata confirm it
    Pending*  --rejected for certain--> the last Committed
    Pending*  --anything else--> stays, and is sent again or waits for metadata
    any       --newer metadata--> Committed

Invariants: at most one change is in flight. The *maximal* ISR is the largest that the controller's ISR can be: it
contains a member that is being added, and one that is being removed. The high watermark covers the maximal ISR, so no
response, late, lost or repeated, can make it wrong.

The high watermark waits for a leaving member until the metadata log contains the removal, and not until the response,
as in Kafka: only then does the leader know every min.insync.replicas with which the controller decided on its
eligibility (KIP-966). An answer may overtake an increase of it; an eligible replica, which may be elected, would then
lack records that the leader alone commits. Source: KIP-497, Kafka's PartitionState.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.uuids import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionProposal:
    """One partition's part of an AlterPartition request. Compared by identity: an answer belongs to one proposal.

    `isr` is in the order of the assignment, each member with the broker epoch it fetched with.
    """

    topic: str
    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionAnswer:
    """The controller's partition state after a proposal was applied (or changed nothing)."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The controller's last state, without a proposal in flight."""

    isr: frozenset[int]

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The ISR itself."""
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingExpandIsr:
    """A follower is to join."""

    new_in_sync_replica_id: int
    proposal: AlterPartitionProposal
    last_committed: CommittedIsr
    maximal_isr: frozenset[int]

    @property
    def isr(self) -> frozenset[int]:
        """The ISR in the controller's last state."""
        return self.last_committed.isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingShrinkIsr:
    """Followers are to leave."""

    out_of_sync_replica_ids: frozenset[int]
    proposal: AlterPartitionProposal
    last_committed: CommittedIsr

    @property
    def isr(self) -> frozenset[int]:
        """The ISR in the controller's last state."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The ISR including leaving members: the controller may not have removed them."""
        return self.last_committed.isr


IsrState: TypeAlias = CommittedIsr | PendingExpandIsr | PendingShrinkIsr


class AfterRefusal(Enum):
    """Action of a leader after the controller rejected its proposal."""

    ROLL_BACK = "roll back"
    """It was not applied and never will be: back to the last committed ISR."""
    AWAIT_METADATA = "await metadata"
    """It is unknown whether the change was applied: keep the maximal ISR until the metadata log shows it."""
    RETRY = "retry"
    """The same proposal again."""


NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller checks these last: the partition epoch was right, so no earlier copy of the request was applied."""
OUT_OF_DATE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""There is newer metadata than ours (NEW_LEADER_ELECTED: the change was applied, with another leader)."""


def after_refusal(error: ErrorCode) -> AfterRefusal:
    """Judge a refusal. Source: Partition.handleAlterPartitionError."""
    if error in NOT_APPLIED:
        return AfterRefusal.ROLL_BACK
    if error in OUT_OF_DATE:
        return AfterRefusal.AWAIT_METADATA
    return AfterRefusal.RETRY
