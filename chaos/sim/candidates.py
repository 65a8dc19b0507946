"""Who may be elected: every running member of ISR and ELR has all that is committed (LeaderCandidateCompleteness).

Who is a suspect (see lives) is let off, and so is an election of which the ledger knows that it may lose something.
"""

from kvorum.chaos.sim.ledger import Ledger, Violation
from kvorum.chaos.sim.lives import Lives
from kvorum.chaos.sim.metadata_watch import MetadataWatch
from kvorum.chaos.sim.watched import Key, Watched
from kvorum.quorum.image.partition import PartitionRegistration


class Candidates:
    """One a run. Each check raises Violation."""

    def __init__(self, metadata: MetadataWatch, lives: Lives) -> None:
        """Judge by the controllers' committed metadata."""
        self._metadata = metadata
        self._lives = lives

    def check_all(self, key: Key, ledger: Ledger) -> None:
        """Hold a partition's candidates against what is committed, after either has changed."""
        registration = self._metadata.partition(key)
        if registration is not None:
            for broker_id in {*registration.isr, *registration.elr}:
                each = self._lives.replica(broker_id, key)
                if each is not None:
                    self.check(broker_id, each, ledger, "is a candidate")

    def check(self, broker_id: int, each: Watched, ledger: Ledger, why: str) -> None:
        """Hold one replica against what is committed, if it is a candidate; `why` says what it just did."""
        registration = self._metadata.partition(each.key)
        if registration is None or (broker_id not in registration.isr and broker_id not in registration.elr):
            return
        if registration.leader_epoch in ledger.legal_losses or self._lives.is_suspect(broker_id, each.key):
            return
        lacks = ledger.missing(each.shadow)
        if lacks is not None:
            raise Violation(
                "LeaderCandidateCompleteness",
                f"broker {broker_id} is in ISR {registration.isr} or ELR {registration.elr} of {ledger.name} "
                f"(leader epoch {registration.leader_epoch}), {why}, but {lacks}",
            )

    def check_joined(self, broker_id: int, key: Key, ledger: Ledger, after: PartitionRegistration) -> None:
        """Whoever joins an ISR has all that is committed, whatever it lost before: its leader saw it fetch all of it.

        Not where the life that fetched is over, and the controllers do not know it yet: nobody is at fault then.
        """
        each, registered = self._lives.replica(broker_id, key), self._metadata.newest.cluster.broker(broker_id)
        if each is None or registered is None or after.leader_epoch in ledger.legal_losses:
            return
        if registered.broker_epoch != self._lives.epochs.get(broker_id):
            return
        lacks = ledger.missing(each.shadow)
        if lacks is not None:
            raise Violation(
                "JoinedIsComplete",
                f"broker {broker_id} joins ISR {after.isr} of {ledger.name} in leader epoch {after.leader_epoch}, "
                f"but {lacks}",
            )
