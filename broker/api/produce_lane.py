"""Produce's short way (network.lane): requests of one partition, with a head that the connection sent before.

A producer's requests to a partition differ in correlation id and records only. What the rest says (topic, acks, whose
it is, whether it may) is worked out by the ordinary handler once; afterwards the frame is compared, not decoded.
All that a turn of the event loop brings for a partition is appended with one write, moves the high watermark once and
wakes once. The answer is a copy of the first one with other numbers in it.

Left to the ordinary handler, one by one and in its place: batches of transactions, whatever the log does not simply
append (errors, duplicates), partitions that are not led here, topics that want each append synced (flush.messages).
Nothing is decided here: known heads are looked up again in other metadata, the authorizer is asked each turn.
"""

import asyncio
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from kvorum.broker.api.produce import INTERNAL_PREFIX, NO_ACKS, TRANSACTIONAL_BYTE, resolve, respond
from kvorum.broker.api.produce_template import Template
from kvorum.broker.replica.log_view import RunInfo
from kvorum.broker.services import Broker
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.network.lane import LaneCaller
from kvorum.network.outbox import Slot
from kvorum.network.router import stack_of
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kvorum.protocol.records import HEADER_SIZE, TRANSACTIONAL_FLAG
from kvorum.protocol.schema import Message
from kvorum.quorum.image import MetadataImage
from kvorum.runtime.logs import get_logger
from kvorum.storage.names import TopicPartition

VERSION_MIN: Final = 7
"""From here on every codec is allowed."""
FLEXIBLE_FROM: Final = ProduceRequest.FLEXIBLE_FROM
CORRELATION_ID_POSITION: Final = 4
HEAD_POSITION: Final = 8
"""Behind api key, version and correlation id."""
TAIL: Final = b"\0\0\0"
"""No tagged fields behind the records: of the partition, the topic, the request."""
HEADS_MAX: Final = 256
"""Of one connection; one more, and all are forgotten."""
LENGTH: Final = Struct(">i")

log = get_logger("broker")


class Head:
    """What a head stands for."""

    __slots__ = ("ctx", "image", "is_known", "key", "template", "terms", "topic", "version")

    def __init__(
        self, ctx: RequestContext, request: ProduceRequest, topic: TopicProduceData, key: TopicPartition
    ) -> None:
        """Stand for a request that was handled. `topic` is as it was named, without its partitions."""
        self.ctx = ctx
        self.version = ctx.api_version
        self.topic = topic
        self.key = key
        self.terms = (request.timeout, request.acks)
        self.template = Template(topic, key.partition, ctx.api_version)
        self.image: MetadataImage | None = None
        """The metadata in which it was looked up last."""
        self.is_known = False
        """Whether it named this partition there."""


class Taken(NamedTuple):
    """A request on the short way."""

    head: Head
    records: memoryview
    caller: LaneCaller
    slot: Slot
    frame: memoryview


