"""ConsumerGroupHeartbeat: members join, send heartbeats, change their subscriptions, and leave.

Sans-IO.

    epoch 0     join, or rejoin without partitions          -1  leave          -2  leave temporarily (static members)
    otherwise   every heartbeat may move the member one step; it has the owned partitions if they changed

A heartbeat without a change only renews the session. Source: Kafka's GroupMetadataManager
(consumerGroupHeartbeat, consumerGroupLeave), GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from kvorum.broker.coordinator.group.classic.group import ClassicGroup, metadata_record
from kvorum.broker.coordinator.group.classic.words import ClassicState, Client
from kvorum.broker.coordinator.group.consumer.conversion import upgrade
from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.groups import ConsumerGroups
from kvorum.broker.coordinator.group.consumer.membership import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    joined_dynamic,
    joined_static,
    known_instance,
    known_member,
    require_epoch,
    require_room,
)
from kvorum.broker.coordinator.group.consumer.patterns import MayDescribe
from kvorum.broker.coordinator.group.consumer.reconcile import Owned
from kvorum.broker.coordinator.group.consumer.regexes import Regexes, RegexUpdate
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decision
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.chance import random_uuid_bytes
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

CLIENT_IDS_FROM: Final = 1
"""From this version on clients make their member ids themselves (KIP-1082)."""

Request = ConsumerGroupHeartbeatRequest
Response = ConsumerGroupHeartbeatResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Identity of the client, and the topics that it may describe."""

    client: Client
    may_describe: MayDescribe


class Found(NamedTuple):
    """The group of a heartbeat, and its kind."""

    group: ConsumerGroup
    records: tuple[CoordinatorRecord, ...] = ()


