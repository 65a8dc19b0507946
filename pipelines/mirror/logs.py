"""The logs of the two clusters, as a mirror reads them beside Spark: small topics, and ranges of partitions."""

import logging
import time
from collections.abc import Iterator
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.lookup import Lookup, retried
from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.spec import PROVENANCE, MirrorSpec
from kvorum.pipelines.mirror.translation import OffsetMap, Record, apply

logger = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
SILENCE_SECONDS: Final = 60.0
"""Without a record and without the partition's end for so long, a read is given up."""

MESSAGES_MAX: Final = 5000
SCAN_MIN: Final = 10_000
"""Records of the target that are searched in a round for those of other sources, also with sync.refine_max=0."""


class Range:
    """The visible records of a partition from one offset up to another, as far as they exist.

    Iteration raises KafkaException, among others where the log's start has moved beyond `start`, and TimeoutError.
    """

    def __init__(self, reader: Consumer, place: TopicPartition, start: int, end: int) -> None:
        """Read nothing yet."""
        self._reader = reader
        self._place = place
        self._end = end
        self.reached = start
        """The offset up to which the range was read: its end, or less where an open transaction or the log's end stops
        the read, or the caller."""

    def __iter__(self) -> Iterator[Message]:
        """Yield the records."""
        if self.reached >= self._end:
            return
        self._reader.assign([confluent_kafka.TopicPartition(*self._place, self.reached)])
        quiet_since = time.monotonic()
        try:
            while True:
                for message in self._reader.consume(MESSAGES_MAX, POLL_SECONDS):
                    error, offset = message.error(), message.offset()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        self.reached = self.reached if offset is None else min(offset, self._end)
                        return
                    if error is not None and not client.is_passing(error):
                        raise KafkaException(error)
                    if error is not None:
                        continue
                    if offset is None or offset >= self._end:
                        self.reached = self._end
                        return
                    quiet_since = time.monotonic()
                    self.reached = offset + 1
                    yield message
                if time.monotonic() - quiet_since > SILENCE_SECONDS:
                    topic, number = self._place
                    raise TimeoutError(f"{topic}-{number} returned no record of offsets {self.reached} to {self._end}")
        finally:
            self._reader.unassign()


def consumer(settings: client.Settings, group: str) -> Consumer:
    """Return a consumer that sees committed records, and commits nothing."""
    return Consumer(client.for_consumer({**settings, "isolation.level": "read_committed"}, group))


def bounds(reader: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Return where a partition begins and ends."""
    where = confluent_kafka.TopicPartition(*place)
    low, high = retried(lambda: reader.get_watermark_offsets(where, timeout=REQUEST_SECONDS))
    return int(low), int(high)


def read_topic(settings: client.Settings, topic: str) -> Iterator[Message]:
    """Yield all committed records of a small topic."""
    reader = consumer(settings, "kvorum-mirror-reader")
    try:
        for where in Lookup(settings).of_topic(topic):
            yield from Range(reader, where, *bounds(reader, where))
    finally:
        reader.close()


class Logs:
    """The logs that a translator reads, through a consumer of each cluster."""

    def __init__(self, spec: MirrorSpec) -> None:
        """Open the consumers."""
        self._spec = spec
        self._source, self._target = (
            consumer(client.from_options(cluster.settings()), "kvorum-mirror-walk")
            for cluster in (spec.source, spec.target)
        )
        self.opposite: dict[str, OffsetMap] = {}
        """Marks of mirrors from the target to the source, by mirror, as they are on the source."""
        self._opposite_end = 0

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        """Return where a partition of the target begins and ends, by its name there."""
        return bounds(self._target, place)

    def source(self, place: TopicPartition, low: int, high: int) -> Iterator[Record]:
        """Yield the mirrored records of a range of the source."""
        passed = (PROVENANCE, self._spec.target.alias.encode())
        for message in Range(self._source, place, max(low, bounds(self._source, place)[0]), high):
            if not (self._spec.marks_records and passed in list(message.headers() or ())):
                yield _record(message)

    def target(self, place: TopicPartition, low: int, high: int) -> Iterator[Record]:
        """Yield the records of a range of the target."""
        for message in Range(self._target, place, max(low, self.bounds(place)[0]), high):
            yield _record(message)

    def first_foreign(self, place: TopicPartition, low: int, high: int) -> tuple[int, bool]:
        """Return the offset of the target's first record in a range that never was on the source, and True.

        Without one: the offset up to which the range was read, and False. `place` is by the target's name.
        """
        hop = (PROVENANCE, self._spec.source.alias.encode())
        count_max = max(SCAN_MIN, self._spec.sync.refine_max)
        try:
            start = max(low, self.bounds(place)[0])
            if start >= high:
                return high, False
            records = Range(self._target, place, start, high)
            for count, message in enumerate(records, 1):
                if hop not in list(message.headers() or ()):
                    return records.reached - 1, True
                if count >= count_max:
                    break
            return records.reached, False
        except (KafkaException, TimeoutError) as error:
            logger.warning("records of %s-%d were not read: %s", *place, error)
            return low, False

    def read_opposite(self) -> None:
        """Read the opposite marks that were written since the last call. Raises KafkaException, TimeoutError."""
        topic = self._spec.opposite_map_topic
        if topic not in self._source.list_topics(timeout=REQUEST_SECONDS).topics:
            return
        place = TopicPartition(topic, 0)
        low, high = bounds(self._source, place)
        if high < self._opposite_end:  # the topic was deleted and created again: its old marks prove nothing
            self.opposite, self._opposite_end = {}, 0
        for message in Range(self._source, place, max(low, self._opposite_end), high):
            try:
                apply(self.opposite, message.key(), message.value())
            except ValueError as error:  # without it a group moves less far
                logger.warning("record %s of %s is ignored: %s", message.offset(), topic, error)
            self._opposite_end = (message.offset() or 0) + 1

    def close(self) -> None:
        """Close the consumers."""
        self._source.close()
        self._target.close()


def _record(message: Message) -> Record:
    return Record(message.offset(), message.key(), message.value(), message.timestamp()[1])  # type: ignore[arg-type]
