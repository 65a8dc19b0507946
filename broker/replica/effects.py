"""External effects of a call into a partition. Sans-IO."""

from kvorum.broker.replica.isr import AlterPartitionProposal


class Effects:
    """External effects of a call: delayed operations to check, a proposal to send, counters to update."""

    __slots__ = ("high_watermark_moved", "isr_expanded", "isr_shrunk", "low_watermark_moved", "proposal")

    def __init__(self) -> None:
        """Start with nothing."""
        self.high_watermark_moved = False
        self.low_watermark_moved = False
        self.proposal: AlterPartitionProposal | None = None
        self.isr_expanded = 0
        self.isr_shrunk = 0
