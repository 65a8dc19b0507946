"""Configurations, producers, coordinators, the cluster: what a broker is asked about things that are not there."""

from collections.abc import Callable

from kvorum.protocol.messages import alter_configs as whole
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kvorum.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kvorum.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.cluster.wire.case import Case
from tests.cluster.wire.cases_records import producer_id
from tests.cluster.wire.world import Json, World

UNKNOWN_TYPE, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
TOPIC_CONFIG = 1
"""The source of a config that is set on the topic."""
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
MIN_ISR = "min.insync.replicas"
ELR = "eligible.leader.replicas.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2
Change = tuple[str, int, str | None]
Run = Callable[[World], Json]


def altered(*changes: Change, validate_only: bool = False, configs: dict[str, str] | None = None) -> Run:
    """Change configs of a topic; show its own configs afterwards."""

    def run(world: World) -> Json:
        topic = world.topic(**(configs or {}))
        answer = world.ask(alteration(TOPIC, topic.name, *changes, validate_only=validate_only), 1)
        return [answer, own_configs(world, topic.name)]

    return run


def alteration(kind: int, name: str, *changes: Change, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    """Return an IncrementalAlterConfigs of one resource."""
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def altered_elsewhere(kind: int, name: str, *changes: Change) -> Run:
    """Change configs of something that may not be there; nothing is to take effect."""
    return lambda world: world.ask(alteration(kind, name, *changes, validate_only=True), 1)


def own_configs(world: World, name: str) -> Json:
    """Return the configs that are set on a topic itself, once the broker knows of all that came before."""
    world.topic()  # led only when the broker has read the metadata log so far
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
    answer = world.ask(DescribeConfigsRequest(resources=[resource]), 4)["results"][0].get("configs", [])
    return {each["name"]: each.get("value", "") for each in answer if each.get("config_source") == TOPIC_CONFIG}


def resource_twice(world: World) -> Json:
    """One resource twice in a request."""
    message = alteration(TOPIC, world.topic().name, ("retention.ms", SET, "1000"))
    return world.ask(IncrementalAlterConfigsRequest(resources=message.resources * 2), 1)


def replaced(*configs: tuple[str, str | None], start: dict[str, str] | None = None) -> Run:
    """Replace all configs of a topic (AlterConfigs); show them afterwards."""

    def run(world: World) -> Json:
        topic = world.topic(**(start or {}))
        return [world.ask(replacement(TOPIC, topic.name, *configs), 2), own_configs(world, topic.name)]

    return run


def replacement(kind: int, name: str, *configs: tuple[str, str | None]) -> whole.AlterConfigsRequest:
    """Return an AlterConfigs of one resource."""
    given = [whole.AlterableConfig(name=key, value=value) for key, value in configs]
    resource = whole.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    return whole.AlterConfigsRequest(resources=[resource])


def replaced_elsewhere(kind: int, name: str, *configs: tuple[str, str | None]) -> Run:
    """Replace all configs of something (AlterConfigs), without effect."""

    def run(world: World) -> Json:
        message = replacement(kind, name, *configs)
        message.validate_only = True
        return world.ask(message, 2)

    return run


def described(kind: int, name: str, *keys: str) -> Run:
    """Describe some configs of a resource."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    return lambda world: world.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)


def described_topic(*keys: str, version: int = 4, synonyms: bool = True, **configs: str) -> Run:
    """Describe some configs of a topic that is there."""

    def run(world: World) -> Json:
        topic = world.topic(**configs)
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic.name, configuration_keys=list(keys))
        return world.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms), version)

    return run


def initialised(transactional_id: str | None, timeout_ms: int, own: int = -1, epoch: int = -1, version: int = 5) -> Run:
    """Ask for a producer id."""
    message = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout=timeout_ms, producer_id=own, producer_epoch=epoch
    )

    def run(world: World) -> Json:
        producer_id(world)
        return world.ask(message, version)

    return run


def coordinator(key_type: int, *keys: str, version: int = 4) -> Run:
    """Ask who coordinates."""
    message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys), key="".join(keys[:1]))
    return lambda world: world.ask(message, version)


def producers(name: str | None, partition: int = 0) -> Run:
    """Ask for the producers of a partition; None: of a new topic."""

    def run(world: World) -> Json:
        topic = world.topic().name if name is None else name
        requested = TopicRequest(name=topic, partition_indexes=[partition])
        return world.ask(DescribeProducersRequest(topics=[requested]), 0)

    return run


def quorum(topic: str, partition: int) -> Run:
    """Ask about a quorum that is none."""
    requested = RequestTopicData(topic_name=topic, partitions=[RequestPartitionData(partition_index=partition)])
    return lambda world: world.ask(DescribeQuorumRequest(topics=[requested]), 2)


def log_dirs(world: World) -> Json:
    """Describe the log directories for a partition that is there and one that is not."""
    topic = world.topic()
    requested = [DescribableLogDirTopic(topic=topic.name, partitions=[0, 5]), DescribableLogDirTopic(topic="no-such-topic", partitions=[0])]  # noqa: E501  # fmt: skip
    return world.ask(DescribeLogDirsRequest(topics=requested), 4)


def feature(name: str, level: int, upgrade_type: int = 1) -> Run:
    """Ask for a feature level, without effect."""
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return lambda world: world.ask(UpdateFeaturesRequest(timeout=5000, feature_updates=[update], validate_only=True), 1)


def cluster(endpoint_type: int) -> Run:
    """Describe the cluster, as seen from such endpoints."""
    return lambda world: world.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)


ALTERS = (
    Case("alter-set", "set retention.ms", altered(("retention.ms", SET, "1000"))),
    Case("alter-delete", "delete retention.ms", altered(("retention.ms", DELETE, None), configs={"retention_ms": "7"})),
    Case("alter-delete-unset", "delete a key that is not set", altered(("retention.ms", DELETE, None))),
    Case("alter-append", "append compact to cleanup.policy", altered(("cleanup.policy", APPEND, "compact"))),
    Case("alter-append-there", "append delete to cleanup.policy=delete",
         altered(("cleanup.policy", APPEND, "delete"), configs={"cleanup_policy": "delete"})),
    Case("alter-append-list", "append 'compact,delete' to cleanup.policy",
         altered(("cleanup.policy", APPEND, "compact,delete"))),
    Case("alter-subtract", "subtract delete from cleanup.policy=compact,delete",
         altered(("cleanup.policy", SUBTRACT, "delete"), configs={"cleanup_policy": "compact,delete"})),
    Case("alter-subtract-absent", "subtract compact from cleanup.policy=delete",
         altered(("cleanup.policy", SUBTRACT, "compact"), configs={"cleanup_policy": "delete"})),
    Case("alter-subtract-all", "subtract the only one", altered(("cleanup.policy", SUBTRACT, "delete"))),
    Case("alter-validate-only", "validate only", altered(("retention.ms", SET, "1000"), validate_only=True)),
    Case("alter-unknown-topic", "a topic nobody has",
         altered_elsewhere(TOPIC, "no-such-topic", ("retention.ms", SET, "1"))),
    Case("alter-invalid-topic", "the topic 'a b'", altered_elsewhere(TOPIC, "a b", ("retention.ms", SET, "1"))),
    Case("alter-empty-topic", "the topic ''", altered_elsewhere(TOPIC, "", ("retention.ms", SET, "1"))),
    Case("alter-unknown-key", "a key nobody knows", altered(("no.such.config", SET, "1"))),
    Case("alter-unknown-key-delete", "delete a key nobody knows", altered(("no.such.config", DELETE, None))),
    Case("alter-bad-value", "retention.ms=abc", altered(("retention.ms", SET, "abc"))),
    Case("alter-null-value", "set retention.ms to null", altered(("retention.ms", SET, None))),
    Case("alter-append-null", "append null to cleanup.policy", altered(("cleanup.policy", APPEND, None))),
    Case("alter-append-no-list", "append to retention.ms", altered(("retention.ms", APPEND, "5"))),
    Case("alter-subtract-no-list", "subtract from retention.ms", altered(("retention.ms", SUBTRACT, "5"))),
    Case("alter-key-twice", "retention.ms twice", altered(("retention.ms", SET, "1"), ("retention.ms", SET, "2"))),
    Case("alter-operation-9", "operation 9", altered(("retention.ms", 9, "1"))),
    Case("alter-operation-negative", "operation -1", altered(("retention.ms", -1, "1"))),
    Case("alter-good-and-bad", "a good key and a bad one",
         altered(("retention.ms", SET, "1000"), ("segment.bytes", SET, "abc"))),
    Case("alter-nothing", "no keys", altered()),
    Case("alter-resource-twice", "a topic twice in a request", resource_twice),
    Case("alter-unknown-type", "resource type 77", altered_elsewhere(77, "x", ("retention.ms", SET, "1"))),
    Case("alter-type-0", "resource type 0", altered_elsewhere(UNKNOWN_TYPE, "x", ("retention.ms", SET, "1"))),
    Case("alter-broker-name", "the broker 'abc'", altered_elsewhere(BROKER, "abc", ("log.cleaner.threads", SET, "2"))),
    Case("alter-broker-unknown", "the broker 99", altered_elsewhere(BROKER, "99", ("log.cleaner.threads", SET, "2"))),
    Case("alter-broker-negative", "the broker -1", altered_elsewhere(BROKER, "-1", ("log.cleaner.threads", SET, "2"))),
    Case("alter-broker-read-only", "broker 1, a read-only key", altered_elsewhere(BROKER, "1", ("node.id", SET, "2"))),
    Case("alter-broker-unknown-key", "broker 1, a key nobody knows",
         altered_elsewhere(BROKER, "1", ("no.such.config", SET, "2"))),
    Case("alter-broker-bad-value", "broker 1, log.cleaner.threads=abc",
         altered_elsewhere(BROKER, "1", ("log.cleaner.threads", SET, "abc"))),
    Case("alter-broker-good", "broker 1, log.cleaner.threads=2, validate only",
         altered_elsewhere(BROKER, "1", ("log.cleaner.threads", SET, "2"))),
    Case("alter-brokers-good", "all brokers, log.retention.ms=1000, validate only",
         altered_elsewhere(BROKER, "", ("log.retention.ms", SET, "1000"))),
    Case("alter-brokers-per-broker-key", "all brokers, a key that is each broker's own",
         altered_elsewhere(BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://localhost:1"))),
    Case("alter-brokers-read-only", "all brokers, a read-only key",
         altered_elsewhere(BROKER, "", ("process.roles", SET, "broker"))),
    Case("alter-min-isr-of-a-broker", "broker 1, min.insync.replicas=1, with eligible leader replicas on",
         altered_elsewhere(BROKER, "1", (MIN_ISR, SET, "1"))),
    Case("alter-min-isr-of-a-broker-delete", "broker 1, min.insync.replicas removed",
         altered_elsewhere(BROKER, "1", (MIN_ISR, DELETE, None))),
    Case("alter-min-isr-of-a-broker-bad-value", "broker 1, min.insync.replicas=abc",
         altered_elsewhere(BROKER, "1", (MIN_ISR, SET, "abc"))),
    Case("alter-min-isr-of-a-broker-append", "broker 1, append to min.insync.replicas",
         altered_elsewhere(BROKER, "1", (MIN_ISR, APPEND, "1"))),
    Case("alter-min-isr-of-a-broker-and-another-key", "broker 1, log.cleaner.threads=2 and min.insync.replicas=1",
         altered_elsewhere(BROKER, "1", ("log.cleaner.threads", SET, "2"), (MIN_ISR, SET, "1"))),
    Case("alter-min-isr-of-an-unknown-broker", "the broker 99, min.insync.replicas=1",
         altered_elsewhere(BROKER, "99", (MIN_ISR, SET, "1"))),
    Case("alter-min-isr-of-the-cluster", "all brokers, min.insync.replicas=2, validate only",
         altered_elsewhere(BROKER, "", (MIN_ISR, SET, "2"))),
    Case("alter-min-isr-of-the-cluster-delete", "all brokers, min.insync.replicas removed",
         altered_elsewhere(BROKER, "", (MIN_ISR, DELETE, None))),
    Case("replace-without-the-clusters-min-isr", "AlterConfigs of all brokers without min.insync.replicas",
         replaced_elsewhere(BROKER, "", ("log.cleaner.threads", "2"))),
    Case("replace-with-the-clusters-min-isr", "AlterConfigs of all brokers, min.insync.replicas=2, validate only",
         replaced_elsewhere(BROKER, "", (MIN_ISR, "2"))),
    Case("replace-min-isr-of-a-broker", "AlterConfigs of broker 1, min.insync.replicas=2",
         replaced_elsewhere(BROKER, "1", (MIN_ISR, "2"))),
    Case("replace-good", "AlterConfigs: retention.ms=5 takes the place of segment.bytes",
         replaced(("retention.ms", "5"), start={"segment_bytes": "2000000"})),
    Case("replace-nothing", "AlterConfigs without keys: all are deleted", replaced(start={"segment_bytes": "2000000"})),
    Case("replace-bad", "AlterConfigs: retention.ms=abc", replaced(("retention.ms", "abc"))),
    Case("replace-null", "AlterConfigs: retention.ms null", replaced(("retention.ms", None))),
    Case("replace-twice", "AlterConfigs: retention.ms twice", replaced(("retention.ms", "1"), ("retention.ms", "2"))),
    Case("replace-unknown-topic", "AlterConfigs of a topic nobody has",
         lambda world: world.ask(replacement(TOPIC, "no-such-topic", ("retention.ms", "1")), 2)),
)  # fmt: skip
DESCRIBES = (
    Case("configs-topic", "retention.ms of a topic with it set", described_topic("retention.ms", retention_ms="77")),
    Case("configs-topic-default", "retention.ms of a topic without", described_topic("retention.ms")),
    Case("configs-topic-v1", "retention.ms in v1", described_topic("retention.ms", version=1)),
    Case("configs-topic-no-synonyms", "without synonyms",
         described_topic("retention.ms", synonyms=False, retention_ms="7")),
    Case("configs-topic-unknown-key", "a key nobody knows and retention.ms",
         described_topic("no.such.config", "retention.ms")),
    Case("configs-unknown-topic", "a topic nobody has", described(TOPIC, "no-such-topic", "retention.ms")),
    Case("configs-invalid-topic", "the topic 'a b'", described(TOPIC, "a b", "retention.ms")),
    Case("configs-empty-topic", "the topic ''", described(TOPIC, "", "retention.ms")),
    Case("configs-unknown-type", "resource type 77", described(77, "x")),
    Case("configs-type-0", "resource type 0", described(UNKNOWN_TYPE, "x")),
    Case("configs-broker", "log.retention.ms and node.id of broker 1",
         described(BROKER, "1", "log.retention.ms", "node.id")),
    Case("configs-broker-name", "the broker 'abc'", described(BROKER, "abc", "node.id")),
    Case("configs-broker-other", "the broker 99", described(BROKER, "99", "node.id")),
    Case("configs-brokers", "the cluster's default, log.retention.ms", described(BROKER, "", "log.retention.ms")),
    Case("configs-logger-name", "loggers of the broker 'abc'", described(BROKER_LOGGER, "abc")),
    Case("list-configs-type-77", "ListConfigResources of type 77",
         lambda world: world.ask(ListConfigResourcesRequest(resource_types=[77]), 1)),
    Case("list-configs-brokers", "ListConfigResources of brokers",
         lambda world: world.ask(ListConfigResourcesRequest(resource_types=[BROKER]), 1)),
)  # fmt: skip
OTHERS = (
    Case("init-producer-id", "no transactional id", initialised(None, 60_000)),
    Case("init-producer-id-timeout-0", "no transactional id, timeout 0", initialised(None, 0)),
    Case("init-producer-id-v0", "v0", initialised(None, 60_000, version=0)),
    Case("init-producer-id-empty", "transactional id ''", initialised("", 60_000)),
    Case("init-transactional-timeout-0", "a transactional id, timeout 0", initialised("some-transaction", 0)),
    Case("init-transactional-timeout-negative", "a transactional id, timeout -1", initialised("some-transaction", -1)),
    Case("init-transactional-timeout-large", "a transactional id, timeout above transaction.max.timeout.ms",
         initialised("some-transaction", 900_001)),
    Case("init-producer-id-without-epoch", "a producer id without an epoch", initialised(None, 60_000, 1000, -1)),
    Case("init-producer-epoch-without-id", "an epoch without a producer id", initialised(None, 60_000, -1, 3)),
    Case("init-producer-id-given", "a producer id and epoch, no transactional id", initialised(None, 60_000, 1000, 3)),
    Case("coordinator-type-7", "FindCoordinator v4, key type 7", coordinator(7, "x")),
    Case("coordinator-type-negative", "FindCoordinator v4, key type -1", coordinator(-1, "x")),
    Case("coordinator-type-7-v3", "FindCoordinator v3, key type 7", coordinator(7, "x", version=3)),
    Case("coordinator-no-keys", "FindCoordinator v4 without keys", coordinator(0)),
    Case("coordinator-share-v5", "FindCoordinator v5, key type 2, which came with v6", coordinator(2, "x", version=5)),
    Case("coordinator-share-bad-key", "FindCoordinator v6, key type 2, a key that is no share group's",
         coordinator(2, "x", version=6)),
    Case("producers-empty", "DescribeProducers of an empty partition", producers(None)),
    Case("producers-unknown-topic", "DescribeProducers of a topic nobody has", producers("no-such-topic")),
    Case("producers-unknown-partition", "DescribeProducers of partition 5 of 1", producers(None, 5)),
    Case("producers-invalid-topic", "DescribeProducers of 'a b'", producers("a b")),
    Case("quorum-unknown-topic", "DescribeQuorum of a topic that is no quorum", quorum("no-such-topic", 0)),
    Case("quorum-unknown-partition", "DescribeQuorum of __cluster_metadata, partition 1",
         quorum("__cluster_metadata", 1)),
    Case("log-dirs", "DescribeLogDirs of a partition and of two that are not there", log_dirs),
    Case("feature-unknown", "UpdateFeatures of a feature nobody knows", feature("no.such.feature", 1)),
    Case("feature-too-high", "UpdateFeatures of metadata.version to 999", feature("metadata.version", 999)),
    Case("feature-negative", "UpdateFeatures of metadata.version to -1", feature("metadata.version", -1)),
    Case("feature-elr-as-it-is", "UpdateFeatures of eligible.leader.replicas.version to 1", feature(ELR, 1)),
    Case("feature-elr-too-high", "UpdateFeatures of eligible.leader.replicas.version to 2", feature(ELR, 2)),
    Case("feature-elr-off", "UpdateFeatures of eligible.leader.replicas.version to 0, a safe downgrade",
         feature(ELR, 0, SAFE_DOWNGRADE)),
    Case("feature-elr-off-as-an-upgrade", "UpdateFeatures of eligible.leader.replicas.version to 0, an upgrade",
         feature(ELR, 0, UPGRADE)),
    Case("feature-bad-type", "UpdateFeatures with upgrade type 9", feature("metadata.version", 1, 9)),
    Case("unregister-unknown", "UnregisterBroker 99",
         lambda world: world.ask(UnregisterBrokerRequest(broker_id=99), 0)),
    Case("unregister-negative", "UnregisterBroker -1",
         lambda world: world.ask(UnregisterBrokerRequest(broker_id=-1), 0)),
    Case("cluster-brokers", "DescribeCluster v1, endpoint type brokers", cluster(1)),
    Case("cluster-controllers", "DescribeCluster v1, endpoint type controllers, asked of a broker", cluster(2)),
    Case("cluster-type-7", "DescribeCluster v1, endpoint type 7", cluster(7)),
)  # fmt: skip
CASES = ALTERS + DESCRIBES + OTHERS