def validate(request: Request, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raise KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR unless the request is valid."""
    epoch = request.member_epoch
    if api_version >= CLIENT_IDS_FROM or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _require(bool(request.member_id.strip()), "MemberId can't be empty.")
    _require(bool(request.group_id.strip()), "GroupId can't be empty.")
    _require(request.instance_id is None or bool(request.instance_id.strip()), "InstanceId can't be empty.")
    _require(request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _require(request.rebalance_timeout != -1, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        _require(
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif epoch == LEAVE_FOR_A_WHILE_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(epoch > LEAVE_FOR_A_WHILE_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise KafkaError(ErrorCode.INVALID_REQUEST, otherwise)


class Heartbeats:
    """The heartbeats to the groups of one shard."""

    def __init__(self, groups: ConsumerGroups, regexes: Regexes, rng: Random) -> None:
        """Member ids, for clients that bring none, are drawn from `rng`."""
        self._groups = groups
        self._regexes = regexes
        self._rng = rng

    def heartbeat(
        self, found: ConsumerGroup | ClassicGroup | None, asker: Asker, request: Request
    ) -> Decision[Response]:
        """Decide on a valid heartbeat to a group; a classic group is a consumer group after a join's decision.

        Raises KafkaError GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
        UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
        """
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH):
            return self._leave(found, request)
        target = self._found(found, request)
        draft = Draft(target.group)
        before, member = self._updated(draft, asker, request)
        reaction = self._react(draft, asker, before, member, owned_of(request))
        group_id = request.group_id
        self._groups.renew_session(group_id, reaction)
        interval_ms = self._groups.settings.heartbeat_interval_of(self._groups.image, group_id)
        response = Response(
            member_id=reaction.member_id, member_epoch=reaction.member_epoch, heartbeat_interval=interval_ms
        )
        has_changed = before is None or before.assigned != reaction.assigned
        if request.member_epoch == JOIN_EPOCH or _is_full(request) or has_changed:
            response.assignment = _shown(reaction)
        return Decision(response=response, records=(*target.records, *draft.records))

    # --- the group ---------------------------------------------------------------------------------------------------

    def _found(self, found: ConsumerGroup | ClassicGroup | None, request: Request) -> Found:
        """Return the group, created or converted for a joining member. Raises KafkaError GROUP_ID_NOT_FOUND."""
        group_id = request.group_id
        if isinstance(found, ConsumerGroup):
            return Found(found)
        if request.member_epoch != JOIN_EPOCH:
            what = f"Consumer group {group_id} not found." if found is None else not_a_consumer_group(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        fresh = ConsumerGroup(group_id=group_id)
        if found is None:
            return Found(fresh)
        if found.state is ClassicState.EMPTY:
            log.info("empty classic group converted to consumer", group=group_id)
            return Found(fresh, (metadata_record(group_id, None),))
        self._require_upgradable(found)
        made = upgrade(found, self._groups.image, self._groups.hashes)
        for member in made.group.members.values():
            self._groups.renew_session(group_id, member)
        log.info("group converted to consumer", group=group_id, epoch=made.group.group_epoch)
        return Found(made.group, tuple(made.records))

    def _require_upgradable(self, found: ClassicGroup) -> None:
        reason = None
        if not self._groups.settings.migration_policy.allows_upgrade:
            reason = "online upgrade is disabled"
        elif not found.is_consumers:
            reason = "the group does not use the consumer embedded protocol"
        elif len(found.members) > self._groups.settings.size_max:
            reason = "the group size exceeds the consumer group maximum size"
        if reason is not None:
            message = f"Cannot upgrade classic group {found.group_id} to consumer group because {reason}."
            log.info("group not converted to consumer", group=found.group_id, reason=reason)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    # --- the member --------------------------------------------------------------------------------------------------

    def _updated(self, draft: Draft, asker: Asker, request: Request) -> tuple[ConsumerMember | None, ConsumerMember]:
        """Return the member before (None: new) and after the request, without writing."""
        group, is_joining = draft.group, request.member_epoch == JOIN_EPOCH
        require_room(group, request.member_id, self._groups.settings.size_max)
        member_id = request.member_id or str(Uuid(random_uuid_bytes(self._rng)))
        owned = owned_of(request)
        if request.instance_id is not None:
            if is_joining:
                member = joined_static(draft, member_id, request.instance_id, is_classic=False)
            else:
                member = known_instance(group, request.instance_id, member_id)
                require_epoch(member, request.member_epoch, owned)
        else:
            member = joined_dynamic(group, member_id) if is_joining else known_member(group, member_id)
            require_epoch(member, request.member_epoch, owned)
        names = request.subscribed_topic_names
        regex = request.subscribed_topic_regex
        updated = replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms if request.rebalance_timeout == -1 else request.rebalance_timeout
            ),
            server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
            subscribed_topic_names=member.subscribed_topic_names if names is None else tuple(sorted(set(names))),
            subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
            client_id=asker.client.client_id,
            client_host=asker.client.client_host,
            classic=None,
        )
        return draft.group.members.get(member_id), updated

    def _react(
        self, draft: Draft, asker: Asker, before: ConsumerMember | None, member: ConsumerMember, owned: Owned | None
    ) -> ConsumerMember:
        """Write the changes of a member, increase the group's epoch for them, and advance the member."""
        was = ConsumerMember(member_id=member.member_id) if before is None else before
        has_new_names = member.subscribed_topic_names != was.subscribed_topic_names
        regex_update = self._regexes.update(draft, was, member, asker.may_describe)
        bumps = has_new_names or regex_update is RegexUpdate.RESOLVED
        if bumps or self._groups.is_stale(draft.group):
            self._groups.refresh(draft, bumps=bumps)
        self._groups.update_target(draft)
        has_new_subscription = has_new_names or regex_update is not RegexUpdate.NONE
        return self._groups.reconcile(draft, member.member_id, owned, has_new_subscription=has_new_subscription)

    # --- leaving -----------------------------------------------------------------------------------------------------

    def _leave(self, found: ConsumerGroup | ClassicGroup | None, request: Request) -> Decision[Response]:
        group_id, member_id = request.group_id, request.member_id
        if not isinstance(found, ConsumerGroup):
            what = f"Group {group_id} not found." if found is None else not_a_consumer_group(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        response = Response(member_id=member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            member = known_member(found, member_id)
        else:
            member = known_instance(found, request.instance_id, member_id)
            if request.member_epoch == LEAVE_FOR_A_WHILE_EPOCH:
                return self._leave_for_a_while(found, member, response)
        log.info("member left", group=group_id, member=member_id)
        change = self._groups.fence(found, [member])
        return Decision(response=response, records=change.records, outcome=change.outcome)

    def _leave_for_a_while(
        self, group: ConsumerGroup, member: ConsumerMember, response: Response
    ) -> Decision[Response]:
        """Keep a static member's partitions; its next incarnation owns them from epoch 0 on (KIP-1251)."""
        log.info(
            "static member left temporarily", group=group.group_id, member=member.member_id, instance=member.instance_id
        )
        draft = Draft(group)
        away = replace(
            member,
            member_epoch=LEAVE_FOR_A_WHILE_EPOCH,
            pending_revocation={},
            assigned={topic_id: dict.fromkeys(rows, 0) for topic_id, rows in member.assigned.items()},
        )
        draft.write_current(away)
        return Decision(response=response, records=draft.records)


def not_a_consumer_group(group_id: str) -> str:
    """Return the message for a group of another protocol."""
    return f"Group {group_id} is not a consumer group."


def owned_of(request: Request) -> Owned | None:
    """Return the partitions that a member reports as owned, None if it reports none."""
    if request.topic_partitions is None:
        return None
    owned: dict[Uuid, list[int]] = {}
    for row in request.topic_partitions:
        owned.setdefault(row.topic_id, []).extend(row.partitions)
    return owned


def _is_full(request: Request) -> bool:
    """Return whether a heartbeat has all fields, as after an error: then the response has the assignment."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout != -1 and has_subscription and request.topic_partitions is not None


def _shown(member: ConsumerMember) -> Assignment:
    rows = [
        ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(member.assigned.items())
    ]
    return Assignment(topic_partitions=rows)
