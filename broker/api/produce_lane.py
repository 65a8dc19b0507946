"""Fast path of Produce (network.lane): for partitions of one topic, with a head that the connection sent before.

A producer's requests for a topic differ only in correlation id, partitions and records. Everything else (topic, acks,
transactional id, authorisation) is evaluated by the general handler once, and compared afterwards instead of decoded.
All batches of one event-loop iteration for a partition are appended with one write; the high watermark is updated and
waiters are woken once. The layout of the response is known too. In a loop iteration with much data, small requests come
first, then the tasks they woke, then the rest in slices, each in its own iteration: one record does not wait for
megabytes of others.

Left to the general handler: batches of transactions, several topics, internal topics, unknown partitions. Left to the
general append, one by one and in order: batches that need more than an append (errors, duplicates), partitions not led
here, topics with a sync per append (flush.messages). No decision is cached: known heads (produce_heads) are looked up
again after a metadata change, and the authorizer and the quotas are called for each request. With a quota on loop time
(request_percentage) the fast path is not used.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from kvorum.broker.api.produce import (
    INTERNAL_PREFIX,
    NO_ACKS,
    TRANSACTIONAL_BYTE,
    Rows,
    checked,
    refused_row,
    resolve,
    respond,
)
from kvorum.broker.api.produce_frames import FLEXIBLE_FROM, HEAD_POSITION, parts_behind
from kvorum.broker.api.produce_heads import Head, remember
from kvorum.broker.api.produce_template import Placed
from kvorum.broker.replica.appends import RunDone
from kvorum.broker.replica.delayed_produce import ProduceDone
from kvorum.broker.replica.log_view import RunInfo
from kvorum.broker.replica.partition import ACKS_ALL
from kvorum.broker.services import Broker
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.network.lane import LaneCaller
from kvorum.network.outbox import Slot
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import TRANSACTIONAL_FLAG
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import get_logger

VERSION_MIN: Final = 7
"""From here on every codec is allowed."""
CORRELATION_ID_POSITION: Final = 4
RUN_MAX: Final = 128
"""Batches that are appended together.

With every second one rejected, each costs a comparison with this number, not with all.
"""
SMALL_BYTES: Final = 4 * 1024
"""Up to here the data of a partition in one turn is small, and does not wait behind larger data."""
SLICE_BYTES: Final = 64 * 1024
"""Bytes of large appends per slice, whole partitions: a small one is delayed by about 0.5 ms for it."""

log = get_logger("broker")


class Taken:
    """A request on the short way."""

    __slots__ = ("caller", "came_s", "frame", "head", "left", "rows", "since_s", "slot", "waits_s")

    def __init__(self, head: Head, caller: LaneCaller, frame: memoryview, count: int, since_s: float) -> None:
        """Wait for this number of partitions."""
        self.head = head
        self.caller = caller
        self.slot: Slot = caller.hold()
        self.frame = frame
        self.left = count
        self.came_s = caller.came_s
        self.since_s = since_s
        self.waits_s = 0.0
        self.rows: list[Placed | PartitionProduceResponse | None] = [None] * count
        """In request order: numbers of successful partitions, else the row of the response."""

    @property
    def throttle_ms(self) -> int:
        """See LaneRequest."""
        return self.head.ctx.throttle_ms

    @property
    def size(self) -> int:
        """See LaneRequest."""
        return len(self.frame)


class Piece(NamedTuple):
    """One partition's part of a request; `place` is its index in the request."""

    taken: Taken
    place: int
    records: memoryview


Groups: TypeAlias = dict[TopicPartition, list[Piece]]
"""Entries of each partition, in order of arrival."""


class Replicas(Protocol):
    """Interface of ReplicaManager for the fast path."""

    def append_run(
        self, timeout_ms: int, required_acks: int, key: TopicPartition, batches: Sequence[memoryview], on_done: RunDone
    ) -> int:
        """See Appends.append_run."""
        ...

    def append_records(
        self, timeout_ms: int, required_acks: int, entries: Mapping[TopicPartition, memoryview], on_done: ProduceDone
    ) -> None:
        """See Appends.append_records."""
        ...


