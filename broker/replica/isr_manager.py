"""Sends ISR proposals to the controller: many in one request, one request in flight, repeated until answered.

A proposal waits here until the previous request is answered. isr_changes interprets the answer; an outdated proposal is
dropped unsent.

A proposal with an earlier unanswered copy is not rolled back when the controller rejects a later one: the earlier copy
may still be in flight, be applied when the rejected member is eligible again, and leave a member in the ISR that the
leader no longer waits for. It is retried for at most UNANSWERED_HOLD_MS: no request survives longer on an abandoned
connection, and a dead member must not hold the high watermark for ever.

Source: Kafka's DefaultAlterPartitionManager, which does roll back.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.isr import (
    NOT_APPLIED,
    AfterRefusal,
    AlterPartitionAnswer,
    AlterPartitionProposal,
    CommittedIsr,
)
from kvorum.broker.replica.isr_changes import complete_alter_partition, fail_alter_partition
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import NO_BROKER_EPOCH
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.logs import first_names, get_logger

log = get_logger("broker")

RETRY_BACKOFF_MS = 50
UNANSWERED_HOLD_MS = 30_000
"""request.timeout.ms' default: the longest time that a request may be delayed."""
PROPOSALS_MAX = 10_000
"""In one request: a controller's batch takes as many records, more wait for the next request."""