class ProduceLane:
    """One a broker. Made on its event loop."""

    api_key = int(ApiKey.PRODUCE)
    name = "Produce"

    def __init__(self, broker: Broker) -> None:
        """Know no head."""
        self._broker = broker
        self._loop = asyncio.get_running_loop()  # once: each time it costs a system call
        self._turn: dict[TopicPartition, list[Taken]] = {}
        self._answered: dict[LaneCaller, None] | None = None
        """Who has been given answers in this turn; None between turns."""
        self._since_s = 0.0

    # --- see network.lane.Lane ----------------------------------------------------------------------------------------

    def take(self, caller: LaneCaller, frame: memoryview) -> bool:
        """See Lane."""
        if len(frame) < HEAD_POSITION or frame[0] or frame[1]:
            return False
        for size, heads in caller.lane_memory.items():
            head = heads.get(bytes(frame[HEAD_POSITION:size]))
            if head is not None and head.version == frame[3]:
                break
        else:
            return False
        records = records_behind(frame, size, head.version >= FLEXIBLE_FROM)
        if records is None or records[TRANSACTIONAL_BYTE] & TRANSACTIONAL_FLAG:
            return False
        if not self._turn:
            self._since_s = self._loop.time()
            self._loop.call_soon(self._end_turn)
        taken = Taken(head, records, caller, caller.hold(), frame)
        group = self._turn.get(head.key)
        if group is None:
            self._turn[head.key] = [taken]
        else:
            group.append(taken)
        return True

    def learn(self, caller: LaneCaller, frame: memoryview, ctx: RequestContext, request: Message) -> None:
        """See Lane."""
        assert isinstance(request, ProduceRequest)
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        if ctx.api_version < VERSION_MIN or request.transactional_id is not None:
            return
        topic = request.topic_data[0]
        name, code = resolve(ctx, topic, self._broker)
        records = topic.partition_data[0].records
        if code is not ErrorCode.NONE or name.startswith(INTERNAL_PREFIX) or not isinstance(records, memoryview):
            return
        is_flexible = ctx.api_version >= FLEXIBLE_FROM
        size = len(frame) - len(records)
        size -= unsigned_size(len(records) + 1) + len(TAIL) if is_flexible else LENGTH.size
        found = records_behind(frame, size, is_flexible)
        if found is None or bytes(found[:HEADER_SIZE]) != bytes(records[:HEADER_SIZE]):
            return  # something stands there that this broker does not know: tagged fields
        memory = caller.lane_memory
        if memory is None or sum(map(len, memory.values())) >= HEADS_MAX:
            memory = caller.lane_memory = {}
        heads, text = memory.setdefault(size, {}), bytes(frame[HEAD_POSITION:size])
        if text not in heads or heads[text].version != ctx.api_version:
            key = TopicPartition(name, topic.partition_data[0].index)
            heads[text] = Head(ctx, request, TopicProduceData(name=topic.name, topic_id=topic.topic_id), key)

    def settle(self) -> None:
        """See Lane."""
        for caller in self._append_turn():
            caller.go_on_soon()

    # --- the end of a turn --------------------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        for caller in self._append_turn():
            caller.go_on()

    def _append_turn(self) -> dict[LaneCaller, None]:
        """Append what was taken; return who has been given answers."""
        assert self._answered is None, "whoever is woken goes on later"
        turn, self._turn = self._turn, {}
        answered: dict[LaneCaller, None] = {}
        self._answered = answered
        for key, group in turn.items():
            try:
                self._append(key, group, answered)
            except Exception as error:  # our fault, and nobody knows what was appended: the clients have to ask again
                log.error("produces failed unexpectedly", partition=key, error=error, stack=stack_of(error))
                for taken in group:
                    taken.caller.close()
        self._answered = None
        return answered

    def _append(self, key: TopicPartition, group: list[Taken], answered: dict[LaneCaller, None]) -> None:
        """Append what was taken for a partition, as much together as has the same terms."""
        place = 0
        while place < len(group):
            run = self._run(group, place)
            count = 0
            if run:
                timeout_ms, acks = run[0].head.terms
                batches = [taken.records for taken in run]
                on_done = partial(self._answer, run, self._since_s)
                count = self._broker.replica_manager.append_run(timeout_ms, acks, key, batches, on_done)
            place += count
            if count < len(run) or not run:
                taken = group[place]
                taken.caller.handle_late(taken.slot, taken.frame)
                answered[taken.caller] = None
                place += 1

    def _run(self, group: list[Taken], place: int) -> list[Taken]:
        """Return the requests from `place` on that have the same terms and may be appended."""
        run: list[Taken] = []
        last: Head | None = None
        for taken in group[place:] if place else group:
            head = taken.head
            if head is not last:
                if (last is not None and head.terms != last.terms) or not self._may(head, taken.caller):
                    break
                last = head
            run.append(taken)
        return run

    def _may(self, head: Head, caller: LaneCaller) -> bool:
        """Tell whether the head still means what it meant, and its client may write."""
        broker, key = self._broker, head.key
        if head.image is not broker.metadata.image:
            head.image = broker.metadata.image
            is_there = broker.metadata.partition(key.topic, key.partition) is not None
            head.is_known = is_there and resolve(head.ctx, head.topic, broker)[0] == key.topic
        return (
            head.is_known
            and head.ctx.principal == caller.peer.principal
            and broker.authorizer.authorize(head.ctx, Operation.WRITE, ResourceType.TOPIC, key.topic)
        )

    def _answer(self, run: list[Taken], since_s: float, done: RunInfo, row: PartitionProduceResponse) -> None:
        """Answer what was appended: the first of the run, as many as there are base offsets."""
        elapsed_ms = (self._loop.time() - since_s) * 1000
        append_time, log_start_offset = done.log_append_time_ms, row.log_start_offset
        row.log_append_time = append_time
        count = 0
        for taken, base_offset in zip(run, done.base_offsets, strict=False):
            head, records, caller, slot, frame = taken
            correlation_id = bytes(frame[CORRELATION_ID_POSITION:HEAD_POSITION])
            if row.error_code:
                answer = self._unfortunate(head, correlation_id, base_offset, row, len(records))
                throttle_ms = head.ctx.throttle_ms
            else:
                throttle_ms = self._broker.throttle(head.ctx, produced=len(records))
                answer = b""
                if head.terms[1] != NO_ACKS:
                    answer = head.template.answer(
                        correlation_id, base_offset, append_time, log_start_offset, throttle_ms
                    )
            caller.give(slot, answer, throttle_ms)
            count += 1
            if self._answered is None:
                caller.go_on_soon()
            else:
                self._answered[caller] = None
        run[0].caller.handled(self.name, run[0].head.version, elapsed_ms, count)

    def _unfortunate(
        self, head: Head, correlation_id: bytes, base_offset: int, row: PartitionProduceResponse, size: int
    ) -> bytes:
        """Return the answer to records that are written, and not known to be replicated."""
        timeout_ms, acks = head.terms
        data = PartitionProduceData(index=head.key.partition)
        topic = TopicProduceData(name=head.topic.name, topic_id=head.topic.topic_id, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout=timeout_ms, topic_data=[topic])
        rows = {head.key: replace(row, base_offset=base_offset)}
        response = respond(head.ctx, request, self._broker, [head.key.topic], rows, size)
        assert response is not None, "acks=0 waits for nobody"
        return head.template.other(correlation_id, response)


def records_behind(frame: memoryview, position: int, is_flexible: bool) -> memoryview | None:
    """Return the records whose length stands here, if only empty tags follow, and a batch could be so short."""
    end = len(frame)
    if not is_flexible:
        if position + LENGTH.size > end:
            return None
        (size,) = LENGTH.unpack_from(frame, position)
        position += LENGTH.size
    else:
        size = shift = 0
        while position < end:
            byte = frame[position]
            position += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        size -= 1
        end -= len(TAIL)
    if size < HEADER_SIZE or position + size != end or (is_flexible and bytes(frame[end:]) != TAIL):
        return None
    return frame[position:end]


def unsigned_size(number: int) -> int:
    """Return how many bytes an unsigned varint takes."""
    return max(1, (number.bit_length() + 6) // 7)
