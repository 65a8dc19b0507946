"""The transaction coordinator on one partition of __transaction_state, for one leadership.

    decided -> PREPARE_* committed -> markers sent -> all partitions have theirs -> COMPLETE_* written -> committed

The response to an end is sent when PREPARE_* is committed; from then on it is final under every coordinator. So markers
are never sent earlier, including those of an earlier leader: after a failover they wait until the whole log is
committed.

Volatile data: the previous epochs of producers (see state.TransactionMetadata), and the timers for transactions that
exceed their timeout and for unused ids.

Invariants, asserted: markers are sent for committed PREPARE_* only, and a completion is written for the same epoch as
its markers. Source: TransactionCoordinator, TransactionStateManager.
"""

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decide, Decision, Producer, Turn
from kvorum.broker.coordinator.transaction import beginning, ending, listing, replay
from kvorum.broker.coordinator.transaction.listing import Expired
from kvorum.broker.coordinator.transaction.markers import Ending, EndingKey, Marker
from kvorum.broker.coordinator.transaction.state import State, TransactionMetadata, TransactionsState
from kvorum.broker.coordinator.transaction.words import (
    AddPartitions,
    Answer,
    EndTransaction,
    InitProducer,
    Terms,
    Verdict,
)
from kvorum.broker.replica.tasks import spawn
from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.features import TRANSACTION_VERSION
from kvorum.runtime import failpoints
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

COMPLETION_RETRY_MS: Final = 500
"""Until a completion that could not be appended (not enough replicas) is tried again."""
EXPIRED_PER_TURN_MAX: Final = 500
"""Ids forgotten at once: some 5 ms of work. The others follow after EXPIRED_PAUSE_MS."""
EXPIRED_PAUSE_MS: Final = 100


class Markers(Protocol):
    """Brings markers to their partitions: a MarkerSender."""

    def send(self, ending: Ending) -> None:
        """Begin; `on_done` is called once, in a later turn of the loop, unless cancelled."""
        ...

    def cancel(self, home: TopicPartition) -> None:
        """Forget the transactions of a partition of __transaction_state."""
        ...

    def unfinished(self, key: EndingKey) -> frozenset[TopicPartition] | None:
        """Return the partitions without a marker, None if the transaction is not being ended."""
        ...

    def metadata_changed(self) -> None:
        """Leaders may have changed."""
        ...


class ProducerIds(Protocol):
    """Gives out producer ids (ProducerIdManager)."""

    async def next_producer_id(self) -> int:
        """Return a producer id that was never used before. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The settings a coordinator needs, in ms."""

    timeout_ms_max: int
    expiration_ms: int
    abort_interval_ms: int
    expiry_interval_ms: int

    @classmethod
    def of(cls, settings: Settings) -> "TransactionSettings":
        """Read them from the broker's."""
        return cls(
            timeout_ms_max=settings.int("transaction.max.timeout.ms"),
            expiration_ms=settings.int("transactional.id.expiration.ms"),
            abort_interval_ms=settings.int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiry_interval_ms=settings.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        )


class LastEpoch(NamedTuple):
    """The epoch that a producer had before it got this one."""

    producer: Producer
    epoch: int


