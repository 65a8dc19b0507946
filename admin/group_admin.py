"""Groups as tools see them: listed at every broker, described and changed at their coordinators.

    list       every broker: ListGroups
    describe   the coordinator: ConsumerGroupDescribe, and where the group is none of that protocol DescribeGroups
    offsets    the coordinator: OffsetFetch, OffsetCommit (as nobody's member), OffsetDelete
    delete     the coordinator: DeleteGroups

Source: Kafka's Admin.listGroups, describeConsumerGroups, listConsumerGroupOffsets, alterConsumerGroupOffsets,
deleteConsumerGroupOffsets, deleteConsumerGroups.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvorum.admin.client import ClusterClient, code_of, refuse
from kvorum.admin.consumer_protocol import CONSUMER_PROTOCOL, read_assignment
from kvorum.admin.coordinators import (
    RETRIED,
    RETRIES,
    RETRY_PAUSE_SECONDS,
    KeyType,
    ask_group_coordinator,
    find_coordinator,
)
from kvorum.admin.places import Place, by_topic
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import consumer_group_describe as consumer
from kvorum.protocol.messages import describe_groups as classic
from kvorum.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kvorum.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
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
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NAMES_VERSION_MAX: Final = 9
"""OffsetFetch and OffsetCommit name topics up to here, and give their ids from v10 on."""
CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
SPELT: Final[Mapping[str, str]] = {word.casefold(): word for word in (CLASSIC, CONSUMER, "Share", "Streams")}
"""Types as Kafka's tools write them; on the wire they come in small letters."""
UPGRADED: Final[Mapping[int, bool | None]] = {0: False, 1: True}
"""member_type of ConsumerGroupDescribe v1: a member of the classic protocol, or of the consumer protocol."""


class Listed(NamedTuple):
    """A group in a list. `group_type` and `state` are "" where the broker is too old to tell."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member. Of the classic protocol `epoch` and `target` are None; `upgraded` is None where nobody says."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Place, ...] = ()
    target: tuple[Place, ...] | None = None
    epoch: int | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its coordinator describes it."""

    group_id: str
    group_type: str
    state: str
    coordinator_id: int
    coordinator: Address
    assignor: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    members: tuple[Member, ...] = ()


