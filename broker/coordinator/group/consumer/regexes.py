"""Subscription patterns of a group's members: when they are resolved, and the resulting changes. Sans-IO.

A new pattern is checked at once and resolved outside of the request; until then it matches no topic. Its topics are
added to the group with one record for all patterns, and a new epoch if they differ from the former ones. Source:
Kafka's GroupMetadataManager.maybeUpdateRegularExpressions, handleRegularExpressionsResult.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final

from kvorum.broker.coordinator.group.consumer.draft import Draft
from kvorum.broker.coordinator.group.consumer.groups import ConsumerGroups
from kvorum.broker.coordinator.group.consumer.patterns import (
    REFRESH_INTERVAL_MS_MIN,
    MayDescribe,
    Resolution,
    compiled,
)
from kvorum.broker.coordinator.group.consumer.subscriptions import pattern_counts, subscribed_names
from kvorum.broker.coordinator.group.words import ConsumerGroup, ConsumerMember, GroupsState, ResolvedRegex
from kvorum.broker.coordinator.runtime.words import Decision
from kvorum.runtime.logs import get_logger

log = get_logger("groups")

PAUSE_MS: Final = 1
"""Between two turns of a resolution: others are served."""


class RegexUpdate(Enum):
    """Effect of a heartbeat on the patterns of its group."""

    NONE = "none"
    CHANGED = "changed"
    """The member has another pattern, which is not resolved yet."""
    RESOLVED = "resolved"
    """The member has another pattern, or none any more, whose topics are known."""


class Regexes:
    """Resolution of subscription patterns. One per shard."""

    def __init__(self, groups: ConsumerGroups) -> None:
        """Resolve nothing yet."""
        self._groups = groups

    def update(
        self, draft: Draft, was: ConsumerMember, member: ConsumerMember, may_describe: MayDescribe | None
    ) -> RegexUpdate:
        """Write the member if it has changed, remove patterns that only it used, and resolve if it is time to.

        Not for a client whose permissions to describe topics are unknown (None).

        Raises KafkaError INVALID_REGULAR_EXPRESSION.
        """
        old, new = was.subscribed_topic_regex, member.subscribed_topic_regex
        group = draft.group
        has_regexes = bool(old or new or group.regexes)
        before = pattern_counts(group) if old != new else Counter()
        if old != new and new and new not in before:
            compiled(new)
        if member != was:
            draft.write_subscription(member)
        if not has_regexes:
            return RegexUpdate.NONE
        if old and old != new and before[old] == 1:
            draft.write_regex(old, None)
        if may_describe is not None:
            self._resolve_if_due(group, draft.group, may_describe)
        if old == new:
            return RegexUpdate.NONE
        is_known = new in group.regexes if new else bool(old)
        return RegexUpdate.RESOLVED if is_known else RegexUpdate.CHANGED

    def _resolve_if_due(self, before: ConsumerGroup, after: ConsumerGroup, may_describe: MayDescribe) -> None:
        """Start to resolve all patterns of a group, unless this is in progress or was done a moment ago."""
        group_id, wall_ms = after.group_id, self._groups.desk.turn.wall_ms()
        if group_id in self._groups.resolving:
            return
        resolved_at_ms = max((each.timestamp_ms for each in before.regexes.values()), default=None)
        if resolved_at_ms is not None and 0 <= wall_ms - resolved_at_ms <= REFRESH_INTERVAL_MS_MIN:
            return  # a time in the future is from another clock and proves nothing
        version = min((each.version for each in before.regexes.values()), default=-1)
        interval_ms = self._groups.settings.regex_refresh_interval_ms
        is_old = resolved_at_ms is not None and wall_ms > resolved_at_ms + interval_ms
        is_due = is_old or version < self._groups.topics_made_at
        if not is_due and self._groups.resolved.get(group_id) is after:
            return  # as at the last heartbeat: members are not counted again
        patterns = set(pattern_counts(after))
        if not is_due and patterns == set(after.regexes):
            self._groups.resolved[group_id] = after
        elif patterns:
            self._groups.resolving.add(group_id)
            self._match(group_id, Resolution(patterns, self._groups.image, may_describe, wall_ms))

    def _match(self, group_id: str, resolution: Resolution) -> None:
        desk = self._groups.desk

        def done(has_more: bool) -> None:
            if desk.is_over:
                return
            if has_more:
                self._match(group_id, resolution)
            else:
                self._judge(group_id, resolution)

        now_ms = desk.turn.now_ms
        self._groups.aside.do(lambda: resolution.step(now_ms), done)

    def _judge(self, group_id: str, resolution: Resolution) -> None:
        if resolution.judge():
            self._groups.desk.after(PAUSE_MS, lambda: self._judge(group_id, resolution))
        else:
            self._finish(group_id, resolution.result)

    def _finish(self, group_id: str, result: Mapping[str, ResolvedRegex]) -> None:
        self._groups.resolving.discard(group_id)

        def decide(state: GroupsState, now_ms: int) -> Decision[None]:
            group = state.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                return Decision(response=None)
            return Decision(response=None, records=self._taken(group, result).records)

        self._groups.desk.turn.write_nowait("consumer-group-refresh-regexes", decide)

    def _taken(self, group: ConsumerGroup, result: Mapping[str, ResolvedRegex]) -> Draft:
        """Store the topics of patterns that still have subscribers."""
        draft = Draft(group)
        wanted = pattern_counts(group)
        bumps = False
        for regex, found in result.items():
            if regex not in wanted:
                continue
            known = group.regexes.get(regex)
            bumps |= found.topics != (frozenset() if known is None else known.topics)
            draft.write_regex(regex, found)
        group_hash = self._groups.hashes.group_hash(subscribed_names(draft.group), self._groups.image)
        if bumps or group_hash != group.metadata_hash:
            draft.write_epoch(group.group_epoch + 1, group_hash)
            self._groups.counts.consumer_rebalances += 1
            self._groups.is_fresh(draft.group)
        log.info("subscription patterns resolved", group=group.group_id, patterns=len(result), changed=bumps)
        return draft
