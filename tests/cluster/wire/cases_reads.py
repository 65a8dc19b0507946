"""Fetch, ListOffsets, OffsetForLeaderEpoch, Metadata, DescribeTopicPartitions: what is asked and cannot be given."""

from collections.abc import Callable

from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from kvorum.protocol.messages.fetch import FetchRequest, ForgottenTopic
from kvorum.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import ONE_UUID, ZERO_UUID, Uuid
from tests.cluster.wire.case import Case
from tests.cluster.wire.world import Json, Topic, World, fetch, produce

UNKNOWN = Topic("no-such-topic", Uuid(b"no-such-topic-id"))
METADATA_TOPIC = Topic("__cluster_metadata", ONE_UUID)
OLD_MS = 1_700_000_000_000
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -2, -1, -3, -4, -5, -6
Run = Callable[[World], Json]


def filled(world: World, count: int = 3, partitions: int = 1) -> Topic:
    """Return a topic with batches of one record in partition 0, timestamps 1, 2, ... s after OLD_MS."""
    topic = world.topic(partitions=partitions)
    for index in range(count):
        data = bytes(build_batch([Record(b"v", b"k", OLD_MS + 1000 * (index + 1))]))
        answer = world.ask(produce(topic, data), 12)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE", answer
    return topic


def fetched(offset: int, version: int = 12, **more: int) -> Run:
    """Fetch partition 0 of a topic of three records."""
    return lambda world: world.ask(fetch(filled(world), offset, **more), version)


def fetched_from(topic: Topic, version: int) -> Run:
    """Fetch offset 0 of a topic that may not be there."""
    return lambda world: world.ask(fetch(topic, 0), version)


def edited(edit: Callable[[FetchRequest], object], version: int = 12) -> Run:
    """Fetch after a change of the request."""

    def run(world: World) -> Json:
        message = fetch(filled(world), 0)
        edit(message)
        return world.ask(message, version)

    return run


def again(message: FetchRequest) -> None:
    """Name the partition twice."""
    message.topics[0].partitions += fetch(UNKNOWN, 1).topics[0].partitions


def forget_unknown(message: FetchRequest) -> None:
    """Forget a topic that is in no session."""
    message.forgotten_topics_data = [ForgottenTopic(topic="no-such-topic", partitions=[0])]


def session(*epochs: int, other_id: int = 0, version: int = 12) -> Run:
    """Open a session with epoch 0, then go on with these epochs; show every answer."""

    def run(world: World) -> Json:
        topic = filled(world)
        with world.connect() as connection:
            first = connection.ask(fetch(topic, 3, session_epoch=0), version)
            assert first is not None
            answers = [world.shown(first, version)]
            for epoch in epochs:
                message = fetch(topic, 3, session_id=first.session_id + other_id, session_epoch=epoch)
                answers.append(world.shown(connection.ask(message, version), version))
        return answers

    return run


def other_topic_id(world: World) -> Json:
    """Fetch v13 of a topic that was there, by an id that never was, beside a good one."""
    message = fetch(filled(world), 0)
    message.topics += fetch(UNKNOWN, 0).topics
    return world.ask(message, 13)


def listed(timestamp: int, version: int = 11, *, partition: int = 0, epoch: int = -1, replica_id: int = -1) -> Run:
    """Ask for the offset of a timestamp in a topic of three records."""

    def run(world: World) -> Json:
        return world.ask(offsets_of(filled(world), timestamp, partition, epoch, replica_id), version)

    return run


def offsets_of(
    topic: Topic, timestamp: int, partition: int = 0, epoch: int = -1, replica_id: int = -1
) -> ListOffsetsRequest:
    """Return a ListOffsets of one partition."""
    part = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=replica_id, timeout=5000, topics=[ListOffsetsTopic(name=topic.name, partitions=[part])]
    )


