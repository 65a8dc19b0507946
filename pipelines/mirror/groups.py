"""Consumer groups: where they stand on the source, translated, into the checkpoints topic and into the target's groups.

A group of the target gets an offset only while it has no member there, and never one behind its own: a group that has
moved continues by itself. Without a member the coordinator accepts the commit; with one it refuses, whatever the state
was before. `Translator` places offsets by the map, and between two marks by reading both logs (refine); where records
carry their source, it stops a group at the first record of the target that the group has not read (unread).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.lookup import retried
from kvorum.pipelines.mirror import policy
from kvorum.pipelines.mirror.clients import REQUEST_SECONDS, consumer, read_range
from kvorum.pipelines.mirror.offset_map import Mark, OffsetMap, Place, read_key, read_mark
from kvorum.pipelines.mirror.policy import PROVENANCE
from kvorum.pipelines.mirror.refine import Record, refine
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.unread import UnreadRecords
from kvorum.pipelines.mirror.wire import Checkpoint

logger = logging.getLogger(__name__)

REFINED_MAX: Final = 64
"""Places inside batches that are remembered for each partition."""

SCAN_MIN: Final = 10_000
"""Records of the target that are searched in a round for those of other sources, also with sync.refine_max=0."""

UNUSED: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)

Positions = dict[Place, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """Result of one round of the groups."""

    checkpoints: Sequence[Checkpoint]
    committed: Mapping[str, int] = field(default_factory=dict)
    """Partitions that were committed on the target, by group."""
    active: Sequence[str] = ()
    """Groups that are used on the target, and so were left alone."""
    held: Sequence[str] = ()
    """Groups that stop before a record of the target that they have not read."""


class Translator:
    """Places source offsets on the target."""

    def __init__(self, spec: MirrorSpec, known: OffsetMap) -> None:
        """Take the map, which goes on growing."""
        self._spec = spec
        self._naming = spec.naming
        self._map = known
        self._refined: dict[Place, dict[int, int]] = {}
        self._readers: tuple[Consumer, Consumer] | None = None
        self._emptied: set[Place] = set()
        self._reported: set[Place] = set()
        self._first_marks: dict[Place, Mark] = {}
        self._opposite: dict[str, OffsetMap] = {}
        self._opposite_end = 0
        self._unread = UnreadRecords(self.opposite_maps, self.first_foreign)

    def limit(self, place: Place, position: int, start: int, target: int) -> int:
        """Return how far a group may move towards `target` without passing a record that it has not read.

        `position` is the group's on the source, `start` its own on the target. Only records that carry their source
        can be told apart; without them the translated offset stays.
        """
        if not self._spec.marks_records:
            return target
        there = Place(self._naming.to_target(place.topic), place.partition)
        return self._unread.limit(there, position, start, target)

    def opposite_maps(self) -> Iterable[OffsetMap]:
        """Return the marks of mirrors from the target to the source, as they are on the source."""
        return self._opposite.values()

    def read_opposite_maps(self) -> None:
        """Take the marks that were written since the last call. Raises KafkaException, TimeoutError."""
        topic = self._naming.opposite_map_topic
        reader, _ = self._both()
        if not self._spec.marks_records or topic not in reader.list_topics(timeout=REQUEST_SECONDS).topics:
            return
        where = confluent_kafka.TopicPartition(topic, 0)
        low, high = retried(lambda: reader.get_watermark_offsets(where, timeout=REQUEST_SECONDS))
        if high < self._opposite_end:  # the topic was deleted and created again: its old marks prove nothing
            self._opposite, self._opposite_end = {}, 0
        for message in read_range(reader, topic, 0, max(low, self._opposite_end), high):
            key, value = message.key(), message.value()
            if key is not None:
                try:
                    name, there, slot = read_key(key)
                    known = self._opposite.setdefault(name, OffsetMap())
                    if value is None:
                        known.drop(there, slot)
                    else:
                        known.take(read_mark(key, value)[1])
                except ValueError as error:  # without it a group moves less far
                    logger.warning("record %s of %s is ignored: %s", message.offset(), topic, error)
            self._opposite_end = (message.offset() or 0) + 1

    def first_foreign(self, place: Place, low: int, high: int) -> tuple[int, bool]:
        """Return the offset of the target's first record in a range that never was on the source, and True.

        Without one: the offset up to which the range was read, and False. `place` is by the target's name.
        """
        _, reader = self._both()
        start = max(low, self._low(reader, place.topic, place.partition))
        if start >= high:
            return high, False
        hop = (PROVENANCE, self._naming.source.encode())
        limit = max(SCAN_MIN, self._spec.sync.refine_max)
        count, messages = 0, read_range(reader, place.topic, place.partition, start, high)
        try:
            while True:
                message = next(messages)
                offset = int(message.offset() or 0)
                if hop not in list(message.headers() or ()):
                    return offset, True
                count += 1
                if count >= limit:
                    return offset + 1, False
        except StopIteration as ended:
            return int(ended.value), False
        except (KafkaException, TimeoutError) as error:
            logger.warning("records of %s-%d were not read: %s", place.topic, place.partition, error)
            return low, False
        finally:
            messages.close()

    def translate(self, place: Place, offsets: Sequence[int]) -> dict[int, int]:
        """Return the target's offset of each of these; without those of a partition that is not mirrored.

        Never beyond the true place. Exact at marks, and wherever the walk between them succeeds.
        """
        if not self._may_be_placed(place):
            return {}
        found: dict[int, int] = {}
        between: dict[Mark, list[int]] = {}
        followers: dict[Mark, Mark] = {}
        for offset in offsets:
            around = self._map.around(place, offset)
            if around is None:
                continue
            mark, following = around
            if offset < mark.source and self._spec.starting_offsets == "latest":
                continue  # what lies between is not mirrored, and may be on the target by itself: nothing is known
            if self._may_pass_unmarked(place):
                continue
            found[offset] = mark.target
            if offset > mark.source and following is not None:
                between.setdefault(mark, []).append(offset)
                followers[mark] = following
        for mark, inside in between.items():
            found |= self._inside(place, mark, followers[mark], inside)
        return found

    def _may_be_placed(self, place: Place) -> bool:
        """Whether the marks of a partition are those of its topic on the target as it is now.

        A topic that was deleted and created again ends before the last mark until the next batch begins its marks anew.
        """
        marks = self._map.marks(place)
        if not marks:
            return False
        there = Place(self._naming.to_target(place.topic), place.partition)
        if self._first_marks.setdefault(place, marks[0]) != marks[0]:
            self._first_marks[place] = marks[0]
            self._refined.pop(place, None)
            self._emptied.discard(place)
            self._unread.forget(there)
        try:
            return self._end(there) >= marks[-1].target
        except (KafkaException, TimeoutError) as error:  # it may have been deleted
            logger.warning("groups of %s-%d are not translated: %s", there.topic, there.partition, error)
            return False

    def _end(self, place: Place) -> int:
        """Return where a partition ends on the target, by its name there."""
        _, reader = self._both()
        where = confluent_kafka.TopicPartition(*place)
        _, high = retried(lambda: reader.get_watermark_offsets(where, timeout=REQUEST_SECONDS))
        return int(high)

    def _may_pass_unmarked(self, place: Place) -> bool:
        """Whether the target had records of the same name before the mirror began, and nothing tells whose they are."""
        first = self._map.marks(place)[0]
        if self._spec.policy != "identity" or self._spec.marks_records or self._spec.starting_offsets == "latest":
            return False
        if first.number != 0 or first.target == 0 or place in self._emptied:
            return False
        _, reader = self._both()
        if self._low(reader, place.topic, place.partition) >= first.target:
            self._emptied.add(place)
            return False
        if place not in self._reported:
            self._reported.add(place)
            logger.warning(
                "groups of %s-%d are not translated: the target had records before the mirror began, and without "
                "provenance it is unknown which of them a group has read",
                place.topic,
                place.partition,
            )
        return True

    def _inside(self, place: Place, mark: Mark, following: Mark, offsets: list[int]) -> dict[int, int]:
        """Return what is known of offsets between two marks, after a walk if there must be one."""
        known = self._refined.setdefault(place, {})
        wanted = [offset for offset in offsets if offset not in known]
        if wanted and self._spec.sync.refine_max:
            nearest = max((o for o in known if mark.source <= o <= min(wanted)), default=mark.source)
            start = (nearest, known.get(nearest, mark.target))
            try:
                fresh = refine(
                    wanted,
                    start=start,
                    target_end=following.target,
                    source=lambda low, high: self._read_source(place, low, high),
                    target=lambda low, high: self._read_target(place, low, high),
                    records_max=self._spec.sync.refine_max,
                )
            except (KafkaException, TimeoutError) as error:
                logger.warning(
                    "offsets of %s-%d set to the start of the batch: %s", place.topic, place.partition, error
                )
                fresh = {}
            known |= fresh
            for old in sorted(known)[: max(0, len(known) - REFINED_MAX)]:
                del known[old]
            return {offset: (known | fresh)[offset] for offset in offsets if offset in known or offset in fresh}
        return {offset: known[offset] for offset in offsets if offset in known}

    def _read_source(self, place: Place, low: int, high: int) -> Iterator[Record]:
        reader, _ = self._both()
        low = max(low, self._low(reader, place.topic, place.partition))
        target = self._naming.target.encode()
        for message in read_range(reader, place.topic, place.partition, low, high):
            passed = (PROVENANCE, target) in list(message.headers() or ())
            if not (self._spec.marks_records and passed):
                yield _record(message)

    def _read_target(self, place: Place, low: int, high: int) -> Iterator[Record]:
        _, reader = self._both()
        topic = self._naming.to_target(place.topic)
        low = max(low, self._low(reader, topic, place.partition))
        for message in read_range(reader, topic, place.partition, low, high):
            yield _record(message)

    @staticmethod
    def _low(reader: Consumer, topic: str, partition: int) -> int:
        where = confluent_kafka.TopicPartition(topic, partition)
        low, _ = retried(lambda: reader.get_watermark_offsets(where, timeout=REQUEST_SECONDS))
        return int(low)

    def _both(self) -> tuple[Consumer, Consumer]:
        if self._readers is None:
            source = client.from_options(self._spec.source.settings())
            target = client.from_options(self._spec.target.settings())
            self._readers = consumer(source, "kvorum-mirror-walk"), consumer(target, "kvorum-mirror-walk")
        return self._readers

    def close(self) -> None:
        """Close what was opened."""
        for reader in self._readers or ():
            reader.close()
        self._readers = None


class GroupSync:
    """Follows the groups of one mirror."""

    def __init__(self, spec: MirrorSpec, source: AdminClient, target: AdminClient, translator: Translator) -> None:
        """Begin without connections."""
        self._spec = spec
        self._naming = spec.naming
        self._source = source
        self._target = target
        self._translator = translator
        self._pattern = policy.group_pattern(spec.groups, spec.groups_exclude)
        self._told: dict[tuple[str, Place], tuple[int, int]] = {}
        self._held: dict[tuple[str, Place], int] = {}

    @property
    def count(self) -> int:
        """Return how many groups have a checkpoint by now."""
        return len({group for group, _ in self._told})

    def follow(self, topics: Mapping[str, int]) -> GroupsSeen:
        """Translate the offsets of all groups in these topics (partitions by the source's name); commit where allowed.

        Returns the checkpoints that are not as they were the last time: they are for the caller to write.
        """
        positions = {group: self._positions(group, topics) for group in self._groups()}
        translated, held = self._translate(positions)
        checkpoints = []
        for group, places in translated.items():
            for place, target in places.items():
                pair = (positions[group][place], target)
                if self._told.get((group, place)) != pair:
                    self._told[group, place] = pair
                    checkpoints.append(self._checkpoint(group, place, pair))
        if not self._spec.sync.commit:
            return GroupsSeen(checkpoints=checkpoints, held=held)
        states = self._states(sorted(group for group, places in translated.items() if places))
        unused = [group for group, state in states.items() if state in UNUSED]
        committed = {group: count for group in unused if (count := self._commit(group, translated[group]))}
        active = sorted(states.keys() - set(unused))
        return GroupsSeen(checkpoints=checkpoints, committed=committed, active=active, held=held)

    def _translate(self, positions: Mapping[str, Positions]) -> tuple[dict[str, Positions], list[str]]:
        """Return each group's offsets on the target, and the groups that stop before a record they have not read.

        The offsets of a partition are translated together.
        """
        offsets: dict[Place, set[int]] = {}
        for places in positions.values():
            for place, offset in places.items():
                offsets.setdefault(place, set()).add(offset)
        known = {place: self._translator.translate(place, sorted(wanted)) for place, wanted in offsets.items()}
        translated = {
            group: {place: known[place][offset] for place, offset in places.items() if offset in known[place]}
            for group, places in positions.items()
        }
        if not self._spec.marks_records:
            return translated, []
        self._translator.read_opposite_maps()
        held = [group for group, places in translated.items() if self._limit(group, positions[group], places)]
        return translated, held

    def _limit(self, group: str, positions: Positions, translated: Positions) -> bool:
        """Lower the offsets that pass records which the group has not read; return whether any does."""
        there = _committed(self._target, group) if translated else {}
        is_held = False
        for place, target in translated.items():
            start = there.get(Place(self._naming.to_target(place.topic), place.partition), 0)
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

    def _checkpoint(self, group: str, place: Place, pair: tuple[int, int]) -> Checkpoint:
        return Checkpoint(
            group=group,
            topic=self._naming.to_target(place.topic),
            partition=place.partition,
            source_offset=pair[0],
            target_offset=pair[1],
        )

    def _groups(self) -> list[str]:
        """Return the groups of the source that are followed."""
        listed = retried(lambda: self._source.list_consumer_groups(request_timeout=REQUEST_SECONDS).result())
        for error in listed.errors:
            logger.warning("groups of %s not available: %s", self._spec.source.alias, error)
        return sorted(group.group_id for group in listed.valid if self._pattern.fullmatch(group.group_id))

    def _positions(self, group: str, topics: Mapping[str, int]) -> Positions:
        """Return where a group of the source stands in mirrored partitions."""
        places = _committed(self._source, group)
        return {
            place: offset
            for place, offset in places.items()
            if offset >= 0 and place.partition < topics.get(place.topic, 0)
        }

    def _states(self, groups: Sequence[str]) -> dict[str, ConsumerGroupState]:
        """Return the states of groups of the target; one that is not there is dead."""
        states: dict[str, ConsumerGroupState] = {}
        if not groups:
            return states
        described = self._target.describe_consumer_groups(list(groups), request_timeout=REQUEST_SECONDS)
        for group, future in described.items():
            try:
                states[group] = future.result(REQUEST_SECONDS * 2).state
            except KafkaException as error:
                if client.error_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
                    states[group] = ConsumerGroupState.DEAD
                else:
                    logger.warning("group %s of %s not available: %s", group, self._spec.target.alias, error)
        return states

    def _commit(self, group: str, wanted: Positions) -> int:
        """Commit offsets that are ahead of the target group's; return the number of partitions."""
        there = _committed(self._target, group)
        ahead = {
            Place(self._naming.to_target(place.topic), place.partition): offset for place, offset in wanted.items()
        }
        ahead = {place: offset for place, offset in ahead.items() if offset > there.get(place, -1)}
        if not ahead:
            return 0
        parts = [
            confluent_kafka.TopicPartition(place.topic, place.partition, offset) for place, offset in ahead.items()
        ]
        request = ConsumerGroupTopicPartitions(group, parts)

        def ask() -> None:
            (future,) = self._target.alter_consumer_group_offsets([request]).values()
            outcome = future.result(REQUEST_SECONDS * 2)
            failed = [part for part in outcome.topic_partitions if part.error is not None]
            if failed:
                raise KafkaException(failed[0].error)

        try:
            retried(ask)
        except KafkaException as error:
            logger.info("group %s of %s: offsets not changed: %s", group, self._spec.target.alias, error)
            return 0
        logger.info(
            "group %s of %s: offsets committed: %s",
            group,
            self._spec.target.alias,
            {f"{t}-{p}": o for (t, p), o in ahead.items()},
        )
        return len(ahead)


def _committed(admin: AdminClient, group: str) -> Positions:
    """Return a group's committed offsets, none for a group that is not there."""

    def ask() -> ConsumerGroupTopicPartitions:
        request = [ConsumerGroupTopicPartitions(group)]
        told: ConsumerGroupTopicPartitions
        told = admin.list_consumer_group_offsets(request, request_timeout=REQUEST_SECONDS)[group].result()
        return told

    try:
        found = retried(ask)
    except KafkaException as error:
        if client.error_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {
        Place(part.topic, part.partition): part.offset
        for part in found.topic_partitions or ()
        if part.offset is not None and part.offset >= 0 and part.error is None
    }


def _record(message: confluent_kafka.Message) -> Record:
    return Record(message.offset(), message.key(), message.value(), message.timestamp()[1])  # type: ignore[arg-type]
