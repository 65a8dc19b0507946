"""A transactional producer in the simulator: one transaction at a time, with its certain outcome.

    begun -> records and offsets sent -> end requested -> response         certainly committed or aborted
                    |                         +-- no response ----------> unknown: committed or aborted
                    +-- error or no response ---> abort requested ------> certainly aborted: no commit was requested

Unless it succeeded, the producer fetches its id again: that fences it and ends its open transaction, as a
client should after any unknown error (KAFKA-17754). Versions: with transaction.version 2 partitions and offsets join a
transaction implicitly, and every end increments the epoch; before, they are added first (AddPartitionsToTxn,
AddOffsetsToTxn) and the epoch stays.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kvorum.chaos.history import Fail, Info, MicroOp, Ok, OperationValue
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kvorum.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kvorum.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Message
from kvorum.quorum.image.features import TRANSACTION_VERSION
from sim.client import NoAnswer, SimClient
from sim.coordinator_link import GROUP, TRANSACTION, CoordinatorLink
from sim.workload import ACKS_ALL, PRODUCE_TIMEOUT_MS, Recorder

SECOND_VERSION: Final = 2
LIMIT_S: Final = 6.0
"""Time limit of retries of a step before the transaction is given up."""
CLIENTS_ADD_PARTITIONS: Final = 3
"""The newest AddPartitionsToTxn for clients; later ones are for brokers."""
FIRST_VERSION: Final = {"produce": 11, "end": 4, "offsets": 4}
"""The newest versions of these requests before transaction.version 2."""
AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Produce's codes after which the same batch is sent again under its sequence numbers."""

M = TypeVar("M", bound=Message)
CodeOf: TypeAlias = Callable[[M], int]
"""Reads the code of an answer."""


class StepError(Exception):
    """A step of a transaction cannot succeed: by its error code, or after a timeout."""

    def __init__(self, reason: str, *, certain: bool = True) -> None:
        """`certain`: no attempt can have had an effect."""
        super().__init__(reason)
        self.certain = certain


class Membership(NamedTuple):
    """Identity for commits of a group's offsets."""

    group: str
    member_id: str
    generation: int
    classic: bool


@dataclass(slots=True)
class Draft:
    """Planned contents of a transaction."""

    records: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """{(topic, partition): values}."""
    extra: list[MicroOp] = field(default_factory=list)
    """Additional entries of the history: copies, amounts."""
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    membership: Membership | None = None

    def operations(self, offsets: Mapping[int, int] | None = None) -> OperationValue:
        """Return it as an operation's value; `offsets` of records by value of their partition's name and value."""
        operations: OperationValue = []
        for (topic, partition), values in self.records.items():
            operations += [["send", f"{topic}-{partition}", value] for value in values]
        if self.membership is not None:
            group = self.membership.group
            operations += [["offset", group, f"{topic}-{number}", at] for (topic, number), at in self.offsets.items()]
        return [*operations, *self.extra]


