"""Groups: lists, descriptions, committed offsets, lags, resets, removals.

    list       every broker: ListGroups
    describe   the coordinator: ConsumerGroupDescribe, and where the group is none of that protocol DescribeGroups
    offsets    the coordinator: OffsetFetch
    commit     the coordinator: OffsetCommit without a member, which only a group without members accepts
    delete     the coordinator: DeleteGroups, OffsetDelete
    members    the coordinator: LeaveGroup in the name of members that are to go

Source: Kafka's Admin.listGroups, describeConsumerGroups, describeClassicGroups, listConsumerGroupOffsets,
alterConsumerGroupOffsets, deleteConsumerGroupOffsets, deleteConsumerGroups, removeMembersFromConsumerGroup.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from kvorum.client.groups.concurrent import query_groups, run_limited
from kvorum.client.groups.lags import membership, partition_lags, total_lag
from kvorum.client.groups.offset_reset import plan_reset
from kvorum.client.groups.offsets import read_log_ends
from kvorum.client.partitions.offsets import list_offsets
from kvorum.client.values.group import (
    CONSUMER,
    Group,
    GroupListing,
    Lag,
    MemberRemoval,
    Membership,
    OffsetAndMetadata,
    TotalLag,
    classic_group,
    consumer_group,
    group_listing,
    member_removal,
    offset_and_metadata,
)
from kvorum.client.values.offset import OffsetSpec
from kvorum.client.values.offset_reset import OffsetReset, ResetTarget
from kvorum.client.wire.all_brokers import BrokerResponses, query_brokers
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable, error_in, refuse
from kvorum.client.wire.coordinators import RETRIED, RETRIES, CoordinatorResponse, ask_group_coordinator, with_retries
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import consumer_group_describe as consumer
from kvorum.protocol.messages import describe_groups as classic
from kvorum.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kvorum.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition, by_topic
from kvorum.runtime.logs import get_logger

BY_NAME_VERSION: Final = 9
"""The last version of OffsetFetch and OffsetCommit with topic names: offsets of a deleted topic have no topic id."""
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
WITHOUT_MEMBERS: Final = (EMPTY, DEAD)
"""States in which offsets may be changed."""
REMOVED_BY_ADMIN: Final = "member was removed by an admin"
"""Default reason for the group's coordinator."""
REASON_CHARS_MAX: Final = 255
"""Maximum length of a reason in Kafka's clients (KIP-800)."""

LOG_END_ATTEMPTS: Final = 4
"""Attempts to read a log end: a partition without a leader is soon shown without it."""

M = TypeVar("M", bound=Message)
log = get_logger("admin")


