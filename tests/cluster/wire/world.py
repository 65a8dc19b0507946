"""What a case is given: a broker to speak to, topics of its own, and answers written down so that two can be compared.

An answer becomes plain JSON: error codes by name, fields at their defaults left out, what differs between two honest
brokers masked (topic ids, producer ids, addresses), and texts of errors set apart, as only people read them.
"""

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kvorum.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, batches, build_batch, decode_records
from kvorum.protocol.schema import Message, Struct
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from tests.cluster.wire import raw
from tests.cluster.wire.raw import Raw

Json: TypeAlias = Any
"""dict, list, str, int, bool or None."""

NODE_ID = 1
DEADLINE_SECONDS = 30.0
SETTINGS = {"auto.create.topics.enable": "false", "log.retention.check.interval.ms": "3600000"}
"""What both brokers are started with beside their defaults."""
CLOSED: Json = {"closed": True}
MESSAGES = {"error_message", "batch_index_error_message", "documentation"}
ORDERED_BY = ("name", "topic", "topic_id", "index", "partition_index", "partition", "partition_id", "node_id")
MASKED = {"producer_id": 0, "log_append_time": 0, "session_id": 1}
"""Shown only as given, from this value on."""
DROPPED = {"throttle_time", "host", "port", "cluster_id", "log_dir", "total_bytes", "usable_bytes"}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic made for a case."""

    name: str
    id: Uuid


@dataclass(slots=True)
class World:
    """A broker, seen by one case. `messages` collects the texts of errors in the order in which they came."""

    host: str
    port: int
    case: str = ""
    messages: list[str] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)
    _count: int = 0

    def connect(self) -> Raw:
        """Return a new connection."""
        return Raw(self.host, self.port)

    def now_ms(self) -> int:
        """Return the wall clock, for timestamps the broker takes as recent."""
        return time.time_ns() // 1_000_000

    def name(self) -> str:
        """Return a name no other topic has, the same in every run."""
        self._count += 1
        return f"{self.case}-{self._count}"

    def topic(self, partitions: int = 1, **configs: str) -> Topic:
        """Create a topic and wait until it is led."""
        name = self.name()
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in configs.items()]
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        with self.connect() as connection:
            made = connection.ask(CreateTopicsRequest(topics=[wanted], timeout=15_000), 7)
            assert made is not None and made.topics[0].error_code == 0, made
            requested = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            deadline = time.monotonic() + DEADLINE_SECONDS
            while True:
                found = connection.ask(requested, 12)
                assert found is not None
                seen = found.topics[0]
                known = seen.error_code == 0 and len(seen.partitions) == partitions
                if known and self._led(connection, name, partitions):
                    break
                assert time.monotonic() < deadline, f"{name} is not led: {found}"
                time.sleep(0.01)
        self.names[bytes(seen.topic_id)] = name
        return Topic(name, seen.topic_id)

    def _led(self, connection: Raw, name: str, partitions: int) -> bool:
        """Return whether every partition answers: a broker may know of a leader before the leader does."""
        each = range(partitions)
        parts = [ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=-1) for n in each]
        requested = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=parts)])
        found = connection.ask(requested, 7)
        assert found is not None
        return all(not part.error_code for part in found.topics[0].partitions)

    def ask(self, message: Message, version: int) -> Json:
        """Send one request on a connection of its own; return what was answered, as JSON."""
        with self.connect() as connection:
            return self.shown(connection.ask(message, version), version)

    def send(self, *frames: bytes, api_key: int, version: int, answers: int = 1) -> Json:
        """Send bytes on a connection of their own; return what came back, up to so many answers."""
        with self.connect() as connection:
            for data in frames:
                connection.send(data)
            found = []
            for _ in range(answers):
                body = connection.receive()
                if body is None:
                    return {"answers": found, "closed": True} if found else CLOSED
                found.append(self.shown(raw.answer_of(body, api_key, version), version))
        return found[0] if answers == 1 else {"answers": found}

    def quiet(self, *frames: bytes, api_key: int = 3, version: int = 12) -> Json:
        """Send what may well get no answer; say whether none came and the connection stays open."""
        with self.connect() as connection:
            for data in frames:
                connection.send(data)
            try:
                body = connection.receive(raw.QUIET_SECONDS)
            except TimeoutError:
                return {"silent": True}
        return CLOSED if body is None else self.shown(raw.answer_of(body, api_key, version), version)

    def shown(self, message: Message | None, version: int) -> Json:
        """Write an answer down."""
        return CLOSED if message is None else self._struct(message, version)

    def _struct(self, value: Struct, version: int) -> Json:
        found: dict[str, Json] = {}
        defaults = {each.name: each for each in dataclasses.fields(value)}  # type: ignore[arg-type]
        for each in value.FIELDS:
            if not each.versions[0] <= version <= each.versions[1] or each.name in DROPPED:
                continue
            content = getattr(value, each.name)
            if each.name in MESSAGES:
                self.messages += [content] if content else []
            elif each.name.endswith("error_code"):
                found[each.name] = ErrorCode(content).name
            elif each.kind == "records":
                found[each.name] = None if content is None else list(batch_summaries(content))
            elif each.name in MASKED and content >= MASKED[each.name]:
                found[each.name] = "given"
            elif each.kind == "uuid":
                found[each.name] = self._id(content)
            elif isinstance(content, list):
                found |= {each.name: in_order([self._item(item, version) for item in content])} if content else {}
            elif each.kind == "struct" and content is not None:
                found |= {each.name: shown} if (shown := self._struct(content, version)) else {}
            elif content != defaults[each.name].default:
                found[each.name] = content
        return found

    def _item(self, item: Json, version: int) -> Json:
        return self._struct(item, version) if hasattr(item, "FIELDS") else item

    def _id(self, value: Uuid) -> str:
        return "zero" if value == ZERO_UUID else self.names.get(bytes(value), "other")


def in_order(items: list[Json]) -> list[Json]:
    """Sort topics by name and partitions by index: a broker may answer in any order."""
    if not all(isinstance(item, dict) for item in items):
        return items
    return sorted(items, key=lambda item: tuple(str(item.get(key, "")) for key in ORDERED_BY))


def batch_summaries(data: bytes) -> Iterator[Json]:
    """Yield [base offset, count] of each batch."""
    for _, header in batches(memoryview(data)):
        yield [header.base_offset, header.records_count]


def produce(topic: Topic, records: bytes | None, *, version: int = 12, acks: int = -1, partition: int = 0,
            transactional_id: str | None = None) -> ProduceRequest:  # fmt: skip
    """Return a Produce of one partition."""
    data = TopicProduceData(name=topic.name, topic_id=topic.id)
    data.partition_data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout=10_000, topic_data=[data])


def fetch(topic: Topic, offset: int, **more: int) -> FetchRequest:
    """Return a sessionless Fetch of partition 0 that does not wait; `more` are fields of the request or partition."""
    part = FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=-1, last_fetched_epoch=-1)
    part.partition_max_bytes = 1 << 20
    whole = FetchRequest(max_wait=0, min_bytes=0, max_bytes=1 << 20, session_id=0, session_epoch=-1)
    whole.topics = [FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[part])]
    for key, value in more.items():
        setattr(part if hasattr(part, key) else whole, key, value)
    return whole


class NormalClient:
    """A client that does what clients do, on one connection it had before the case and on one it opens after it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._topic = world.topic()
        self._old = world.connect()
        self._offset = 0

    def assert_served(self) -> None:
        """Metadata, Produce and Fetch of the record, on both connections."""
        self._round(self._old)
        with self._world.connect() as connection:
            self._round(connection)

    def _round(self, connection: Raw) -> None:
        seen = connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self._topic.name)]), 12)
        assert seen is not None and seen.topics[0].error_code == 0, seen
        value = b"normal %d" % self._offset
        data = bytes(build_batch([Record(value, b"key", self._world.now_ms())]))
        reported = connection.ask(produce(self._topic, data), 12)
        assert reported is not None
        told_part = reported.responses[0].partition_responses[0]
        assert (told_part.error_code, told_part.base_offset) == (0, self._offset), reported
        got = connection.ask(fetch(self._topic, self._offset), 12)
        assert got is not None
        got_part = got.responses[0].partitions[0]
        assert got_part.error_code == 0, got
        assert [each.value for each in decode_records(memoryview(got_part.records))] == [value]
        self._offset += 1

    def close(self) -> None:
        """Close the old connection."""
        self._old.close()
