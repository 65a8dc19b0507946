"""Selects the replica for a consumer (KIP-392): one in its own rack that is in sync and has the offset.

Sans-IO.

Only the leader selects, only for consumers, and never itself: a consumer without redirection reads from it. A follower
qualifies while it is in the ISR, its broker is alive and has the client's listener, and its log, according to its last
fetch, has the requested offset. Of several in the consumer's rack the one with the greatest log end is selected, then
the one caught up last, then the greatest id.

Source: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, ReplicaView.comparator.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import FetchParams, Role
from kvorum.runtime.config import Settings
from kvorum.runtime.config_checks import RACK_AWARE_SELECTOR

NO_PREFERENCE: Final = -1
"""The wire's `preferred_read_replica` for «read here»."""

RackOf: TypeAlias = Callable[[int, str], str | None]
"""Returns the rack of a live broker with this listener; None without such a broker or rack."""
Select: TypeAlias = Callable[[Partition, FetchParams, int], int]
"""Returns the replica for a consumer's offset of a partition; NO_PREFERENCE: no redirection."""


def selector_of(settings: Settings, rack_of: RackOf) -> Select | None:
    """Return the selector of `replica.selector.class`, None if consumers always read from the leader."""
    if settings.optional_str("replica.selector.class") != RACK_AWARE_SELECTOR:
        return None

    def select(partition: Partition, params: FetchParams, fetch_offset: int) -> int:
        return select_by_rack(partition, params, fetch_offset, rack_of)

    return select


def select_by_rack(partition: Partition, params: FetchParams, fetch_offset: int, rack_of: RackOf) -> int:
    """Return the follower in the consumer's rack that it should read from, NO_PREFERENCE if this broker is best."""
    rack_id, listener = params.rack_id, params.listener
    if not rack_id or params.is_from_follower or partition.role is not Role.LEADING:
        return NO_PREFERENCE
    if rack_of(partition.broker_id, listener) == rack_id:
        return NO_PREFERENCE
    isr = partition.isr
    found = [
        (follower.log_end_offset, follower.last_caught_up_time_ms, broker_id)
        for broker_id, follower in partition.followers.items()
        if broker_id in isr
        and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        and rack_of(broker_id, listener) == rack_id
    ]
    return max(found)[2] if found else NO_PREFERENCE
