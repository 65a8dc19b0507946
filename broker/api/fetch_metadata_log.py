"""The part of Fetch (1) that reads `__cluster_metadata`: from this broker's own copy, alone or with other topics.

It waits as any fetch does: until min bytes are available, an error occurs, or the client's wait time is over. An
advance of the metadata log wakes it; other topics in the same fetch are parked with it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from kvorum.broker.metadata.cache import METADATA_TOPIC
from kvorum.broker.metadata.metadata_log import PARTITION
from kvorum.broker.replica.fetches import FetchRows, data_row, error_row
from kvorum.broker.replica.types import FetchParams, FetchTarget
from kvorum.broker.services import Broker
from kvorum.protocol.errors import ErrorCode, KafkaError


async def fetch(params: FetchParams, broker: Broker, targets: Sequence[FetchTarget], *, urgent: bool) -> FetchRows:
    """Return a row for each target; `urgent` if the response must be sent at once."""
    own = [target for target in targets if target.topic == METADATA_TOPIC]
    others = [target for target in targets if target.topic != METADATA_TOPIC]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max(0, params.max_wait_ms) / 1000
    while True:
        moved = broker.metadata_log.moved()
        try:
            rows, size, has_error = read(params, broker, own)
            left = deadline - loop.time()
            at_once = urgent or has_error or size >= params.min_bytes or left <= 0
            if not others:
                if at_once:
                    return rows
                await asyncio.wait((moved,), timeout=left)
                continue
            wait_ms = 0 if at_once else max(1, int(left * 1000))
            found = await fetch_others(replace(params, max_wait_ms=wait_ms), broker, others, moved)
            if found is not None:
                return rows + found
        finally:
            moved.cancel()


def read(params: FetchParams, broker: Broker, targets: Sequence[FetchTarget]) -> tuple[FetchRows, int, bool]:
    """Return rows, their bytes, and whether one is an error."""
    rows: FetchRows = []
    size = 0
    has_error = False
    for target in targets:
        bytes_max = min(target.partition_max_bytes, params.max_bytes)
        try:
            if target.partition != PARTITION:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found = broker.metadata_log.read(target.fetch_offset, bytes_max, target.current_leader_epoch, True)
            rows.append((target, data_row(target.partition, found)))
            size += found.size
        except KafkaError as error:
            rows.append((target, error_row(target.partition, error.code)))
            has_error = True
    return rows, size, has_error


async def fetch_others(
    params: FetchParams, broker: Broker, targets: Sequence[FetchTarget], moved: "asyncio.Future[None]"
) -> FetchRows | None:
    """Return the rows of the other topics when they are due; None if the metadata log has moved before."""
    answer: asyncio.Future[FetchRows] = asyncio.get_running_loop().create_future()

    def on_done(rows: FetchRows) -> None:
        if not answer.done():
            answer.set_result(rows)

    parked = broker.replica_manager.fetch_records(params, targets, on_done)
    try:
        await asyncio.wait((answer, moved), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        if parked is not None:
            parked.cancel()
