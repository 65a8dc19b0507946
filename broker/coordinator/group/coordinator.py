"""Entry point to the group coordinators of this broker: one method per request, for its handler.

Every method returns a response: what cannot be decided or written is an error code, in the field where a client of that
request looks for it. The caller has authorised the request and has nothing else to add. A caller that is cancelled (its
connection is lost) changes nothing: the decision is written, and a member that joined has joined. Source: Kafka's
GroupCoordinatorService.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol, TypeAlias, TypeVar

from kvorum.broker.coordinator.ended_transaction import EndedTransaction
from kvorum.broker.coordinator.group import offsets, refusals
from kvorum.broker.coordinator.group.classic.words import Client
from kvorum.broker.coordinator.group.consumer.heartbeat import Asker, validate
from kvorum.broker.coordinator.group.consumer.settings import ConsumerSettings
from kvorum.broker.coordinator.group.shard import GroupShard, refused_join
from kvorum.broker.coordinator.group.words import GroupsState
from kvorum.broker.coordinator.runtime.partition import CoordinatorPartition
from kvorum.broker.coordinator.runtime.words import NO_PRODUCER, Decision, Producer
from kvorum.protocol.control import marker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kvorum.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kvorum.protocol.messages.delete_groups import DeletableGroupResult
from kvorum.protocol.messages.describe_groups import DescribedGroup
from kvorum.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kvorum.protocol.messages.list_groups import ListGroupsResponse
from kvorum.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kvorum.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kvorum.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.verification import VerificationGuard

R = TypeVar("R")

Home: TypeAlias = CoordinatorPartition[GroupsState, GroupShard]
OnShard: TypeAlias = Callable[[GroupShard, GroupsState], Decision[R]]
"""A decision of a shard's, on the newest state."""


class Homes(Protocol):
    """The partitions of __consumer_offsets led here: a CoordinatorRuntime."""

    def partition_of(self, key: str) -> TopicPartition:
        """Return where a group lives. Raises KafkaError, see CoordinatorRuntime.partition_of."""
        ...

    def active_partition(self, index: int) -> Home:
        """Return one partition by its number. Raises KafkaError, see CoordinatorRuntime.active_partition."""
        ...

    def all_active(self) -> Iterator[Home]:
        """Go over those on which decisions are taken here."""
        ...

    @property
    def is_loading(self) -> bool:
        """Whether some partition is being loaded."""
        ...


