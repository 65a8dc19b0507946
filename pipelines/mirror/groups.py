"""Consumer groups: where they stand on the source, translated, into the checkpoints topic and into the target's groups.

A group of the target is given an offset only while nobody uses it there, and never one behind what it has: who has
moved over goes on by itself. Without a member the coordinator takes the commit; with one it refuses, whatever was seen
before. `Translator` places offsets by the map, and between two marks by walking both logs (refine).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.lookup import retried
from kvorum.pipelines.mirror import policy
from kvorum.pipelines.mirror.clients import REQUEST_SECONDS, consumer, read_range
from kvorum.pipelines.mirror.offset_map import Mark, OffsetMap, Place
from kvorum.pipelines.mirror.policy import PROVENANCE
from kvorum.pipelines.mirror.refine import Record, refine
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.wire import Checkpoint

logger = logging.getLogger(__name__)

REFINED_MAX: Final = 64
"""Places inside batches that are remembered for each partition."""

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


class Translator:
    """Places source offsets on the target."""

    def __init__(self, spec: MirrorSpec, known: OffsetMap) -> None:
        """Take the map, which goes on growing."""
        self._spec = spec
        self._naming = spec.naming
        self._map = known
        self._refined: dict[Place, dict[int, int]] = {}
        self._readers: tuple[Consumer, Consumer] | None = None

    def translate(self, place: Place, offsets: Sequence[int]) -> dict[int, int]:
        """Return the target's offset of each of these; without those of a partition that is not mirrored.

        Never beyond the true place. Exact at marks, and wherever the walk between them succeeds.
        """
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
            found[offset] = mark.target
            if offset > mark.source and following is not None:
                between.setdefault(mark, []).append(offset)
                followers[mark] = following
        for mark, inside in between.items():
            found |= self._inside(place, mark, followers[mark], inside)
        return found

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

    @property
    def count(self) -> int:
        """Return how many groups have a checkpoint by now."""
        return len({group for group, _ in self._told})

    def follow(self, topics: Mapping[str, int]) -> GroupsSeen:
        """Translate the offsets of all groups in these topics (partitions by the source's name); commit where allowed.

        Returns the checkpoints that are not as they were the last time: they are for the caller to write.
        """
        positions = {group: self._positions(group, topics) for group in self._groups()}
        translated = self._translate(positions)
        checkpoints = []
        for group, places in translated.items():
            for place, target in places.items():
                pair = (positions[group][place], target)
                if self._told.get((group, place)) != pair:
                    self._told[group, place] = pair
                    checkpoints.append(self._checkpoint(group, place, pair))
        if not self._spec.sync.commit:
            return GroupsSeen(checkpoints=checkpoints)
        states = self._states(sorted(group for group, places in translated.items() if places))
        unused = [group for group, state in states.items() if state in UNUSED]
        committed = {group: count for group in unused if (count := self._commit(group, translated[group]))}
        return GroupsSeen(checkpoints=checkpoints, committed=committed, active=sorted(states.keys() - set(unused)))

    def _translate(self, positions: Mapping[str, Positions]) -> dict[str, Positions]:
        """Return where each group stands on the target; a partition's offsets are placed together."""
        offsets: dict[Place, set[int]] = {}
        for places in positions.values():
            for place, offset in places.items():
                offsets.setdefault(place, set()).add(offset)
        known = {place: self._translator.translate(place, sorted(wanted)) for place, wanted in offsets.items()}
        return {
            group: {place: known[place][offset] for place, offset in places.items() if offset in known[place]}
            for group, places in positions.items()
        }

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