class ProduceLane:
    """One per broker. Created on its event loop."""

    api_key = int(ApiKey.PRODUCE)
    name = "Produce"

    def __init__(self, broker: Broker, replicas: Replicas) -> None:
        """Know no head."""
        self._broker = broker
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()  # once: each time it costs a system call
        self._turn: Groups = {}
        """Bytes taken since the last iteration; the rest of iterations before."""
        self._size = 0
        self._rest: Groups = {}
        self._has_waited = False
        """Whether the rest has let something small by: it is its turn now."""
        self._is_due = False
        """Whether the loop is to call `_end_turn`."""
        self._since_s = 0.0
        self._answered: dict[LaneCaller, None] | None = None
        """Connections that received responses in this turn; None between turns."""

    # --- see network.lane.Lane ----------------------------------------------------------------------------------------

    def take(self, caller: LaneCaller, frame: memoryview) -> bool:
        """See Lane."""
        if len(frame) < HEAD_POSITION or frame[0] or frame[1] or frame[2] or self._broker.quotas.timed:
            return False  # another API, or a version there never was; or the time of each request is to be known
        for size, heads in caller.lane_memory.items():
            head = heads.get(bytes(frame[HEAD_POSITION:size]))
            if head is not None and head.version == frame[3]:
                break
        else:
            return False
        parts = parts_behind(frame, size, head.version >= FLEXIBLE_FROM)
        if parts is None or not self._may(head, caller):
            return False
        keys = head.keys
        if len(parts) > 1 and len({index for index, _ in parts}) < len(parts):
            return False
        for index, records in parts:
            if records[TRANSACTIONAL_BYTE] & TRANSACTIONAL_FLAG or (index not in keys and not self._knows(head, index)):
                return False
        turn = self._turn
        if not turn:
            self._since_s = self._loop.time()
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._end_turn)
        self._size += len(frame)
        taken = Taken(head, caller, frame, len(parts), self._since_s)
        for place, (index, records) in enumerate(parts):
            piece, key = Piece(taken, place, records), keys[index]
            group = turn.get(key)
            if group is None:
                turn[key] = [piece]
            else:
                group.append(piece)
        return True

    def learn(self, caller: LaneCaller, frame: memoryview, ctx: RequestContext, request: Message) -> None:
        """See Lane."""
        assert isinstance(request, ProduceRequest)
        if len(request.topic_data) != 1 or ctx.api_version < VERSION_MIN or request.transactional_id is not None:
            return
        name, code = resolve(ctx, request.topic_data[0], self._broker)
        if code is ErrorCode.NONE and not name.startswith(INTERNAL_PREFIX):
            remember(caller, frame, ctx, request, name)

    def settle(self) -> None:
        """See Lane."""
        groups = self._taken(everything=True)
        for caller in self._append_groups(groups):
            caller.go_on_soon()

    def _may(self, head: Head, caller: LaneCaller) -> bool:
        """Return whether the head still has the same meaning and its client may write."""
        return (
            self._stands(head)
            and head.ctx.principal == caller.peer.principal
            and self._broker.authorizer.authorize(head.ctx, Operation.WRITE, ResourceType.TOPIC, head.name)
        )

    def _stands(self, head: Head) -> bool:
        """Return whether the head still names the same topic."""
        broker = self._broker
        if head.image is not broker.metadata.image:
            head.image = broker.metadata.image
            head.keys = {} if resolve(head.ctx, head.topic, broker)[0] == head.name else None
        return head.keys is not None

    def _knows(self, head: Head, index: int) -> bool:
        """Return whether the partition exists, and store the result."""
        assert head.keys is not None, "the topic is there"
        if self._broker.metadata.partition(head.name, index) is None:
            return False
        head.keys[index] = TopicPartition(head.name, index)
        return True

    # --- the end of a turn --------------------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        groups = self._taken(everything=False)
        for caller in self._append_groups(groups):
            caller.go_on()
        self._is_due = bool(self._rest or self._turn)
        if self._has_waited:
            self._loop.call_soon(self._loop.call_soon, self._end_turn)  # the tasks that were woken come first
        elif self._is_due:
            self._loop.call_soon(self._end_turn)

    def _taken(self, everything: bool) -> Groups:
        """Return the appends of this slice; the others stay in `_rest`."""
        turn, size, rest = self._turn, self._size, self._rest
        self._turn, self._size = {}, 0
        if not rest and (everything or size <= SLICE_BYTES):
            return turn
        groups: Groups = {}
        for key, group in turn.items():
            if key in rest:
                rest[key] += group
            elif size_of(group) > SMALL_BYTES:
                rest[key] = group
            else:
                groups[key] = group
        self._has_waited = bool(groups and rest) and not (everything or self._has_waited)
        if self._has_waited:
            return groups
        left = SLICE_BYTES
        while rest and (everything or left > 0):
            key = next(iter(rest))
            group = groups[key] = rest.pop(key)
            left -= size_of(group)
        return groups

    def _append_groups(self, groups: Groups) -> dict[LaneCaller, None]:
        """Append the collected batches; return the requests with responses."""
        assert self._answered is None, "whoever is woken goes on later"
        answered: dict[LaneCaller, None] = {}
        self._answered = answered
        for key, group in groups.items():
            try:
                self._append(key, group)
            except Exception as error:  # a bug, and the appended records are unknown: the clients have to retry
                log.unexpected("produce", error, partition=key)
                for piece in group:
                    piece.taken.caller.close()
        self._answered = None
        return answered

    def _append(self, key: TopicPartition, group: list[Piece]) -> None:
        """Append the batches of a partition, as many together as have the same conditions."""
        standing = [piece for piece in group if self._stands(piece.taken.head)]
        if len(standing) < len(group):
            self._refuse_gone(key, group)
            group = standing
        place = 0
        while place < len(group):
            head = group[place].taken.head
            run = run_from(group, place)
            batches = [piece.records for piece in run]
            on_done = partial(self._appended, run)
            count = self._replicas.append_run(head.timeout_ms, head.acks, key, batches, on_done)
            place += count
            if count and head.acks == ACKS_ALL and run[0].taken.rows[run[0].place] is None:
                begin_waiting(run[:count], self._loop.time())
            if count < len(run):
                self._append_alone(key, group[place])
                place += 1

    def _refuse_gone(self, key: TopicPartition, group: list[Piece]) -> None:
        """Answer those whose topic was deleted after they came."""
        for taken, place, _ in group:
            if not self._stands(taken.head):
                self._done(taken, place, refused_row(key, KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)))

    def _append_alone(self, key: TopicPartition, piece: Piece) -> None:
        """Append one partition's records on the general path, which reports their errors."""
        taken, place, records = piece
        head = taken.head
        try:
            data = PartitionProduceData(index=key.partition, records=records)
            checked(head.ctx, self._broker, key, data, is_closed=False)
        except KafkaError as error:
            self._done(taken, place, refused_row(key, error))
            return
        self._replicas.append_records(
            head.timeout_ms, head.acks, {key: records}, partial(self._appended_alone, taken, place, key)
        )
        taken.waits_s = self._loop.time()

    def _appended_alone(self, taken: Taken, place: int, key: TopicPartition, rows: Rows) -> None:
        """Record the result of a general append."""
        self._done(taken, place, rows[key])

    def _appended(self, run: list[Piece], done: RunInfo, row: PartitionProduceResponse) -> None:
        """Record the result of an append: the first entries of the run, one per base offset."""
        index, append_time, log_start_offset = row.index, done.log_append_time_ms, row.log_start_offset
        for (taken, place, _), base_offset in zip(run, done.base_offsets, strict=False):
            if row.error_code:
                failed = replace(row, base_offset=base_offset, log_append_time=append_time)
                self._done(taken, place, failed)
            else:
                self._done(taken, place, (index, base_offset, append_time, log_start_offset))

    def _done(self, taken: Taken, place: int, row: Placed | PartitionProduceResponse) -> None:
        """Record a partition's row; respond with the last one."""
        taken.rows[place] = row
        taken.left -= 1
        if taken.left:
            return
        caller, head = taken.caller, taken.head
        try:
            answer = self._answer(taken)
        except KafkaError as error:  # of acks=0, which has no response that could report it
            log.warning("connection closed", client=head.ctx.client_address, reason=error)
            caller.close()
            return
        caller.give(taken.slot, answer, head.ctx.throttle_ms)
        caller.handled(self.name, head.version, (self._loop.time() - taken.since_s) * 1000, taken)
        if self._answered is None:
            caller.go_on_soon()
        else:
            self._answered[caller] = None

    def _answer(self, taken: Taken) -> bytes:
        """Return the response frame, none for acks=0. Raises KafkaError if the connection must be closed."""
        head = taken.head
        correlation_id = bytes(taken.frame[CORRELATION_ID_POSITION:HEAD_POSITION])
        placed = [row for row in taken.rows if isinstance(row, tuple)]
        if len(placed) == len(taken.rows):
            throttle_ms = self._broker.throttle(head.ctx, produced=len(taken.frame))
            return b"" if head.acks == NO_ACKS else head.template.answer(correlation_id, placed, throttle_ms)
        rows = {TopicPartition(head.name, row.index): row for row in map(full_row, taken.rows)}
        data = [PartitionProduceData(index=key.partition) for key in rows]
        topic = TopicProduceData(name=head.topic.name, topic_id=head.topic.topic_id, partition_data=data)
        request = ProduceRequest(acks=head.acks, timeout=head.timeout_ms, topic_data=[topic])
        response = respond(head.ctx, request, self._broker, [head.name], rows, len(taken.frame))
        return b"" if response is None else head.template.frame(correlation_id, response)


def size_of(group: list[Piece]) -> int:
    """Return how many bytes of records there are."""
    return sum([len(piece.records) for piece in group])


def begin_waiting(pieces: list[Piece], now_s: float) -> None:
    """Mark appended entries as waiting for replicas."""
    for piece in pieces:
        piece.taken.waits_s = now_s


def run_from(group: list[Piece], place: int) -> list[Piece]:
    """Return the next pieces from `place` on that have the same acks and time-out."""
    first = group[place].taken.head
    run: list[Piece] = []
    for piece in islice(group, place, place + RUN_MAX):
        head = piece.taken.head
        if head is not first and (head.acks != first.acks or head.timeout_ms != first.timeout_ms):
            break
        run.append(piece)
    return run


def full_row(row: Placed | PartitionProduceResponse | None) -> PartitionProduceResponse:
    """Return a row as the answer's class has it."""
    assert row is not None, "all partitions are done"
    if isinstance(row, PartitionProduceResponse):
        return row
    index, base_offset, log_append_time, log_start_offset = row
    return PartitionProduceResponse(
        index=index, base_offset=base_offset, log_append_time=log_append_time, log_start_offset=log_start_offset
    )
