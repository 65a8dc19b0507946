"""Computes a leader's high watermark: over the maximal ISR, including replicas about to join it. Sans-IO.

A caught-up follower that may join the ISR is waited for although it is not in yet: else, with an ISR of the leader
alone, the high watermark would run ahead with every append, and no follower could ever reach it to join.
Source: Partition.maybeIncrementLeaderHW.
"""

from collections.abc import Callable, Iterable

from kvorum.broker.replica.follower_state import FollowerState


def leader_high_watermark(
    log_end_offset: int,
    followers: Iterable[FollowerState],
    maximal_isr: frozenset[int],
    now_ms: int,
    lag_time_ms_max: int,
    is_eligible: Callable[[FollowerState], bool],
) -> int:
    """Return the smallest log end offset that counts; UNKNOWN_OFFSET while an ISR member has not fetched yet.

    The caller has seen to it that the ISR is not under its minimum, and never lowers the high watermark to this.
    """
    lowest = log_end_offset
    for follower in followers:
        if follower.log_end_offset < lowest and (
            follower.broker_id in maximal_isr
            or (follower.is_caught_up(log_end_offset, now_ms, lag_time_ms_max) and is_eligible(follower))
        ):
            lowest = follower.log_end_offset
    return lowest
