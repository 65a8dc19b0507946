"""Operations of a simulated cluster's clients (send, poll, change metadata), and their events in the history.

Classified conservatively: `fail` only if it certainly had no effect, `info` if it may have. A producer with
idempotence repeats a batch under its sequence numbers until the delivery timeout; one without repeats only requests
that certainly had no effect. Each slot of a producer is a separate process in the history, since operations overlap.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from kvorum.chaos.history import Fail, HistoryWriter, Info, Invoke, MicroOp, Ok, OperationValue, Process
from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import Uuid
from sim.client import DEFINITE, NoAnswer, SimClient, is_retriable

ACKS_ALL: Final = -1
DELIVERY_TIMEOUT_S: Final = 8.0
PRODUCE_TIMEOUT_MS: Final = 1_500
RETRY_S: Final = 0.05

OnAck = Callable[[Uuid, int, int, int], None]
"""topic id, partition, offset, CRC of a batch that was acknowledged by acks=all."""


class Recorder:
    """Numbers operations and processes, and writes them."""

    def __init__(self, history: HistoryWriter, now: Callable[[], float]) -> None:
        """Begin at 1."""
        self.history = history
        self.now = now
        self.values: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.final = False
        self._op = 0
        self._process = 0
        self.open: dict[int, str] = {}
        """Operations that were not answered yet."""

    def process(
        self,
        client: str,
        acks: int,
        *,
        idempotent: bool,
        isolation: str = "read_uncommitted",
        transactional_id: str | None = None,
    ) -> int:
        """Create a process in the history."""
        self._process += 1
        text = {ACKS_ALL: "all"}.get(acks, str(acks))
        self.history.write(
            Process(
                t=self.now(),
                process=self._process,
                client=client,
                acks=text,
                idempotent=idempotent,
                isolation=isolation,
                transactional_id=transactional_id,
            )
        )
        return self._process

    def next_value(self, partition: str) -> int:
        """Return a value that was never sent to the partition."""
        self.values[partition] = self.values.get(partition, 0) + 1
        return self.values[partition]

    def invoke(
        self,
        process: int,
        f: str,
        value: OperationValue,
        *,
        seek_to_beginning: bool = False,
        generation: int | None = None,
    ) -> int:
        """Record the begin of an operation; return its number."""
        self._op += 1
        self.open[self._op] = f
        self.history.write(
            Invoke(
                t=self.now(),
                op=self._op,
                process=process,
                f=f,
                value=value,
                generation=generation,
                seek_to_beginning=seek_to_beginning,
                final=self.final,
            )
        )
        return self._op

    def complete(
        self,
        kind: type[Ok] | type[Fail] | type[Info],
        op: int,
        process: int,
        value: OperationValue,
        error: str | None = None,
        *,
        seek_to_beginning: bool = False,
        committed: bool | None = None,
        ended: float | None = None,
        generation: int | None = None,
    ) -> None:
        """End an operation."""
        f = self.open.pop(op)
        name = f"{f} {kind.__name__.lower()}"
        self.counts[name] = self.counts.get(name, 0) + 1
        self.history.write(
            kind(
                t=self.now(),
                op=op,
                process=process,
                f=f,
                value=value,
                error=error,
                committed=committed,
                ended=ended,
                generation=generation,
                seek_to_beginning=seek_to_beginning,
                final=self.final,
            )
        )


class Send:
    """One record on its way."""

    __slots__ = ("appended_maybe", "batch", "crc", "deadline", "error", "offset", "outcome", "sequence", "value")

    def __init__(self, value: int, batch: bytearray, sequence: int, deadline: float) -> None:
        """Begin unanswered."""
        self.value = value
        self.batch = batch
        self.crc = parse_header(batch).crc
        self.sequence = sequence
        self.deadline = deadline
        self.outcome: type[Ok] | type[Fail] | type[Info] | None = None
        self.error: str | None = None
        self.offset: int | None = None
        self.appended_maybe = False


class Producer:
    """Sends to each partition in turn, `in_flight` records at a time; each record is a batch and an operation."""

    def __init__(
        self,
        name: str,
        client: SimClient,
        recorder: Recorder,
        *,
        acks: int,
        idempotent: bool,
        in_flight: int,
        topic: str,
        partitions: int,
        on_ack: OnAck,
    ) -> None:
        """Create it without a producer id."""
        self._name = name
        self._client = client
        self._recorder = recorder
        self._acks = acks
        self._idempotent = idempotent
        self._in_flight = in_flight
        self._topic = topic
        self._partitions = partitions
        self._on_ack = on_ack
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._processes: list[int] = []

    async def run(self, every_s: float, burst_s: float, until: Callable[[], bool]) -> None:
        """Send until stopped, optionally in bursts."""
        loop, rng = asyncio.get_running_loop(), self._client.rng
        pause_at = loop.time() + burst_s * 2 * rng.random()
        while not until():
            await self.round(until)
            await asyncio.sleep(every_s * (0.5 + rng.random()))
            if burst_s and loop.time() >= pause_at:
                await asyncio.sleep(burst_s * 2 * rng.random())
                pause_at = loop.time() + burst_s * 2 * rng.random()

    async def round(self, until: Callable[[], bool] = lambda: False) -> None:
        """Send a few records to one partition and wait for their outcomes."""
        if self._idempotent and self._producer is None and (not await self._init() or until()):
            return
        if not self._processes:
            name, recorder = self._name, self._recorder
            self._processes = [
                recorder.process(f"{name}.{slot}", self._acks, idempotent=self._idempotent)
                for slot in range(self._in_flight)
            ]
        partition = self._client.rng.randrange(self._partitions)
        processes = self._processes[: self._client.rng.randint(1, self._in_flight)]
        sends = [self._new(partition) for _ in processes]
        partition_name = f"{self._topic}-{partition}"
        operations = [
            self._recorder.invoke(process, "send", [["send", partition_name, send.value]])
            for process, send in zip(processes, sends, strict=True)
        ]
        finished = [False] * len(sends)

        def note() -> None:
            for place, send in enumerate(sends):
                if send.outcome is not None and not finished[place]:
                    finished[place] = True
                    value: MicroOp = ["send", partition_name, send.value]
                    if send.outcome is Ok:
                        value.append(send.offset)
                    self._recorder.complete(
                        send.outcome, operations[place], processes[place], [value], error=send.error
                    )

        await self._deliver(partition, sends, note)
        note()
        if any(send.outcome is not Ok for send in sends):
            # Sequence numbers may have been used up or not: this producer's word is worth nothing more.
            if self._idempotent:
                self._producer = None
                self._sequences = {}
            self._processes = []

    async def _init(self) -> bool:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout=60_000)
        try:
            response = await self._client.ask_any(request, InitProducerIdResponse)
        except NoAnswer:
            return False
        if response.error_code:
            return False
        self._producer = (response.producer_id, response.producer_epoch)
        return True

    def _new(self, partition: int) -> Send:
        name = f"{self._topic}-{partition}"
        loop = asyncio.get_running_loop()
        value = self._recorder.next_value(name)
        record = Record(value=json.dumps({"v": value}).encode(), timestamp=1_700_000_000_000 + int(loop.time() * 1000))
        sequence = self._sequences.get(partition, 0)
        if self._producer is None:
            batch = build_batch([record])
        else:
            self._sequences[partition] = sequence + 1
            batch = build_batch(
                [record],
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                base_sequence=sequence,
            )
        return Send(value, batch, sequence, loop.time() + DELIVERY_TIMEOUT_S)

    async def _deliver(self, partition: int, sends: list[Send], note: Callable[[], None]) -> None:
        """Bring each send to its outcome; what failed is sent again in order, before anything behind it."""
        loop = asyncio.get_running_loop()
        while left := [send for send in sends if send.outcome is None]:
            leader = await self._client.leader(self._topic, partition)
            if leader is None or leader.broker_id < 0:
                self._client.forget(self._topic, partition)
                self._expire(left, "no leader is known")
                note()
                await asyncio.sleep(RETRY_S)
                continue
            address = self._client.address(leader.broker_id)
            attempts: list[Awaitable[None]] = []
            for send in left:
                data = PartitionProduceData(index=partition, records=memoryview(bytearray(send.batch)))
                topic = TopicProduceData(name=self._topic, topic_id=leader.topic_id, partition_data=[data])
                request = ProduceRequest(acks=self._acks, timeout=PRODUCE_TIMEOUT_MS, topic_data=[topic])
                attempts.append(loop.create_task(self._attempt(address, request, send, note)))
            await asyncio.gather(*attempts)
            if any(send.outcome is None for send in left):
                self._client.forget(self._topic, partition)
                await asyncio.sleep(RETRY_S * (1 + self._client.rng.random()))

    async def _attempt(
        self,
        address: tuple[str, int],
        request: ProduceRequest,
        send: Send,
        note: Callable[[], None],
    ) -> None:
        try:
            if self._acks == 0:
                await self._client.send_unanswered(address, request)
                send.outcome, send.error = Info, "acks=0 has no response"
                note()
                return
            response = await self._client.ask(address, request, ProduceResponse)
        except NoAnswer as error:
            self._on_failure(send, str(error), maybe=error.maybe_sent)
        else:
            self._on_response(request.topic_data[0].topic_id, send, response.responses[0].partition_responses[0])
        note()

    def _on_response(self, topic_id: Uuid, send: Send, row: PartitionProduceResponse) -> None:
        code = ErrorCode(row.error_code)
        if code is ErrorCode.NONE:
            send.outcome = Ok
            send.offset = row.base_offset if row.base_offset >= 0 else None
            if self._acks == ACKS_ALL and send.offset is not None:
                self._on_ack(topic_id, row.index, send.offset, send.crc)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            send.outcome = Ok
        elif is_retriable(code) or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._idempotent):
            self._on_failure(send, code.name, maybe=code not in DEFINITE)
        else:
            send.appended_maybe = send.appended_maybe or code not in DEFINITE
            self._finish(send, code.name)

    def _on_failure(self, send: Send, reason: str, *, maybe: bool) -> None:
        send.appended_maybe = send.appended_maybe or maybe
        if send.appended_maybe and not self._idempotent:
            self._finish(send, reason)
        else:
            self._expire([send], reason)

    def _expire(self, sends: list[Send], reason: str) -> None:
        now = asyncio.get_running_loop().time()
        for send in sends:
            if send.outcome is None and now >= send.deadline:
                self._finish(send, reason)

    def _finish(self, send: Send, reason: str) -> None:
        send.outcome = Info if send.appended_maybe else Fail
        send.error = reason