class AlterPartitionController(Protocol):
    """The active controller, as far as this module needs it."""

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Sends to the active controller. Raises KafkaError if it cannot be reached in time."""
        ...


class IsrManager:
    """One per broker."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: AlterPartitionController,
        now_ms: Callable[[], int],
        settle: Callable[[Partition], None],
        figures: Figures,
    ) -> None:
        """`settle` is called for each partition whose answer came."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._now_ms = now_ms
        self._settle = settle
        self._figures = figures
        self._unsent: dict[TopicPartition, tuple[Partition, AlterPartitionProposal]] = {}
        self._unanswered: dict[TopicPartition, tuple[AlterPartitionProposal, int]] = {}
        """Proposals of which a copy was sent without answer, and when."""
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, partition: Partition, proposal: AlterPartitionProposal) -> None:
        """Send a proposal with the next request; it replaces an unsent one of the same partition."""
        self._unsent[partition.topic_partition] = (partition, proposal)
        if self._task is None and not self._closed:
            self._task = spawn("alter-partition", self._run())

    async def close(self) -> None:
        """Stop sending proposals. The metadata decide on those in flight."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Send as long as there is something; end with nothing unsent."""
        try:
            while self._unsent:
                if not await self._send():
                    await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
        finally:
            self._task = None

    async def _send(self) -> bool:
        """Send one request and hand out its answer. Return whether nothing has to be tried again."""
        batch: dict[TopicPartition, tuple[Partition, AlterPartitionProposal]] = {}
        while self._unsent and len(batch) < PROPOSALS_MAX:
            key = next(iter(self._unsent))
            partition, proposal = self._unsent.pop(key)
            if is_current(partition, proposal):
                batch[key] = (partition, proposal)
            else:
                self._unanswered.pop(key, None)
        if not batch:
            return True
        proposals = [proposal for _, proposal in batch.values()]
        try:
            request = request_of(self._broker_id, self._broker_epoch(), proposals)
            response = await self._controller.alter_partition(request)
        except KafkaError as error:
            log.warning("AlterPartition retried", error=error)
            for key, (_, proposal) in batch.items():
                self._unanswered[key] = (proposal, self._now_ms())
            self._again(batch)
            return False
        if response.error_code != ErrorCode.NONE:
            log.warning("AlterPartition retried", error=ErrorCode(response.error_code).name)
            self._again(batch)
            return False
        return self._take(batch, response)

    def _take(
        self, batch: dict[TopicPartition, tuple[Partition, AlterPartitionProposal]], response: AlterPartitionResponse
    ) -> bool:
        rows: dict[tuple[Uuid, int], ResponsePartitionData] = {
            (topic.topic_id, row.partition_index): row for topic in response.topics for row in topic.partitions
        }
        again: dict[TopicPartition, tuple[Partition, AlterPartitionProposal]] = {}
        by_isr: dict[str, list[TopicPartition]] = defaultdict(list)
        rejected: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
        for key, (partition, proposal) in batch.items():
            row = rows.get((proposal.topic_id, proposal.partition))
            if row is not None and row.error_code == ErrorCode.NONE:
                by_isr[",".join(map(str, row.isr))].append(key)
            if row is None or not self._answer(partition, proposal, row, rejected):
                again[key] = (partition, proposal)
            else:
                self._unanswered.pop(key, None)
            self._settle(partition)
        for isr, partitions in by_isr.items():
            log.info("isr changed", isr=isr, partitions=len(partitions), first=first_names(partitions))
        for (error, then), partitions in rejected.items():
            first = first_names(partitions)
            log.info("isr changes rejected", error=error, then=then, partitions=len(partitions), first=first)
        self._again(again)
        return not again

    def _answer(
        self,
        partition: Partition,
        proposal: AlterPartitionProposal,
        row: ResponsePartitionData,
        rejected: dict[tuple[str, str], list[TopicPartition]],
    ) -> bool:
        """Hand one row to its partition. Return whether the proposal is finished.

        A rejected partition is added to `rejected`, by error and consequence.
        """
        if row.error_code == ErrorCode.NONE:
            answer = AlterPartitionAnswer(
                leader_id=row.leader_id,
                leader_epoch=row.leader_epoch,
                partition_epoch=row.partition_epoch,
                isr=tuple(row.isr),
                leader_recovery_state=row.leader_recovery_state,
            )
            complete_alter_partition(partition, proposal, answer, self._now_ms())
            log.debug("isr of partition changed", partition=partition.topic_partition, isr=",".join(map(str, row.isr)))
            return True
        self._figures.failed_isr_updates.add()
        error = ErrorCode(row.error_code)
        if error in NOT_APPLIED and self._may_yet_be_applied(partition, proposal):
            return False
        verdict = fail_alter_partition(partition, proposal, error, self._now_ms())
        rejected[error.name, verdict.value].append(partition.topic_partition)
        log.debug("isr change rejected", partition=partition.topic_partition, error=error.name, then=verdict.value)
        return verdict is not AfterRefusal.RETRY

    def _may_yet_be_applied(self, partition: Partition, proposal: AlterPartitionProposal) -> bool:
        """Return whether a proposal may still be in flight and valid: no member has re-registered since."""
        unanswered = self._unanswered.get(partition.topic_partition)
        if unanswered is None or unanswered[0] is not proposal:
            return False
        return self._now_ms() - unanswered[1] < UNANSWERED_HOLD_MS and not is_outlived(partition, proposal)

    def _again(self, batch: dict[TopicPartition, tuple[Partition, AlterPartitionProposal]]) -> None:
        for key, item in batch.items():
            self._unsent.setdefault(key, item)


def is_current(partition: Partition, proposal: AlterPartitionProposal) -> bool:
    """Return whether the partition still waits for the response to this proposal."""
    state = partition.isr_state
    return not isinstance(state, CommittedIsr) and state.proposal is proposal


def is_outlived(partition: Partition, proposal: AlterPartitionProposal) -> bool:
    """Return whether a member has a newer registration than the proposal: then no copy of it will be applied."""
    return any(
        epoch != NO_BROKER_EPOCH and (partition.brokers.broker_epoch(member) or epoch) > epoch
        for member, epoch in proposal.isr
    )


def request_of(broker_id: int, broker_epoch: int, proposals: list[AlterPartitionProposal]) -> AlterPartitionRequest:
    """Write the proposals as a request (v2 reads `new_isr`, v3 `new_isr_with_epochs`)."""
    topics: dict[Uuid, RequestTopicData] = {}
    for proposal in proposals:
        topic = topics.setdefault(proposal.topic_id, RequestTopicData(topic_id=proposal.topic_id))
        topic.partitions.append(
            RequestPartitionData(
                partition_index=proposal.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr=[member for member, _ in proposal.isr],
                new_isr_with_epochs=[
                    BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.isr
                ],
                leader_recovery_state=proposal.leader_recovery_state,
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))