class GroupCoordinator:
    """Entry point of group requests. Also services.GroupTransactions."""

    def __init__(self, homes: Homes, assignors: tuple[str, ...] = ConsumerSettings().assignors) -> None:
        """Decide on the existing partitions; `assignors` are the server's that members may request."""
        self._homes = homes
        self._assignors = assignors

    # --- the classic protocol ----------------------------------------------------------------------------------------

    async def join(self, client: Client, request: JoinGroupRequest) -> JoinGroupResponse:
        """JoinGroup: answered when the group has come together, or at once."""
        answer: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()

        def refuse(error: KafkaError) -> None:
            settle(answer, refused_join("", error))

        self._parked(
            request.group_id,
            "classic-group-join",
            lambda shard, state: shard.join(state, client, request, lambda response: settle(answer, response)),
            refuse,
        )
        return await answer

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """SyncGroup: answered when the leader's assignment is committed, or at once."""
        answer: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()

        def refuse(error: KafkaError) -> None:
            settle(answer, SyncGroupResponse(error_code=error.code))

        self._parked(
            request.group_id,
            "classic-group-sync",
            lambda shard, state: shard.sync(state, request, lambda response: settle(answer, response)),
            refuse,
        )
        return await answer

    def heartbeat(self, request: HeartbeatRequest) -> "asyncio.Future[HeartbeatResponse]":
        """Heartbeat. While the group is being loaded no member is fenced, because their state is unknown."""

        def refuse(error: KafkaError) -> HeartbeatResponse:
            is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)

        return self._answered(
            request.group_id, "classic-group-heartbeat", lambda shard, state: shard.heartbeat(state, request), refuse
        )

    async def leave(self, client: Client, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """LeaveGroup of one member or several."""
        try:
            return await self._write(
                request.group_id, "classic-group-leave", lambda shard, state: shard.leave(state, client, request)
            )
        except KafkaError as error:
            return LeaveGroupResponse(error_code=error.code)

    def _parked(
        self, group_id: str, name: str, decide: OnShard[None], refuse: Callable[[KafkaError], None]
    ) -> "asyncio.Future[None] | None":
        """Decide on the group's own response; an error if it cannot be decided, or is not written."""
        try:
            home = self._home(group_id)
        except KafkaError as error:
            refuse(error)
            return None
        shard = home.shard
        written = home.write(name, lambda state, now_ms: decide(shard, state))

        def done(future: "asyncio.Future[None]") -> None:
            error = future.exception()
            if isinstance(error, KafkaError):
                refuse(error)

        written.add_done_callback(done)
        return written

    # --- the consumer protocol ---------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, asker: Asker, request: ConsumerGroupHeartbeatRequest
    ) -> "asyncio.Future[ConsumerGroupHeartbeatResponse]":
        """ConsumerGroupHeartbeat: the request is validated before its group is looked up, as in Kafka."""

        def refuse(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)

        try:
            validate(request, asker.client.api_version, self._assignors)
        except KafkaError as error:
            return answered_with(refuse(error))
        return self._answered(
            request.group_id,
            "consumer-group-heartbeat",
            lambda shard, state: shard.consumer_heartbeat(state, asker, request),
            refuse,
        )

    def describe_consumer(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        """ConsumerGroupDescribe: a row for each group, in order."""
        rows = []
        for group_id in group_ids:
            try:
                home = self._home(group_id)
            except KafkaError as error:
                code = error.code if group_id else ErrorCode.INVALID_GROUP_ID
                rows.append(DescribedConsumerGroup(group_id=group_id, error_code=code))
                continue
            if not group_id:
                rows.append(DescribedConsumerGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID))
                continue
            rows += home.shard.describe_consumer(home.committed_state, [group_id])
        return rows

    # --- offsets -----------------------------------------------------------------------------------------------------

    def commit(self, client: Client, request: OffsetCommitRequest) -> "asyncio.Future[OffsetCommitResponse]":
        """OffsetCommit of topics that have names and ids by now."""
        return self._answered(
            request.group_id,
            "commit-offset",
            lambda shard, state: shard.commit(state, client, request),
            lambda error: refusals.commit(request, error.code),
        )

    async def commit_transactional(
        self, client: Client, request: TxnOffsetCommitRequest, guard: VerificationGuard | None = None
    ) -> TxnOffsetCommitResponse:
        """TxnOffsetCommit; `guard` is that of the transaction's verification on `partition_of` the group."""
        try:
            return await self._write(
                request.group_id,
                "txn-commit-offset",
                lambda shard, state: shard.commit_transactional(state, client, request),
                Producer(request.producer_id, request.producer_epoch),
                guard,
            )
        except KafkaError as error:
            return refusals.commit_transactional(request, error.code)

    async def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """OffsetFetch of one group, of topics whose names are known; None: of all.

        A stable answer depends on all decisions, so it is sent when they are committed; anything else is committed
        already, or was acknowledged by an earlier leader (CoordinatorPartition.read). Source:
        handleOffsetFetchException for the codes, which older consumers need.
        """
        try:
            if require_stable:
                return await self._write(
                    request.group_id, "fetch-offsets", lambda shard, state: shard.fetch_stable(state, request)
                )
            return offsets.fetch(await self._home(request.group_id).read(), request, require_stable=False)
        except KafkaError as error:
            is_not_available = error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            code = ErrorCode.NOT_COORDINATOR if is_not_available else error.code
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=code)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """OffsetDelete."""
        try:
            return await self._write(
                request.group_id, "delete-offsets", lambda shard, state: shard.delete_offsets(state, request)
            )
        except KafkaError as error:
            return OffsetDeleteResponse(error_code=error.code)

    # --- queries ------------------------------------------------------------------------------------------------------

    def describe(self, group_ids: Sequence[str], api_version: int) -> list[DescribedGroup]:
        """DescribeGroups: a row for each group, in order."""
        rows = []
        for group_id in group_ids:
            try:
                home = self._home(group_id)
            except KafkaError as error:
                rows.append(DescribedGroup(group_id=group_id, error_code=error.code))
                continue
            rows += home.shard.describe(home.committed_state, [group_id], api_version)
        return rows

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> ListGroupsResponse:
        """ListGroups: those of all partitions led here; COORDINATOR_LOAD_IN_PROGRESS while one is being loaded."""
        if self._homes.is_loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        response = ListGroupsResponse()
        for home in self._homes.all_active():
            response.groups += home.shard.listed(home.committed_state, states, types)
        return response

    # --- the end of groups and transactions --------------------------------------------------------------------------

    async def delete_groups(self, group_ids: Sequence[str]) -> list[DeletableGroupResult]:
        """DeleteGroups: a row for each group, in order."""
        codes = await asyncio.gather(*(self._delete_group(group_id) for group_id in group_ids))
        return [
            DeletableGroupResult(group_id=each, error_code=code) for each, code in zip(group_ids, codes, strict=True)
        ]

    async def _delete_group(self, group_id: str) -> ErrorCode:
        try:
            return await self._write(
                group_id, "delete-groups", lambda shard, state: shard.delete_group(state, group_id)
            )
        except KafkaError as error:
            return error.code

    def partition_of(self, group_id: str) -> TopicPartition:
        """Return the partition of __consumer_offsets a group lives on. Raises KafkaError COORDINATOR_NOT_AVAILABLE."""
        return self._homes.partition_of(group_id)

    async def complete_transaction(self, key: TopicPartition, ended: EndedTransaction, timeout_ms: int) -> None:
        """See services.GroupTransactions."""
        home = self._homes.active_partition(key.partition)
        data = marker(
            ended.producer_id,
            ended.producer_epoch,
            is_commit=ended.is_commit,
            coordinator_epoch=ended.coordinator_epoch,
            timestamp=home.wall_ms(),
        )
        producer = Producer(ended.producer_id, ended.producer_epoch)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await home.write_marker(data, producer, ended.is_commit, ended.transaction_version)
        except TimeoutError as error:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"timed out waiting for the transaction marker on {key}"
            ) from error

    # --- where a group lives -----------------------------------------------------------------------------------------

    def _home(self, group_id: str) -> Home:
        """Return a group's partition. Raises KafkaError NOT_COORDINATOR, also where the topic is not there yet (as
        Kafka, which does not look), COORDINATOR_LOAD_IN_PROGRESS.
        """
        try:
            index = self._homes.partition_of(group_id).partition
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message or "") from error
        return self._homes.active_partition(index)

    def _answered(
        self, group_id: str, name: str, decide: OnShard[R], refuse: Callable[[KafkaError], R]
    ) -> "asyncio.Future[R]":
        """Decide now, within the caller's turn; the future has the answer once it is committed, at once if it is."""
        try:
            home = self._home(group_id)
        except KafkaError as error:
            return answered_with(refuse(error))
        shard = home.shard
        return home.write(name, lambda state, now_ms: decide(shard, state), refuse=refuse)

    async def _write(
        self,
        group_id: str,
        name: str,
        decide: OnShard[R],
        producer: Producer = NO_PRODUCER,
        guard: VerificationGuard | None = None,
    ) -> R:
        """Return the result of a decision once it is committed. Raises KafkaError."""
        home = self._home(group_id)
        shard = home.shard
        return await home.write(name, lambda state, now_ms: decide(shard, state), producer, guard)


def answered_with(response: R) -> "asyncio.Future[R]":
    """Return a future that has its answer."""
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(response)
    return future


def settle(future: "asyncio.Future[R]", response: R) -> None:
    """Set the result if the waiter still exists and has no result yet."""
    if not future.done():
        future.set_result(response)
