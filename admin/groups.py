"""What tools ask a cluster about groups: lists, descriptions, committed offsets, and how these are changed.

    list       every broker: ListGroups
    describe   the coordinator: ConsumerGroupDescribe, and if it knows of none DescribeGroups
    offsets    the coordinator: OffsetFetch
    commit     the coordinator: OffsetCommit of nobody in particular, which only a group without members takes
    delete     the coordinator: DeleteGroups, OffsetDelete

Source: Kafka's Admin.listGroups, describeConsumerGroups, describeClassicGroups and ConsumerGroupCommand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kvorum.admin import coordinators
from kvorum.admin.client import ClusterClient, refuse
from kvorum.admin.coordinators import KeyType, asked_again
from kvorum.admin.group_members import Member, classic_member, consumer_member
from kvorum.admin.places import Place
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import consumer_group_describe, describe_groups
from kvorum.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
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

BY_NAME_VERSION: Final = 9
"""The last of OffsetFetch and OffsetCommit that names topics: offsets of a deleted one have a name, but no id."""
NO_OFFSET: Final = -1
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
WITHOUT_MEMBERS: Final = (EMPTY, DEAD)
"""States in which nobody minds that offsets change."""

T = TypeVar("T")


class Listed(NamedTuple):
    """One group, and who coordinates it; the type is classic, consumer, share or streams."""

    group_id: str
    coordinator_id: int
    protocol_type: str
    state: str
    type: str


class Committed(NamedTuple):
    """A place of a group in a partition."""

    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A group as its coordinator tells it."""

    group_id: str
    coordinator_id: int
    type: str
    state: str
    protocol_type: str
    protocol: str
    """The assignor; empty where none was chosen."""
    epoch: int | None = None
    """Of a consumer group; and which epoch its assignment is of."""
    assignment_epoch: int | None = None
    members: Sequence[Member] = ()


