"""Topic administration: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, ElectLeaders."""

from collections.abc import Callable

from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kvorum.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kvorum.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kvorum.protocol.uuids import ONE_UUID, ZERO_UUID, Uuid
from tests.cluster.wire.case import Case
from tests.cluster.wire.cases_reads import filled
from tests.cluster.wire.world import Json, World

UNKNOWN_ID = Uuid(b"no-such-topic-id")
Run = Callable[[World], Json]


def wanted(name: str, partitions: int = 1, factor: int = 1, *, assignments: dict[int, list[int]] | None = None,
           **configs: str | None) -> CreatableTopic:  # fmt: skip
    """Return a topic to create."""
    assigned = assignments or {}
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in assigned.items()],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def created(world: World, *topics: CreatableTopic, validate_only: bool = False, version: int = 7) -> Json:
    """Create topics; of a topic's configs only those are shown that are set on it."""
    answer = world.ask(CreateTopicsRequest(topics=list(topics), timeout=10_000, validate_only=validate_only), version)
    for topic in answer.get("topics", []):
        configs = topic.pop("configs", None) or []
        own = {each["name"]: each.get("value", "") for each in configs if each.get("config_source") == TOPIC_CONFIG}
        topic |= {"configs_shown": bool(configs)} | ({"configs": own} if own else {})
        topic["topic_id"] = topic.get("topic_id", "zero").replace("other", "given")
    return answer


TOPIC_CONFIG = 1


def creating(partitions: int = 1, factor: int = 1, *, assignments: dict[int, list[int]] | None = None,
             validate_only: bool = False, version: int = 7, **configs: str | None) -> Run:  # fmt: skip
    """Create one topic of a new name."""
    return lambda world: created(
        world,
        wanted(world.name(), partitions, factor, assignments=assignments, **configs),
        validate_only=validate_only,
        version=version,
    )


def creating_named(name: str, version: int = 7) -> Run:
    """Create a topic of this name."""
    return lambda world: created(world, wanted(name), version=version)


def existing(world: World) -> Json:
    """Create a topic that is there."""
    return created(world, wanted(world.topic().name))


def colliding(world: World) -> Json:
    """Create a topic whose name differs from another's by a dot for an underscore."""
    name = world.name()
    return [created(world, wanted(name + ".x")), created(world, wanted(name + "_x"))]


def twice(world: World) -> Json:
    """Create a topic twice in one request, beside another."""
    name = world.name()
    return created(world, wanted(name), wanted(name), wanted(world.name()))


def config_twice(world: World) -> Json:
    """Create a topic with one config key twice."""
    topic = wanted(world.name(), retention_ms="1000")
    topic.configs += wanted("", retention_ms="2000").configs
    return created(world, topic)


def validated_then_created(world: World) -> Json:
    """Validate, then create: the first left nothing behind."""
    name = world.name()
    return [created(world, wanted(name), validate_only=True), created(world, wanted(name))]


def deleted(*topics: DeleteTopicState) -> Run:
    """Delete topics by whatever names and ids."""
    return lambda world: world.ask(DeleteTopicsRequest(topics=list(topics), timeout=10_000), 6)


def deleting(edit: Callable[[str, Uuid], list[DeleteTopicState]]) -> Run:
    """Delete a topic that is there, by what `edit` makes of its name and id."""

    def run(world: World) -> Json:
        topic = world.topic()
        return world.ask(DeleteTopicsRequest(topics=edit(topic.name, topic.id), timeout=10_000), 6)

    return run


def state(name: str | None, topic_id: Uuid = ZERO_UUID) -> DeleteTopicState:
    """Return a topic to delete."""
    return DeleteTopicState(name=name, topic_id=topic_id)


def grown(count: int, *assignments: list[int], validate_only: bool = False) -> Run:
    """Bring a topic of two partitions to so many; no assignments: null."""

    def run(world: World) -> Json:
        return world.ask(more(world.topic(partitions=2).name, count, *assignments, validate_only=validate_only), 3)

    return run