def listed_twice(world: World) -> Json:
    """One partition twice, with different timestamps."""
    message = offsets_of(filled(world), EARLIEST)
    message.topics[0].partitions += offsets_of(UNKNOWN, LATEST).topics[0].partitions
    return world.ask(message, 11)


def epochs(leader_epoch: int, current: int = -1, *, partition: int = 0, replica_id: int = -2) -> Run:
    """Ask where an epoch ends."""

    def run(world: World) -> Json:
        return world.ask(end_of(filled(world), leader_epoch, current, partition, replica_id), 4)

    return run


def end_of(topic: Topic, leader_epoch: int, current: int = -1, partition: int = 0, replica_id: int = -2) -> Json:
    """Return an OffsetForLeaderEpoch of one partition."""
    part = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=leader_epoch)
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic=topic.name, partitions=[part])]
    )


def metadata(*topics: MetadataRequestTopic, version: int = 12, create: bool = False) -> Run:
    """Ask for topics by whatever names and ids."""
    message = MetadataRequest(topics=list(topics), allow_auto_topic_creation=create)
    return lambda world: world.ask(message, version)


def named(name: str | None, topic_id: Uuid = ZERO_UUID) -> MetadataRequestTopic:
    """Return a topic to ask for."""
    return MetadataRequestTopic(name=name, topic_id=topic_id)


def metadata_known(version: int, by_id: bool = False, twice: bool = False) -> Run:
    """Ask for a topic that is there."""

    def run(world: World) -> Json:
        topic = world.topic()
        requested = named(None, topic.id) if by_id else named(topic.name)
        return world.ask(MetadataRequest(topics=[requested] * (2 if twice else 1)), version)

    return run


def metadata_both(world: World) -> Json:
    """Ask for a topic with its name and its id."""
    topic = world.topic()
    return world.ask(MetadataRequest(topics=[named(topic.name, topic.id)]), 12)


def described(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Run:
    """DescribeTopicPartitions of topics that are not there."""
    place = None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    message = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=place
    )
    return lambda world: world.ask(message, 0)


def described_known(limit: int, cursor_partition: int | None = None) -> Run:
    """DescribeTopicPartitions of a topic of four partitions."""

    def run(world: World) -> Json:
        topic = world.topic(partitions=4)
        cursor = None
        if cursor_partition is not None:
            cursor = RequestCursor(topic_name=topic.name, partition_index=cursor_partition)
        message = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=topic.name)], response_partition_limit=limit, cursor=cursor
        )
        return world.ask(message, 0)

    return run


