"""Mistakes in fetching from followers: visible records, and redirection of consumers."""

from kvorum.broker.replica import fetches, partition_reads, selector
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import FetchParams, FetchTarget, LogRead, Role
from sim.mutants.patches import Patches


def show_above_high_watermark(patches: Patches) -> None:
    """A follower also returns records above its high watermark to consumers."""
    fetch_records = partition_reads.fetch_records

    def to_the_end(
        partition: Partition,
        target: FetchTarget,
        params: FetchParams,
        max_bytes: int,
        min_one_message: bool,
        now_ms: int,
        update_follower: bool,
    ) -> LogRead:
        if params.is_from_follower or partition.role is Role.LEADING:
            return fetch_records(partition, target, params, max_bytes, min_one_message, now_ms, update_follower)
        log = partition.log_or_raise(target.current_leader_epoch, params.fetch_only_leader)
        return partition_reads._read(log, target, max_bytes, min_one_message, log.log_end_offset)

    patches.replace(fetches, "fetch_records", to_the_end)


def send_anywhere(patches: Patches) -> None:
    """A leader redirects a consumer to any follower in sync, of any rack."""
    select_by_rack = selector.select_by_rack

    def anywhere(partition: Partition, params: FetchParams, fetch_offset: int, rack_of: selector.RackOf) -> int:
        return select_by_rack(
            partition,
            params,
            fetch_offset,
            lambda broker_id, listener: params.rack_id if broker_id != partition.broker_id else None,
        )

    patches.replace(selector, "select_by_rack", anywhere)
