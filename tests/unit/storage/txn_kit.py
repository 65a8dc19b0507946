"""What the tests of transactions share: transactional batches, markers, and what a client shows of a read."""

from heapq import heapify, heappop

from kvorum.protocol.control import marker
from kvorum.protocol.records import Record, batches, build_batch, decode_records
from kvorum.storage.log import Log
from kvorum.storage.log_types import AppendInfo
from kvorum.storage.producer_replay import end_marker
from kvorum.storage.producer_state import Origin
from tests.unit.storage.kit import NOW_MS, joined


def transactional(
    *values: bytes,
    sequence: int = 0,
    producer_id: int = 7,
    epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """A batch of a transaction, one record a value."""
    return memoryview(
        build_batch(
            [Record(value, b"key", NOW_MS) for value in values],
            base_offset=base_offset,
            partition_leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )


def append_verified(log: Log, data: memoryview, producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> AppendInfo:
    """Append as a leader does once the coordinator has agreed."""
    return log.append_as_leader(data, 0, guard=log.begin_verification(producer_id, epoch, sequence))


def end(
    log: Log, commit: bool, producer_id: int = 7, epoch: int = 0, *, coordinator_epoch: int = 1, version: int = 0
) -> int:
    """Append the marker that ends a transaction; return its offset."""
    data = marker(producer_id, epoch, is_commit=commit, coordinator_epoch=coordinator_epoch, timestamp=NOW_MS)
    info = log.append_as_leader(memoryview(data), 0, Origin.COORDINATOR, transaction_version=version)
    return info.first_offset


def read_committed(log: Log, offset: int, max_bytes: int = 1 << 20) -> tuple[list[tuple[int, bytes | None]], int]:
    """One fetch as a client of read_committed takes it: (offset, value) of what it shows, and where it goes on.

    The client's rule: an aborted transaction begins with the batch that holds its first offset and ends with its abort
    marker; between them all transactional batches of the producer are left out.
    """
    info = log.read(offset, max_bytes, log.last_stable_offset)
    aborted = [(each.first_offset, each.producer_id) for each in log.aborted_transactions(offset, info.parts)]
    heapify(aborted)
    hidden: set[int] = set()
    shown: list[tuple[int, bytes | None]] = []
    data = memoryview(joined(info.parts))
    position_end = offset
    for position, header in batches(data):
        while aborted and aborted[0][0] <= header.last_offset:
            hidden.add(heappop(aborted)[1])
        position_end = header.next_offset
        if header.is_control:
            found = end_marker(data, position)
            if found is not None and found.is_aborted:
                hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            shown += [(each.offset, each.value) for each in decode_records(data, position) if each.offset >= offset]
    return shown, position_end


def read_committed_all(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """What a client of read_committed shows from an offset (the log start) to the last stable offset."""
    place = log.log_start_offset if offset is None else offset
    shown: list[tuple[int, bytes | None]] = []
    while place < log.last_stable_offset:
        more, place_next = read_committed(log, place, max_bytes)
        assert place_next > place, f"stuck at {place}"
        shown += more
        place = place_next
    return shown