FETCHES = (
    Case("fetch-good", "Fetch v12, offset 0 of three", fetched(0)),
    Case("fetch-by-id", "Fetch v13 by topic id", fetched(1, 13)),
    Case("fetch-newest", "Fetch v18 (replica id in the replica state)", fetched(1, 18)),
    Case("fetch-at-end", "the log end offset", fetched(3)),
    Case("fetch-above", "one above the log end offset", fetched(4)),
    Case("fetch-far-above", "offset 2^62", fetched(2**62)),
    Case("fetch-negative", "offset -1", fetched(-1)),
    Case("fetch-negative-2", "offset -2", fetched(-2)),
    Case("fetch-unknown-topic", "Fetch v12 of a topic that is not there", fetched_from(UNKNOWN, 12)),
    Case("fetch-unknown-topic-v4", "the same in Fetch v4", fetched_from(UNKNOWN, 4)),
    Case("fetch-unknown-id", "Fetch v13 of a topic id nobody has", fetched_from(UNKNOWN, 13)),
    Case("fetch-zero-id", "Fetch v13 of topic id zero", fetched_from(Topic("", ZERO_UUID), 13)),
    Case("fetch-empty-name", "Fetch v12 of the topic ''", fetched_from(Topic("", ZERO_UUID), 12)),
    Case("fetch-unknown-id-beside-good", "Fetch v13 of a known and an unknown topic id", other_topic_id),
    Case("fetch-unknown-partition", "partition 5 of 1", fetched(0, partition=5)),
    Case("fetch-negative-partition", "partition -1", fetched(0, partition=-1)),
    Case("fetch-epoch-higher", "current leader epoch 7, it is 0", fetched(0, current_leader_epoch=7)),
    Case("fetch-epoch-equal", "current leader epoch 0, it is 0", fetched(0, current_leader_epoch=0)),
    Case("fetch-epoch-negative", "current leader epoch -2", fetched(0, current_leader_epoch=-2)),
    Case("fetch-last-fetched-epoch-higher", "last fetched epoch 5, the latest is 0", fetched(2, last_fetched_epoch=5)),
    Case("fetch-last-fetched-epoch", "last fetched epoch 0", fetched(2, last_fetched_epoch=0)),
    Case("fetch-last-fetched-epoch-beyond", "offset 9, last fetched epoch 0, the log ends at 3",
         fetched(9, last_fetched_epoch=0)),
    Case("fetch-session-unknown", "session id 12345 that nobody has", fetched(0, session_id=12345, session_epoch=3)),
    Case("fetch-session-id-0-epoch-5", "session id 0, epoch 5", fetched(0, session_epoch=5)),
    Case("fetch-session-id-with-epoch-0", "session id 12345, epoch 0: a new session",
         fetched(3, session_id=12345, session_epoch=0)),
    Case("fetch-session-unknown-final", "session id 12345, epoch -1", fetched(0, session_id=12345, session_epoch=-1)),
    Case("fetch-session-epoch-negative", "session id 0, epoch -5", fetched(0, session_epoch=-5)),
    Case("fetch-session-goes-on", "a session's epochs 0, 1, 2", session(1, 2)),
    Case("fetch-session-epoch-wrong", "a session's epochs 0, 5, then 1", session(5, 1)),
    Case("fetch-session-epoch-repeated", "a session's epochs 0, 1, 1", session(1, 1)),
    Case("fetch-session-other-id", "a session's id + 1, epoch 1", session(1, other_id=1)),
    Case("fetch-session-closed", "a session's epochs 0, -1, then 1", session(-1, 1)),
    Case("fetch-session-other-version", "a session of v12 goes on", session(1, version=12)),
    Case("fetch-min-bytes-negative", "min bytes -1", fetched(3, min_bytes=-1)),
    Case("fetch-max-wait-negative", "max wait -1, min bytes 1, at the end", fetched(3, min_bytes=1, max_wait=-1)),
    Case("fetch-max-bytes-0", "max bytes 0", fetched(0, max_bytes=0)),
    Case("fetch-max-bytes-negative", "max bytes -1", fetched(0, max_bytes=-1)),
    Case("fetch-partition-max-bytes-0", "partition max bytes 0", fetched(0, partition_max_bytes=0)),
    Case("fetch-partition-max-bytes-1", "partition max bytes 1", fetched(0, partition_max_bytes=1)),
    Case("fetch-partition-max-bytes-negative", "partition max bytes -1", fetched(0, partition_max_bytes=-1)),
    Case("fetch-isolation-level", "isolation level 7", fetched(0, isolation_level=7)),
    Case("fetch-read-committed", "isolation level 1", fetched(0, isolation_level=1)),
    Case("fetch-twice", "a partition twice, offsets 0 and 1", edited(again)),
    Case("fetch-forget-unknown", "forget a topic, without a session", edited(forget_unknown)),
    Case("fetch-nothing", "no topics, no session", edited(lambda message: message.topics.clear())),
    Case("fetch-as-replica-unknown", "replica id 77, which is no broker", fetched(0, replica_id=77)),
    Case("fetch-as-replica-self", "replica id of the leader itself", fetched(0, replica_id=1)),
    Case("fetch-as-debug", "replica id -2", fetched(0, replica_id=-2)),
    Case("fetch-cluster-id", "another cluster's id", edited(lambda message: setattr(message, "cluster_id", "other"))),
)  # fmt: skip
OFFSETS = (
    Case("list-offsets-earliest", "timestamp -2, earliest", listed(EARLIEST)),
    Case("list-offsets-latest", "timestamp -1, latest", listed(LATEST)),
    Case("list-offsets-max-timestamp", "timestamp -3, max timestamp", listed(MAX_TIMESTAMP)),
    Case("list-offsets-earliest-local", "timestamp -4, earliest local", listed(EARLIEST_LOCAL)),
    Case("list-offsets-latest-tiered", "timestamp -5, latest tiered", listed(LATEST_TIERED)),
    Case("list-offsets-earliest-pending-upload", "timestamp -6, earliest pending upload",
         listed(EARLIEST_PENDING_UPLOAD)),
    Case("list-offsets-minus-7", "timestamp -7", listed(-7)),
    Case("list-offsets-minus-99", "timestamp -99", listed(-99)),
    Case("list-offsets-max-timestamp-v6", "timestamp -3 in v6, which did not know it", listed(MAX_TIMESTAMP, 6)),
    Case("list-offsets-earliest-local-v7", "timestamp -4 in v7, which did not know it", listed(EARLIEST_LOCAL, 7)),
    Case("list-offsets-latest-tiered-v8", "timestamp -5 in v8, which did not know it", listed(LATEST_TIERED, 8)),
    Case("list-offsets-pending-upload-v10", "timestamp -6 in v10, which did not know it",
         listed(EARLIEST_PENDING_UPLOAD, 10)),
    Case("list-offsets-time", "the second record's timestamp", listed(OLD_MS + 2000)),
    Case("list-offsets-time-between", "a timestamp between the first and the second", listed(OLD_MS + 1500)),
    Case("list-offsets-time-after", "a timestamp after the last", listed(OLD_MS + 9000)),
    Case("list-offsets-time-0", "timestamp 0", listed(0)),
    Case("list-offsets-time-v1", "the second record's timestamp in v1", listed(OLD_MS + 2000, 1)),
    Case("list-offsets-epoch-higher", "current leader epoch 7, it is 0", listed(LATEST, epoch=7)),
    Case("list-offsets-epoch-equal", "current leader epoch 0", listed(LATEST, epoch=0)),
    Case("list-offsets-unknown-topic", "a topic that is not there",
         lambda world: world.ask(offsets_of(UNKNOWN, LATEST), 11)),
    Case("list-offsets-invalid-topic", "the topic 'a b'",
         lambda world: world.ask(offsets_of(Topic("a b", ZERO_UUID), LATEST), 11)),
    Case("list-offsets-unknown-partition", "partition 5 of 1", listed(LATEST, partition=5)),
    Case("list-offsets-negative-partition", "partition -1", listed(LATEST, partition=-1)),
    Case("list-offsets-twice", "a partition twice", listed_twice),
    Case("list-offsets-as-replica", "replica id 77, latest", listed(LATEST, replica_id=77)),
    Case("list-offsets-as-debug", "replica id -2, latest", listed(LATEST, replica_id=-2)),
    Case("list-offsets-empty-topic", "max timestamp of an empty partition",
         lambda world: world.ask(offsets_of(world.topic(), MAX_TIMESTAMP), 11)),
    Case("list-offsets-empty-topic-time", "a timestamp in an empty partition",
         lambda world: world.ask(offsets_of(world.topic(), OLD_MS), 11)),
    Case("list-offsets-nothing", "no topics", lambda world: world.ask(ListOffsetsRequest(replica_id=-1), 11)),
    Case("epoch-end-current", "leader epoch 0: the latest", epochs(0)),
    Case("epoch-end-higher", "leader epoch 9, the latest is 0", epochs(9)),
    Case("epoch-end-negative", "leader epoch -1", epochs(-1)),
    Case("epoch-end-negative-5", "leader epoch -5", epochs(-5)),
    Case("epoch-end-current-higher", "current leader epoch 7, it is 0", epochs(0, 7)),
    Case("epoch-end-unknown-topic", "a topic that is not there", lambda world: world.ask(end_of(UNKNOWN, 0), 4)),
    Case("epoch-end-unknown-partition", "partition 5 of 1", epochs(0, partition=5)),
    Case("epoch-end-as-replica", "replica id 77", epochs(0, replica_id=77)),
    Case("epoch-end-consumer", "replica id -1", epochs(0, replica_id=-1)),
    Case("epoch-end-empty", "leader epoch 0 of an empty partition",
         lambda world: world.ask(end_of(world.topic(), 0), 4)),
)  # fmt: skip
METADATA = (
    Case("metadata-known", "Metadata v12 by name", metadata_known(12)),
    Case("metadata-known-v0", "Metadata v0 by name", metadata_known(0)),
    Case("metadata-known-id", "Metadata v12 by topic id", metadata_known(12, by_id=True)),
    Case("metadata-known-newest", "Metadata v13 by name", metadata_known(13)),
    Case("metadata-twice", "a topic twice", metadata_known(12, twice=True)),
    Case("metadata-name-and-id", "a topic by its name and its id", metadata_both),
    Case("metadata-unknown", "a topic that is not there", metadata(named("no-such-topic"))),
    Case("metadata-unknown-create", "a topic that is not there, to be created, when that is switched off",
         metadata(named("no-such-topic"), create=True)),
    Case("metadata-invalid-name", "the topic 'a b'", metadata(named("a b"))),
    Case("metadata-invalid-name-create", "the topic 'a b', to be created", metadata(named("a b"), create=True)),
    Case("metadata-dots", "the topic '..'", metadata(named(".."))),
    Case("metadata-empty-name", "the topic ''", metadata(named(""))),
    Case("metadata-long-name", "a topic name of 250 characters", metadata(named("x" * 250))),
    Case("metadata-null-name-zero-id", "name null and id zero", metadata(named(None))),
    Case("metadata-null-name-v10", "name null in v10, with an id",
         metadata(named(None, UNKNOWN.id), version=10)),
    Case("metadata-id-v10", "an id and a name in v10", metadata(named("no-such-topic", UNKNOWN.id), version=10)),
    Case("metadata-unknown-id", "a topic id nobody has", metadata(named(None, UNKNOWN.id))),
    Case("metadata-known-and-null", "a good name and a null one", metadata(named("no-such-topic"), named(None))),
    Case("metadata-name-and-id-mixed", "one topic by name and another by id",
         metadata(named("no-such-topic"), named(None, UNKNOWN.id))),
    Case("metadata-group-topic", "__consumer_offsets before there is one", metadata(named("__consumer_offsets"))),
    Case("describe-partitions-unknown", "DescribeTopicPartitions of a topic that is not there",
         described("no-such-topic")),
    Case("describe-partitions-invalid", "DescribeTopicPartitions of 'a b'", described("a b")),
    Case("describe-partitions-empty-name", "DescribeTopicPartitions of ''", described("")),
    Case("describe-partitions-limit-0", "limit 0", described_known(0)),
    Case("describe-partitions-limit-negative", "limit -1", described_known(-1)),
    Case("describe-partitions-limit-2", "limit 2 of 4 partitions", described_known(2)),
    Case("describe-partitions-cursor", "cursor at partition 2", described_known(2000, 2)),
    Case("describe-partitions-cursor-beyond", "cursor at partition 9 of 4", described_known(2000, 9)),
    Case("describe-partitions-cursor-negative", "cursor at partition -1", described_known(2000, -1)),
    Case("describe-partitions-cursor-topic", "a cursor at a topic that was not asked for",
         described("a-topic", "b-topic", cursor=("b-topic", 0))),
)  # fmt: skip
CASES = FETCHES + OFFSETS + METADATA
