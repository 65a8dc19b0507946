"""Decisions on committed offsets: commit, fetch, delete, expire. Sans-IO, over the immutable state of a partition.

    commit       rejected as a whole if the member check fails; metadata too large rejects one partition
    transactional  the same records, written with the producer's id: they are pending until its marker
    fetch        UNSTABLE_OFFSET_COMMIT for offsets of an open transaction, if stable offsets are required (KIP-447)
    delete       not of topics with a subscription
    expire       by offsets.retention.minutes, from the time in commit_rules.py; never pending offsets

A topic that was deleted and recreated is a different topic: an offset with the former id does not belong to the new
one. The group decides which clients may commit: commit_rules.py. Source: Kafka's OffsetMetadataManager.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from kvorum.broker.coordinator.group.classic.group import ClassicGroup
from kvorum.broker.coordinator.group.commit_record import NO_EXPIRY, commit_record
from kvorum.broker.coordinator.group.commit_rules import (
    CommitTerms,
    commit_terms,
    is_subscribed,
    retention_base,
    validate_fetch,
)
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.words import (
    NO_OFFSET,
    NO_OFFSETS,
    ConsumerGroup,
    GroupsState,
    OffsetAndMetadata,
    OffsetKey,
    Offsets,
)
from kvorum.broker.coordinator.records.offsets import OffsetCommitValue
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decision
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kvorum.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kvorum.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kvorum.protocol.uuids import ZERO_UUID, Uuid

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup | None
"""The present state of a group; None if the id is unknown."""
CommittedPartition: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition

DEFAULT_RETENTION: Final = -1
TIME_MAX_MS: Final = 2**63 - 1


# --- commit -----------------------------------------------------------------------------------------------------------


def commit(
    group: AnyGroup, request: OffsetCommitRequest, *, api_version: int, wall_ms: int, settings: GroupSettings
) -> Decision[OffsetCommitResponse]:
    """Decide on a commit; topics must have names. A missing group is created, with offsets only.

    Raises KafkaError GROUP_ID_NOT_FOUND (ILLEGAL_GENERATION up to v8), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION: nothing is committed.
    """
    terms = CommitTerms(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=request.generation_id_or_member_epoch,
        api_version=api_version,
        is_transactional=False,
    )
    validate_partition = commit_terms(group, terms)
    retention_ms = request.retention_time
    expires_ms = NO_EXPIRY if retention_ms == DEFAULT_RETENTION else min(wall_ms + retention_ms, TIME_MAX_MS)
    response = OffsetCommitResponse()
    records: list[CoordinatorRecord] = []
    for topic in request.topics:
        rows = OffsetCommitResponseTopic(topic_id=topic.topic_id, name=topic.name)
        response.topics.append(rows)
        for partition in topic.partitions:
            row = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            rows.partitions.append(row)
            if is_too_large(partition.committed_metadata, settings):
                row.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            validate_partition(topic.topic_id, partition.partition_index)
            value = committed_value(partition, topic.topic_id, wall_ms, expires_ms)
            records.append(commit_record(request.group_id, topic.name, partition.partition_index, value))
    return Decision(response=response, records=records)


def commit_transactional(
    group: AnyGroup,
    request: TxnOffsetCommitRequest,
    *,
    api_version: int,
    wall_ms: int,
    settings: GroupSettings,
    topic_ids: Mapping[str, Uuid],
) -> Decision[TxnOffsetCommitResponse]:
    """Decide on a commit within a transaction: to be written with the producer's id and epoch.

    `topic_ids` are those of existing topics; the records do not have them, as in Kafka.

    Raises KafkaError ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: nothing is committed.
    """
    terms = CommitTerms(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=request.generation_id,
        api_version=api_version,
        is_transactional=True,
    )
    response = TxnOffsetCommitResponse()
    records: list[CoordinatorRecord] = []
    try:
        validate_partition = commit_terms(group, terms)
        for topic in request.topics:
            rows = TxnOffsetCommitResponseTopic(name=topic.name)
            response.topics.append(rows)
            topic_id = topic_ids.get(topic.name, ZERO_UUID)
            for partition in topic.partitions:
                row = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
                rows.partitions.append(row)
                if is_too_large(partition.committed_metadata, settings):
                    row.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                validate_partition(topic_id, partition.partition_index)
                value = committed_value(partition, ZERO_UUID, wall_ms, NO_EXPIRY)
                records.append(commit_record(request.group_id, topic.name, partition.partition_index, value))
    except KafkaError as error:
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
            raise
        # Producers do not know epochs of consumer groups, only generations.
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message or "") from error
    return Decision(response=response, records=records)


def is_too_large(metadata: str | None, settings: GroupSettings) -> bool:
    """Return whether a client's metadata is too long, counted in characters as in Java."""
    if metadata is None or 2 * len(metadata) <= settings.offset_metadata_chars_max:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > settings.offset_metadata_chars_max


def committed_value(partition: CommittedPartition, topic_id: Uuid, wall_ms: int, expires_ms: int) -> OffsetCommitValue:
    """Return the record of a committed offset."""
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms,
        expire_timestamp=expires_ms,
        topic_id=topic_id,
    )


# --- fetch ------------------------------------------------------------------------------------------------------------