class Groups:
    """Groups of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Sequence[GroupListing]:
        """Return the groups of all coordinators, by id; of some states and types, in any case, where given.

        Raises Unreachable if a coordinator does not respond.
        """
        return filter_groups((await self._list(states, types, self._client.timeout_ms)).whole(), states, types)

    async def list_available(
        self, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> tuple[Sequence[GroupListing], Sequence[int]]:
        """Return the groups of coordinators that respond, and the ids of the brokers that do not."""
        responses = await self._list(states, types, self._client.part_ms)
        return filter_groups(responses.answers, states, types), responses.unreachable

    async def _list(
        self, states: Sequence[str], types: Sequence[str], timeout_ms: int
    ) -> BrokerResponses[Sequence[GroupListing]]:
        request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])

        async def of(broker_id: int, address: Address) -> Sequence[GroupListing]:
            async def ask() -> ListGroupsResponse:
                return await self._client.ask(request, ListGroupsResponse, address, timeout_ms=timeout_ms)

            answer = await with_retries(ask, lambda answer: answer.error_code)
            refuse(answer.error_code, f"list groups of broker {broker_id}")
            return [group_listing(each, broker_id) for each in answer.groups]

        brokers = (await self._client.metadata([])).brokers
        return await query_brokers({each.node_id: (each.host, each.port) for each in brokers}, of)

    async def describe(self, group_id: str) -> Group:
        """Return a group of either protocol. Raises KafkaError GROUP_ID_NOT_FOUND."""
        newer = await self._consumer(group_id)
        if newer is not None:
            return newer
        request = classic.DescribeGroupsRequest(groups=[group_id])
        coordinated = await self._ask(
            group_id, request, classic.DescribeGroupsResponse, lambda answer: answer.groups[0].error_code
        )
        row = coordinated.answer.groups[0]
        refuse(row.error_code, row.error_message or f"group {group_id!r} does not exist")
        if row.group_state == DEAD:  # the code of versions before 6 (KIP-1043)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        return classic_group(row, coordinated.coordinator_id, coordinated.address)

    async def describe_many(self, group_ids: Iterable[str]) -> dict[str, Group | KafkaError]:
        """Return each group or its error, with limited concurrency."""

        async def describe(group_id: str) -> tuple[str, Group | KafkaError]:
            try:
                return group_id, await self.describe(group_id)
            except KafkaError as error:
                return group_id, error

        return dict(await run_limited(partial(describe, each) for each in group_ids))

    async def _consumer(self, group_id: str) -> Group | None:
        """Return a group of the consumer protocol; None where it is of another, or the cluster does not know any."""
        request, response = (
            consumer.ConsumerGroupDescribeRequest(group_ids=[group_id]),
            consumer.ConsumerGroupDescribeResponse,
        )
        try:
            coordinated = await self._ask(group_id, request, response, lambda answer: answer.groups[0].error_code)
        except KafkaError as error:  # a cluster that does not serve the request at all
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return None
        row = coordinated.answer.groups[0]
        if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        refuse(row.error_code, row.error_message or f"group {group_id!r}")
        return consumer_group(row, coordinated.coordinator_id, coordinated.address)

    async def describe_at(self, coordinator_id: int, kind: str, ids: Sequence[str]) -> Sequence[Group]:
        """Return groups of one protocol (`GroupListing.type`) from their coordinator, without those with an error."""
        address = await self._client.broker_address(coordinator_id)
        wanted, timeout_ms = [*ids], self._client.part_ms
        if kind == CONSUMER:
            answer = await self._client.ask(
                consumer.ConsumerGroupDescribeRequest(group_ids=wanted),
                consumer.ConsumerGroupDescribeResponse,
                address,
                timeout_ms=timeout_ms,
            )
            return [consumer_group(row, coordinator_id, address) for row in answer.groups if not row.error_code]
        older = await self._client.ask(
            classic.DescribeGroupsRequest(groups=wanted), classic.DescribeGroupsResponse, address, timeout_ms=timeout_ms
        )
        return [classic_group(row, coordinator_id, address) for row in older.groups if not row.error_code]

    async def state(self, group_id: str) -> str:
        """Return a group's state; Dead for a missing group, for which offsets can be committed."""
        try:
            return (await self.describe(group_id)).state
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return DEAD

    async def offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all committed offsets of a group, by topic and partition; none of a missing one."""
        # Both the field of one group (before v8) and that of several: the version that is spoken takes its own.
        wanted = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        request = OffsetFetchRequest(groups=[wanted], group_id=group_id, topics=None)

        def code(answer: OffsetFetchResponse) -> int:
            return answer.groups[0].error_code if answer.groups else answer.error_code

        answer = (await self._ask(group_id, request, OffsetFetchResponse, code, version_max=BY_NAME_VERSION)).answer
        if code(answer) == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        refuse(code(answer), f"offsets of group {group_id!r}")
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in answer.groups[0].topics if answer.groups else answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                refuse(row.error_code, f"{partition} of group {group_id!r}")
                if row.committed_offset >= 0:
                    found[partition] = offset_and_metadata(row)
        return dict(sorted(found.items()))

    async def lags(self, group: Group | str, *, attempts: int = LOG_END_ATTEMPTS) -> Sequence[Lag]:
        """Return the partitions of a group with its lag: those of its members first, then other committed ones.

        The end offset of a partition is None after `attempts` without a response of its leader.
        """
        if isinstance(group, str):
            group = await self.describe(group)
        committed = await self.offsets(group.group_id)
        owned = {partition for member in group.members for partition in member.assignment}
        ends = await self._end_offsets(sorted(committed.keys() | owned), attempts=attempts)
        return partition_lags(group, committed, ends)

    async def total_lags(self, group_ids: Iterable[str]) -> dict[str, TotalLag]:
        """Return the total lag of each group, without groups that are not available."""
        committed = await query_groups(group_ids, self.offsets)
        ends = await self._end_offsets(sorted({each for offsets in committed.values() for each in offsets}), attempts=1)
        return {group_id: total_lag(offsets, ends) for group_id, offsets in committed.items()}

    async def _end_offsets(self, partitions: Sequence[TopicPartition], *, attempts: int) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition whose leader returns it."""
        found = await list_offsets(self._client, dict.fromkeys(partitions, int(OffsetSpec.LATEST)), attempts=attempts)
        return {each: end.offset for each, end in found.items() if end.error is ErrorCode.NONE}

    async def memberships(self, listings: Iterable[GroupListing]) -> dict[str, Membership]:
        """Return the members and topics of each group, with one request per coordinator and protocol.

        Groups whose coordinator does not respond are left out.
        """
        batches: dict[tuple[int, str], list[str]] = {}
        for each in listings:
            batches.setdefault((each.coordinator_id, each.type), []).append(each.group_id)

        async def describe(coordinator_id: int, kind: str, ids: Sequence[str]) -> Sequence[Group]:
            try:
                return await self.describe_at(coordinator_id, kind, ids)
            except (KafkaError, Unreachable) as error:
                log.info("members of groups not available", coordinator=coordinator_id, error=error)
                return []

        found = await run_limited(partial(describe, *key, ids) for key, ids in batches.items())
        return {group.group_id: membership(group) for groups in found for group in groups}

    async def reset_offsets(
        self,
        group_id: str,
        target: ResetTarget,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        dry_run: bool = False,
        attempts: int = RETRIES,
    ) -> Sequence[OffsetReset]:
        """Reset a group's offsets in these partitions, or in all with a committed offset; each result has its error.

        The group may be missing. Raises KafkaError NON_EMPTY_GROUP if it has members, or if a leader does not return
        its offsets after `attempts`; ResetError if a missing offset is to be shifted.
        """
        await self._require_no_members(group_id)
        committed = {partition: each.offset for partition, each in (await self.offsets(group_id)).items()}
        if partitions is None:
            partitions = committed if target.offsets is None else target.offsets
        resets = plan_reset(target, await read_log_ends(self._client, sorted(partitions), target, attempts), committed)
        if dry_run:
            return resets
        errors = await self.commit(group_id, {each.topic_partition: each.after for each in resets})
        if any(error is not None and error.code is ErrorCode.UNKNOWN_MEMBER_ID for error in errors.values()):
            await self._require_no_members(group_id)  # members that joined in between
        return [replace(each, error=errors.get(each.topic_partition)) for each in resets]

    async def _require_no_members(self, group_id: str) -> None:
        state = await self.state(group_id)
        if state not in WITHOUT_MEMBERS:
            text = f"offsets can only be reset while a group has no members; {group_id!r} is {state}"
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, text)

    async def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group without members; return the error of each (UNKNOWN_MEMBER_ID: it has members now).

        Raises KafkaError if no coordinator is available.
        """
        if not offsets:
            return {}
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[TopicPartition(name, index)]
                    )
                    for index in partitions
                ],
            )
            for name, partitions in by_topic(offsets).items()
        ]

        def code(answer: OffsetCommitResponse) -> int:
            codes = {row.error_code for topic in answer.topics for row in topic.partitions}
            return next(iter(codes & RETRIED), ErrorCode.NONE)

        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        coordinated = await self._ask(group_id, request, OffsetCommitResponse, code, version_max=BY_NAME_VERSION)
        return {
            TopicPartition(topic.name, row.partition_index): error_in(row.error_code, None)
            for topic in coordinated.answer.topics
            for row in topic.partitions
        }

    async def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        request = DeleteGroupsRequest(groups_names=[group_id])
        coordinated = await self._ask(
            group_id, request, DeleteGroupsResponse, lambda answer: answer.results[0].error_code
        )
        refuse(coordinated.answer.results[0].error_code, f"group {group_id!r}")

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete a group's offsets of partitions; return the error of each.

        Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. GROUP_SUBSCRIBED_TO_TOPIC is an error of a partition.
        """
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
            )
            for name, indexes in by_topic(partitions).items()
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        coordinated = await self._ask(group_id, request, OffsetDeleteResponse, lambda answer: answer.error_code)
        refuse(coordinated.answer.error_code, f"group {group_id!r}")
        return {
            TopicPartition(topic.name, row.partition_index): error_in(row.error_code, None)
            for topic in coordinated.answer.topics
            for row in topic.partitions
        }

    async def remove_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        reason: str = "",
    ) -> Sequence[MemberRemoval]:
        """Remove members from a group at once, as if they had left: by id, static ones by group.instance.id.

        The group is of the classic or the consumer protocol. UNKNOWN_MEMBER_ID is the error of a member that does not
        exist. Raises KafkaError if the group is not available at all.
        """
        text = reason[:REASON_CHARS_MAX] or REMOVED_BY_ADMIN
        members = [MemberIdentity(member_id=each, reason=text) for each in member_ids]
        members += [MemberIdentity(group_instance_id=each, reason=text) for each in instance_ids]
        if not members:
            return []
        request = LeaveGroupRequest(group_id=group_id, members=members)
        answer = (await self._ask(group_id, request, LeaveGroupResponse, lambda answer: answer.error_code)).answer
        refuse(answer.error_code, f"group {group_id!r}")
        return [member_removal(row) for row in answer.members]

    async def remove_all_members(self, group_id: str, *, reason: str = "") -> Sequence[MemberRemoval]:
        """Remove all current members of a group, static ones by their instance id."""
        members = (await self.describe(group_id)).members
        return await self.remove_members(
            group_id,
            member_ids=[each.member_id for each in members if each.instance_id is None],
            instance_ids=[each.instance_id for each in members if each.instance_id is not None],
            reason=reason,
        )

    async def _ask(
        self,
        group_id: str,
        request: Message,
        response: type[M],
        code: Callable[[M], int],
        *,
        version_max: int | None = None,
    ) -> CoordinatorResponse[M]:
        return await ask_group_coordinator(self._client, group_id, request, response, code, version_max=version_max)


def filter_groups(
    listings: Mapping[int, Sequence[GroupListing]], states: Sequence[str], types: Sequence[str]
) -> list[GroupListing]:
    """Return the matching groups, by id: a broker before v4 (states) or v5 (types) does not filter."""
    wanted_states, wanted_types = casefold_all(states), casefold_all(types)
    found = {
        row.group_id: row
        for rows in listings.values()
        for row in rows
        if (not wanted_states or row.state.casefold() in wanted_states)
        and (not wanted_types or row.type.casefold() in wanted_types)
    }
    return [found[group_id] for group_id in sorted(found)]


def casefold_all(words: Sequence[str]) -> set[str]:
    """Return words without regard to case."""
    return {word.casefold() for word in words}
