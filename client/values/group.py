"""Groups, their members and offsets, in one shape for both protocols.

Source: Kafka's GroupListing, ConsumerGroupDescription, MemberDescription, OffsetAndMetadata.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvorum.client.wire.cluster_client import error_in
from kvorum.network.addresses import Address
from kvorum.protocol.consumer_protocol import CONSUMER_PROTOCOL, read_assignment, subscribed_topics
from kvorum.protocol.errors import KafkaError, ProtocolError
from kvorum.protocol.messages import consumer_group_describe, describe_groups
from kvorum.protocol.messages.leave_group import MemberResponse
from kvorum.protocol.messages.list_groups import ListedGroup
from kvorum.protocol.messages.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponsePartitions
from kvorum.protocol.topic_partition import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
UPGRADED: Final[Mapping[int, bool]] = {0: False, 1: True}
"""member_type of ConsumerGroupDescribe v1: a member of the classic protocol, or of the consumer protocol."""
PROTOCOL_TYPES_OF_CONSUMERS: Final = ("consumer", "")
"""Protocol types of consumers; "" is of a group that has offsets alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group in the list of groups. The type is classic, consumer, share or streams, "" from an old broker."""

    group_id: str
    coordinator_id: int
    protocol_type: str
    state: str
    type: str

    @property
    def has_consumers(self) -> bool:
        """Return whether it has consumers, or only offsets: no Connect worker, no share or streams group."""
        return self.type in (CLASSIC, CONSUMER, "") and self.protocol_type in PROTOCOL_TYPES_OF_CONSUMERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group. Partitions are sorted; in the classic protocol `epoch` and `target` are None."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = None
    upgraded: bool | None = None
    """Of a consumer group with members of both protocols: whether the member uses the new one; None: unknown."""
    rack: str | None = None
    topics: tuple[str, ...] = ()
    """Topics of its subscription."""
    pattern: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    """Target assignment, after other members have revoked their partitions."""

    @property
    def protocol(self) -> str:
        """Return its own protocol."""
        return CLASSIC if self.epoch is None or self.upgraded is False else CONSUMER


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as described by its coordinator."""

    group_id: str
    coordinator_id: int
    coordinator: Address
    type: str
    state: str
    protocol_type: str
    protocol: str
    """The assignor; empty where none was chosen."""
    epoch: int | None = None
    """Of a consumer group; with the epoch of the assignment."""
    assignment_epoch: int | None = None
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """An offset that a group has committed in a partition."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A partition that a member owns, or that the group has committed an offset of."""

    topic: str
    partition: int
    committed: OffsetAndMetadata | None
    """None: assigned, without a committed offset."""
    end_offset: int | None
    """Offset after the last record; None: the leader did not return it."""
    member: Member | None
    """Present owner."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def lag(self) -> int | None:
        """Return the number of records to consume; below 0 if the log ends before the committed offset."""
        return None if self.committed is None or self.end_offset is None else self.end_offset - self.committed.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalLag:
    """Total lag of a group over the partitions with a committed offset."""

    lag: int
    partition_count: int
    unknown_count: int
    """Partitions whose log end offset is not available; not included in the total."""
    topics: frozenset[str]
    """Topics with committed offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Number of members of a group, and the topics they subscribe to or have partitions of."""

    member_count: int
    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRemoval:
    """Result of the removal of a member; `member_id` is "" if it was removed by its instance id."""

    member_id: str
    instance_id: str | None
    error: KafkaError | None
    """None: it was removed."""


def group_listing(row: ListedGroup, coordinator_id: int) -> GroupListing:
    """Return a group of a ListGroups response."""
    return GroupListing(
        group_id=row.group_id,
        coordinator_id=coordinator_id,
        protocol_type=row.protocol_type,
        state=row.group_state,
        type=row.group_type.lower(),
    )


def offset_and_metadata(row: OffsetFetchResponsePartition | OffsetFetchResponsePartitions) -> OffsetAndMetadata:
    """Return an offset of an OffsetFetch response."""
    leader_epoch = row.committed_leader_epoch if row.committed_leader_epoch >= 0 else None
    return OffsetAndMetadata(offset=row.committed_offset, leader_epoch=leader_epoch, metadata=row.metadata or "")


def consumer_group(row: consumer_group_describe.DescribedGroup, coordinator_id: int, address: Address) -> Group:
    """Return a group of a ConsumerGroupDescribe response."""
    return Group(
        group_id=row.group_id,
        coordinator_id=coordinator_id,
        coordinator=address,
        type=CONSUMER,
        state=row.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=row.assignor_name,
        epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
        members=tuple(map(consumer_member, row.members)),
    )


def consumer_member(row: consumer_group_describe.Member) -> Member:
    """Return a member of a consumer group."""
    return Member(
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=row.client_id,
        host=row.client_host,
        epoch=row.member_epoch,
        upgraded=UPGRADED.get(row.member_type),
        rack=row.rack_id,
        topics=tuple(row.subscribed_topic_names),
        pattern=row.subscribed_topic_regex or None,
        assignment=partitions_of(row.assignment),
        target=partitions_of(row.target_assignment),
    )


def partitions_of(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment."""
    return tuple(
        sorted(
            TopicPartition(each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions
        )
    )


def classic_group(row: describe_groups.DescribedGroup, coordinator_id: int, address: Address) -> Group:
    """Return a group of a DescribeGroups response; a group that has had no member yet has no protocol type."""
    readable = row.protocol_type in (CONSUMER_PROTOCOL, "")
    return Group(
        group_id=row.group_id,
        coordinator_id=coordinator_id,
        coordinator=address,
        type=CLASSIC,
        state=row.group_state,
        protocol_type=row.protocol_type,
        protocol=row.protocol_data,
        members=tuple(classic_member(each, readable=readable) for each in row.members),
    )


def classic_member(row: describe_groups.DescribedGroupMember, *, readable: bool) -> Member:
    """Return a member of a classic group. Topics and partitions are known for consumers only."""
    return Member(
        member_id=row.member_id,
        instance_id=row.group_instance_id,
        client_id=row.client_id,
        host=row.client_host,
        topics=tuple(subscribed_topics(row.member_metadata) or ()) if readable else (),
        assignment=classic_assignment(row.member_assignment) if readable else (),
    )


def classic_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment of the classic protocol; none if the bytes are invalid."""
    try:
        return tuple(sorted(read_assignment(data).topic_partitions))
    except ProtocolError:
        return ()


def member_removal(row: MemberResponse) -> MemberRemoval:
    """Return the result of a member of a LeaveGroup response."""
    return MemberRemoval(
        member_id=row.member_id, instance_id=row.group_instance_id, error=error_in(row.error_code, None)
    )