def fetch(state: GroupsState, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
    """Return a group's offsets, all of them if no topics are named (None).

    Topic names must be known.

    The state is the committed one; for stable offsets the newest, and the response is sent when that is committed. A
    missing group has no offsets. Raises KafkaError UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION (consumer
    groups, if the request names a member).
    """
    found = state.groups.get(request.group_id)
    if isinstance(found, ConsumerGroup):
        validate_fetch(found, request.member_id, request.member_epoch)
    offsets = NO_OFFSETS if found is None else state.group_offsets(request.group_id)
    pending = list(state.pending_of(request.group_id)) if require_stable else []
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    if request.topics is None:
        for name, partitions in by_topic(offsets).items():
            rows = [fetched(offsets, pending, OffsetKey(name, each), ZERO_UUID) for each in partitions]
            response.topics.append(OffsetFetchResponseTopics(name=name, partitions=rows))
        return response
    for topic in request.topics:
        rows = [
            fetched(offsets, pending, OffsetKey(topic.name, each), topic.topic_id) for each in topic.partition_indexes
        ]
        response.topics.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, name=topic.name, partitions=rows))
    return response


def by_topic(offsets: Offsets) -> dict[str, list[int]]:
    """Return the partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, []).append(partition)
    return found


def fetched(offsets: Offsets, pending: list[Offsets], key: OffsetKey, topic_id: Uuid) -> OffsetFetchResponsePartitions:
    """Return one partition's row."""
    row = OffsetFetchResponsePartitions(partition_index=key.partition, committed_offset=NO_OFFSET)
    committed = offsets.get(key)
    if any(key in each for each in pending):
        row.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif committed is not None and not are_other_topics(committed.topic_id, topic_id):
        row.committed_offset = committed.offset
        row.committed_leader_epoch = committed.leader_epoch
        row.metadata = committed.metadata
    return row


def are_other_topics(one: Uuid, other: Uuid) -> bool:
    """Return whether these ids belong to different topics; an unknown id may be any."""
    return ZERO_UUID not in (one, other) and one != other


# --- delete -----------------------------------------------------------------------------------------------------------


def delete(state: GroupsState, group: AnyGroup, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
    """Decide on deleting offsets, including pending ones; GROUP_SUBSCRIBED_TO_TOPIC if a member is subscribed.

    Raises KafkaError INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members whose topics cannot be known).
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id must not be empty")
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} not found")
    if isinstance(group, ClassicGroup):
        group.validate_offset_delete()
    offsets, pending = state.group_offsets(request.group_id), list(state.pending_of(request.group_id))
    response = OffsetDeleteResponse()
    records = []
    for topic in request.topics:
        rows = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(rows)
        is_used = is_subscribed(group, topic.name)
        for partition in topic.partitions:
            row = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            rows.partitions.append(row)
            key = OffsetKey(topic.name, partition.partition_index)
            if is_used:
                row.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif key in offsets or any(key in each for each in pending):
                records.append(commit_record(request.group_id, *key, None))
    return Decision(response=response, records=records)


def delete_all(state: GroupsState, group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of all offsets of a group, including pending ones."""
    keys = set(state.group_offsets(group_id))
    for pending in state.pending_of(group_id):
        keys.update(pending)
    return [commit_record(group_id, *key, None) for key in sorted(keys)]


def delete_topics(state: GroupsState, deleted: Mapping[str, Uuid]) -> list[CoordinatorRecord]:
    """Return the tombstones of all offsets of deleted topics."""
    keys = set()
    for group_id, offsets in _all_offsets(state):
        for key, committed in offsets.items():
            topic_id = deleted.get(key.topic)
            if topic_id is not None and not are_other_topics(committed.topic_id, topic_id):
                keys.add((group_id, key))
    return [commit_record(group_id, *key, None) for group_id, key in sorted(keys)]


def _all_offsets(state: GroupsState) -> Iterator[tuple[str, Offsets]]:
    yield from state.offsets.items()
    for groups in state.pending.values():
        yield from groups.items()


# --- expire -----------------------------------------------------------------------------------------------------------


class Expired(NamedTuple):
    """Tombstones of a group's expired offsets, and whether no offset is left."""

    records: list[CoordinatorRecord]
    is_all: bool


def expire(state: GroupsState, group: AnyGroup, group_id: str, *, wall_ms: int, retention_ms: int) -> Expired:
    """Return a group's expired offsets. Cost: the number of offsets."""
    offsets, pending = state.group_offsets(group_id), list(state.pending_of(group_id))
    if not offsets:
        return Expired([], not pending)
    base = retention_base(group)
    if base is None:
        return Expired([], False)
    records = []
    for key, committed in sorted(offsets.items(), key=lambda item: item[0]):
        is_kept = (
            is_subscribed(group, key.topic)
            or any(key in each for each in pending)
            or not is_expired(committed, base(committed), wall_ms, retention_ms)
        )
        if not is_kept:
            records.append(commit_record(group_id, *key, None))
    return Expired(records, len(records) == len(offsets) and not pending)


def is_expired(committed: OffsetAndMetadata, base_ms: int, wall_ms: int, retention_ms: int) -> bool:
    """Return whether an offset is expired: by its own expiry, if a client once set one, else by the broker's."""
    if committed.expire_timestamp_ms is not None:
        return wall_ms >= committed.expire_timestamp_ms
    return wall_ms - base_ms >= retention_ms
