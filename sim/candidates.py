"""Election candidates: every running member of ISR and ELR has all committed records (LeaderCandidateCompleteness).

Suspects (broker_incarnations) are excluded, also elections that may lose records according to the ledger. But a replica
that lost its log with the log's directory is no candidate once the controllers know the broker's next registration.
"""

from collections.abc import Callable

from kvorum.quorum.image.partition import PartitionRegistration
from sim.broker_incarnations import BrokerIncarnations
from sim.ledger import Ledger, Violation
from sim.metadata_watch import MetadataWatch
from sim.replica_state import Key, ReplicaState


class Candidates:
    """One per run. Each check raises Violation."""

    def __init__(self, metadata: MetadataWatch, incarnations: BrokerIncarnations) -> None:
        """Judge by the controllers' committed metadata."""
        self._metadata = metadata
        self._incarnations = incarnations

    def check_all(self, key: Key, ledger: Ledger) -> None:
        """Compare a partition's candidates with the committed records, after a change of either."""
        registration = self._metadata.partition(key)
        if registration is not None:
            for broker_id in {*registration.isr, *registration.elr}:
                each = self._incarnations.replica(broker_id, key)
                if each is not None:
                    self.check(broker_id, each, ledger, "is a candidate")

    def check(self, broker_id: int, each: ReplicaState, ledger: Ledger, why: str) -> None:
        """Check one replica against the committed batches, if it is a candidate; `why` is its last event."""
        registration = self._metadata.partition(each.key)
        if registration is None or (broker_id not in registration.isr and broker_id not in registration.elr):
            return
        if registration.leader_epoch in ledger.legal_losses or self._incarnations.is_suspect(broker_id, each.key):
            return
        lacks = ledger.missing_batches(each.shadow)
        if lacks is not None:
            raise Violation(
                "LeaderCandidateCompleteness",
                f"broker {broker_id} is in ISR {registration.isr} or ELR {registration.elr} of {ledger.name} "
                f"(leader epoch {registration.leader_epoch}), {why}, but {lacks}",
            )

    def check_bereft(self, is_judged: Callable[[Key], bool]) -> None:
        """Check that no ISR or ELR contains a replica whose log was lost with its directory."""
        newest, ledgers = self._metadata.newest, self._incarnations.ledgers
        for (broker_id, key), lost in self._incarnations.bereft.items():
            broker, partition = newest.cluster.broker(broker_id), self._metadata.partition(key)
            if broker is None or partition is None or broker_id not in (*partition.isr, *partition.elr):
                continue
            # The registration of a process that has already ended may be late: it had the directory.
            is_next = broker.broker_epoch > lost.broker_epoch and lost.directory_id not in broker.log_dirs
            each, ledger = self._incarnations.replica(broker_id, key), ledgers[key]
            lacks = "it has no such record" if each is None else ledger.missing_batches(each.shadow)
            if is_next and lacks is not None and ledger.entries and is_judged(key):
                raise Violation(
                    "EligibleByALostLog",
                    f"broker {broker_id} is in ISR {partition.isr} or ELR {partition.elr} of {ledger.name} for a log "
                    f"that went with its directory: {lacks}",
                )

    def check_joined(self, broker_id: int, key: Key, ledger: Ledger, after: PartitionRegistration) -> None:
        """Check that a replica that joins an ISR has all committed records, also after a loss.

        Its leader saw it fetch all of them. Two cases are permitted: the fetching process has ended and the controllers
        do not know it yet; and there is no leader: without ELR an empty ISR gets its last member back, even after a
        loss.
        """
        each, registered = self._incarnations.replica(broker_id, key), self._metadata.newest.cluster.broker(broker_id)
        if each is None or registered is None or not after.has_leader or after.leader_epoch in ledger.legal_losses:
            return
        if registered.broker_epoch != self._incarnations.epochs.get(broker_id):
            return
        lacks = ledger.missing_batches(each.shadow)
        if lacks is not None:
            raise Violation(
                "JoinedIsComplete",
                f"broker {broker_id} joins ISR {after.isr} of {ledger.name} in leader epoch {after.leader_epoch}, "
                f"but {lacks}",
            )


def check_kept(name: str, before: PartitionRegistration, after: PartitionRegistration, *, is_unclean: bool) -> None:
    """Check that only an unclean election replaces all candidates.

    A reassignment that this change completes also may: its leader has just seen the new replicas in sync.
    """
    could, can = {*before.isr, *before.elr}, {*after.isr, *after.elr}
    is_over = before.is_reassigning and not after.is_reassigning and could <= {*before.removing_replicas}
    joins = can <= {*before.adding_replicas} or (is_over and can <= {*after.replicas})
    if could and can and not could & can and not is_unclean and not joins:
        raise Violation(
            "CandidatesKept",
            f"ISR {before.isr} and ELR {before.elr} of {name} become {after.isr} and {after.elr} without an unclean "
            f"election: {before} to {after}",
        )
