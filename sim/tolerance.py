"""The number of brokers that may fall before a committed record may be lost, compared with actual failures. Sans-IO.

Without unclean elections kill -9 alone loses nothing, for any number of brokers. With ELR (KIP-966)
min.insync.replicas - 1 brokers may also fall hard: lose unsynced data, or seem so to the controllers.
"""

from collections.abc import Mapping, Set
from typing import Final

from sim.ledger import Ledger, Violation
from sim.metadata_watch import MetadataWatch
from sim.plan import Options

SLACK_S: Final = 5.0
"""A broker may have failed this long before a commit to which its last fetch, delayed in the network, still led."""


def unclean_members_since(ledger: Ledger, uncleans: Mapping[int, float]) -> list[int]:
    """Return the members of ISR and ELR at the last commit that ended uncleanly since, or lost their log, sorted."""
    since = ledger.committed_at - SLACK_S
    return sorted(
        each
        for each in ledger.witnesses
        if uncleans.get(each, -1.0) >= since or ledger.lossy_brokers.get(each, -1.0) >= since
    )


def commit_text(ledger: Ledger) -> str:
    """Return the holders of the last committed batch."""
    return f"{ledger.name}, last committed at {ledger.committed_at:.3f} s by {sorted(ledger.witnesses)}"


def broken_invariant(
    ledger: Ledger,
    lacks: str,
    uncleans: Mapping[int, float],
    robbed: Set[int],
    dismissed: Set[int],
    borne: int | None,
) -> Violation | None:
    """Return the invariant that a loss breaks, None without one.

    `borne`: number of hard failures that are tolerated, None if undefined.

    A broker that an operator unregistered alive (`dismissed`) is out of ISR and ELR like a failed one, though it has
    all records.
    """
    text = f"{commit_text(ledger)}: {lacks}"
    if not (robbed | ledger.lossy_brokers.keys()) & ledger.witnesses:
        return Violation("KillLosesNothing", f"no broker lost unsynced data, but {text}")
    fallen = sorted({*unclean_members_since(ledger, uncleans)} | dismissed & ledger.witnesses)
    if borne is not None and len(fallen) < min(borne + 1, len(ledger.witnesses)):
        return Violation("ElrTolerance", f"only {fallen} fell hard, but {text}")
    return None


def check_loss_of_all(ledger: Ledger, uncleans: Mapping[int, float], borne: int | None) -> Violation | None:
    """Decide on a partition without candidates: ISR and ELR are empty.

    An operator's unclean election follows.

    Without this check no leader's completeness would show that too few had failed for it.
    """
    fallen = unclean_members_since(ledger, uncleans)
    if borne is None or not ledger.entries or len(fallen) >= min(borne + 1, len(ledger.witnesses)):
        return None
    return Violation(
        "NoCommittedRecordLostGlobally",
        f"only {fallen} fell hard, but ISR and ELR are empty: {commit_text(ledger)}",
    )


def borne_in(options: Options, metadata: MetadataWatch) -> int | None:
    """Return how many brokers may fall hard under ELR's guarantee; None if it depends on configs at unknown times."""
    steady = "elr" not in options.fault_kinds and "min_isr" not in options.fault_kinds
    return options.min_isr - 1 if steady and metadata.is_elr_enabled else None
