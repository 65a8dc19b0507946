"""Replaying a partition's log into a coordinator's state, in slices under 10 ms.

Everything up to the log end is replayed, including records above the high watermark: they were not acknowledged, but as
the leader's they will be committed. Batches of transactions are replayed at their offsets, and their marker at its
offset. Source: Kafka's CoordinatorLoaderImpl, CoordinatorRuntime.CoordinatorContext (transitionTo).
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from kvorum.broker.coordinator.runtime.history import History
from kvorum.broker.coordinator.runtime.words import NO_PRODUCER, CoordinatorLog, CoordinatorRecord, Producer, Shard
from kvorum.broker.replica.tasks import spawn
from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import batches, decode_records
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger
from kvorum.storage.producer_replay import end_marker

S = TypeVar("S")

log = get_logger("coordinator")

READ_BYTES: Final = 1024 * 1024
SLOW_LOAD_MS: Final = 1_000
"""A load that takes this long is logged at INFO, any other at DEBUG: a broker loads 50 partitions at once."""
SLICE_S: Final = 0.005
"""Checked between two batches."""


class Superseded(Exception):
    """The partition's leadership ended while its log was read."""


class Loading(Generic[S]):
    """A partition that is being loaded for one leadership, by a separate task."""

    __slots__ = ("_is_wanted", "_task")

    def __init__(
        self,
        key: TopicPartition,
        epoch: int,
        coordinator_log: CoordinatorLog,
        shard: Shard[S],
        now_ms: Callable[[], int],
        on_end: Callable[[History[S] | None], None],
    ) -> None:
        """Begin. `on_end` gets the states, None if the log is unreadable; it is not called after `give_up`."""
        self._is_wanted = True
        # Nothing of it is kept here: a shard goes with its leadership.
        self._task = spawn(f"load-{key[0]}-{key[1]}", self._run(key, epoch, coordinator_log, shard, now_ms, on_end))

    def give_up(self) -> None:
        """Cancel: leadership has ended. Idempotent; no effect once it is loaded."""
        self._is_wanted = False

    async def ended(self) -> None:
        """Wait until the load has ended."""
        await asyncio.wait([self._task])

    async def _run(
        self,
        key: TopicPartition,
        epoch: int,
        coordinator_log: CoordinatorLog,
        shard: Shard[S],
        now_ms: Callable[[], int],
        on_end: Callable[[History[S] | None], None],
    ) -> None:
        began_ms = now_ms()
        try:
            history = await load(coordinator_log, shard, lambda: self._is_wanted)
        except Superseded:
            return
        except Exception as error:  # a KafkaError of the log, or records that the shard cannot replay
            if self._is_wanted:
                log.error("coordinator partition not loaded", partition=key, epoch=epoch, error=error)
                on_end(None)
            return
        if not self._is_wanted:
            return
        took_ms = now_ms() - began_ms
        write = log.info if took_ms >= SLOW_LOAD_MS else log.debug
        write("coordinator loaded", partition=key, epoch=epoch, offset=history.end_offset, took_ms=took_ms)
        on_end(history)


async def load(coordinator_log: CoordinatorLog, shard: Shard[S], is_wanted: Callable[[], bool]) -> History[S]:
    """Return the states of a log.

    Raises:
        Superseded: `is_wanted` returned False. KafkaError: the log is unreadable.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + SLICE_S
    state, offset, high_watermark = shard.initial(), coordinator_log.start_offset(), coordinator_log.high_watermark()
    history: History[S] = History(state, offset)
    while offset < coordinator_log.end_offset():
        data = memoryview(coordinator_log.read(offset, READ_BYTES))
        before = offset
        for position, header in batches(data):
            if header.next_offset <= offset:
                continue
            state = replay_batch(shard, state, data, position, header, offset)
            offset = header.next_offset
            history.push(offset, state)
            if offset <= high_watermark:
                history.advance(offset)
            if loop.time() >= until:
                await asyncio.sleep(0)
                if not is_wanted():
                    raise Superseded
                until = loop.time() + SLICE_S
        if offset == before:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no batch at offset {offset}, below the log end")
    history.advance(coordinator_log.high_watermark())
    assert history.end_offset == offset, "each batch was pushed"
    return history


def replay_batch(
    shard: Shard[S], state: S, data: memoryview, position: int, header: BatchHeader, from_offset: int
) -> S:
    """Return the state after a batch; records below `from_offset` are skipped."""
    producer = Producer(header.producer_id, header.producer_epoch) if header.has_producer_id else NO_PRODUCER
    if header.is_control:
        marker = end_marker(data, position)
        if marker is None:
            return state
        return shard.replay_marker(state, header.base_offset, producer, not marker.is_aborted)
    for offset, record in _keyed(data, position, from_offset):
        state = shard.replay(state, offset, record, producer)
    return state


def _keyed(data: memoryview, position: int, from_offset: int) -> Iterator[tuple[int, CoordinatorRecord]]:
    """Yield the records that have a key: others have no meaning for a coordinator."""
    for record in decode_records(data, position):
        if record.offset >= from_offset and record.key is not None:
            yield record.offset, CoordinatorRecord(record.key, record.value)
