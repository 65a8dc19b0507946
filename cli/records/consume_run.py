"""The loop behind `kvorum consume`: which partitions, from where to where, and when it is over."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvorum.cli.connection.librdkafka import exit_code_of
from kvorum.cli.connection.missing_topics import no_topic
from kvorum.cli.output import Exit, fail, warn
from kvorum.cli.records.record_formats import Part
from kvorum.cli.topics.offset_ranges import Bound, Kind, Range, resolve_bound

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]  # it is not in its stubs

Partition = tuple[str, int]
POLL_SECONDS: Final = 1.0
OFFSETS_SECONDS: Final = 30.0
"""Time limit for a partition's leader to return the start and end of its log."""
INTERNAL: Final = re.compile(r"__.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """Topics to read, and the output format."""

    topics: Sequence[str]
    is_regex: bool
    partitions: Sequence[int]
    where: Range
    group: str | None
    max_messages: int | None
    exits_at_end: bool
    timeout_ms: int | None
    write: Part


def run(consumer: "Consumer", reading: ConsumeOptions, ask: "Callable[[str | None], ClusterMetadata]") -> None:
    """Read and print until the end, or Ctrl-C. `ask` returns the metadata of a topic, or of all."""
    from confluent_kafka import KafkaException

    try:
        loop = ConsumeLoop(consumer, reading)
        if reading.group is not None:
            ask(None if reading.is_regex else reading.topics[0])
            loop.join()
        else:
            loop.assign(partitions_of(reading, ask))
        loop.read()
    except KafkaException as error:
        fail(error.args[0].str(), exit_code_of(error.args[0]))
    except KeyboardInterrupt:
        pass  # the usual end of a consumer without a limit
    finally:
        consumer.close()


def partitions_of(reading: ConsumeOptions, ask: "Callable[[str | None], ClusterMetadata]") -> list[Partition]:
    """Return the partitions to read; a topic or partition that is not there ends the command."""
    found: dict[str, list[int]] = {}
    if reading.is_regex:
        patterns = [pattern_of(text) for text in reading.topics]
        for name, topic in sorted(ask(None).topics.items()):
            plain_or_meant = not INTERNAL.fullmatch(name) or any(text.startswith("__") for text in reading.topics)
            if plain_or_meant and any(pattern.fullmatch(name) for pattern in patterns):
                found[name] = sorted(topic.partitions)
        if not found:
            fail(f"no topic matches {' or '.join(reading.topics)}", Exit.NOT_FOUND)
    else:
        for name in dict.fromkeys(reading.topics):
            topic = ask(name).topics[name]
            if topic.error is not None:
                code = exit_code_of(topic.error)
                text = no_topic(name, ask(None).topics) if code is Exit.NOT_FOUND else topic.error.str()
                fail(text, code)
            found[name] = sorted(topic.partitions)
    for name, there in found.items():
        absent = [partition for partition in reading.partitions if partition not in there]
        if absent:
            fail(f"{name} has no partition {absent[0]}: its partitions are 0 to {len(there) - 1}", Exit.NOT_FOUND)
    wanted = set(reading.partitions)
    return [(name, index) for name, there in found.items() for index in there if not wanted or index in wanted]


def pattern_of(text: str) -> re.Pattern[str]:
    """Return a pattern of names; one that is none ends the command."""
    try:
        return re.compile(text)
    except re.error as error:
        fail(f"{text!r} is not a regular expression: {error}", Exit.USAGE)


class ConsumeLoop:
    """One run: which partitions are still open, and how many records were printed."""

    def __init__(self, consumer: "Consumer", reading: ConsumeOptions) -> None:
        """Start without records."""
        self._consumer = consumer
        self._options = reading
        self._open: set[Partition] = set()
        self._ends: dict[Partition, int] = {}
        self._count = 0
        self._out = sys.stdout.buffer

    def join(self) -> None:
        """Become a member of a group."""
        topics = list(self._options.topics)
        if self._options.is_regex:
            for text in topics:
                pattern_of(text)
            topics = [f"^({text})$" for text in topics]
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: object, partitions: "list[TopicPartition]") -> None:
        self._open |= {(each.topic, each.partition) for each in partitions}

    def _on_revoke(self, _: object, partitions: "list[TopicPartition]") -> None:
        self._open -= {(each.topic, each.partition) for each in partitions}

    def assign(self, partitions: list[Partition]) -> None:
        """Read these partitions, from the configured positions."""
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

        where = self._options.where
        simple = {Kind.START: OFFSET_BEGINNING, Kind.END: OFFSET_END}
        starts: dict[Partition, int] = {}
        if where.end is None and where.start.kind in simple:
            starts = dict.fromkeys(partitions, simple[where.start.kind])
            self._open = set(partitions)
        else:
            starts = self._resolve(where.start, partitions)
            self._ends = {} if where.end is None else self._resolve(where.end, partitions)
            self._open = {each for each in partitions if starts[each] < self._ends.get(each, starts[each] + 1)}
            begin, end = where
            if end is not None and begin.kind is end.kind is Kind.OFFSET and end.number < begin.number:
                warn(f"{begin.number}:{end.number} is empty: the end is before the beginning")
        self._consumer.assign([TopicPartition(*each, starts[each]) for each in partitions if each in self._open])

    def _resolve(self, bound: Bound, partitions: list[Partition]) -> dict[Partition, int]:
        """Return the offset of a place in each partition. Raises KafkaException."""
        from confluent_kafka import KafkaException, TopicPartition

        times: dict[Partition, int] = {}
        if bound.kind is Kind.TIME:
            requested = [TopicPartition(*each, bound.number) for each in partitions]
            for row in self._consumer.offsets_for_times(requested, timeout=OFFSETS_SECONDS):
                if row.error is not None:
                    raise KafkaException(row.error)
                times[row.topic, row.partition] = row.offset
        found = {}
        for each in partitions:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*each), timeout=OFFSETS_SECONDS)
            found[each] = resolve_bound(bound, low, high, times.get(each))
            if bound.kind is Kind.OFFSET and bound is self._options.where.start and not low <= bound.number <= high:
                fail(f"{each[0]}-{each[1]} has no offset {bound.number}: its records are {low} to {high - 1}")
        return found

    def read(self) -> None:
        """Print records until the limit, the end, or the timeout. Raises KafkaException."""
        from confluent_kafka import KafkaError

        reading = self._options
        wait = POLL_SECONDS if reading.timeout_ms is None else min(POLL_SECONDS, reading.timeout_ms / 1000)
        last, begun = time.monotonic(), reading.group is None
        while (self._open or not begun) and self._count != reading.max_messages:
            message = self._consumer.poll(0)
            if message is None:
                self._out.flush()
                message = self._consumer.poll(wait)
            begun = begun or bool(self._open)
            error = None if message is None else message.error()
            if message is None or (error is not None and error.code() == KafkaError._TRANSPORT):
                # Nothing, or one broker less, which is not an end: the client continues with the others.
                if reading.timeout_ms is not None and (time.monotonic() - last) * 1000 >= reading.timeout_ms:
                    break
            elif error is not None:
                self._at_error(error, message)
            else:
                last = time.monotonic()
                self._take(message)
        self._out.flush()

    def _at_error(self, error: "KafkaError", message: "Message") -> None:
        """Handle a message without a record: the end of a partition, or a fatal error."""
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._PARTITION_EOF:
            self._out.flush()
            fail(error.str(), exit_code_of(error))
        place = (message.topic() or "", message.partition() or 0)
        if self._options.exits_at_end or (message.offset() or 0) >= self._ends.get(place, sys.maxsize):
            self._open.discard(place)

    def _take(self, message: "Message") -> None:
        """Print a record, unless it is after the end of its range."""
        place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        end = self._ends.get(place, sys.maxsize)
        if offset < end:
            self._count += 1
            self._out.write(self._options.write(message))
            if self._options.group is not None:
                self._out.flush()  # stored offsets are those of printed records
                self._consumer.store_offsets(message)
        if offset + 1 >= end:
            self._open.discard(place)