class TransactionShard:
    """Transactions of one __transaction_state partition. A Shard[TransactionsState]."""

    def __init__(
        self, home: TopicPartition, markers: Markers, producer_ids: ProducerIds, settings: TransactionSettings
    ) -> None:
        """`home` is the partition of __transaction_state."""
        self._home = home
        self._markers = markers
        self._producer_ids = producer_ids
        self._settings = settings
        self._active_turn: Turn[TransactionsState] | None = None
        self._last_epochs: dict[str, LastEpoch] = {}
        self._fetches: dict[str, asyncio.Task[None]] = {}

    # --- interface for the runtime (words.Shard) ----------------------------------------------------------------------

    def initial(self) -> TransactionsState:
        """See Shard."""
        return TransactionsState()

    def replay(
        self, state: TransactionsState, offset: int, record: CoordinatorRecord, producer: Producer
    ) -> TransactionsState:
        """See Shard."""
        return replay.replay(state, offset, record)

    def replay_marker(
        self, state: TransactionsState, offset: int, producer: Producer, is_commit: bool
    ) -> TransactionsState:
        """See Shard. This topic has no transactional batches."""
        return state

    def activated(self, turn: Turn[TransactionsState]) -> None:
        """See Shard: continue with the decisions, once they are committed."""
        self._active_turn = turn
        turn.write_nowait("go on", lambda state, now_ms: Decision(response=None, outcome=self._go_on))
        turn.at(turn.now_ms() + self._settings.abort_interval_ms, self._abort_timed_out)
        turn.at(turn.now_ms() + self._settings.expiry_interval_ms, self._expire)

    def deactivated(self, error: KafkaError) -> None:
        """See Shard."""
        self._active_turn = None
        self._markers.cancel(self._home)
        for task in self._fetches.values():
            task.cancel()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See Shard."""
        if not delta.topics_delta.is_empty:
            self._markers.metadata_changed()

    @property
    def _turn(self) -> Turn[TransactionsState]:
        assert self._active_turn is not None, "only an active shard decides"
        return self._active_turn

    # --- client requests: decisions for CoordinatorPartition.write ----------------------------------------------------

    def init_producer_id(
        self, request: InitProducer, new_producer_id: int | None = None
    ) -> Decide[TransactionsState, Answer | None]:
        """InitProducerId. A response of None: retry with a new producer id; so for all that may need one."""

        def decide(state: TransactionsState, now_ms: int) -> Decision[Answer | None]:
            metadata = self._known(state, request.transactional_id)
            return self._decision(beginning.init_producer_id(metadata, request, self._terms(new_producer_id)))

        return decide

    def add_partitions(self, request: AddPartitions) -> Decide[TransactionsState, Answer | None]:
        """AddPartitionsToTxn and AddOffsetsToTxn."""

        def decide(state: TransactionsState, now_ms: int) -> Decision[Answer | None]:
            metadata = self._known(state, request.transactional_id)
            return self._decision(beginning.add_partitions(metadata, request, self._terms()))

        return decide

    def end_transaction(
        self, request: EndTransaction, new_producer_id: int | None = None
    ) -> Decide[TransactionsState, Answer | None]:
        """EndTxn."""

        def decide(state: TransactionsState, now_ms: int) -> Decision[Answer | None]:
            metadata = self._known(state, request.transactional_id)
            return self._decision(ending.end_transaction(metadata, request, self._terms(new_producer_id)))

        return decide

    def unfinished(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """Return the partitions without a marker, None if no transaction is being ended."""
        return self._markers.unfinished(EndingKey(self._home, transactional_id))

    def _terms(self, new_producer_id: int | None = None) -> Terms:
        return Terms(
            wall_ms=self._turn.wall_ms(),
            transaction_version=self._transaction_version,
            timeout_ms_max=self._settings.timeout_ms_max,
            new_producer_id=new_producer_id,
        )

    @property
    def _transaction_version(self) -> int:
        return self._turn.image.features.level(TRANSACTION_VERSION)

    def _known(self, state: TransactionsState, transactional_id: str) -> TransactionMetadata | None:
        """Return an id's metadata, with the producer's previous epoch if it was stored for the current epoch."""
        metadata = state.get(transactional_id)
        noted = self._last_epochs.get(transactional_id)
        if metadata is None or noted is None or noted.producer != (metadata.producer_id, metadata.producer_epoch):
            return metadata
        return replace(metadata, last_producer_epoch=noted.epoch)

    def _decision(self, verdict: Verdict) -> Decision[Answer | None]:
        """Return records and response for the runtime."""
        if verdict.needs_producer_id:
            return Decision(response=None)
        if verdict.next is None:
            return Decision(response=verdict.answer)
        name = verdict.next.transactional_id
        if verdict.next.last_producer_epoch == NO_PRODUCER_EPOCH:
            self._last_epochs.pop(name, None)
        else:
            producer = Producer(verdict.next.producer_id, verdict.next.producer_epoch)
            self._last_epochs[name] = LastEpoch(producer, verdict.next.last_producer_epoch)
        return Decision(
            response=verdict.answer,
            records=(replay.record_of(verdict.next, self._transaction_version),),
            outcome=partial(self._prepared, name) if verdict.next.state.is_prepared else None,
        )

    # --- ends --------------------------------------------------------------------------------------------------------

    def _go_on(self, error: KafkaError | None) -> None:
        """Send the markers of all that was decided before this leadership."""
        if error is not None:
            return
        transactions = self._turn.committed_state.transactions
        for transactional_id in sorted(transactions):
            metadata = transactions[transactional_id]
            if metadata.state.is_prepared:
                self._send_markers(metadata)

    def _prepared(self, transactional_id: str, error: KafkaError | None) -> None:
        """A decision to end a transaction is committed, or there was none: then nothing has to be done."""
        if error is not None:
            return
        metadata = self._turn.committed_state.get(transactional_id)
        assert metadata is not None and metadata.state.is_prepared, "only its completion comes behind this state"
        self._send_markers(metadata)

    def _send_markers(self, metadata: TransactionMetadata) -> None:
        failpoints.hit("transaction.prepared")
        marker = Marker(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            is_commit=metadata.state is State.PREPARE_COMMIT,
            coordinator_epoch=self._turn.epoch,
            transaction_version=metadata.client_transaction_version,
        )
        self._markers.send(
            Ending(
                key=EndingKey(self._home, metadata.transactional_id),
                marker=marker,
                unfinished=set(metadata.partitions),
                on_done=partial(self._complete, metadata.transactional_id, marker),
            )
        )

    def _complete(self, transactional_id: str, marker: Marker) -> None:
        """Every partition has its marker: write that the transaction is over."""

        def decide(state: TransactionsState, now_ms: int) -> Decision[None]:
            metadata = self._known(state, transactional_id)
            assert metadata is not None and metadata.state.is_prepared, "nothing else follows upon this state"
            assert (metadata.producer_id, metadata.producer_epoch) == marker[:2], "the end its markers were sent for"
            decision = self._decision(Verdict(ending.completed(metadata, self._turn.wall_ms()), Answer()))
            return Decision(response=None, records=decision.records, outcome=retry_on_error)

        def retry_on_error(error: KafkaError | None) -> None:
            if error is not None:
                turn.at(turn.now_ms() + COMPLETION_RETRY_MS, again)

        def again() -> None:
            if self._active_turn is turn:
                self._complete(transactional_id, marker)

        failpoints.hit("transaction.marked")
        turn = self._turn
        turn.write_nowait("complete a transaction", decide)

    # --- timers ------------------------------------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        turn = self._turn
        turn.at(turn.now_ms() + self._settings.abort_interval_ms, self._abort_timed_out)
        wall_ms = turn.wall_ms()
        state = turn.state
        for transactional_id in sorted(state.ongoing):
            metadata = state.get(transactional_id)
            assert metadata is not None, "what is ongoing is known"
            if metadata.is_timed_out(wall_ms):
                self._abort(transactional_id)
            if self._active_turn is not turn:
                return  # the write before has found out that this leadership is over

    def _abort(self, transactional_id: str, new_producer_id: int | None = None) -> None:
        """Abort a transaction that exceeded its timeout, unless it has ended meanwhile."""

        def decide(state: TransactionsState, now_ms: int) -> Decision[None]:
            metadata = self._known(state, transactional_id)
            verdict = ending.abort_if_timed_out(metadata, self._terms(new_producer_id))
            if verdict.needs_producer_id:
                self._fetch_producer_id(transactional_id)
            elif verdict.next is not None:
                log.info("transaction timed out", transactional_id=transactional_id, timeout=verdict.next.timeout_ms)
            decision = self._decision(verdict)
            return Decision(response=None, records=decision.records, outcome=decision.outcome)

        self._turn.write_nowait("abort a transaction", decide)

    def _fetch_producer_id(self, transactional_id: str) -> None:
        """Abort with a new producer id, once available; otherwise the timer retries."""

        async def fetch() -> None:
            try:
                new_producer_id = await self._producer_ids.next_producer_id()
            except KafkaError as error:
                log.warning(
                    "abort of a timed-out transaction delayed: no producer id",
                    transactional_id=transactional_id,
                    reason=error,
                )
            else:
                self._abort(transactional_id, new_producer_id)
            finally:
                self._fetches.pop(transactional_id, None)

        if transactional_id not in self._fetches:
            self._fetches[transactional_id] = spawn("producer-id-for-abort", fetch())

    def _expire(self) -> None:
        """Remove transactional ids that were unused for transactional.id.expiration.ms."""
        turn = self._turn
        found = listing.expired(turn.state, turn.wall_ms(), self._settings.expiration_ms)
        for each in found[:EXPIRED_PER_TURN_MAX]:
            turn.write_nowait("forget a transactional id", self._forget(each))
            if self._active_turn is not turn:
                return
        are_more = len(found) > EXPIRED_PER_TURN_MAX
        pause_ms = EXPIRED_PAUSE_MS if are_more else self._settings.expiry_interval_ms
        turn.at(turn.now_ms() + pause_ms, self._expire)

    def _forget(self, found: Expired) -> Decide[TransactionsState, None]:
        def decide(state: TransactionsState, now_ms: int) -> Decision[None]:
            metadata = state.get(found.transactional_id)
            if metadata is None or metadata.last_update_ms != found.last_update_ms:
                return Decision(response=None)
            self._last_epochs.pop(found.transactional_id, None)
            return Decision(response=None, records=(replay.tombstone_of(found.transactional_id),))

        return decide
