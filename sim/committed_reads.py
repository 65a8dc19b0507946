"""Reading at read_committed as a client must: records up to the last stable offset, without those that were aborted."""

import json
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kvorum.chaos.history import PolledRecord
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kvorum.protocol.records import batches, decode_records
from kvorum.storage.producer_replay import end_marker
from sim.client import Leader, NoAnswer, SimClient

READ_COMMITTED: Final = 1
FETCH_WAIT_MS: Final = 100
FETCH_BYTES: Final = 4_000


class FetchResult(NamedTuple):
    """Result of a fetch: committed records, next offset, last stable offset; or an error."""

    code: ErrorCode
    records: list[PolledRecord]
    position: int
    last_stable_offset: int


async def fetch_committed(client: SimClient, topic: str, partition: int, position: int) -> FetchResult:
    """Fetch once from the leader, or from the follower that it names. Raises NoAnswer."""
    leader = await client.leader(topic, partition)
    if leader is None or leader.broker_id < 0:
        client.forget(topic, partition)
        raise NoAnswer("no leader is known", maybe_sent=False)
    broker_id = client.reads_from(topic, partition, leader)
    try:
        row = await _fetch(client, (leader, broker_id), topic, partition, position)
    except NoAnswer:
        client.forget(topic, partition)
        client.places.forget(topic, partition)
        raise
    code = ErrorCode(row.error_code)
    if code is not ErrorCode.NONE:
        client.forget(topic, partition)
        if client.places.forget(topic, partition) and broker_id != leader.broker_id:
            raise NoAnswer(f"a follower returned {code.name}", maybe_sent=False)  # the leader knows
        return FetchResult(code, [], position, -1)
    if client.places.is_elsewhere(topic, partition, leader.broker_id, row):
        return FetchResult(code, [], position, -1)
    assert row.records is None or isinstance(row.records, memoryview), "an answer's records are one view"
    view = row.records if row.records is not None else memoryview(b"")
    records, position = visible(view, row.aborted_transactions or (), position)
    if view:
        client.places.took(topic, partition, broker_id, leader.broker_id, position)
    return FetchResult(code, records, position, row.last_stable_offset)


async def _fetch(
    client: SimClient, where: tuple[Leader, int], topic: str, partition: int, position: int
) -> PartitionData:
    leader, broker_id = where
    row = FetchPartition(
        partition=partition,
        current_leader_epoch=leader.epoch,
        fetch_offset=position,
        partition_max_bytes=FETCH_BYTES,
    )
    request = FetchRequest(
        max_wait=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=READ_COMMITTED,
        rack_id=client.places.rack_id,
        topics=[FetchTopic(topic_id=leader.topic_id, topic=topic, partitions=[row])],
    )
    response = await client.ask(client.address(broker_id), request, FetchResponse)
    if response.error_code or not response.responses:
        raise NoAnswer(ErrorCode(response.error_code).name, maybe_sent=False)
    return response.responses[0].partitions[0]


def visible(view: memoryview, aborted: Sequence[AbortedTransaction], position: int) -> tuple[list[PolledRecord], int]:
    """Return the records from `position` on that a reader at read_committed may see, and the next position.

    As Kafka's CompletedFetch: a transaction is aborted from its first offset on until its producer's marker.
    """
    waiting = deque(sorted(aborted, key=lambda each: each.first_offset))
    open_aborted: set[int] = set()
    found: list[PolledRecord] = []
    for place, header in batches(view):
        while waiting and waiting[0].first_offset <= header.last_offset:
            open_aborted.add(waiting.popleft().producer_id)
        if header.is_control:
            if end_marker(view, place) is not None:
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            for record in decode_records(view, place):
                if record.offset >= position:
                    assert record.value is not None, "every record has one here"
                    found.append([record.offset, json.loads(record.value)["v"]])
        position = max(position, header.next_offset)
    return found, position
