"""Mistakes in the coordinators of groups and transactions, and in the transaction state of partitions."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from kvorum.broker.coordinator.group import commit_rules, offsets
from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.consumer import groups as consumer_groups
from kvorum.broker.coordinator.group.consumer.reconcile import Goal
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, GroupsState
from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.words import NO_PRODUCER, Decide, Decision, Producer
from kvorum.broker.coordinator.transaction import beginning, ending
from kvorum.broker.coordinator.transaction.markers import Ending, MarkerPlan
from kvorum.broker.coordinator.transaction.state import TransactionMetadata
from kvorum.broker.coordinator.transaction.words import EndTransaction, InitProducer, Terms, Verdict
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kvorum.storage.log import Log
from kvorum.storage.verification import VerificationGuard
from sim.mutants.patches import Patches

R = TypeVar("R")
Partition = CoordinatorPartition[Any, Any]


def answer_before_committed(patches: Patches) -> None:
    """A coordinator answers as soon as it has decided, before its records are committed."""

    def answer(waiter: "asyncio.Future[R]", response: R) -> "asyncio.Future[R]":
        early: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        early.set_result(response)
        return early

    _with_answer(patches, answer)


def answer_of_former_epoch(patches: Patches) -> None:
    """Uncommitted decisions are answered as done when leadership ends (KAFKA-20634)."""

    def answer(waiter: "asyncio.Future[R]", response: R) -> "asyncio.Future[R]":
        late: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def on_done(future: "asyncio.Future[R]") -> None:
            error = None if future.cancelled() else future.exception()
            if late.done():
                return
            if error is None or (isinstance(error, KafkaError) and error.code is ErrorCode.NOT_COORDINATOR):
                late.set_result(response)
            else:
                late.set_exception(error)

        waiter.add_done_callback(on_done)
        return late

    _with_answer(patches, answer)


def _with_answer(patches: Patches, answered: Callable[[Any, Any], Any]) -> None:
    """Have another future answer for each decision that waits for its records."""
    write = CoordinatorPartition.write

    def other_write(
        self: Partition,
        name: str,
        decide: Decide[Any, R],
        producer: Producer = NO_PRODUCER,
        guard: VerificationGuard | None = None,
    ) -> "asyncio.Future[R]":
        decided: list[Decision[R]] = []

        def note_decision(state: Any, now_ms: int) -> Decision[R]:
            decided.append(decide(state, now_ms))
            return decided[-1]

        waiter: asyncio.Future[R] = write(self, name, note_decision, producer, guard)
        if waiter.done() or not decided or not decided[-1].records:
            return waiter
        waiter.add_done_callback(lambda future: None if future.cancelled() else future.exception())
        other: asyncio.Future[R] = answered(waiter, decided[-1].response)
        return other

    patches.replace(CoordinatorPartition, "write", other_write)


# --- transactions -----------------------------------------------------------------------------------------------------


def fence_nobody(patches: Patches) -> None:
    """EndTxn ends any transaction of its id, with any epoch."""
    end_transaction = ending.end_transaction

    def of_any_epoch(metadata: TransactionMetadata | None, request: EndTransaction, terms: Terms) -> Verdict:
        if metadata is not None:
            request = replace(request, producer=Producer(metadata.producer_id, metadata.producer_epoch))
        return end_transaction(metadata, request, terms)

    patches.replace(ending, "end_transaction", of_any_epoch)


def keep_epoch(patches: Patches) -> None:
    """InitProducerId gives the epoch again that the last producer of the id had."""
    init_producer_id = beginning.init_producer_id

    def same_epoch(metadata: TransactionMetadata | None, request: InitProducer, terms: Terms) -> Verdict:
        verdict = init_producer_id(metadata, request, terms)
        found = verdict.next
        if metadata is None or found is None or found.state.is_prepared or found.producer_id != metadata.producer_id:
            return verdict
        same = replace(found, producer_epoch=metadata.producer_epoch)
        return verdict._replace(next=same, answer=verdict.answer._replace(producer_epoch=metadata.producer_epoch))

    patches.replace(beginning, "init_producer_id", same_epoch)


def forget_a_marker(patches: Patches) -> None:
    """One of several partitions of a transaction gets no marker, and the transaction completes nevertheless."""
    begin = MarkerPlan.begin

    def without_last(self: MarkerPlan, one: Ending) -> bool:
        if len(one.unfinished) > 1:
            one.unfinished.discard(max(one.unfinished))
        return begin(self, one)

    patches.replace(MarkerPlan, "begin", without_last)


def ignore_last_stable_offset(patches: Patches) -> None:
    """A reader at read_committed gets records up to the high watermark, including those of open transactions."""
    patches.replace(Log, "last_stable_offset", property(lambda self: self.high_watermark))


def forget_aborted(patches: Patches) -> None:
    """Fetch does not return the aborted transactions."""
    patches.replace(Log, "aborted_transactions", lambda self, offset, parts: ())


# --- offsets ----------------------------------------------------------------------------------------------------------


def show_open_offsets(patches: Patches) -> None:
    """OffsetFetch returns the pending offsets of an open transaction."""
    fetch = offsets.fetch

    def with_pending(
        state: GroupsState, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        mine = state.group_offsets(request.group_id)
        for pending in state.pending_of(request.group_id):
            for key, found in pending.items():
                mine = mine.insert(key, found)
        shown = state._replace(offsets=state.offsets.insert(request.group_id, mine))
        return fetch(shown, request, require_stable=False)

    patches.replace(offsets, "fetch", with_pending)


def serve_unstable_offsets(patches: Patches) -> None:
    """OffsetFetch returns the old offsets although an open transaction may commit new ones (KIP-447)."""
    fetch = offsets.fetch

    def unstable(
        state: GroupsState, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        return fetch(state, request, require_stable=False)

    patches.replace(offsets, "fetch", unstable)


def accept_old_generation(patches: Patches) -> None:
    """A classic group accepts commits of any client, for any generation."""

    def anything(
        self: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> None:
        return None

    patches.replace(ClassicGroup, "validate_commit", anything)


def accept_old_member_epoch(patches: Patches) -> None:
    """A group of the consumer protocol accepts commits of any client, with any epoch."""

    def anything(group: ConsumerGroup, terms: commit_rules.CommitTerms) -> Callable[..., None]:
        return commit_rules.anything

    patches.replace(commit_rules, "_consumer_terms", anything)


# --- owners -----------------------------------------------------------------------------------------------------------


def rebalance_without_waiting(patches: Patches) -> None:
    """A classic rebalance continues with the joined members; the others keep their partitions until they notice."""
    patches.replace(ClassicGroup, "has_all_joined", property(lambda self: self.awaiting_join_count > 0))


def assign_before_revoked(patches: Patches) -> None:
    """A member gets a partition at once, before its owner has reported the revocation."""
    reconciled = consumer_groups.reconciled  # type: ignore[attr-defined]  # as that module knows it

    def at_once(member: ConsumerMember, goal: Goal) -> ConsumerMember:
        found: ConsumerMember = reconciled(member, replace(goal, owners={}))
        return found

    patches.replace(consumer_groups, "reconciled", at_once)
