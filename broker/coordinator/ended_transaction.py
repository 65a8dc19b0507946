"""Data of a completed transaction for a group coordinator. Sans-IO."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """One producer's transaction with a decided outcome, as in WriteTxnMarkers."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