class Committed(NamedTuple):
    """A committed offset; a leader epoch of -1 is none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Groups:
    """A cluster's, through a client of it."""

    cluster: ClusterClient

    async def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listed]:
        """Return the groups of all coordinators, by id; states and types in any case, all when empty.

        Raises KafkaError, Unreachable.
        """

        async def of(address: Address) -> list[ListedGroup]:
            request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
            for attempt in range(RETRIES):
                answer = await self.cluster.ask(request, ListGroupsResponse, address)
                if answer.error_code not in RETRIED or attempt == RETRIES - 1:
                    break
                await asyncio.sleep(RETRY_PAUSE_SECONDS)
            refuse(answer.error_code, "list groups")
            return answer.groups

        brokers = (await self.cluster.metadata([])).brokers
        answers = await asyncio.gather(*(of((broker.host, broker.port)) for broker in brokers))
        wanted_states, wanted_types = folded(states), folded(types)
        found = {
            row.group_id: Listed(
                row.group_id, SPELT.get(row.group_type, row.group_type), row.protocol_type, row.group_state
            )
            for rows in answers
            for row in rows
            # Again here: a broker before v4 (states) or v5 (types) does not filter.
            if (not wanted_states or row.group_state.casefold() in wanted_states)
            and (not wanted_types or row.group_type.casefold() in wanted_types)
        }
        return [found[group_id] for group_id in sorted(found)]

    async def described(self, group_id: str) -> Group:
        """Return a group. Raises KafkaError GROUP_ID_NOT_FOUND, Unreachable."""
        coordinator_id, address = await find_coordinator(self.cluster, KeyType.GROUP, group_id)
        newer = await self._described_consumer(group_id)
        if newer is not None:
            return consumer_group(newer, coordinator_id, address)
        answer = await ask_group_coordinator(
            self.cluster,
            group_id,
            classic.DescribeGroupsRequest(groups=[group_id]),
            classic.DescribeGroupsResponse,
            lambda found: found.groups[0].error_code,
        )
        row = answer.groups[0]
        refuse(row.error_code, row.error_message or f"group {group_id!r} does not exist")
        if row.group_state == "Dead":  # how brokers before v6 say that there is none
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        return classic_group(row, coordinator_id, address)

    async def _described_consumer(self, group_id: str) -> consumer.DescribedGroup | None:
        """Return a group of the consumer protocol; None where it is of another, or the cluster does not know any."""
        request = consumer.ConsumerGroupDescribeRequest(group_ids=[group_id])
        answered = consumer.ConsumerGroupDescribeResponse
        try:
            answer = await ask_group_coordinator(
                self.cluster, group_id, request, answered, lambda found: found.groups[0].error_code
            )
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return None
        row = answer.groups[0]
        if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        refuse(row.error_code, row.error_message or f"group {group_id!r}")
        return row

    async def committed(self, group_id: str, places: Iterable[Place] | None = None) -> dict[Place, Committed]:
        """Return what a group has committed, of some partitions or of all. Raises KafkaError, Unreachable."""
        topics = None
        if places is not None:
            topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=partitions)
                for name, partitions in by_topic(places).items()
            ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], group_id=group_id, topics=None
        )
        answer = await ask_group_coordinator(
            self.cluster,
            group_id,
            request,
            OffsetFetchResponse,
            lambda found: found.groups[0].error_code if found.groups else found.error_code,
            version_max=NAMES_VERSION_MAX,
        )
        refuse(answer.groups[0].error_code if answer.groups else answer.error_code, f"offsets of group {group_id!r}")
        found: dict[Place, Committed] = {}
        for topic in answer.groups[0].topics if answer.groups else answer.topics:
            for row in topic.partitions:
                refuse(row.error_code, f"{topic.name}-{row.partition_index}")
                if row.committed_offset >= 0:
                    found[Place(topic.name, row.partition_index)] = Committed(
                        row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                    )
        return dict(sorted(found.items()))

    async def commit(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        """Commit offsets for a group without members. Raises KafkaError (UNKNOWN_MEMBER_ID: it has some)."""
        if not offsets:
            return
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offsets[Place(name, index)])
                    for index in partitions
                ],
            )
            for name, partitions in by_topic(offsets).items()
        ]
        answer = await ask_group_coordinator(
            self.cluster,
            group_id,
            OffsetCommitRequest(group_id=group_id, topics=topics),
            OffsetCommitResponse,
            lambda found: max(row.error_code for topic in found.topics for row in topic.partitions),
            version_max=NAMES_VERSION_MAX,
        )
        for topic in answer.topics:
            for row in topic.partitions:
                refuse(row.error_code, f"{topic.name}-{row.partition_index} of group {group_id!r}")

    async def delete(self, group_id: str) -> None:
        """Delete a group that has no members, with its offsets. Raises KafkaError."""
        answer = await ask_group_coordinator(
            self.cluster,
            group_id,
            DeleteGroupsRequest(groups_names=[group_id]),
            DeleteGroupsResponse,
            lambda found: found.results[0].error_code,
        )
        refuse(answer.results[0].error_code, f"group {group_id!r}")

    async def delete_offsets(self, group_id: str, places: Iterable[Place]) -> dict[Place, ErrorCode]:
        """Forget a group's offsets of partitions it does not consume; return what became of each. Raises KafkaError."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
            for name, partitions in by_topic(places).items()
        ]
        answer = await ask_group_coordinator(
            self.cluster,
            group_id,
            OffsetDeleteRequest(group_id=group_id, topics=topics),
            OffsetDeleteResponse,
            lambda found: found.error_code,
        )
        refuse(answer.error_code, f"group {group_id!r}")
        return {
            Place(topic.name, row.partition_index): code_of(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }


def folded(words: Sequence[str]) -> set[str]:
    """Return words without regard to case."""
    return {word.casefold() for word in words}


def classic_group(row: classic.DescribedGroup, coordinator_id: int, address: Address) -> Group:
    """Read DescribeGroups; members of other protocol types than `consumer` have assignments of their own making."""
    readable = row.protocol_type in (CONSUMER_PROTOCOL, "")
    return Group(
        group_id=row.group_id,
        group_type=CLASSIC,
        state=row.group_state,
        coordinator_id=coordinator_id,
        coordinator=address,
        assignor=row.protocol_data,
        members=tuple(
            Member(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assignment=places_of(member.member_assignment) if readable else (),
            )
            for member in row.members
        ),
    )


def places_of(data: bytes) -> tuple[Place, ...]:
    """Return the partitions of an assignment; none where its bytes are none."""
    found = read_assignment(data)
    return tuple(sorted(found.places)) if found is not None else ()


def consumer_group(row: consumer.DescribedGroup, coordinator_id: int, address: Address) -> Group:
    """Read ConsumerGroupDescribe."""
    return Group(
        group_id=row.group_id,
        group_type=CONSUMER,
        state=row.group_state,
        coordinator_id=coordinator_id,
        coordinator=address,
        assignor=row.assignor_name,
        epoch=row.group_epoch,
        target_epoch=row.assignment_epoch,
        members=tuple(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assignment=assigned(member.assignment),
                target=assigned(member.target_assignment),
                epoch=member.member_epoch,
                upgraded=UPGRADED.get(member.member_type),
            )
            for member in row.members
        ),
    )


def assigned(assignment: consumer.Assignment) -> tuple[Place, ...]:
    """Return the partitions of an assignment."""
    return tuple(
        sorted(Place(each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions)
    )
