"""Rules for offsets of groups of either protocol: commit checks, offsets in use, expiration.

Sans-IO.

Source: Kafka's Group interface (validateOffsetCommit, isSubscribedToTopic, offsetExpirationCondition) as ClassicGroup
and ConsumerGroup fill it; KIP-1251 for commits with an earlier epoch.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.classic.words import ClassicState
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, OffsetAndMetadata
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid

ValidatePartition: TypeAlias = Callable[[Uuid, int], None]
"""Raises KafkaError if this partition may not be committed by the member."""
EPOCHS_FROM: Final = 9
"""OffsetCommit: from this version on a member of a consumer group can commit, and GROUP_ID_NOT_FOUND is understood."""


class CommitTerms(NamedTuple):
    """Identity of a committer. `epoch` is the generation for classic groups; below 0 it is not a member."""

    member_id: str
    instance_id: str | None
    epoch: int
    api_version: int
    is_transactional: bool


def anything(topic_id: Uuid, partition: int) -> None:
    """Permit the commit of every partition."""


def commit_terms(group: ClassicGroup | ConsumerGroup | None, terms: CommitTerms) -> ValidatePartition:
    """Return the checks of each partition. Raises KafkaError if nothing may be committed."""
    if group is None:
        if terms.epoch < 0:
            return anything
        if not terms.is_transactional and terms.api_version >= EPOCHS_FROM:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the group does not exist")
    if isinstance(group, ConsumerGroup):
        return _consumer_terms(group, terms)
    group.validate_commit(terms.member_id, terms.instance_id, terms.epoch, is_transactional=terms.is_transactional)
    return anything


def _consumer_terms(group: ConsumerGroup, terms: CommitTerms) -> ValidatePartition:
    if terms.epoch < 0 and not group.members:
        return anything
    is_nobody = terms.epoch == -1 and not terms.member_id and terms.instance_id is None
    if terms.is_transactional and is_nobody:
        return anything
    member = group.members.get(terms.member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{terms.member_id!r} is not a member of {group.group_id}")
    if not terms.is_transactional and member.classic is None and terms.api_version < EPOCHS_FROM:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "members of consumer groups must commit with v9 or newer")
    if terms.epoch == member.member_epoch:
        return anything
    stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    if terms.epoch > member.member_epoch:
        raise KafkaError(stale, f"epoch {terms.epoch} is newer than the member epoch {member.member_epoch}")

    def validate_partition(topic_id: Uuid, partition: int) -> None:
        since = _epoch_of(member, topic_id, partition)
        if since is None:
            raise KafkaError(stale, f"partition {partition} is not assigned to the member")
        if terms.epoch < since:
            raise KafkaError(stale, f"epoch {terms.epoch} is older than the assignment of partition {partition}")

    return validate_partition


def _epoch_of(member: ConsumerMember, topic_id: Uuid, partition: int) -> int | None:
    """Return the epoch in which a partition was assigned to a member that has it still."""
    for rows in (member.assigned, member.pending_revocation):
        found = rows.get(topic_id, {}).get(partition)
        if found is not None:
            return found
    return None


def validate_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Raise KafkaError unless the request is from a member in its epoch, or from a client that claims no membership."""
    if member_id is None and member_epoch < 0:
        return
    member = group.members.get(member_id or "")
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of {group.group_id}")
    if member_epoch != member.member_epoch:
        stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise KafkaError(stale, f"epoch {member_epoch} is not the member epoch {member.member_epoch}")


def is_subscribed(group: ClassicGroup | ConsumerGroup | None, topic: str) -> bool:
    """Return whether a member subscribes to a topic, or may."""
    if group is None:
        return False
    if isinstance(group, ClassicGroup):
        return group.is_subscribed_to(topic)
    for member in group.members.values():
        regex = group.regexes.get(member.subscribed_topic_regex)
        if topic in member.subscribed_topic_names or (regex is not None and topic in regex.topics):
            return True
    return False


def retention_base(group: ClassicGroup | ConsumerGroup | None) -> Callable[[OffsetAndMetadata], int] | None:
    """Return the start (wall clock, ms) of an offset's retention; None: nothing expires now.

    It is the commit, except for a classic group that has become empty: then it is that time for all its offsets
    (KIP-211).
    """
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.state is ClassicState.EMPTY:
            since_ms = group.state_timestamp_ms
            return _committed if since_ms is None else lambda committed: since_ms
        is_known = group.is_consumers and group.topics is not None and group.state is ClassicState.STABLE
        return _committed if is_known else None
    return _committed


def _committed(committed: OffsetAndMetadata) -> int:
    return committed.commit_timestamp_ms
