"""Lookups in a cluster: partitions of topics, their first and last offsets, and offsets by time."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not in __all__
    AdminClient,
    NewTopic,
    OffsetSpec,
    TopicMetadata,
)

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.offsets import EARLIEST, LATEST, Offsets, TopicPartition, named
from kvorum.pipelines.bridge.options import Position, ReadOptions, Topics
from kvorum.pipelines.faults import meant

REQUEST_SECONDS = 15.0
CREATE_SECONDS = 60.0
RETRY_SECONDS = 60.0  # an election takes seconds
RETRY_PAUSE_SECONDS = 0.1
NEW_TOPIC_SECONDS = 10.0  # a partition's leader may receive the metadata later than the broker that named it
INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}

Result = TypeVar("Result")


class TopicMissing(RuntimeError):
    """A topic or partition that was requested by name does not exist."""


class Lookup:
    """A planner's client of a cluster. It is not pickled."""

    def __init__(self, settings: client.Settings) -> None:
        """Create the client. Raises OptionError for settings that librdkafka rejects."""
        try:
            self.admin = AdminClient(dict(client.for_admin(settings)))
        except KafkaException as error:
            raise client.refused(error) from None

    def partitions(self, topics: Topics, *, must_exist: bool = True) -> list[TopicPartition]:
        """Return the existing partitions, sorted. Raises TopicMissing for a name without a topic if it `must_exist`."""
        if topics.pattern is not None:
            pattern = re.compile(topics.pattern)
            found = {name: each for name, each in self.topics().items() if pattern.fullmatch(name)}
            chosen = {*found} - INTERNAL
            return sorted(TopicPartition(name, number) for name in chosen for number in found[name].partitions)
        present: list[TopicPartition] = []
        for name in topics.names or sorted({where.topic for where in topics.assigned}):
            try:
                present += self.of_topic(name)
            except TopicMissing as error:
                if must_exist:
                    raise TopicMissing(f"{error}{meant(name, {*self.topics()} - INTERNAL)}") from None
        if not topics.assigned:
            return sorted(present)
        missing = set(topics.assigned) - set(present)
        if missing and must_exist:
            raise TopicMissing(f"partitions of option assign do not exist: {named(sorted(missing))}")
        return sorted(set(topics.assigned) - missing)

    def topics(self) -> dict[str, TopicMetadata]:
        """Return the metadata of all topics by name."""
        return retried(lambda: self.admin.list_topics(timeout=REQUEST_SECONDS)).topics

    def of_topic(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of one topic. Raises TopicMissing."""

        def describe() -> list[TopicPartition]:
            future = self.admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_SECONDS)[topic]
            return [TopicPartition(topic, partition.id) for partition in future.result().partitions]

        try:
            return retried(describe)
        except KafkaException as error:
            if client.error_of(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(f"topic {topic} does not exist") from None
            raise

    def list_offsets(self, wanted: dict[TopicPartition, OffsetSpec], *, is_read_committed: bool) -> Offsets:
        """Return one offset per partition; -1 without a record at or after a timestamp.

        With read_committed a partition ends at its last stable offset.
        """
        level = IsolationLevel.READ_COMMITTED if is_read_committed else IsolationLevel.READ_UNCOMMITTED
        offsets: Offsets = {}

        def list_the_rest() -> None:
            specs = {
                confluent_kafka.TopicPartition(*each): spec for each, spec in wanted.items() if each not in offsets
            }
            futures = self.admin.list_offsets(specs, isolation_level=level, request_timeout=REQUEST_SECONDS)
            failed: KafkaException | None = None
            for part, future in futures.items():
                try:
                    offsets[TopicPartition(part.topic, part.partition)] = future.result().offset
                except KafkaException as error:
                    failed = error
            if failed is not None:
                raise failed

        if wanted:
            retried(list_the_rest, unknown_seconds=NEW_TOPIC_SECONDS)
        return offsets

    def everywhere(self, partitions: Iterable[TopicPartition], what: int, *, is_read_committed: bool) -> Offsets:
        """Return the first offsets (EARLIEST) or the end offsets (LATEST) of partitions."""
        spec = OffsetSpec.earliest() if what == EARLIEST else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self.list_offsets(dict.fromkeys(partitions, spec), is_read_committed=is_read_committed)

    def resolve(self, position: Position, partitions: list[TopicPartition], options: ReadOptions) -> Offsets:
        """Return a position as one offset per partition.

        Raises: OptionError if it does not name exactly the partitions that are read.
        """
        committed = options.is_read_committed
        value = position.value if isinstance(position.value, dict) else dict.fromkeys(partitions, position.value)
        missing, unknown = set(partitions) - set(value), set(value) - set(partitions)
        if missing or unknown:
            text = [f"missing: {named(sorted(missing))}"] if missing else []
            text += [f"not read: {named(sorted(unknown))}"] if unknown else []
            raise OptionError(
                f"option {position.option} must contain exactly the partitions that are read; {'; '.join(text)}"
            )
        if position.is_time:  # a partition without a later record starts at its end
            specs = {where: OffsetSpec.for_timestamp(time_ms) for where, time_ms in value.items()}
            found = self.list_offsets(specs, is_read_committed=committed)
            none_later = [where for where in found if found[where] < 0]
            return found | self.everywhere(none_later, LATEST, is_read_committed=committed)
        found = dict(value)
        for offset in (EARLIEST, LATEST):
            open_ones = [where for where in value if value[where] == offset]
            found |= self.everywhere(open_ones, offset, is_read_committed=committed)
        return found


def create_topics(admin: AdminClient, topics: Sequence[NewTopic]) -> list[str]:
    """Create topics; return the names of those that existed and are left unchanged. Raises KafkaException."""
    existing = []
    futures = admin.create_topics(list(topics), operation_timeout=REQUEST_SECONDS) if topics else {}
    for name, future in futures.items():
        try:
            future.result(CREATE_SECONDS)
        except KafkaException as error:
            if client.error_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            existing.append(name)
    return existing


def retried(call: Callable[[], Result], *, seconds: float = RETRY_SECONDS, unknown_seconds: float = 0.0) -> Result:
    """Return the result of a request, which is repeated for some seconds after retriable errors.

    `unknown_seconds`: how long an unknown topic may be a new one. Raises: KafkaException for other errors.
    """
    began = time.monotonic()
    while True:
        try:
            return call()
        except KafkaException as exception:
            error, past = client.error_of(exception), time.monotonic() - began
            is_unknown = error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            limit = unknown_seconds if is_unknown else seconds if client.is_passing(error) else 0.0
            if past >= limit:
                raise
        time.sleep(RETRY_PAUSE_SECONDS)
