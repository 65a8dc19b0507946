"""One partition of a coordinator: decide, replay into the newest state, append, respond when committed.

Its phases are in phase.py; decisions are made in ACTIVE only.

Invariants, asserted: a record is replayed at the offset it then gets; responses are sent in the order of the decisions.
Only a high watermark of the epoch of the append completes a decision: one that is learned as a follower belongs to
another leader's log (KAFKA-20634). A rejected append discards the decisions in its batch, and those made on top
of it while it was open; later ones have not been made yet.
Source: Kafka's CoordinatorRuntime.CoordinatorContext.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from kvorum.broker.coordinator.runtime.batch import OpenBatch, record_size
from kvorum.broker.coordinator.runtime.history import Answer, History
from kvorum.broker.coordinator.runtime.loading import Loading
from kvorum.broker.coordinator.runtime.phase import Phase, refusal_in
from kvorum.broker.coordinator.runtime.timer import CoordinatorTimer
from kvorum.broker.coordinator.runtime.waiting import Waiting, refuse_to
from kvorum.broker.coordinator.runtime.words import (
    NO_PRODUCER,
    PLAIN,
    CoordinatorLog,
    Decide,
    Decision,
    Producer,
    Shard,
    Terms,
    refusal_of,
)
from kvorum.protocol.batch_header import HEADER_SIZE
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.runtime.clock import Clock
from kvorum.runtime.logs import get_logger
from kvorum.runtime.timers import Timer
from kvorum.storage.verification import VerificationGuard

S = TypeVar("S")
R = TypeVar("R")
H = TypeVar("H", bound=Shard[Any])

log = get_logger("coordinator")

APPENDS_OPEN_MAX = 1_000
"""Appended and not committed. More means that the followers have stopped: COORDINATOR_NOT_AVAILABLE from here on."""


class CoordinatorPartition(Generic[S, H]):
    """A coordinator's partition. One per local replica of the internal topic's partitions."""

    def __init__(
        self,
        key: TopicPartition,
        coordinator_log: CoordinatorLog,
        make_shard: Callable[[], H],
        clock: Clock,
        *,
        image: Callable[[], MetadataImage],
        codec: Codec,
        write_timeout_ms: int,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """Start closed. `on_fault` ends the process: a decision or a replay raised an unexpected error."""
        self.key = key
        self.phase = Phase.CLOSED
        self.epoch = -1
        self._log = coordinator_log
        self._make_shard = make_shard
        self._clock = clock
        self._image = image
        self._codec = codec
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()  # once: each time it costs a system call
        self._timer = CoordinatorTimer(clock.monotonic_ms)
        self._waiting = Waiting(write_timeout_ms, clock.monotonic_ms)
        self._shard: H | None = None
        self._history: History[S] | None = None
        self._open: OpenBatch[S] | None = None
        self._loading: Loading[S] | None = None
        self._loaded_end_offset = 0

    # --- interface for a shard (words.Turn) ---------------------------------------------------------------------------

    @property
    def state(self) -> S:
        """The newest state, committed or not. Active only."""
        return self._open.state if self._open is not None else self._active_history.newest

    @property
    def committed_state(self) -> S:
        """The state below the high watermark. Active only."""
        return self._active_history.committed

    @property
    def image(self) -> MetadataImage:
        """The cluster's newest metadata."""
        return self._image()

    @property
    def shard(self) -> H:
        """The shard of this leadership. Active only."""
        assert self._shard is not None and self.phase is Phase.ACTIVE, "only an active partition has a shard"
        return self._shard

    def now_ms(self) -> int:
        """Return the monotonic time."""
        return self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        """Return the wall clock's time."""
        return self._clock.wall_ms()

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back at a monotonic time, unless this leadership is over by then."""
        return self._timer.at(deadline_ms, callback)

    @property
    def _active_history(self) -> History[S]:
        assert self._history is not None, "only a loaded partition has states"
        return self._history

    # --- leadership --------------------------------------------------------------------------------------------------

    def lead(self, epoch: int) -> None:
        """Lead in a new epoch: load. An epoch that is not newer changes nothing."""
        if epoch <= self.epoch:
            return
        self._end(KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.key} has a new leader epoch, {epoch}"))
        self.epoch = epoch
        self._begin_loading()

    def resign(self, epoch: int) -> None:
        """Stop leading: another broker leads in this epoch, or the replica was removed."""
        if epoch >= self.epoch:
            self.epoch = epoch
            self._end(KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.key} is not led here any more"))

    async def close(self) -> None:
        """Stop for good."""
        self._end(KafkaError(ErrorCode.NOT_COORDINATOR, "the broker stops"))
        self._timer.end()
        if self._loading is not None:
            await self._loading.ended()

    def _begin_loading(self) -> None:
        self.phase = Phase.LOADING
        shard = self._make_shard()
        loaded = partial(self._loaded, shard)
        self._loading = Loading(self.key, self.epoch, self._log, shard, self._clock.monotonic_ms, loaded)

    def _loaded(self, shard: H, history: History[S] | None) -> None:
        if history is None:
            self.phase = Phase.FAILED
            return
        self._history, self._shard, self.phase = history, shard, Phase.ACTIVE
        self._loaded_end_offset = history.end_offset
        shard.activated(self)

    def _end(self, error: KafkaError) -> None:
        """Close; waiters receive the error."""
        shard, history, open_batch = self._shard, self._history, self._open
        self.phase = Phase.CLOSED
        self._shard = self._history = self._open = None
        if self._loading is not None:
            self._loading.give_up()
        self._timer.end()
        self._timer = CoordinatorTimer(self._clock.monotonic_ms)
        self._waiting.clear()
        if history is not None:
            self._waiting.tell(history.abandon(), error)
        if open_batch is not None:
            self._waiting.tell(open_batch.answers, error)
        if shard is not None:
            shard.deactivated(error)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Complete what is committed now; called while this broker leads in `epoch`."""
        if self._history is not None and self.phase is Phase.ACTIVE:
            self._waiting.tell(self._history.advance(high_watermark), None)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Call the active shard, if there is one."""
        if self.phase is Phase.ACTIVE:
            self.shard.metadata_changed(delta, image)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def require_active(self) -> None:
        """Raise KafkaError NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS unless decisions are taken here now."""
        if self.phase is not Phase.ACTIVE:
            raise refusal_in(self.phase, self.key)

    def write(
        self,
        name: str,
        decide: Decide[S, R],
        producer: Producer = NO_PRODUCER,
        guard: VerificationGuard | None = None,
        refuse: Callable[[KafkaError], R] | None = None,
    ) -> "asyncio.Future[R]":
        """Decide now; the future has the response once the state that it depends on is committed, possibly at once.

        A write within a producer's transaction has the guard of its verification, if one was needed.

        The future fails with KafkaError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE (not
        enough replicas, or not committed in time: it may be later), or with the error of `decide`. With `refuse` a
        KafkaError is converted to a response.
        """
        waiter: asyncio.Future[R] = self._loop.create_future()
        try:
            self.require_active()
            now_ms = self._clock.monotonic_ms()
            decision = self._decided(decide, now_ms)
            if self._rests_on_nothing(decision):
                waiter.set_result(decision.response)
                return waiter
            answer = self._waiting.answer_of(waiter, decision.response, now_ms, refuse)
            self._take(name, decision, answer, producer, PLAIN if guard is None else Terms(guard=guard))
        except KafkaError as error:
            refuse_to(waiter, error, refuse)
            self._waiting.drop_done()
        else:
            self._waiting.arm(self._timer)
        return waiter

    async def read(self) -> S:
        """Return the committed state, once it contains all records that the log had when this leadership began.

        A new leader's high watermark lags: records that an earlier one acknowledged may be above it for a while, and a
        read below them would show a lost commit. Raises KafkaError as `write`.
        """
        self.require_active()
        if self._active_history.has_committed(self._loaded_end_offset):
            return self._active_history.committed
        return await self.write("read", lambda state, now_ms: Decision(response=state))

    def write_nowait(self, name: str, decide: Decide[S, None]) -> None:
        """Decide and append without a waiter; an error goes to the decision's outcome and the log."""

        def answer(error: KafkaError | None) -> None:
            if error is not None:
                log.warning("coordinator change not written", partition=self.key, change=name, reason=error)

        try:
            self.require_active()
            self._take(name, self._decided(decide, self.now_ms()), answer, NO_PRODUCER, PLAIN)
        except KafkaError as error:
            answer(error)

    def write_marker(
        self, marker: bytearray, producer: Producer, is_commit: bool, transaction_version: int = 0
    ) -> "asyncio.Future[None]":
        """Append the marker that ends a producer's transaction here; done when committed, else fails as `write`."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        try:
            self.require_active()
            if self._open is not None:
                self._flush()
                self.require_active()
        except KafkaError as error:
            waiter.set_exception(error)
            return waiter
        base_offset = self._active_history.end_offset
        state: S = self.shard.replay_marker(self.state, base_offset, producer, is_commit)
        answer = self._waiting.answer_of(waiter, None, self.now_ms())
        terms = Terms(transaction_version=transaction_version)
        self._append(marker, base_offset, base_offset + 1, state, [answer], terms)
        self._waiting.arm(self._timer)
        return waiter

    def _rests_on_nothing(self, decision: Decision[R]) -> bool:
        """Return whether a decision changes nothing and is based on committed state only, as most heartbeats."""
        if decision.records or decision.outcome is not None or self._open is not None:
            return False
        return self._active_history.is_settled

    def _decided(self, decide: Decide[S, R], now_ms: int) -> Decision[R]:
        try:
            return decide(self.state, now_ms)
        except KafkaError:
            raise
        except Exception as error:
            self._on_fault(error)
            raise

    def _take(self, name: str, decision: Decision[R], answer: Answer, producer: Producer, terms: Terms) -> None:
        """Add a decision's records to the open batch; one without records completes with the state it is based on."""
        answers = [answer] if decision.outcome is None else [decision.outcome, answer]
        if not decision.records:
            self._answer_behind(answers)
            return
        try:
            size = sum(map(record_size, decision.records))
            limit = self._open.size_max if self._open is not None else self._log.batch_bytes_max()
            if HEADER_SIZE + size > limit:
                raise KafkaError(
                    ErrorCode.RECORD_LIST_TOO_LARGE,
                    f"{name}: {HEADER_SIZE + size} bytes of records, the limit is {limit}",
                )
            batch = self._batch_for(size, limit, producer, terms)
        except KafkaError as error:
            refused = refusal_of(error)
            if decision.outcome is not None:
                decision.outcome(refused)
            raise refused from error
        replay, state = self.shard.replay, batch.state
        for offset, record in enumerate(decision.records, batch.end_offset):
            state = replay(state, offset, record, producer)
        batch.add(decision.records, size, state, answers)
        if producer != NO_PRODUCER:
            self._flush()

    def _answer_behind(self, answers: list[Answer]) -> None:
        """Answer with the newest uncommitted change, at once if there is none."""
        if self._open is not None:
            self._open.answers += answers
            return
        for answer in answers:
            if not self._active_history.wait_for_newest(answer):
                answer(None)

    def _batch_for(self, size: int, limit: int, producer: Producer, terms: Terms) -> OpenBatch[S]:
        """Return the open batch, a new one if need be. Raises KafkaError."""
        if self._open is not None and (producer != self._open.producer or self._open.size + size > limit):
            refused = self._flush()
            self.require_active()
            if refused is not None:
                raise refused  # the next batch's decisions are based on this one
        if self._open is not None:
            return self._open
        history = self._active_history
        if history.open_count >= APPENDS_OPEN_MAX:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many uncommitted changes")
        self._open = OpenBatch(history.end_offset, history.newest, limit, producer, terms)
        self._loop.call_soon(self._flush_of, self._open)
        return self._open

    def _flush_of(self, batch: OpenBatch[S]) -> None:
        if self._open is batch:
            self._flush()

    def _flush(self) -> KafkaError | None:
        """Append the open batch; refused (the error is returned), it is as if nothing of it had been decided."""
        batch, self._open = self._open, None
        assert batch is not None and batch.records, "a batch is opened for a record"
        data = batch.encode(self.wall_ms(), self._codec)
        return self._append(data, batch.base_offset, batch.end_offset, batch.state, batch.answers, batch.terms)

    def _append(
        self, data: bytearray, base_offset: int, end_offset: int, state: S, answers: list[Answer], terms: Terms
    ) -> KafkaError | None:
        """Append one batch that leads to `state`. Waiters are answered now or when it is committed.

        Return why it was refused, if it was.
        """
        history = self._active_history
        appended = history.push(end_offset, state)
        appended.answers += answers
        try:
            if self._log.end_offset() != base_offset:
                self._load_anew(base_offset)
                return None
            first_offset = self._log.append(data, self.epoch, terms)
        except KafkaError as error:
            if self._history is history:  # else the end of the leadership has answered them
                history.drop(appended, base_offset)
                self._waiting.tell(answers, refusal_of(error))
            return error
        assert first_offset == base_offset, "nothing came between the look at the log end and the append"
        return None

    def _load_anew(self, offset: int) -> None:
        """Another writer appended to the partition: the states are unknown now."""
        log.error("unexpected write to a coordinator partition, state is reloaded", partition=self.key, offset=offset)
        self._end(KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.key} is loaded again"))
        self._begin_loading()
