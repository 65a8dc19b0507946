"""No config ends a broker: neither one that is refused, nor one that an earlier release has stored already.

What Kafka answers to each value: test_config_answers.
"""

import asyncio
import resource
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kvorum.broker.coordinator.group.consumer.settings import ConsumerSettings
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.broker.metadata.quota_publisher import QuotaPublisher
from kvorum.broker.metadata.replication_throttles import ReplicationThrottles
from kvorum.broker.replica.log_dir_moves import MoveQuota
from kvorum.broker.replica.replication_quota import ReplicationQuotas
from kvorum.broker.telemetry.manager import ClientMetricsManager
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.ip_rates import IpConnectionRates
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import BrokerQuotas, ControllerQuotas
from kvorum.network.tracing import Tracing
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.configs.entries import broker_entries
from kvorum.quorum.controller.broker_admin_state import admin_states_in
from kvorum.quorum.controller.config_schema import KafkaConfigSchema
from kvorum.quorum.controller.context import Context, ControllerSettings
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.client_metrics import DEFINITIONS as CLIENT_METRICS
from kvorum.quorum.image.client_quotas import quota_record
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.publisher import LoaderManifest, ManifestKind
from kvorum.quorum.raft.settings import raft_settings
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_checks import check_node
from kvorum.runtime.config_relations import RELATIONS
from kvorum.runtime.config_types import ConfigType
from kvorum.security.principal import Principal
from kvorum.storage.cleaner.pace import Pace
from kvorum.storage.cleaner.settings import CleanerConfig
from tests.unit.broker.test_server import Cluster, run

JUNK = (
    *("", " ", "x", "0", "-1", "1", "2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808"),
    *("99999999999999999999", "NaN", "Infinity", "-Infinity", "1e3", "0x10", "true", "a,,b", "a,a", "\x00", "ü", "٣"),
    *("127.0.0.1:5", "127.0.0.1:5x", "PLAINTEXT://:9092", "PLAINTEXT:PLAINTEXT", "0:1", "*", "client_id=[", "${x:y}"),
)
MANIFEST = LoaderManifest(kind=ManifestKind.LOG_DELTA, offset=1, epoch=1, batches_count=1, bytes_count=1, leader_id=1)
TOPIC_ID = Uuid(b"\x03" * 16)
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/tmp/none",
}


NUMBERS = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE)


def max_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def dynamic_keys() -> list[str]:
    return [key for key, definition in config_defs.BROKER.items() if definition.dynamic]


def resources() -> Iterator[tuple[ResourceType, str, str]]:
    """Yield the type, name and key of everything that metadata may hold a value of."""
    for key in config_defs.BROKER:
        yield ResourceType.BROKER, "", key
        yield ResourceType.BROKER, "1", key
        yield ResourceType.BROKER, "1", f"listener.name.plaintext.{key}"
    for kind, keys in (
        (ResourceType.TOPIC, config_defs.TOPIC),
        (ResourceType.GROUP, config_defs.GROUP),
        (ResourceType.CLIENT_METRICS, CLIENT_METRICS),
    ):
        for key in (*keys, "unknown.key"):
            yield kind, "t", key


class Node:
    """Everything in a broker and a controller that takes dynamic configs over, without a network and a disk."""

    def __init__(self) -> None:
        static = Settings.of(NODE)
        self.image = MetadataImage()
        self.configs = DynamicConfig(static, 1)
        self.pace, self.tracing = Pace(CleanerConfig.of(static)), Tracing()
        self.counts = ConnectionCounts.of(static, ["PLAINTEXT"])
        self.configs.subscribe(lambda settings, _: self.pace.configure(CleanerConfig.of(settings)))
        self.configs.subscribe(lambda settings, _: self.counts.configure(settings, ["PLAINTEXT"]))
        self.configs.subscribe(lambda settings, _: self.tracing.configure(settings.str("kvorum.request.trace")))
        quotas = ReplicationQuotas(1, static)
        self.throttles = ReplicationThrottles(1, quotas, MoveQuota(static))
        self.telemetry = ClientMetricsManager(1_000_000, lambda: Uuid(b"\x09" * 16))
        self.consumers = ConsumerSettings.of(static)
        self.schema = KafkaConfigSchema(NODE, 1)
        self.take(
            records.RegisterBroker(broker_id=1, broker_epoch=0, incarnation_id=Uuid(b"\x01" * 16), endpoints=()),
            records.Topic(name="t", topic_id=TOPIC_ID),
            records.Partition(topic_id=TOPIC_ID, partition_id=0, replicas=(1,), isr=(1,), leader=1),
        )

    def take(self, *made: Any) -> None:
        """Replay records and have every part take them over."""
        delta = MetadataDelta(self.image)
        for offset, record in enumerate(made):
            delta.replay(record, offset)
        self.image = image = delta.apply(self.image.offset + len(made), 1)
        self.configs.set_image(image.configs)
        self.configs.apply()
        self.throttles.on_metadata_update(delta, image, MANIFEST)
        self.telemetry.on_metadata_update(delta, image, MANIFEST)

    def use(self) -> None:
        """Use what the configs decide, as brokers and controllers do."""
        settings = self.configs.settings
        for relation in RELATIONS:
            relation.check(settings)
        assert self.pace.bytes_at_once > 0 and self.configs.log_config("t").segment_bytes > 0
        assert self.consumers.session_timeout_of(self.image, "t") > 0
        assert self.consumers.heartbeat_interval_of(self.image, "t") > 0
        assert self.consumers.assignment_interval_of(self.image, "t") >= 0
        self.counts.admit("127.0.0.1", 1.0, protected=False, listener="PLAINTEXT")
        context = Context(
            image=self.image,
            next_offset=100,
            now_ms=1,
            random=Random(1),
            settings=ControllerSettings(cluster_id="c", node_id=1),
            schema=self.schema,
            heartbeats=BrokerHeartbeatManager(9_000),
        )
        topic = self.image.topics.topic("t")
        assert topic is not None and context.effective_min_isr(topic) > 0
        context.unclean_election_enabled("t")
        context.describe_new_topic({})
        assert context.decommission_partitions_max > 0
        admin_states_in(self.image)
        list(broker_entries(self.configs.layers))