@dataclass(frozen=True, slots=True)
class Groups:
    """A cluster's, through a client of it."""

    cluster: ClusterClient

    async def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listed]:
        """Return those of all coordinators, by id; of some states and types, where given. Raises KafkaError."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        async def of(broker_id: int, address: Address) -> list[Listed]:
            async def ask() -> ListGroupsResponse:
                return await self.cluster.ask(request, ListGroupsResponse, address)

            answer = await asked_again(ask, lambda answer: answer.error_code)
            refuse(answer.error_code, f"list groups of broker {broker_id}")
            return [
                Listed(each.group_id, broker_id, each.protocol_type, each.group_state, each.group_type.lower())
                for each in answer.groups
            ]

        brokers = (await self.cluster.describe_cluster(fenced=False)).brokers
        found = await asyncio.gather(*(of(each.broker_id, (each.host, each.port)) for each in brokers))
        return sorted((row for rows in found for row in rows), key=lambda row: row.group_id)

    async def describe(self, group_id: str) -> Described:
        """Return a group of either protocol. Raises KafkaError GROUP_ID_NOT_FOUND."""
        request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group_id])
        response = consumer_group_describe.ConsumerGroupDescribeResponse
        try:
            asked, answer = await self._of_coordinator(
                group_id,
                lambda address: self.cluster.ask(request, response, address),
                lambda answer: answer.groups[0].error_code,
            )
        except KafkaError as error:  # a cluster that does not serve the request at all
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return await self._describe_classic(group_id)
        row = answer.groups[0]
        if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return await self._describe_classic(group_id)
        refuse(row.error_code, row.error_message or f"group {group_id!r}")
        return Described(
            group_id=group_id,
            coordinator_id=asked,
            type=CONSUMER,
            state=row.group_state,
            protocol_type="consumer",
            protocol=row.assignor_name,
            epoch=row.group_epoch,
            assignment_epoch=row.assignment_epoch,
            members=[consumer_member(each) for each in row.members],
        )

    async def _describe_classic(self, group_id: str) -> Described:
        request = describe_groups.DescribeGroupsRequest(groups=[group_id])
        asked, answer = await self._of_coordinator(
            group_id,
            lambda address: self.cluster.ask(request, describe_groups.DescribeGroupsResponse, address),
            lambda answer: answer.groups[0].error_code,
        )
        row = answer.groups[0]
        refuse(row.error_code, row.error_message or f"group {group_id!r}")
        if row.group_state == DEAD:  # how versions before 6 say it (KIP-1043)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}")
        return Described(
            group_id=group_id,
            coordinator_id=asked,
            type=CLASSIC,
            state=row.group_state,
            protocol_type=row.protocol_type,
            protocol=row.protocol_data,
            members=[classic_member(each, row.protocol_type) for each in row.members],
        )

    async def state(self, group_id: str) -> str:
        """Return a group's state; Dead of one that is not there, which takes offsets, too."""
        try:
            return (await self.describe(group_id)).state
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return DEAD

    async def committed(self, group_id: str) -> dict[Place, Committed]:
        """Return all committed offsets of a group, by topic and partition; none of one that is not there."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        _, answer = await self._of_coordinator(
            group_id,
            lambda address: self.cluster.ask(request, OffsetFetchResponse, address, version_max=BY_NAME_VERSION),
            lambda answer: answer.groups[0].error_code,
        )
        group = answer.groups[0]
        refuse(group.error_code, f"group {group_id!r}")
        found: dict[Place, Committed] = {}
        for topic in group.topics:
            for row in topic.partitions:
                refuse(row.error_code, f"{topic.name}-{row.partition_index} of group {group_id!r}")
                if row.committed_offset != NO_OFFSET:
                    place = Place(topic.name, row.partition_index)
                    found[place] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
        return dict(sorted(found.items()))

    async def commit(self, group_id: str, offsets: Mapping[Place, int]) -> dict[Place, ErrorCode]:
        """Commit offsets for a group without members; a code for each. Raises KafkaError where no coordinator is."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for place, offset in offsets.items():
            row = OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
            topics.setdefault(place.topic, OffsetCommitRequestTopic(name=place.topic)).partitions.append(row)
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))
        _, answer = await self._of_coordinator(
            group_id,
            lambda address: self.cluster.ask(request, OffsetCommitResponse, address, version_max=BY_NAME_VERSION),
            lambda answer: next((row.error_code for topic in answer.topics for row in topic.partitions), 0),
        )
        return {
            Place(topic.name, row.partition_index): ErrorCode(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }

    async def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        request = DeleteGroupsRequest(groups_names=[group_id])
        _, answer = await self._of_coordinator(
            group_id,
            lambda address: self.cluster.ask(request, DeleteGroupsResponse, address),
            lambda answer: answer.results[0].error_code,
        )
        refuse(answer.results[0].error_code, f"group {group_id!r}")

    async def delete_offsets(self, group_id: str, topic: str, partitions: Sequence[int]) -> dict[int, ErrorCode]:
        """Forget a group's place in partitions of a topic; a code for each.

        Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. GROUP_SUBSCRIBED_TO_TOPIC is a code of a partition.
        """
        rows = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
        request = OffsetDeleteRequest(group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)])
        _, answer = await self._of_coordinator(
            group_id,
            lambda address: self.cluster.ask(request, OffsetDeleteResponse, address),
            lambda answer: answer.error_code,
        )
        refuse(answer.error_code, f"group {group_id!r}")
        return {row.partition_index: ErrorCode(row.error_code) for each in answer.topics for row in each.partitions}

    async def _of_coordinator(
        self, group_id: str, ask: Callable[[Address], Awaitable[T]], code_of: Callable[[T], int]
    ) -> tuple[int, T]:
        """Return who coordinates a group, and its answer; asked anew while the group moves. Raises KafkaError."""
        asked = -1

        async def attempt() -> T:
            nonlocal asked
            asked, address = await coordinators.find_coordinator(self.cluster, KeyType.GROUP, group_id)
            return await ask(address)

        answer = await asked_again(attempt, code_of)
        return asked, answer
