"""Producers and assigned consumers by aiokafka: pure Python, a protocol implementation independent of librdkafka.

aiokafka retries internally until its request timeout has passed; it does not detect truncated logs (KIP-320), so the
checker must explain its reads at an old position after an unclean election.
"""

import asyncio
import logging
import time
from functools import partial
from random import Random
from typing import Any, Final

from aiokafka import (  # type: ignore[import-untyped]  # it has no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import (  # type: ignore[import-untyped]
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Info, Ok, PolledRecord
from kvorum.chaos.workload.classify import classify_send_error, kafka_name
from kvorum.chaos.workload.libraries import AIOKAFKA
from kvorum.chaos.workload.plan import AssignClients, SendClients
from kvorum.chaos.workload.recorder import (
    Recorder,
    decode_value,
    encode_value,
    partition_names,
    partition_words,
    split_partition,
)
from kvorum.chaos.workload.senders import GIVE_UP_SECONDS, IDLE_SECONDS, KEYS, Pace, PartitionChooser
from kvorum.chaos.workload.threads import LoopThread

RETRY_SECONDS: Final = 0.2
REQUEST_SECONDS_MAX: Final = 30.0
"""One value for a request and for a send with all its attempts: more, and a frozen broker blocks it that long."""
CLOSE_SECONDS: Final = 5.0
POLL_MS: Final = 300
POLL_RECORDS_MAX: Final = 500


class AioSender(LoopThread):
    """One producer; each of its lives is a process of the history."""

    def __init__(
        self, plan: SendClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        super().__init__("chaos-aio-send", recorder)
        _quiet()
        self._plan = plan
        self._access = access
        self._recorder = recorder
        self._rng = rng
        self._chooser = PartitionChooser(topics, plan.hot_share, rng)

    async def live(self) -> None:
        """Live one life after the other."""
        while not self.stopping:
            producer = AIOKafkaProducer(**settings(self._plan, self._access))
            try:
                await producer.start()
            except (KafkaError, OSError):
                await _close_client(producer)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._life(producer)

    async def _life(self, producer: AIOKafkaProducer) -> None:
        plan, recorder = self._plan, self._recorder
        process = recorder.process(AIOKAFKA, acks=plan.acks, idempotent=plan.idempotent)
        lifetime = float("inf") if plan.crash_every is None else plan.crash_every * (0.5 + self._rng.random())
        pace, ends = Pace(plan.rate), time.monotonic() + lifetime
        pending: set[asyncio.Future[Any]] = set()
        while not self.stopping and time.monotonic() < ends:
            wait = IDLE_SECONDS if len(pending) >= plan.in_flight else pace.due()
            if wait:
                await asyncio.sleep(min(wait, IDLE_SECONDS))
            else:
                await self._send(producer, process, pending)
        if not self.stopping:
            recorder.invoke(process, "crash", [])
            recorder.abandon(process)
        elif pending:
            await asyncio.wait(pending, timeout=plan.timeout + GIVE_UP_SECONDS)
        await _close_client(producer)
        recorder.abandon(process)

    async def _send(self, producer: AIOKafkaProducer, process: int, pending: set[asyncio.Future[Any]]) -> None:
        recorder, partition = self._recorder, self._chooser.draw()
        value = recorder.next_value()
        op = recorder.invoke(process, "send", [["send", partition, value]])
        topic, number = split_partition(partition)
        try:
            future = await producer.send(
                topic, encode_value(value, self._plan.bytes), key=b"key-%d" % (value % KEYS), partition=number
            )
        except (KafkaError, AssertionError) as error:
            name = type(error).__name__
            recorder.complete(op, classify_send_error(name, "none"), error=kafka_name(name))
            return
        pending.add(future)
        future.add_done_callback(partial(self._on_response, op, partition, value, pending))

    def _on_response(
        self, op: int, partition: str, value: int, pending: set[asyncio.Future[Any]], future: asyncio.Future[Any]
    ) -> None:
        pending.discard(future)
        error = None if future.cancelled() else future.exception()
        if future.cancelled() or error is not None:
            name = "CANCELLED" if error is None else type(error).__name__
            self._recorder.complete(op, classify_send_error(name, "many"), error=kafka_name(name))
            return
        metadata = future.result()
        offset = None if metadata is None or self._plan.acks == "0" or metadata.offset < 0 else metadata.offset
        self._recorder.complete(op, Ok, [["send", partition, value, offset]])


def settings(plan: SendClients, access: ClientAccess) -> dict[str, Any]:
    """Return aiokafka's settings of a producer."""
    return {
        **access.aiokafka(),
        "client_id": "kvorum-chaos-aio-send",
        "acks": plan.acks if plan.acks == "all" else int(plan.acks),
        "enable_idempotence": plan.idempotent,
        "request_timeout_ms": round(min(plan.timeout, REQUEST_SECONDS_MAX) * 1000),
        "retry_backoff_ms": 50,
        "metadata_max_age_ms": 5_000,
        "linger_ms": 1,
        "compression_type": None if plan.compression == "none" else plan.compression,
        "max_request_size": 10_000_000,
    }


def _quiet() -> None:
    """Silence aiokafka's log about a cluster under faults."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


async def _close_client(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Close a client, within limits: one that cannot reach its cluster may never be done."""
    try:
        await asyncio.wait_for(client.stop(), CLOSE_SECONDS)
    except (TimeoutError, KafkaError, OSError):
        return


class AioReader(LoopThread):
    """One consumer, which now and then changes its partitions, or dies and restarts as another."""

    def __init__(
        self, plan: AssignClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        super().__init__("chaos-aio-assign", recorder)
        _quiet()
        self._plan = plan
        self._names = partition_names(topics)
        self._access = access
        self._recorder = recorder
        self._rng = rng

    async def live(self) -> None:
        """Live one life after the other."""
        while not self.stopping:
            consumer = AIOKafkaConsumer(
                **self._access.aiokafka(),
                client_id="kvorum-chaos-aio-assign",
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level=self._plan.isolation,
                request_timeout_ms=10_000,
                retry_backoff_ms=50,
                metadata_max_age_ms=5_000,
                fetch_max_wait_ms=200,
            )
            try:
                await consumer.start()
                await self._life(consumer)
            except (KafkaError, OSError):
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                await _close_client(consumer)

    async def _life(self, consumer: AIOKafkaConsumer) -> None:
        recorder = self._recorder
        process = recorder.process(AIOKAFKA, isolation=self._plan.isolation)
        ends = time.monotonic() + self._around(self._plan.crash_every or float("inf"))
        while not self.stopping and time.monotonic() < ends:
            count = len(self._names) if self._rng.random() < 0.5 else (len(self._names) + 1) // 2
            names = sorted(self._rng.sample(self._names, count))
            if not await self._assign(consumer, process, names):
                continue
            until = min(ends, time.monotonic() + self._around(self._plan.reassign_every))
            while not self.stopping and time.monotonic() < until:
                if not await self._poll(consumer, process):
                    break
        if not self.stopping:
            op = recorder.invoke(process, "crash", [])
            recorder.complete(op, Info)

    async def _assign(self, consumer: AIOKafkaConsumer, process: int, names: list[str]) -> bool:
        """Assign partitions and seek to their beginning; return whether that succeeded."""
        partitions = [TopicPartition(*split_partition(name)) for name in names]
        op = self._recorder.invoke(process, "assign", partition_words(names), seek_to_beginning=True)
        consumer.assign(partitions)
        try:
            await consumer.seek_to_beginning(*partitions)
        except (KafkaError, TimeoutError) as error:
            self._recorder.complete(op, Info, seek_to_beginning=True, error=type(error).__name__)
            await asyncio.sleep(RETRY_SECONDS)
            return False
        self._recorder.complete(op, Ok, seek_to_beginning=True)
        return True

    async def _poll(self, consumer: AIOKafkaConsumer, process: int) -> bool:
        """Poll once; return whether the consumer still has its position."""
        recorder = self._recorder
        op = recorder.invoke(process, "poll", [["poll"]])
        try:
            batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)
        except (OffsetOutOfRangeError, NoOffsetForPartitionError) as error:
            recorder.complete(op, Info, error=type(error).__name__)
            return False
        except KafkaError as error:
            recorder.complete(op, Info, error=type(error).__name__)
            return True
        found: dict[str, list[PolledRecord]] = {
            f"{at.topic}-{at.partition}": [[record.offset, decode_value(record.value)] for record in records]
            for at, records in batches.items()
            if records
        }
        recorder.complete(op, Ok, [["poll", found]])
        for at, records in batches.items():
            position = await consumer.position(at)
            expected = records[-1].offset + 1 if records else position
            # Markers and aborted records are skipped without being returned.
            if position < expected or (position > expected and not recorder.transactional):
                recorder.problem(
                    f"process {process} polled {at.topic}-{at.partition} up to offset {records[-1].offset} "
                    f"and its position is {position}"
                )
        return True

    def _around(self, seconds: float) -> float:
        return seconds * (0.5 + self._rng.random())