@pytest.mark.parametrize("value", JUNK)
def test_no_stored_value_ends_a_broker_or_a_controller(value: str) -> None:
    """Every key with some junk, as if an earlier release had stored it, and then none of them."""
    node, everything = Node(), list(resources())
    node.take(
        *(
            records.Config(resource_type=kind, resource_name=name, name=key, value=value)
            for kind, name, key in everything
        )
    )
    assert len(node.configs.layers.left_out) > 100
    node.use()
    list(broker_entries(node.configs.layers))
    node.take(
        *(
            records.Config(resource_type=kind, resource_name=name, name=key, value=None)
            for kind, name, key in everything
        )
    )
    assert not node.configs.layers.left_out and node.configs.settings == Settings.of(NODE)
    node.use()


def test_no_single_value_of_a_dynamic_config_ends_a_broker() -> None:
    """One key at a time, so that no rule with another key hides it."""
    node = Node()
    for key in dynamic_keys():
        for value in ("x", "0", "-1", "2147483647", "9223372036854775807"):
            node.take(records.Config(resource_type=ResourceType.BROKER, resource_name="1", name=key, value=value))
            node.use()
        node.take(records.Config(resource_type=ResourceType.BROKER, resource_name="1", name=key, value=None))
        assert node.configs.settings == Settings.of(NODE), f"{key} is what it was"


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1.5, 9.2e18, 1.7976931348623157e308])
def test_every_quota_that_is_taken_is_kept_to(value: float) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        quotas, controllers = BrokerQuotas(loop.time, Windows()), ControllerQuotas(loop.time, Windows())
        publisher = QuotaPublisher(quotas, IpConnectionRates(Windows()))
        delta, user = MetadataDelta(MetadataImage()), (("user", "u"),)
        for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"):
            delta.replay(quota_record(user, key, value))
        delta.replay(quota_record((("ip", "127.0.0.1"),), "connection_creation_rate", value))
        image = delta.apply(1, 1)
        publisher.on_metadata_update(delta, image, MANIFEST)
        controllers.update(image.client_quotas.entities.items())
        ctx = RequestContext(principal=Principal("User", "u"), client_id="c", spent_ms=5.0)
        for _ in range(3):
            assert 0 <= quotas.throttle_ms(ctx, produced=1_000) < 2**31
            assert 0 <= quotas.fetch_throttle_ms(ctx, 1_000) < 2**31
            assert publisher.ip_rates.throttle_ms("127.0.0.1", loop.time()) >= 0
        assert quotas.fetch_bytes_max(ctx) >= 0
        mutations = controllers.mutation_quota(ctx, 100)
        assert mutations is not None
        mutations.record(5)
        assert 0 <= mutations.throttle_ms() < 2**31

    asyncio.run(story())


@pytest.mark.parametrize("value", [0, 1, 2**31 - 1])
def test_a_quorum_takes_every_time_that_is_allowed(value: int) -> None:
    times = [key for key in config_defs.BROKER if key.startswith("controller.quorum.") and key.endswith(".ms")]
    assert len(times) > 4
    for key in times:
        raft_settings(Settings.of({key: value}))
    raft_settings(Settings.of(dict.fromkeys(times, value)))


