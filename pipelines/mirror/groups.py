"""Consumer groups: their offsets on the source, translated, into the target's groups.

A group of the target gets an offset only while it has no member there, and never one behind its own: a group that has
moved continues by itself. Without a member the coordinator accepts the commit; with one it refuses, whatever the state
was before.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

import confluent_kafka
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.lookup import retried
from kvorum.pipelines.bridge.offsets import Offsets, TopicPartition
from kvorum.pipelines.mirror.logs import REQUEST_SECONDS, Logs
from kvorum.pipelines.mirror.metrics import Figures
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.topics import TopicSync
from kvorum.pipelines.mirror.translation import OffsetMap, Translator

logger = logging.getLogger(__name__)

UNUSED: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


class GroupSync:
    """Follows the groups of one mirror."""

    def __init__(self, spec: MirrorSpec, topics: TopicSync, known: OffsetMap, figures: Figures) -> None:
        """Open the logs."""
        self._spec = spec
        self._topics = topics
        self._source, self._target = topics.source.admin, topics.target.admin
        self._figures = figures
        self.logs = Logs(spec)
        self._translator = Translator(spec, known, self.logs)
        self._pattern = re.compile(spec.group_pattern)
        self._held: dict[tuple[str, TopicPartition], int] = {}

    def follow(self) -> None:
        """Translate the offsets of all groups in mirrored topics, and commit them where that is allowed."""
        topics = self._topics.partitions
        positions: dict[str, Offsets] = {}
        for group in self._groups():
            committed = _committed(self._source, group)
            positions[group] = {
                each: at for each, at in committed.items() if each.partition < topics.get(each.topic, 0)
            }
        translated, held = self._translate(positions)
        self._figures.groups = sum(map(bool, translated.values()))
        self._figures.groups_held = held
        for group in self._unused([group for group, places in translated.items() if places]):
            self._commit(group, translated[group])

    def _translate(self, positions: Mapping[str, Offsets]) -> tuple[dict[str, Offsets], int]:
        """Return each group's offsets on the target, and the number of groups that stop before an unread record.

        The offsets of a partition are translated together.
        """
        offsets: dict[TopicPartition, set[int]] = {}
        for places in positions.values():
            for place, offset in places.items():
                offsets.setdefault(place, set()).add(offset)
        known = {place: self._translator.translate(place, sorted(wanted)) for place, wanted in offsets.items()}
        translated = {
            group: {place: known[place][offset] for place, offset in places.items() if offset in known[place]}
            for group, places in positions.items()
        }
        if not self._spec.marks_records:
            return translated, 0
        self.logs.read_opposite()
        return translated, sum(self._limit(group, positions[group], places) for group, places in translated.items())

    def _limit(self, group: str, positions: Offsets, translated: Offsets) -> bool:
        """Lower the offsets that pass records which the group has not read; return whether any does."""
        there = _committed(self._target, group) if translated else {}
        is_held = False
        for place, target in translated.items():
            start = there.get(self._spec.there(place), 0)
            limit = self._translator.limit(place, positions[place], start, target) if start < target else target
            if limit < target:
                is_held = True
                if self._held.get((group, place)) != limit:
                    self._held[group, place] = limit
                    logger.info(
                        "group %s: %s-%d is translated to %d instead of %d, as the group has not read the records of "
                        "the target between them",
                        *(group, place.topic, place.partition, limit, target),
                    )
            else:
                self._held.pop((group, place), None)
            translated[place] = limit
        return is_held

    def _groups(self) -> list[str]:
        """Return the groups of the source that are followed."""
        listed = retried(lambda: self._source.list_consumer_groups(request_timeout=REQUEST_SECONDS).result())
        for error in listed.errors:
            logger.warning("groups of %s not available: %s", self._spec.source.alias, error)
        return sorted(group.group_id for group in listed.valid if self._pattern.fullmatch(group.group_id))

    def _unused(self, groups: Sequence[str]) -> list[str]:
        """Return the groups that have no member on the target, or do not exist there; the others are counted."""
        unused, is_used = list[str](), 0
        request = self._target.describe_consumer_groups
        for group, future in request(list(groups), request_timeout=REQUEST_SECONDS).items() if groups else ():
            try:
                if future.result(REQUEST_SECONDS * 2).state in UNUSED:
                    unused.append(group)
                else:
                    is_used += 1
            except KafkaException as error:
                if client.error_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
                    unused.append(group)
                else:
                    logger.warning("group %s of %s not available: %s", group, self._spec.target.alias, error)
        self._figures.groups_active = is_used
        return unused

    def _commit(self, group: str, wanted: Offsets) -> None:
        """Commit offsets that are ahead of the target group's."""
        committed = _committed(self._target, group)
        there = {self._spec.there(place): offset for place, offset in wanted.items()}
        ahead = {place: offset for place, offset in there.items() if offset > committed.get(place, -1)}
        if not ahead:
            return
        parts = [confluent_kafka.TopicPartition(*place, offset) for place, offset in ahead.items()]

        def commit() -> None:
            (future,) = self._target.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)]).values()
            for part in future.result(REQUEST_SECONDS * 2).topic_partitions:
                if part.error is not None:
                    raise KafkaException(part.error)

        alias, offsets = self._spec.target.alias, {f"{t}-{p}": offset for (t, p), offset in ahead.items()}
        try:
            retried(commit)
            logger.info("group %s of %s: offsets committed: %s", group, alias, offsets)
        except KafkaException as error:
            logger.info("group %s of %s: offsets not changed: %s", group, alias, error)


def _committed(admin: AdminClient, group: str) -> Offsets:
    """Return a group's committed offsets, none for a group that does not exist."""
    request = [ConsumerGroupTopicPartitions(group)]
    call = admin.list_consumer_group_offsets
    try:
        found = retried(lambda: call(request, request_timeout=REQUEST_SECONDS)[group].result())
    except KafkaException as error:
        if client.error_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {
        TopicPartition(part.topic, part.partition): part.offset
        for part in found.topic_partitions or ()
        if part.offset is not None and part.offset >= 0 and part.error is None
    }
