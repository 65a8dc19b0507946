"""Group requests of tools: lists, descriptions, committed offsets, and changes.

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
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kvorum.client.groups.members import CONSUMER, Described, classic_group, consumer_group
from kvorum.client.wire.all_brokers import Reached, of_all
from kvorum.client.wire.cluster_client import ClusterClient, code_of, refuse
from kvorum.client.wire.coordinators import RETRIED, Coordinated, ask_group_coordinator, with_retries
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

BY_NAME_VERSION: Final = 9
"""The last version of OffsetFetch and OffsetCommit with topic names: offsets of a deleted topic have no topic id."""
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
WITHOUT_MEMBERS: Final = (EMPTY, DEAD)
"""States in which offsets may be changed."""
CONSUMERS_PROTOCOLS: Final = ("consumer", "")
"""Protocol types of consumers; "" is of a group that has offsets alone."""
REMOVED_BY_ADMIN: Final = "member was removed by an admin"
"""Default reason for the group's coordinator."""
REASON_CHARS_MAX: Final = 255
"""Maximum length of a reason in Kafka's clients (KIP-800)."""

M = TypeVar("M", bound=Message)


class Listed(NamedTuple):
    """A group with its coordinator. The type is classic, consumer, share or streams, "" from an old broker."""

    group_id: str
    coordinator_id: int
    protocol_type: str
    state: str
    type: str

    @property
    def is_of_consumers(self) -> bool:
        """Return whether it has consumers, or only offsets: no Connect worker, no share or streams group."""
        return self.type in ("classic", "consumer", "") and self.protocol_type in CONSUMERS_PROTOCOLS