class Transactor:
    """One transactional id in one process."""

    def __init__(
        self,
        transactional_id: str,
        client: SimClient,
        recorder: Recorder,
        *,
        timeout_ms: int,
        second_version: bool,
        heeds_level: bool = False,
    ) -> None:
        """`timeout_ms` is the transaction's; `heeds_level`: the second version is used while the cluster has it."""
        self.transactional_id = transactional_id
        self.process = recorder.process(
            transactional_id, ACKS_ALL, idempotent=True, transactional_id=transactional_id, isolation="read_committed"
        )
        self._client = client
        self._recorder = recorder
        self._timeout_ms = timeout_ms
        self._second = second_version
        self._heeds_level = heeds_level and second_version
        self._level_epoch = -1
        self._link = CoordinatorLink(client, TRANSACTION, transactional_id)
        self._groups: dict[str, CoordinatorLink] = {}
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[tuple[str, int], int] = {}

    async def ready(self) -> bool:
        """Get a producer id and epoch, if missing; return whether it has them."""
        if self._heeds_level:
            await self._look_at_level()
        if self._producer is not None:
            return True
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout=self._timeout_ms)
        try:
            answer = await self._repeat(self._link, request, InitProducerIdResponse, lambda each: each.error_code)
        except StepError:
            return False
        self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}
        return True

    async def _look_at_level(self) -> None:
        """Use the newest known level of transaction.version for the next transaction."""
        request = ApiVersionsRequest(client_software_name="kvorum-sim", client_software_version="1")
        try:
            answer = await self._client.ask_any(request, ApiVersionsResponse)
        except NoAnswer:
            return
        if answer.finalized_features_epoch >= self._level_epoch:
            self._level_epoch = answer.finalized_features_epoch
            levels = {each.name: each.max_version_level for each in answer.finalized_features}
            second = levels.get(TRANSACTION_VERSION, 0) >= SECOND_VERSION
            if second and not self._second:
                # A partition of the last transaction that has no marker yet would count as added to the next.
                self._producer = None  # as Kafka's TransactionManager does: a new epoch
            self._second = second

    async def run(self, draft: Draft, *, commit: bool, pause_s: float = 0.0) -> bool:
        """Execute one transaction; return whether it is certainly committed.

        `ready` must have returned True.

        `pause_s`: time that it stays open after its last record.
        """
        assert self._producer is not None, "ready"
        generation = draft.membership.generation if draft.membership and draft.membership.classic else None
        op = self._recorder.invoke(self.process, "txn", draft.operations(), generation=generation)
        try:
            await self._fill(draft)
        except StepError as error:
            # A commit was never requested, and never will be: this transaction is aborted, now or by its timeout.
            await self._give_up()
            self._recorder.complete(Fail, op, self.process, draft.operations(), str(error), committed=False)
            return False
        if pause_s:
            await asyncio.sleep(pause_s)
        ended = self._recorder.now()
        try:
            await self._end(commit)
        except StepError as error:
            self._producer = None
            unknown = commit and not error.certain
            kind = Info if unknown else Fail
            committed = None if unknown else False
            self._recorder.complete(
                kind, op, self.process, draft.operations(), str(error), committed=committed, ended=ended
            )
            return False
        self._recorder.complete(
            Ok, op, self.process, draft.operations(), committed=commit, ended=ended, generation=generation
        )
        return commit

    async def abandon(self, draft: Draft) -> None:
        """Fill a transaction and leave it open, as a process does that dies: certainly not committed."""
        op = self._recorder.invoke(self.process, "txn", draft.operations())
        try:
            await self._fill(draft)
        except StepError:
            self._producer = None
        self._recorder.complete(Fail, op, self.process, draft.operations(), "left open", committed=False)

    async def _fill(self, draft: Draft) -> None:
        """Send the records, then the offsets. Raises StepError."""
        if not self._second and draft.records:
            await self._add_partitions(list(draft.records))
        for (topic, partition), values in draft.records.items():
            await self._produce(topic, partition, values)
        if draft.membership is not None and draft.offsets:
            await self._commit_offsets(draft.membership, draft.offsets)

    async def _add_partitions(self, partitions: list[tuple[str, int]]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        producer_id, epoch = self._current()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )

        def code_of(answer: AddPartitionsToTxnResponse) -> int:
            rows = [row for each in answer.results_by_topic_v3_and_below for row in each.results_by_partition]
            return next((row.partition_error_code for row in rows if row.partition_error_code), 0)

        await self._repeat(self._link, request, AddPartitionsToTxnResponse, code_of, newest=CLIENTS_ADD_PARTITIONS)

    async def _produce(self, topic: str, partition: int, values: list[int]) -> None:
        """Send one batch, the same again as long as it may help. Raises StepError."""
        loop = asyncio.get_running_loop()
        producer_id, epoch = self._current()
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + len(values)
        now_ms = 1_700_000_000_000 + int(loop.time() * 1000)
        batch = build_batch(
            [Record(value=json.dumps({"v": value}).encode(), timestamp=now_ms) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        deadline, reason = loop.time() + LIMIT_S, "no leader is known"
        while loop.time() < deadline:
            leader = await self._client.leader(topic, partition)
            if leader is not None and leader.broker_id >= 0:
                data = PartitionProduceData(index=partition, records=memoryview(bytearray(batch)))
                request = ProduceRequest(
                    transactional_id=self.transactional_id,
                    acks=ACKS_ALL,
                    timeout=PRODUCE_TIMEOUT_MS,
                    topic_data=[TopicProduceData(name=topic, topic_id=leader.topic_id, partition_data=[data])],
                )
                address = self._client.address(leader.broker_id)
                newest = None if self._second else FIRST_VERSION["produce"]
                try:
                    answer = await self._client.ask(address, request, ProduceResponse, newest=newest)
                except NoAnswer as error:
                    reason = str(error)
                else:
                    code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        return
                    reason = code.name
                    if code not in AGAIN:
                        break
            self._client.forget(topic, partition)
            await self._link.pause()
        raise StepError(reason, certain=False)

    async def _commit_offsets(self, membership: Membership, offsets: Mapping[tuple[str, int], int]) -> None:
        """Send a group's offsets along. Raises StepError."""
        producer_id, epoch = self._current()
        if not self._second:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=membership.group,
            )
            await self._repeat(self._link, added, AddOffsetsToTxnResponse, lambda each: each.error_code)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            row = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            topics.setdefault(topic, []).append(row)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=membership.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=membership.generation,
            member_id=membership.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

        def code_of(answer: TxnOffsetCommitResponse) -> int:
            rows = [row for topic in answer.topics for row in topic.partitions]
            return next((row.error_code for row in rows if row.error_code), 0)

        link = self._groups.setdefault(membership.group, CoordinatorLink(self._client, GROUP, membership.group))
        newest = None if self._second else FIRST_VERSION["offsets"]
        await self._repeat(link, request, TxnOffsetCommitResponse, code_of, newest=newest)

    async def _end(self, commit: bool) -> None:
        """Request the end until there is an answer. Raises StepError."""
        producer_id, epoch = self._current()
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        newest = None if self._second else FIRST_VERSION["end"]
        answer = await self._repeat(self._link, request, EndTxnResponse, lambda each: each.error_code, newest=newest)
        if self._second and answer.producer_epoch >= 0:
            self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}

    async def _give_up(self) -> None:
        """Request an abort, to unblock others; the producer restarts in any case."""
        with contextlib.suppress(StepError):
            await self._end(commit=False)
        self._producer = None

    def _current(self) -> tuple[int, int]:
        assert self._producer is not None, "within a transaction"
        return self._producer

    async def _repeat(
        self,
        link: CoordinatorLink,
        request: Message,
        response: type[M],
        code_of: CodeOf[M],
        *,
        newest: int | None = None,
    ) -> M:
        """Send to a coordinator until its answer is final; return it. Raises StepError."""
        loop = asyncio.get_running_loop()
        deadline, certain, reason = loop.time() + LIMIT_S, True, ""
        while loop.time() < deadline:
            try:
                answer = await link.ask(request, response, newest=newest)
            except NoAnswer as error:
                certain, reason = certain and not error.maybe_sent, str(error)
            else:
                code = ErrorCode(code_of(answer))
                if code is ErrorCode.NONE:
                    return answer
                reason = code.name
                if not link.check_retry(code):
                    raise StepError(reason, certain=certain)
                # It may have decided, and lost its leadership before that was committed; or will it be?
                certain = certain and code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await link.pause()
        raise StepError(reason, certain=certain)
