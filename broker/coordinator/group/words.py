"""Groups as stored in __consumer_offsets, as immutable values. Sans-IO.

    GroupsState   groups by id, committed offsets by group, offsets of open transactions by producer
    ClassicGeneration   the last complete generation of a classic group
    ConsumerGroup       a KIP-848 group: members, target assignment, patterns

Epochs of a consumer group: `group_epoch` rises when members, subscriptions or topics change; `assignment_epoch` is the
group epoch that the target assignment was made for; a member's epoch is the assignment epoch it has reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from rpds import HashTrieMap

from kvorum.broker.coordinator.records.classic import GroupMetadataValue
from kvorum.broker.coordinator.records.consumer import ClassicMemberMetadata
from kvorum.protocol.uuids import ZERO_UUID, Uuid

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
FIRST_GROUP_EPOCH: Final = 1
"""Initial epoch of a consumer group. Not 0: a member that receives 0 rejoins forever."""


class OffsetKey(NamedTuple):
    """Key of a committed offset."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset. `record_offset` is that of its record in the log: of two commits the later one counts."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    record_offset: int
    topic_id: Uuid = ZERO_UUID


Offsets: TypeAlias = "HashTrieMap[OffsetKey, OffsetAndMetadata]"


@dataclass(frozen=True, slots=True)
class ClassicGeneration:
    """A classic group, as its last record has it. A group that only commits offsets has no protocol type."""

    group_id: str
    value: GroupMetadataValue
    """Shared and never modified."""

    @property
    def is_simple(self) -> bool:
        """Whether the group never had members and only stores offsets."""
        return not self.value.protocol_type


class MemberState(IntEnum):
    """State of a member of a consumer group; numbers as in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions and has not reported the revocation."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127


Assignment: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Partitions by topic."""
EpochAssignment: TypeAlias = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic, and the epoch in which each was assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a consumer group. Times in ms."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Metadata of a member that uses the classic protocol (migration)."""
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: EpochAssignment = field(default_factory=dict)
    pending_revocation: EpochAssignment = field(default_factory=dict)


class ResolvedRegex(NamedTuple):
    """The topics a pattern stood for, as of a metadata offset and a wall-clock time (ms)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A consumer group. `target` has a row for each member with target partitions."""

    group_id: str
    group_epoch: int = FIRST_GROUP_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: HashTrieMap[str, ConsumerMember] = field(default_factory=HashTrieMap)
    static_members: HashTrieMap[str, str] = field(default_factory=HashTrieMap)
    """Member ids by instance id."""
    target: HashTrieMap[str, Assignment] = field(default_factory=HashTrieMap)
    regexes: HashTrieMap[str, ResolvedRegex] = field(default_factory=HashTrieMap)
    owners: HashTrieMap[tuple[Uuid, int], str] = field(default_factory=HashTrieMap)
    """The member that owns a partition, or still has to revoke it, by partition."""
    has_partition_metadata: bool = False
    """Whether an earlier release's record of the topics is in the log, which must be removed."""


Group: TypeAlias = ClassicGeneration | ConsumerGroup


class GroupsState(NamedTuple):
    """The content of one partition of __consumer_offsets. A new one for each record: a tuple costs the least."""

    groups: HashTrieMap[str, Group] = HashTrieMap()
    offsets: HashTrieMap[str, Offsets] = HashTrieMap()
    pending: HashTrieMap[int, HashTrieMap[str, Offsets]] = HashTrieMap()
    """Offsets of transactions that are not over: by producer id, by group."""

    def group_offsets(self, group_id: str) -> Offsets:
        """Return a group's committed offsets, empty without any."""
        return self.offsets.get(group_id) or NO_OFFSETS

    def pending_of(self, group_id: str) -> Iterator[Offsets]:
        """Go over the offsets that open transactions would commit for a group."""
        for groups in self.pending.values():
            found = groups.get(group_id)
            if found is not None:
                yield found

    def has_pending(self, group_id: str, key: OffsetKey) -> bool:
        """Return whether an open transaction would commit this offset (KIP-447: UNSTABLE_OFFSET_COMMIT)."""
        return any(key in offsets for offsets in self.pending_of(group_id))


NO_OFFSETS: Final[Offsets] = HashTrieMap()