def more(name: str, count: int, *assignments: list[int], validate_only: bool = False) -> CreatePartitionsRequest:
    """Return a CreatePartitions of one topic."""
    given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given or None)
    return CreatePartitionsRequest(topics=[topic], timeout=10_000, validate_only=validate_only)


def grown_twice(world: World) -> Json:
    """One topic twice in a request."""
    message = more(world.topic().name, 2)
    return world.ask(CreatePartitionsRequest(topics=message.topics * 2, timeout=10_000), 3)


def grown_empty_assignments(world: World) -> Json:
    """Assignments that are there and empty."""
    message = more(world.topic().name, 2)
    message.topics[0].assignments = []
    return world.ask(message, 3)


def records_deleted(offset: int, *, partition: int = 0, **configs: str) -> Run:
    """Delete records of a topic of three, before an offset."""

    def run(world: World) -> Json:
        topic = filled(world) if not configs else world.topic(**configs)
        return world.ask(before(topic.name, offset, partition), 2)

    return run


def before(name: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    """Return a DeleteRecords of one partition."""
    part = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[part])], timeout=10_000)


def records_deleted_twice(world: World) -> Json:
    """Delete up to 2, then up to 1: the second is below the log start offset."""
    topic = filled(world)
    return [world.ask(before(topic.name, offset), 2) for offset in (2, 1)]


def elected(*partitions: int, election_type: int = 0, version: int = 2) -> Run:
    """Elect leaders of a topic of one partition."""

    def run(world: World) -> Json:
        topics = [TopicPartitions(topic=world.topic().name, partitions=list(partitions))]
        message = ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout=10_000)
        return world.ask(message, version)

    return run


def elected_unknown(world: World) -> Json:
    """Elect the leader of a topic that is not there."""
    topics = [TopicPartitions(topic="no-such-topic", partitions=[0])]
    return world.ask(ElectLeadersRequest(topic_partitions=topics, timeout=10_000), 2)


def elected_all(world: World) -> Json:
    """Elect all leaders (null): nothing is to be done. Shown: the code and how many partitions are answered for."""
    answer = world.ask(ElectLeadersRequest(topic_partitions=None, timeout=10_000), 2)
    results = answer.get("replica_election_results", [])
    return {**answer, "replica_election_results": sum(len(each.get("partition_result", [])) for each in results)}


