"""The active controller: decide, replay into a speculative image, append, respond when committed.

    INACTIVE --on_active--> ACTIVE --on_inactive--> INACTIVE
                            ACTIVE --a batch rejected or dropped--> DRAINING --nothing outstanding--> ACTIVE
                            DRAINING --on_inactive--> INACTIVE

INACTIVE  another node leads, or none: every request returns NOT_CONTROLLER.
ACTIVE    decisions are made on the speculative image, which has every change appended in this term, committed or
          not. Changes are appended without waiting for earlier ones, and responses are sent in order as they commit.
DRAINING  the log rejected a change that later decisions may depend on. The speculative image is dropped, waiting
          requests get NOT_CONTROLLER; when every append has its outcome, the image is rebuilt from the committed
          one. If the log rejects the first append after it, this is retried after RESTART_DELAY_S.

A decision that takes longer than a slice of the loop's time (a broker with tens of thousands of replicas is fenced) is
computed in slices. It remains one decision and one change: all others wait until it is appended.

Invariants, asserted: outside DRAINING the speculative end is the log's end; changes complete in the order in which they
were appended; the speculative image without open changes has the committed image's offset.

After NOT_CONTROLLER a client does not know whether its change takes effect: the log may still commit it. It retries,
and controller requests are designed so that this is safe. Source: Kafka's QuorumController (ControllerWriteEvent,
OffsetControlManager). One event loop, no locks: nothing suspends between a decision and its append.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from functools import partial
from typing import TypeVar, cast

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.batches import encode_batches, encoded_batches
from kvorum.quorum.changes import ActivationListener, Change, Decide, DecisionTimes, Made, not_controller
from kvorum.quorum.controller.features import bootstrap_records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.metadata_store import MetadataStore
from kvorum.quorum.raft.log import Dropped, MetadataLog, MetadataLogError, SnapshotView
from kvorum.quorum.records import AbortTransaction, MetadataRecord, NoOp
from kvorum.quorum.slices import SLICE_S, Slices
from kvorum.quorum.steps import Steps, finish, step, used_up
from kvorum.runtime.clock import Clock
from kvorum.runtime.logs import get_logger

T = TypeVar("T")

log = get_logger("quorum")

CHANGES_IN_FLIGHT_MAX = 10_000
"""Limit of uncommitted decisions: half a second at 20,000 commits per second; more means that commits have stopped."""
RESTART_DELAY_S = 0.05
"""Pause after a full log; a commit takes less."""


class State(Enum):
    """See the table above."""

    INACTIVE = "inactive"
    ACTIVE = "active"
    DRAINING = "draining"


class ActiveController:
    """This node's share in being the active controller. Registered with the metadata log behind its MetadataStore."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        store: MetadataStore,
        clock: Clock,
        *,
        on_fault: Callable[[BaseException], None],
        bootstrap: Callable[[], Sequence[MetadataRecord]] = bootstrap_records,
        first_words: Callable[[MetadataImage], Sequence[MetadataRecord]] = lambda image: [NoOp()],
    ) -> None:
        """Begin inactive.

        `on_fault` ends the process: a decision raised an unexpected exception.

        `bootstrap` returns the first records of a new cluster, `first_words` those of each later term.
        """
        self._log = metadata_log
        self._store = store
        self._clock = clock
        self._on_fault = on_fault
        self._bootstrap = bootstrap
        self._first_words = first_words
        self._listeners: list[ActivationListener] = []
        self._state = State.INACTIVE
        self._image = store.image
        self._end_offset = 0
        self._epoch = -1
        self._turn = 0
        self._changes: deque[Change[object]] = deque()
        self._outstanding = 0
        self._open = asyncio.Event()
        self._open.set()
        self.times = DecisionTimes()
        self.last_append_ms = 0
        """Monotonic time of the last append, for the sign of life of an idle log."""

    def add_listener(self, listener: ActivationListener) -> None:
        """Follow from the next activation on."""
        self._listeners.append(listener)

    @property
    def state(self) -> State:
        """State of this node."""
        return self._state

    @property
    def epoch(self) -> int:
        """The controller epoch while active, else -1."""
        return -1 if self._state is State.INACTIVE else self._epoch

    @property
    def image(self) -> MetadataImage:
        """The committed image: what reads answer from."""
        return self._store.image

    @property
    def speculative_image(self) -> MetadataImage:
        """The image that decisions are taken on; the committed one while inactive."""
        return self._image if self._state is State.ACTIVE else self._store.image

    @property
    def next_offset(self) -> int:
        """The offset at which the next change begins, which is a new registration's broker epoch."""
        return self._end_offset

    @property
    def changes_count(self) -> int:
        """Number of uncommitted changes."""
        return len(self._changes)

    def is_active(self) -> bool:
        """Return whether this node decides requests now."""
        return self._state is State.ACTIVE and self._log.is_active()

    def require_active(self) -> None:
        """Raise KafkaError NOT_CONTROLLER unless requests are decided here now."""
        if not self.is_active():
            raise not_controller(f"node {self._log.node_id} is {self._state.value}, {self._log.leader_id} leads")

    async def submit(self, decide: Decide[T], *, name: str = "", confirm: bool = True) -> T:
        """Decide now, on the speculative image; respond when the decision is committed.

        A decision without changes completes once everything it was based on is committed and, unless `confirm`
        is off, a majority has confirmed that this node still leads. A KafkaError of `decide` is passed on (it may
        depend on changes that never commit, which clients cannot distinguish from a change just after).

        Raises:
            KafkaError: NOT_CONTROLLER: retry, at the active controller; REQUEST_TIMED_OUT: too much is in flight.
        """
        now_s = asyncio.get_running_loop().time
        requested_s = now_s()
        while self.is_making:
            await self._open.wait()
        self.require_active()
        begun_s = now_s()
        made = await self._in_turns(self._decided(name, decide))
        self.times.decided(requested_s, begun_s, now_s())
        if made.batches:
            waiter = self._append(name, made)
            if len(made.batches) > 1:
                await Slices().run(made.delta.let_go())
            # Cancellation of a waiter (its client disconnected) does not change the decision.
            return await asyncio.shield(waiter)
        if self._changes:
            await asyncio.shield(self._changes[-1].waiter)
        if confirm:
            await self.confirm_leadership()
        return made.response

    @property
    def is_making(self) -> bool:
        """Return whether a large decision is in progress: others wait for it."""
        return not self._open.is_set()

    async def _in_turns(self, steps: Steps[Made[T]]) -> Made[T]:
        """Compute a decision: a small one at once, a large one in steps, while other decisions wait.

        Raises KafkaError NOT_CONTROLLER if its image is no longer the one that the next change starts from.
        """
        begun_on = (self._turn, self._end_offset, self._image)
        loop = asyncio.get_running_loop()
        until = loop.time() + SLICE_S
        try:
            while (done := step(steps)) is None:
                if loop.time() < until:
                    continue
                self._open.clear()
                await asyncio.sleep(0)
                until = loop.time() + SLICE_S
                self.require_active()
                turn, end_offset, image = begun_on
                if (self._turn, self._end_offset) != (turn, end_offset) or self._image is not image:
                    raise not_controller("uncommitted changes were discarded, including this one")
        finally:
            self._open.set()
        return done[0]

    def _decided(self, name: str, decide: Decide[T]) -> Steps[Made[T]]:
        image = self._image
        try:
            decision = decide(image)
            if isinstance(decision, Generator):
                decision = yield from decision
        except KafkaError:
            raise
        except Exception as error:
            self._on_fault(error)
            raise
        records, response = list(decision.records), decision.response
        del decision
        return (yield from self._made(image, name, records, response))

    def _made(self, base: MetadataImage, name: str, records: list[MetadataRecord], response: T) -> Steps[Made[T]]:
        """Encode the records and replay them: they are used up."""
        delta = MetadataDelta(base)
        if not records:
            return Made(response=response, batches=(), delta=delta, image=base, end_offset=self._end_offset)
        self._check_in_flight()
        batches = yield from encoded_batches(records, self._clock.wall_ms(), name=name)
        in_transaction = len(batches) > 1
        first_offset = self._end_offset + (1 if in_transaction else 0)  # behind the marker
        end_offset = first_offset + len(records) + (1 if in_transaction else 0)
        yield from delta.replay_all(enumerate(used_up(records), first_offset))
        image = yield from delta.applied(end_offset - 1, self._epoch)
        return Made(response=response, batches=batches, delta=delta, image=image, end_offset=end_offset)

    async def confirm_leadership(self) -> int:
        """Return a linearizable high watermark: everything acknowledged before this call is below it.

        The committed image of this node is at or above it on return. Raises KafkaError NOT_CONTROLLER.
        """
        self.require_active()
        try:
            offset = await self._log.read_index()
        except MetadataLogError as error:
            raise not_controller(str(error)) from error
        await self._store.wait_for_offset(offset)
        return offset

    # Callbacks of the metadata log. The store is called before this listener, so the committed image is newer than
    # ours.

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """The store has applied the batch; waiters complete with the append's future."""

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""
        assert self._state is State.INACTIVE, "a leader never loads a snapshot"

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_active(self, epoch: int) -> None:
        """Become active: start from the committed state."""
        assert self._state is State.INACTIVE and not self._changes, "on_inactive comes before the next on_active"
        self._state = State.ACTIVE
        self._epoch = epoch
        self._turn += 1
        self._outstanding = 0
        log.info("became active controller", node_id=self._log.node_id, epoch=epoch, offset=self._log.log_end_offset)
        self._restart_from_committed()
        for listener in self._listeners:
            listener.on_activated(self._image)

    def on_inactive(self) -> None:
        """Stop: uncommitted decisions of this term may or may not be committed later."""
        if self._state is State.INACTIVE:
            return
        log.info("resigned as active controller", node_id=self._log.node_id, epoch=self._epoch)
        self._state = State.INACTIVE
        self._fail_changes("leadership was lost")
        self._image = self._store.image
        for listener in self._listeners:
            listener.on_deactivated()

    def write_nowait(self, name: str, records: Sequence[MetadataRecord]) -> None:
        """Append a small change without a waiter; it can be rejected. It invalidates a large decision in progress."""
        try:
            self._write(name, records)
        except KafkaError as error:
            log.warning("metadata change not written", change=name, reason=error)

    def _write(self, name: str, records: Sequence[MetadataRecord]) -> None:
        """Make a small change and append it. Raises KafkaError."""
        self._append(name, finish(self._made(self._image, name, list(records), None)))

    def _check_in_flight(self) -> None:
        if len(self._changes) >= CHANGES_IN_FLIGHT_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many metadata changes are in flight")

    def _append(self, name: str, made: Made[T]) -> "asyncio.Future[T]":
        """Append a change; the speculative image is the one behind it. Raises KafkaError."""
        self._check_in_flight()
        change = self._append_batches(name, made.batches, made.response)
        assert self._end_offset == made.end_offset, "the batches hold the records and their markers, nothing else"
        self._image = made.image
        return change.waiter

    def _append_batches(self, name: str, batches: Sequence[bytes], response: T) -> Change[T]:
        """Append, and store the waiter. Raises KafkaError if the log rejects it; it has no effect then."""
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        change = Change(self._turn, name, response, waiter, len(batches))
        for index, batch in enumerate(batches):
            future = self._log.append(batch, self._end_offset, self._epoch)
            error = future.exception() if future.done() else None
            if error is not None:
                self._refused(name, error, cut_off=index > 0)
            self._outstanding += 1
            self._end_offset += parse_header(batch).records_count
            future.add_done_callback(partial(self._appended, change))
        self._changes.append(cast(Change[object], change))  # each is only ever given its own response
        self.last_append_ms = self._clock.monotonic_ms()
        return change

    def _refused(self, name: str, error: BaseException, *, cut_off: bool) -> None:
        """Raise for a batch that the log did not take; the speculative image is still without its change.

        A transaction that is cut off in the middle has spoilt the log's end for all that follows: drain.
        """
        log.warning("metadata change rejected by the log", change=name, reason=error)
        if cut_off:
            self._drain(f"{name}: {error}")
        elif isinstance(error, Dropped):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        raise not_controller(str(error)) from error

    def _appended(self, change: Change[T], future: "asyncio.Future[int]") -> None:
        """Process the outcome of an append; outcomes of an earlier activation are ignored."""
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if change.turn != self._turn or self._state is State.INACTIVE:
            return
        self._outstanding -= 1
        change.batches_left -= 1
        try:
            self._settle(change, error)
        except Exception as fault:
            self._on_fault(fault)
            raise

    def _settle(self, change: Change[T], error: BaseException | None) -> None:
        """Continue after one append's outcome."""
        if error is not None and self._state is State.ACTIVE:
            self._drain(f"{change.name}: {error}")
        elif self._state is State.ACTIVE and change.batches_left == 0:
            first = self._changes.popleft()
            assert first is change, "changes complete in the order of their appends"
            change.complete()
        if self._state is State.DRAINING and self._outstanding == 0:
            self._state = State.ACTIVE
            self._restart_from_committed()

    def _drain(self, reason: str) -> None:
        log.warning("metadata changes discarded", reason=reason, count=len(self._changes))
        self._state = State.DRAINING
        self._fail_changes(reason)

    def _restart_from_committed(self) -> None:
        """Decide on the committed image; end a predecessor's open transaction, and append the first records."""
        self._image = self._store.image
        self._end_offset = self._log.log_end_offset
        assert self._end_offset == self._store.end_offset, "all that is in the log is applied"
        try:
            if self._store.in_transaction:
                # Its author will not end it: the change is as if it had never been.
                log.warning("incomplete metadata transaction aborted", offset=self._end_offset)
                marker = AbortTransaction(reason="its controller did not finish it")
                self._append_batches("abort", encode_batches([marker], self._clock.wall_ms()), None)
            if self._image.features.metadata_version == 0:
                self._write("activation", self._bootstrap())
                return
        except KafkaError as error:
            # Nothing may be decided before these: it would be part of the half written change, or of no version.
            self._drain(f"the term cannot begin: {error}")
            if self._outstanding == 0:
                asyncio.get_running_loop().call_later(RESTART_DELAY_S, self._restart_again, self._turn)
            return
        # The first batch of a term informs all followers of its epoch, even without changes.
        self.write_nowait("activation", self._first_words(self._image))

    def _restart_again(self, turn: int) -> None:
        """Retry the start, unless the state has changed meanwhile."""
        if turn == self._turn and self._state is State.DRAINING and self._outstanding == 0:
            self._state = State.ACTIVE
            self._restart_from_committed()

    def _fail_changes(self, reason: str) -> None:
        changes, self._changes = self._changes, deque()
        for change in changes:
            change.fail(reason)