class Committed(NamedTuple):
    """An offset of a group in a partition; a leader epoch of -1 means none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Leaving(NamedTuple):
    """A member to remove: by its id, or a static one by its group.instance.id."""

    member_id: str = ""
    instance_id: str | None = None


class Removed(NamedTuple):
    """Result of a removal; a member removed by its instance has no id here."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Groups:
    """A cluster's, through a client of it."""

    cluster: ClusterClient

    async def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listed]:
        """Return those of all coordinators, by id; of some states and types, in any case, where given.

        Raises KafkaError; Unreachable if one does not answer.
        """
        return chosen((await self._list_groups(states, types, self.cluster.timeout_ms)).whole(), states, types)

    async def listed_if_reached(
        self, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> tuple[list[Listed], list[int]]:
        """Return the groups of responding coordinators, and the others. Raises KafkaError, Unreachable."""
        reached = await self._list_groups(states, types, self.cluster.part_ms)
        return chosen(reached.answers, states, types), reached.unreachable

    async def _list_groups(self, states: Sequence[str], types: Sequence[str], timeout_ms: int) -> Reached[list[Listed]]:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        async def of(broker_id: int, address: Address) -> list[Listed]:
            async def ask() -> ListGroupsResponse:
                return await self.cluster.ask(request, ListGroupsResponse, address, timeout_ms=timeout_ms)

            answer = await with_retries(ask, lambda answer: answer.error_code)
            refuse(answer.error_code, f"list groups of broker {broker_id}")
            return [
                Listed(each.group_id, broker_id, each.protocol_type, each.group_state, each.group_type.lower())
                for each in answer.groups
            ]

        brokers = (await self.cluster.metadata([])).brokers
        return await of_all({each.node_id: (each.host, each.port) for each in brokers}, of)

    async def described(self, group_id: str) -> Described:
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

    async def _consumer(self, group_id: str) -> Described | None:
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

    async def described_at(self, coordinator_id: int, kind: str, ids: Sequence[str]) -> list[Described]:
        """Return groups of one protocol (`Listed.type`) from their coordinator; groups with an error are left out."""
        address = await self.cluster.broker_address(coordinator_id)
        wanted, timeout_ms = list(ids), self.cluster.part_ms
        if kind == CONSUMER:
            answer = await self.cluster.ask(
                consumer.ConsumerGroupDescribeRequest(group_ids=wanted),
                consumer.ConsumerGroupDescribeResponse,
                address,
                timeout_ms=timeout_ms,
            )
            return [consumer_group(row, coordinator_id, address) for row in answer.groups if not row.error_code]
        older = await self.cluster.ask(
            classic.DescribeGroupsRequest(groups=wanted), classic.DescribeGroupsResponse, address, timeout_ms=timeout_ms
        )
        return [classic_group(row, coordinator_id, address) for row in older.groups if not row.error_code]

    async def state(self, group_id: str) -> str:
        """Return a group's state; Dead for a missing group, for which offsets can be committed."""
        try:
            return (await self.described(group_id)).state
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return DEAD

    async def committed(self, group_id: str) -> dict[TopicPartition, Committed]:
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
        found: dict[TopicPartition, Committed] = {}
        for topic in answer.groups[0].topics if answer.groups else answer.topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                refuse(row.error_code, f"{place} of group {group_id!r}")
                if row.committed_offset >= 0:
                    found[place] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
        return dict(sorted(found.items()))

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ErrorCode]:
        """Commit offsets for a group without members; a code for each (UNKNOWN_MEMBER_ID: it has members by now).

        Raises KafkaError where no coordinator is.
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
            TopicPartition(topic.name, row.partition_index): code_of(row.error_code)
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

    async def delete_offsets(self, group_id: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Delete a group's offsets of partitions; returns a code for each.

        Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. GROUP_SUBSCRIBED_TO_TOPIC is a code of a partition.
        """
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
            for name, partitions in by_topic(places).items()
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        coordinated = await self._ask(group_id, request, OffsetDeleteResponse, lambda answer: answer.error_code)
        refuse(coordinated.answer.error_code, f"group {group_id!r}")
        return {
            TopicPartition(topic.name, row.partition_index): code_of(row.error_code)
            for topic in coordinated.answer.topics
            for row in topic.partitions
        }

    async def remove_members(self, group_id: str, leaving: Iterable[Leaving], reason: str = "") -> list[Removed]:
        """Remove members from a classic group at once, as if they had left; a code for each.

        UNKNOWN_MEMBER_ID is a member's code: it does not exist, or uses the consumer protocol, whose members cannot be
        removed. Raises KafkaError if the group is not available at all.
        """
        why = reason[:REASON_CHARS_MAX] or REMOVED_BY_ADMIN
        members = [
            MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id, reason=why) for each in leaving
        ]
        if not members:
            return []
        request = LeaveGroupRequest(group_id=group_id, members=members)
        coordinated = await self._ask(group_id, request, LeaveGroupResponse, lambda answer: answer.error_code)
        refuse(coordinated.answer.error_code, f"group {group_id!r}")
        return [
            Removed(row.member_id, row.group_instance_id, code_of(row.error_code)) for row in coordinated.answer.members
        ]

    async def remove_all_members(self, group_id: str, reason: str = "") -> list[Removed]:
        """Remove all current members of a group, static ones by their instance. Raises KafkaError."""
        members = (await self.described(group_id)).members
        leaving = [
            Leaving(member_id=each.member_id) if each.instance_id is None else Leaving(instance_id=each.instance_id)
            for each in members
        ]
        return await self.remove_members(group_id, leaving, reason)

    async def _ask(
        self,
        group_id: str,
        request: Message,
        response: type[M],
        code: Callable[[M], int],
        *,
        version_max: int | None = None,
    ) -> Coordinated[M]:
        return await ask_group_coordinator(self.cluster, group_id, request, response, code, version_max=version_max)


def chosen(listed: Mapping[int, list[Listed]], states: Sequence[str], types: Sequence[str]) -> list[Listed]:
    """Return the matching groups, by id: a broker before v4 (states) or v5 (types) does not filter."""
    wanted_states, wanted_types = folded(states), folded(types)
    found = {
        row.group_id: row
        for rows in listed.values()
        for row in rows
        if (not wanted_states or row.state.casefold() in wanted_states)
        and (not wanted_types or row.type.casefold() in wanted_types)
    }
    return [found[group_id] for group_id in sorted(found)]


def folded(words: Sequence[str]) -> set[str]:
    """Return words without regard to case."""
    return {word.casefold() for word in words}