CREATES = (
    Case("create-good", "CreateTopics v7", creating()),
    Case("create-good-v2", "CreateTopics v2", creating(version=2)),
    Case("create-good-v4", "CreateTopics v4", creating(version=4)),
    Case("create-with-config", "retention.ms=1000", creating(retention_ms="1000")),
    Case("create-defaults", "-1 partitions, replication factor -1", creating(-1, -1)),
    Case("create-validate-only", "validate only, then create", validated_then_created),
    Case("create-empty-name", "the name ''", creating_named("")),
    Case("create-dot", "the name '.'", creating_named(".")),
    Case("create-dots", "the name '..'", creating_named("..")),
    Case("create-blank", "the name 'a b'", creating_named("a b")),
    Case("create-umlaut", "the name 'ü'", creating_named("ü")),
    Case("create-slash", "the name 'a/b'", creating_named("a/b")),
    Case("create-250", "a name of 250 characters", creating_named("x" * 250)),
    Case("create-249", "a name of 249 characters", creating_named("x" * 249)),
    Case("create-metadata-topic", "the name __cluster_metadata", creating_named("__cluster_metadata")),
    Case("create-colliding", "a name that differs by '.' for '_'", colliding),
    Case("create-existing", "a topic that is there", existing),
    Case("create-twice", "a name twice in one request, beside another", twice),
    Case("create-partitions-0", "0 partitions", creating(0)),
    Case("create-partitions-minus-2", "-2 partitions", creating(-2)),
    Case("create-factor-0", "replication factor 0", creating(1, 0)),
    Case("create-factor-minus-2", "replication factor -2", creating(1, -2)),
    Case("create-factor-2", "replication factor 2, one broker", creating(1, 2)),
    Case("create-factor-32767", "replication factor 32767", creating(1, 32_767)),
    Case("create-partitions-0-factor-0", "0 partitions, replication factor 0", creating(0, 0)),
    Case("create-config-unknown", "an unknown config", creating(no_such_config="1")),
    Case("create-config-bad", "retention.ms=abc", creating(retention_ms="abc")),
    Case("create-config-range", "min.insync.replicas=0", creating(min_insync_replicas="0")),
    Case("create-config-null", "retention.ms null", creating(retention_ms=None)),
    Case("create-config-empty", "retention.ms ''", creating(retention_ms="")),
    Case("create-config-policy", "cleanup.policy=shred", creating(cleanup_policy="shred")),
    Case("create-config-policy-empty", "cleanup.policy=''", creating(cleanup_policy="")),
    Case("create-config-codec", "compression.type=brotli", creating(compression_type="brotli")),
    Case("create-config-segment", "segment.bytes=1000, below its minimum", creating(segment_bytes="1000")),
    Case("create-config-bool", "preallocate=maybe", creating(preallocate="maybe")),
    Case("create-config-level", "compression.gzip.level=77", creating(compression_gzip_level="77")),
    Case("create-config-blank-padded", "retention.ms=' 1000 '", creating(retention_ms=" 1000 ")),
    Case("create-config-lag", "min.compaction.lag.ms above max.compaction.lag.ms",
         creating(min_compaction_lag_ms="2000", max_compaction_lag_ms="1000")),
    Case("create-config-remote", "remote.storage.enable=true without remote storage",
         creating(remote_storage_enable="true")),
    Case("create-config-twice", "retention.ms twice", config_twice),
    Case("create-config-broker-key", "log.retention.ms, a broker's key", creating(log_retention_ms="1000")),
    Case("create-assigned", "assignment {0: [1]}, counts -1", creating(-1, -1, assignments={0: [1]})),
    Case("create-assigned-and-counts", "assignment {0: [1]} and counts 1, 1", creating(1, 1, assignments={0: [1]})),
    Case("create-assigned-and-factor", "assignment {0: [1]}, partitions -1, replication factor 1",
         creating(-1, 1, assignments={0: [1]})),
    Case("create-assigned-hole", "assignment {0: [1], 2: [1]}", creating(-1, -1, assignments={0: [1], 2: [1]})),
    Case("create-assigned-from-1", "assignment {1: [1]}", creating(-1, -1, assignments={1: [1]})),
    Case("create-assigned-broker-twice", "assignment {0: [1, 1]}", creating(-1, -1, assignments={0: [1, 1]})),
    Case("create-assigned-unknown-broker", "assignment {0: [9]}", creating(-1, -1, assignments={0: [9]})),
    Case("create-assigned-negative-broker", "assignment {0: [-1]}", creating(-1, -1, assignments={0: [-1]})),
    Case("create-assigned-empty", "assignment {0: []}", creating(-1, -1, assignments={0: []})),
    Case("create-assigned-uneven", "assignment {0: [1], 1: []}", creating(-1, -1, assignments={0: [1], 1: []})),
    Case("create-assigned-negative-partition", "assignment {-1: [1]}", creating(-1, -1, assignments={-1: [1]})),
    Case("create-nothing", "no topics", created),
)  # fmt: skip
CHANGES = (
    Case("delete-good", "DeleteTopics v6 by name", deleting(lambda name, _: [state(name)])),
    Case("delete-by-id", "DeleteTopics v6 by id", deleting(lambda _, topic_id: [state(None, topic_id)])),
    Case("delete-by-both", "name and id", deleting(lambda name, topic_id: [state(name, topic_id)])),
    Case("delete-twice-by-name", "a name twice", deleting(lambda name, _: [state(name), state(name)])),
    Case("delete-by-name-and-by-id", "a topic once by name, once by id",
         deleting(lambda name, topic_id: [state(name), state(None, topic_id)])),
    Case("delete-twice-by-id", "an id twice",
         deleting(lambda _, topic_id: [state(None, topic_id), state(None, topic_id)])),
    Case("delete-unknown", "a name nobody has", deleted(state("no-such-topic"))),
    Case("delete-unknown-id", "an id nobody has", deleted(state(None, UNKNOWN_ID))),
    Case("delete-neither", "neither name nor id", deleted(state(None))),
    Case("delete-invalid-name", "the name 'a b'", deleted(state("a b"))),
    Case("delete-empty-name", "the name ''", deleted(state(""))),
    Case("delete-metadata-topic", "__cluster_metadata", deleted(state("__cluster_metadata"))),
    Case("delete-metadata-id", "the metadata log's id", deleted(state(None, ONE_UUID))),
    Case("delete-v1", "DeleteTopics v1 of a name nobody has",
         lambda world: world.ask(DeleteTopicsRequest(topic_names=["no-such-topic"], timeout=10_000), 1)),
    Case("delete-v1-twice", "DeleteTopics v1, a name twice",
         lambda world: world.ask(DeleteTopicsRequest(topic_names=[world.topic().name] * 2, timeout=10_000), 1)),
    Case("grow-good", "CreatePartitions v3 from 2 to 3", grown(3)),
    Case("grow-validate-only", "validate only from 2 to 3", grown(3, validate_only=True)),
    Case("grow-same", "from 2 to 2", grown(2)),
    Case("grow-fewer", "from 2 to 1", grown(1)),
    Case("grow-0", "from 2 to 0", grown(0)),
    Case("grow-negative", "from 2 to -1", grown(-1)),
    Case("grow-unknown", "a topic nobody has", lambda world: world.ask(more("no-such-topic", 3), 3)),
    Case("grow-invalid-name", "the topic 'a b'", lambda world: world.ask(more("a b", 3), 3)),
    Case("grow-twice", "a topic twice", grown_twice),
    Case("grow-assigned", "from 2 to 3, assignment [1]", grown(3, [1])),
    Case("grow-assigned-too-few", "from 2 to 4, assignment [1]", grown(4, [1])),
    Case("grow-assigned-too-many", "from 2 to 3, assignments [1], [1]", grown(3, [1], [1])),
    Case("grow-assigned-unknown-broker", "from 2 to 3, assignment [9]", grown(3, [9])),
    Case("grow-assigned-broker-twice", "from 2 to 3, assignment [1, 1]", grown(3, [1, 1])),
    Case("grow-assigned-nobody", "from 2 to 3, assignment []", grown(3, [])),
    Case("grow-assigned-none", "from 1 to 2, no assignments in the list", grown_empty_assignments),
    Case("delete-records-good", "up to 2 of 3", records_deleted(2)),
    Case("delete-records-all", "offset -1: up to the high watermark", records_deleted(-1)),
    Case("delete-records-minus-2", "offset -2", records_deleted(-2)),
    Case("delete-records-beyond", "offset 4 of 3", records_deleted(4)),
    Case("delete-records-below-start", "up to 2, then up to 1", records_deleted_twice),
    Case("delete-records-0", "offset 0", records_deleted(0)),
    Case("delete-records-unknown-partition", "partition 5 of 1", records_deleted(1, partition=5)),
    Case("delete-records-unknown-topic", "a topic nobody has", lambda world: world.ask(before("no-such-topic", 1), 2)),
    Case("delete-records-compacted", "a topic that is only compacted", records_deleted(0, cleanup_policy="compact")),
    Case("delete-records-metadata", "__cluster_metadata", lambda world: world.ask(before("__cluster_metadata", 1), 2)),
    Case("elect-not-needed", "preferred, the leader is the preferred one", elected(0)),
    Case("elect-unclean-not-needed", "unclean, there is a leader", elected(0, election_type=1)),
    Case("elect-bad-type", "election type 7", elected(0, election_type=7)),
    Case("elect-bad-type-negative", "election type -1", elected(0, election_type=-1)),
    Case("elect-unknown-partition", "partition 5 of 1", elected(5)),
    Case("elect-unknown-topic", "a topic nobody has", elected_unknown),
    Case("elect-twice", "a partition twice", elected(0, 0)),
    Case("elect-all", "all partitions (null)", elected_all),
    Case("elect-no-partitions", "a topic without partitions", elected()),
    Case("elect-v0", "ElectLeaders v0, which has no election type", elected(0, version=0)),
)  # fmt: skip
CASES = CREATES + CHANGES
