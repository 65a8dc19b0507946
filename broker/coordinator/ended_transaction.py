"""What a group coordinator is told of a transaction that is over. Sans-IO."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """One producer's transaction that its coordinator has decided on, as WriteTxnMarkers tells of it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
