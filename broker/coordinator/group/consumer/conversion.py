"""Conversion of groups between the protocols, with their members and assignments. Sans-IO, pure.

    upgrade     a member of the consumer protocol joins a classic group of consumers: each of these becomes a classic
                member of a consumer group, with the generation as its epoch, and its assignment
    downgrade   the last member of the consumer protocol leaves, the others use the classic one: the group epoch
                becomes the generation, the targets their assignments

Offsets are unchanged. Source: Kafka's ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup (KIP-848).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from kvorum.broker.coordinator.group.classic.group import ClassicGroup, metadata_record
from kvorum.broker.coordinator.group.classic.member import ClassicMember
from kvorum.broker.coordinator.group.classic.words import ClassicState, OfferedProtocol
from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.target import target_of
from kvorum.broker.coordinator.group.consumer.topic_hashes import TopicHashes
from kvorum.broker.coordinator.group.tombstones import consumer_tombstones
from kvorum.broker.coordinator.group.words import (
    CONSUMER_PROTOCOL_TYPE,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
)
from kvorum.broker.coordinator.records.consumer import ClassicMemberMetadata, ClassicProtocol
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.protocol.consumer_protocol import (
    TopicPartitions,
    assignment_version,
    read_assignment,
    read_subscription,
    write_assignment,
)
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.topics import TopicsImage


class Upgrade(NamedTuple):
    """A consumer group in the place of a classic one, and what writes that."""

    group: ConsumerGroup
    records: Sequence[CoordinatorRecord]


class Downgrade(NamedTuple):
    """A classic group in the place of a consumer group, and what writes that."""

    group: ClassicGroup
    records: Sequence[CoordinatorRecord]


def upgrade(classic: ClassicGroup, image: MetadataImage, hashes: TopicHashes) -> Upgrade:
    """Return the consumer group that replaces a classic group with members.

    Raises KafkaError GROUP_ID_NOT_FOUND if a member's subscription or assignment cannot be read, or has data of a
    custom assignor, which would be lost.
    """
    assigned = {}
    members = []
    for member in classic.members.values():
        protocol = classic.protocol_name or classic.select_protocol()
        try:
            converted, assigned[member.member_id] = _upgraded(classic, member, protocol, image.topics)
        except ProtocolError as error:
            _refuse(classic.group_id, "the embedded consumer protocol is malformed", error)
        members.append(converted)
    draft = Draft(ConsumerGroup(group_id=classic.group_id))
    names: set[str] = set()
    for converted in members:
        draft.write_subscription(converted)
        names.update(converted.subscribed_topic_names)
    draft.write_epoch(classic.generation, hashes.group_hash(names, image))
    for converted in members:
        draft.write_target(converted.member_id, assigned[converted.member_id])
    draft.write_target_epoch(classic.generation, 0)
    for converted in members:
        draft.write_current(converted)
    return Upgrade(draft.group, [metadata_record(classic.group_id, None), *draft.records])


def _refuse(group_id: str, reason: str, cause: Exception | None = None) -> NoReturn:
    message = f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message) from cause


def _upgraded(
    classic: ClassicGroup, member: ClassicMember, protocol: str, topics: TopicsImage
) -> tuple[ConsumerMember, Assignment]:
    """Return a member with its assignment; no assignment if it has only just joined. Raises ProtocolError."""
    subscription = read_subscription(member.metadata(protocol))
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        _refuse(
            classic.group_id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    assigned = by_topic_id(assignment.assigned_partitions, topics)
    converted = ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
        member_epoch=classic.generation,
        previous_member_epoch=classic.generation,
        assigned={topic_id: dict.fromkeys(rows, classic.generation) for topic_id, rows in assigned.items()},
    )
    return converted, assigned


def classic_metadata(session_timeout_ms: int, protocols: Collection[OfferedProtocol]) -> ClassicMemberMetadata:
    """Return the stored metadata of a member that uses the classic protocol."""
    rows = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols]
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=rows)


def assignment_bytes(partitions: Mapping[Uuid, Iterable[int]], topics: TopicsImage, version: int) -> bytes:
    """Return an assignment in the consumer protocol, in this version; deleted topics are left out."""
    rows = []
    for topic_id, numbers in partitions.items():
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            rows.append(TopicPartitions(topic=topic.name, partitions=sorted(numbers)))
    return write_assignment(sorted(rows, key=lambda row: row.topic), version)


def by_topic_id(rows: Iterable[TopicPartitions], topics: TopicsImage) -> Assignment:
    """Return partitions by topic id; deleted topics are omitted."""
    found: dict[Uuid, frozenset[int]] = {}
    for row in rows:
        topic = topics.topic(row.topic)
        if topic is not None:
            found[topic.topic_id] = frozenset(row.partitions) | found.get(topic.topic_id, frozenset())
    return found


def downgrade(
    group: ConsumerGroup, gone: Collection[str], topics: TopicsImage, wall_ms: Callable[[], int]
) -> Downgrade:
    """Return the classic group of the remaining members.

    If a member's subscription is unreadable, Kafka keeps the consumer group; here the member gets its assignment in the
    oldest version.
    """
    staying = [group.members[member_id] for member_id in sorted(group.members) if member_id not in gone]
    made = ClassicGroup(group.group_id, wall_ms)
    for member in staying:
        made.add(_downgraded(member))
    made.state = ClassicState.STABLE
    made.generation = group.group_epoch
    made.protocol_name = made.select_protocol()
    made.topics = made.compute_topics()
    assignments = {}
    for member_id, classic in made.members.items():
        version = assignment_version(classic.metadata(made.protocol_name))
        classic.assignment = assignment_bytes(target_of(group, member_id), topics, version)
        assignments[member_id] = classic.assignment
    return Downgrade(made, [*consumer_tombstones(group), made.generation_record(assignments)])


def _downgraded(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only members of the classic protocol stay"
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=tuple(OfferedProtocol(row.name, bytes(row.metadata)) for row in member.classic.supported_protocols),
    )
