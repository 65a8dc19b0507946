"""A leader's state of one follower: its fetch position, and when it was last caught up. Sans-IO.

A follower's fetch offset is its log end offset. It is caught up at the time of a fetch for the leader's log end; or, if
records arrive faster than it fetches, at the time of its *previous* fetch if it now fetches from the log end at that
time. All its values are from the present leader epoch.

Source: Kafka's Replica and ReplicaState (KIP-16, KIP-497, KIP-903). Kafka keeps offsets if the leader stays.
"""

from kvorum.broker.replica.types import NO_BROKER_EPOCH, UNKNOWN_OFFSET

NEVER_MS = -(2**62)
"""Earlier than any monotonic time: the clock may start anywhere, even at 0."""


class FollowerState:
    """One follower of a partition this broker leads. Times are monotonic milliseconds."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_time_ms",
        "last_fetch_leader_log_end_offset",
        "last_fetch_time_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        """Know nothing of it yet."""
        self.broker_id = broker_id
        self.broker_epoch: int | None = None
        """Broker epoch of its last fetch; None before the first, NO_BROKER_EPOCH if the fetch had none."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_time_ms = NEVER_MS
        self.last_caught_up_time_ms = NEVER_MS

    def reset(self, *, now_ms: int, is_in_isr: bool) -> None:
        """Start a leader epoch: an ISR member has a whole lag time before it must have caught up, others have none.

        Values of an earlier epoch are dropped, even if this broker remains leader: between the two epochs another
        leader may have truncated the follower.
        """
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_time_ms = NEVER_MS
        self.last_caught_up_time_ms = now_ms if is_in_isr else NEVER_MS
        self.broker_epoch = None

    def update_fetch_state(
        self,
        *,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        leader_end_offset: int,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Process a fetch. `leader_end_offset` is from before the read, so that later appends do not count as lag."""
        if fetch_offset >= leader_end_offset:
            caught_up_ms = now_ms
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            caught_up_ms = self.last_fetch_time_ms
        else:
            caught_up_ms = NEVER_MS
        if caught_up_ms > self.last_caught_up_time_ms:
            self.last_caught_up_time_ms = caught_up_ms
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        if leader_end_offset > self.last_fetch_leader_log_end_offset:
            self.last_fetch_leader_log_end_offset = leader_end_offset
        self.last_fetch_time_ms = now_ms
        self.broker_epoch = broker_epoch

    def was_at_end_until(self, fetched_ms: int) -> None:
        """Apply the last of the unobserved fetches, all for the leader's log end (see resting)."""
        if fetched_ms > self.last_fetch_time_ms:
            self.last_fetch_time_ms = fetched_ms
        if fetched_ms > self.last_caught_up_time_ms:
            self.last_caught_up_time_ms = fetched_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_ms_max: int) -> bool:
        """Return whether it is at the leader's log end, or was within the last `lag_time_ms_max` milliseconds."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_time_ms <= lag_time_ms_max