STORED = (
    ("max.connections.per.ip.overrides", "127.0.0.1:5x"),
    ("log.cleaner.threads", "2147483647"),
    ("log.cleaner.io.max.bytes.per.second", "NaN"),
    ("listeners", "x"),
    ("listener.security.protocol.map", "x"),
    ("kvorum.request.trace", "x"),
    ("log.roll.ms", "0"),
    ("leader.replication.throttled.rate", "x"),
)
"""What an earlier release has stored of brokers' configs."""


async def store(cluster: Cluster, *made: records.MetadataRecord) -> None:
    """Append records that no controller of today would decide on."""
    controller = cluster.controller.controller
    await controller.submit(lambda image: Result(records=list(made), response=None), name="stored")


def test_a_broker_starts_and_runs_on_with_bad_values_in_the_metadata_log(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        for key, value in STORED:
            for name in ("", "1"):
                await store(cluster, records.Config(resource_type=4, resource_name=name, name=key, value=value))
        started = await cluster.start_broker(1)
        configs = started.broker.configs
        assert {each.key for each in configs.layers.left_out} == {key for key, _ in STORED}
        assert configs.settings.int("log.cleaner.threads") == 1 and configs.errors >= len(STORED)
        await cluster.ask(1, MetadataRequest(topics=[]))

        # Running, it keeps a good value that is replaced by a bad one.
        key = "max.connections.per.ip.overrides"
        await store(cluster, records.Config(resource_type=4, resource_name="1", name=key, value="10.0.0.1:5"))
        await until(lambda: configs.settings.str(key) == "10.0.0.1:5")
        await store(cluster, records.Config(resource_type=4, resource_name="1", name=key, value="10.0.0.1:6x"))
        await until(lambda: any(each.value == "10.0.0.1:6x" for each in configs.layers.left_out))
        assert configs.settings.str(key) == "10.0.0.1:5"

        # The next start has no older value, and a client can remove the bad one.
        await started.shutdown()
        again = await cluster.start_broker(1)
        assert again.broker.configs.settings.str(key) == ""
        delete = [AlterableConfig(name=each, config_operation=1, value=None) for each, _ in STORED]
        for name in ("", "1"):
            wanted = AlterConfigsResource(resource_type=4, resource_name=name, configs=delete)
            answer = await cluster.ask(1, IncrementalAlterConfigsRequest(resources=[wanted]))
            assert answer.responses[0].error_code == 0, answer.responses[0].error_message
        await until(lambda: not again.broker.configs.layers.left_out)

    run(tmp_path, story)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, within the test's own deadline."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


def extreme(key: str, candidates: Sequence[int]) -> dict[str, object]:
    """Return the first of some numbers that a broker's file may have for a key."""
    for number in candidates:
        try:
            check_node(Settings.of({**BROKER, key: number}))
        except ConfigError:
            continue
        return {key: number}
    return {}


BROKER = {
    "process.roles": "broker",
    "node.id": 1,
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "100@127.0.0.1:9093",
    "broker.heartbeat.interval.ms": 100,
}
LOWEST, HIGHEST = (-(2**63), -(2**31), -2, -1, 0, 1), (2**63 - 1, 2**31 - 1, 1)
NAMES = frozenset(("broker.id", "node.id", "broker.heartbeat.interval.ms"))  # the last is the test's own pace
OF_NO_USE = NAMES | frozenset(
    (
        "request.timeout.ms",  # with 0 no request is ever answered in time
        *("message.max.bytes", "socket.request.max.bytes"),  # with 0 and 1 nothing can be written
        *("max.connections", "max.connections.per.ip", "max.connection.creation.rate"),  # with 0 nobody connects
    )
)


def extremes(candidates: Sequence[int], left_out: Collection[str]) -> dict[str, object]:
    """Return the extreme of every number of a broker that the others allow."""
    chosen: dict[str, object] = {}
    for key, definition in config_defs.BROKER.items():
        if definition.type not in NUMBERS or key in left_out:
            continue
        found = extreme(key, candidates)
        try:
            check_node(Settings.of({**BROKER, **chosen, **found}))
        except ConfigError:
            continue  # a rule between keys: the one that came first has its extreme
        chosen |= found
    return chosen


@pytest.mark.parametrize(("candidates", "left_out"), [(LOWEST, OF_NO_USE), (HIGHEST, NAMES)])
def test_a_broker_starts_with_every_number_at_its_extreme(
    tmp_path: Path, candidates: Sequence[int], left_out: Collection[str]
) -> None:
    async def story(cluster: Cluster) -> None:
        chosen = extremes(candidates, left_out)
        assert len(chosen) > 150
        before = max_rss_bytes()
        await cluster.start_broker(1, **chosen)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        created = await cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout=5_000))
        assert created.topics[0].error_code == 0
        await cluster.ask(1, MetadataRequest(topics=[]))
        assert max_rss_bytes() - before < 200 << 20, "no buffer is as large as a config allows"

    run(tmp_path, story)
