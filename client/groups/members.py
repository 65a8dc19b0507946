"""Groups and their members in one shape, for both protocols.

Sans-IO.

Source: Kafka's ConsumerGroupDescription, MemberDescription, and the handlers of its Admin that fill them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvorum.network.addresses import Address
from kvorum.protocol.consumer_protocol import CONSUMER_PROTOCOL, read_assignment, subscribed_topics
from kvorum.protocol.messages import consumer_group_describe, describe_groups
from kvorum.protocol.topic_partition import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
UPGRADED: Final[Mapping[int, bool]] = {0: False, 1: True}
"""member_type of ConsumerGroupDescribe v1: a member of the classic protocol, or of the consumer protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member. Partitions are sorted; for the classic protocol `epoch` and `target` are None."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = None
    upgraded: bool | None = None
    """Of a consumer group with members of both protocols: whether the member uses the new one; None: unknown."""
    rack: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    """Target assignment, after other members have revoked their partitions."""

    @property
    def protocol(self) -> str:
        """Return its own protocol."""
        return CLASSIC if self.epoch is None or self.upgraded is False else CONSUMER


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
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


def consumer_group(row: consumer_group_describe.DescribedGroup, coordinator_id: int, address: Address) -> Described:
    """Read ConsumerGroupDescribe."""
    return Described(
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
        assignment=assigned(row.assignment),
        target=assigned(row.target_assignment),
    )


def assigned(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment."""
    return tuple(
        sorted(
            TopicPartition(each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions
        )
    )


def classic_group(row: describe_groups.DescribedGroup, coordinator_id: int, address: Address) -> Described:
    """Read DescribeGroups; a group that has had no member yet has no protocol type."""
    readable = row.protocol_type in (CONSUMER_PROTOCOL, "")
    return Described(
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
    given = read_assignment(row.member_assignment) if readable else None
    return Member(
        member_id=row.member_id,
        instance_id=row.group_instance_id,
        client_id=row.client_id,
        host=row.client_host,
        topics=tuple(subscribed_topics(row.member_metadata)) if readable else (),
        assignment=() if given is None else tuple(sorted(given.places)),
    )
