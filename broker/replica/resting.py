"""Idle partitions of a fetch session, which are not read until they change (KIP-227). Sans-IO.

A partition whose state was returned completely rests: no fetch of the session reads it again before the partition
changes, or the request for it changes. A resting follower counts for the leader as fetching the log end with every
fetch of its session, and is in the ISR; after the rest, the time of the last of these fetches is its last-caught-up
time.
"""

from typing import Protocol

from kvorum.broker.replica.follower_state import FollowerState
from kvorum.broker.replica.isr import CommittedIsr
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.partition_reads import end_of_readable
from kvorum.broker.replica.types import FetchParams, FetchTarget, Role
from kvorum.broker.replica.watchers import Watcher
from kvorum.protocol.uuids import ZERO_UUID


class Rest:
    """The rest of one target, as its partition sees it."""

    __slots__ = ("_follower", "_partition", "_watcher")

    def __init__(self, partition: Partition, follower: FollowerState | None, watcher: Watcher) -> None:
        """Begin: have `watcher` woken when the partition changes. `follower` is None for a consumer."""
        self._partition = partition
        self._follower = follower
        self._watcher = watcher
        partition.watchers.add(watcher)

    def end(self, fetched_ms: int) -> None:
        """Stop watching. The last fetch of the session was at `fetched_ms`, before the change, if there is one."""
        self._partition.watchers.remove(self._watcher)
        if self._follower is not None:
            self._follower.was_at_end_until(fetched_ms)


class RestingTarget(FetchTarget, Watcher, Protocol):
    """A target that can rest: it stores the state that its reader has received."""

    high_watermark: int
    local_log_start_offset: int


def begin_rest(partition: Partition, params: FetchParams, target: RestingTarget) -> Rest | None:
    """Make a target idle; None if it has rows to return, or must be read each time.

    Only on a leader, whose changes all go through its Partition; a follower only as a member of the ISR, because its
    fetches decide when it joins.
    """
    log = partition.log
    if (
        partition.role is not Role.LEADING
        or log is None
        or (target.topic_id != partition.topic_id and target.topic_id != ZERO_UUID)
        or (target.current_leader_epoch >= 0 and target.current_leader_epoch != partition.leader_epoch)
        or target.high_watermark != log.high_watermark
        or target.local_log_start_offset != log.log_start_offset
        or target.fetch_offset < end_of_readable(log, params)
        or target.fetch_offset > log.log_end_offset
    ):
        return None
    if not params.is_from_follower:
        return Rest(partition, None, target)
    follower, state = partition.followers.get(params.replica_id), partition.isr_state
    if (
        follower is None
        or follower.log_end_offset != target.fetch_offset
        or not isinstance(state, CommittedIsr)
        or params.replica_id not in state.isr
    ):
        return None
    return Rest(partition, follower, target)
