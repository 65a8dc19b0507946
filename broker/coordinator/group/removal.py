"""Removal of groups: by request, or without members and offsets. Sans-IO.

    delete   an empty group, with its offsets; DeleteGroups
    expire   each offsets.retention.check.interval.ms: old offsets of every group, and groups without offsets

Both write tombstones; the group exists until they are committed. Offsets without a group expire too: a client that
commits without a group has only offsets. Source: Kafka's GroupCoordinatorShard (deleteGroups, cleanupGroupMetadata),
GroupMetadataManager.maybeDeleteGroup.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kvorum.broker.coordinator.group import offsets
from kvorum.broker.coordinator.group.classic.group import ClassicGroup, metadata_record
from kvorum.broker.coordinator.group.classic.words import ClassicState
from kvorum.broker.coordinator.group.consumer.groups import ConsumerGroups
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.desk import ShardDesk
from kvorum.broker.coordinator.group.settings import GroupSettings
from kvorum.broker.coordinator.group.tombstones import consumer_tombstones
from kvorum.broker.coordinator.group.words import ConsumerGroup, Group, GroupsState
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decision, Outcome
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

EXPIRED_GROUPS_PER_TURN: Final = 500
"""Groups checked for old offsets in one turn."""
EXPIRY_PAUSE_MS: Final = 10


class Groups(Protocol):
    """The shard's groups, as far as removal needs them."""

    def group(self, state: GroupsState, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return the present state of a group, None if it does not exist."""
        ...

    def classic_groups(self) -> Mapping[str, ClassicGroup]:
        """Return the classic groups that have, or had, members here."""
        ...

    def drop_classic(self, group_id: str, code: ErrorCode) -> ClassicGroup | None:
        """Remove a deleted group, and answer its waiting members."""
        ...


class GroupRemoval:
    """Removes groups. One per shard."""

    __slots__ = ("_consumer", "_counts", "_desk", "_groups", "_settings")

    def __init__(
        self, desk: ShardDesk, settings: GroupSettings, groups: Groups, consumer: ConsumerGroups, counts: GroupCounts
    ) -> None:
        """Remove nothing before `activated`."""
        self._desk = desk
        self._settings = settings
        self._groups = groups
        self._consumer = consumer
        self._counts = counts

    def activated(self) -> None:
        """Start to look for old offsets, the first time after an interval."""
        self._desk.after(self._settings.offsets_retention_check_interval_ms, self._begin_expiry)

    def delete(self, state: GroupsState, group_id: str) -> Decision[ErrorCode]:
        """Decide on deleting a group with its offsets; the response can be GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
        found, group = state.groups.get(group_id), self._groups.group(state, group_id)
        if found is None or group is None:
            return Decision(response=ErrorCode.GROUP_ID_NOT_FOUND)
        if not is_empty(group):
            return Decision(response=ErrorCode.NON_EMPTY_GROUP)
        forgotten = offsets.delete_all(state, group_id)
        self._counts.offsets_deleted += len(forgotten)
        records = forgotten + tombstones(found)
        log.info("group deleted", group=group_id, records=len(records))
        return Decision(response=ErrorCode.NONE, records=records, outcome=self._end_outcome(group_id))

    def _begin_expiry(self) -> None:
        state = self._desk.turn.state
        self._expire(sorted({*state.groups, *state.offsets}))
        self._desk.after(self._settings.offsets_retention_check_interval_ms, self._begin_expiry)

    def _expire(self, group_ids: Sequence[str]) -> None:
        """Forget old offsets, and groups that have neither members nor offsets; some groups now, the others soon."""
        turn, retention_ms = self._desk.turn, self._settings.offsets_retention_ms
        for group_id in group_ids[:EXPIRED_GROUPS_PER_TURN]:
            state = turn.state
            found, group = state.groups.get(group_id), self._groups.group(state, group_id)
            expired = offsets.expire(state, group, group_id, wall_ms=turn.wall_ms(), retention_ms=retention_ms)
            records = expired.records
            self._counts.offsets_expired += len(records)
            if expired.is_all and found is not None and group is not None and is_empty(group):
                records = records + tombstones(found)
            self._desk.write_records("offsets-expired", records, self._end_outcome(group_id))
            if self._desk.is_over:
                return
        if len(group_ids) > EXPIRED_GROUPS_PER_TURN:
            rest = group_ids[EXPIRED_GROUPS_PER_TURN:]
            self._desk.after(EXPIRY_PAUSE_MS, lambda: self._expire(rest))

    def _end_outcome(self, group_id: str) -> Outcome:
        """Release a group when its removal is committed, unless a new group has the same id."""
        ended = self._groups.classic_groups().get(group_id)

        def outcome(error: KafkaError | None) -> None:
            if error is None:
                self._consumer.forget(group_id)
            if error is None and ended is not None and self._groups.classic_groups().get(group_id) is ended:
                self._groups.drop_classic(group_id, ErrorCode.UNKNOWN_MEMBER_ID)

        return outcome


def is_empty(group: ClassicGroup | ConsumerGroup) -> bool:
    """Return whether a group has no members and may be removed."""
    return not group.members if isinstance(group, ConsumerGroup) else group.state is ClassicState.EMPTY


def tombstones(found: Group) -> list[CoordinatorRecord]:
    """Return tombstones for a group without those of its offsets."""
    return consumer_tombstones(found) if isinstance(found, ConsumerGroup) else [metadata_record(found.group_id, None)]
