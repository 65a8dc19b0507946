"""A mistyped config is refused with Apache Kafka 4.3.0's code, in a node's file and in the running cluster alike.

`data/kafka-4.3-config-answers.tsv` has Kafka's answers: to IncrementalAlterConfigs with validate_only, and of its
KafkaConfig to a node's file, for every key and each of 92 values.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kvorum.broker.api.config_rules import check_broker
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import alter_client_quotas as quotas
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.controller.client_quotas import QuotaAlterations, alter_client_quotas
from kvorum.quorum.controller.config_schema import KafkaConfigSchema
from kvorum.quorum.controller.configs_control import incremental_alter_configs
from kvorum.quorum.controller.context import Context, ControllerSettings
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.quorum.steps import finish
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_checks import check_node

ANSWERS = Path(__file__).parent / "data" / "kafka-4.3-config-answers.tsv"
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/tmp/none",
}
"""The node that Kafka's answers come from; the one that took requests had other ports."""
CODES = {".": ErrorCode.NONE, "q": ErrorCode.INVALID_REQUEST, "c": ErrorCode.INVALID_CONFIG, "x": None}
RESOURCES = {
    "broker": (ResourceType.BROKER, "1", ""),
    "default": (ResourceType.BROKER, "", ""),
    "listener": (ResourceType.BROKER, "1", "listener.name.plaintext."),
    "listener-default": (ResourceType.BROKER, "", "listener.name.plaintext."),
    "topic": (ResourceType.TOPIC, "t", ""),
    "group": (ResourceType.GROUP, "g", ""),
    "client-metrics": (ResourceType.CLIENT_METRICS, "m", ""),
}


class Answers(NamedTuple):
    """Kafka's answers: {(scope, key): one letter of CODES per value}."""

    values: list[str]
    quotas: list[float]
    rows: dict[tuple[str, str], str]


@cache
def answers() -> Answers:
    head, numbers, *lines = ANSWERS.read_text().splitlines()
    values = json.loads(head.partition("\t")[2])
    quotas_tried = [float(text) for text in json.loads(numbers.partition("\t")[2])]
    rows: dict[tuple[str, str], str] = {}
    for line in lines:
        scope, key, codes = line.split("\t")
        count = len(quotas_tried) if scope.startswith("quota-") else len(values)
        rows[scope, key] = codes * count if len(codes) == 1 else codes
    return Answers(values, quotas_tried, rows)


@cache
def image() -> MetadataImage:
    """Return the metadata of one broker with topic t, eligible leader replicas on, as in a new cluster."""
    delta = MetadataDelta(MetadataImage())
    made: list[Any] = [
        records.Feature(name=ELIGIBLE_LEADER_REPLICAS_VERSION, level=1),
        records.RegisterBroker(
            broker_id=1,
            broker_epoch=1,
            incarnation_id=Uuid(b"\x01" * 16),
            endpoints=(),
            log_dirs=(Uuid(b"\x02" * 16),),
        ),
        records.Topic(name="t", topic_id=Uuid(b"\x03" * 16)),
        records.Partition(topic_id=Uuid(b"\x03" * 16), partition_id=0, replicas=(1,), isr=(1,), leader=1),
    ]
    for offset, record in enumerate(made):
        delta.replay(record, offset)
    return delta.apply(len(made), 1)


@cache
def broker() -> Any:
    """Return what a broker's own check looks at."""
    configs = DynamicConfig(Settings.of(NODE), 1)
    return SimpleNamespace(broker_id=1, configs=configs, metadata=SimpleNamespace(image=image()))


def context_of(*, is_direct: bool = False) -> Context:
    return Context(
        image=image(),
        next_offset=100,
        now_ms=1_000_000,
        random=Random(1),
        settings=ControllerSettings(cluster_id="c", node_id=1),
        schema=KafkaConfigSchema(NODE, 1),
        heartbeats=BrokerHeartbeatManager(9_000),
        is_direct=is_direct,
    )


def code_of_change(scope: str, key: str, value: str) -> ErrorCode:
    """Return what a client is answered that sets one config: by the broker, then by the controller."""
    kind, name, prefix = RESOURCES[scope]
    if kind is ResourceType.BROKER:
        try:
            check_broker(broker(), name, {prefix + key: value})
        except KafkaError as error:
            return error.code
    return decided(kind, name, prefix + key, value)


def decided(kind: ResourceType, name: str, key: str, value: str, *, is_direct: bool = False) -> ErrorCode:
    resource = AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, config_operation=0, value=value)]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    (row,) = finish(incremental_alter_configs(context_of(is_direct=is_direct), request)).response.responses
    return ErrorCode(row.error_code)


class Difference(NamedTuple):
    """A value that Kafka and Kvorum answer differently on purpose."""

    reason: str
    scopes: frozenset[str]
    keys: frozenset[str]
    values: frozenset[str] | None = None
    """None: any."""


def keys_of(kind: config_defs.ConfigType) -> frozenset[str]:
    tables = (config_defs.BROKER, config_defs.TOPIC)
    return frozenset(key for table in tables for key, definition in table.items() if definition.type is kind)


EVERY = frozenset(("static", *RESOURCES))
DYNAMIC = frozenset(RESOURCES)
STATIC = frozenset(("static",))
LISTENER = frozenset(("listener",))
TYPE = config_defs.ConfigType
DIFFERENCES = (
    Difference("secrets would be stored in clear", DYNAMIC, keys_of(TYPE.PASSWORD)),
    Difference("NaN satisfies no rule, and no code expects it", EVERY, keys_of(TYPE.DOUBLE), frozenset(("NaN",))),
    Difference("no Java class can be loaded", EVERY, keys_of(TYPE.CLASS), frozenset(("java.lang.String",))),
    Difference(
        "Kafka refuses these at a start, after its KafkaConfig has taken them",
        STATIC,
        frozenset(("kafka.metrics.reporters", "metric.reporters", "metrics.recording.level", "replica.selector.class")),
    ),
    Difference(
        "Kafka takes these, and is of no use then",
        STATIC,
        frozenset(
            (
                *("broker.heartbeat.interval.ms", "broker.session.timeout.ms", "default.replication.factor"),
                *("group.max.session.timeout.ms", "group.min.session.timeout.ms"),
            )
        ),
    ),
    Difference(
        "KafkaConfig does not define them; another part reads them later",
        STATIC,
        frozenset(
            (
                *("allow.everyone.if.no.acl.found", "follower.replication.throttled.rate"),
                *("leader.replication.throttled.rate", "metadata.log.segment.min.bytes"),
                "replica.alter.log.dirs.io.max.bytes.per.second",
            )
        ),
    ),
    Difference(
        "Kafka does not know them as configs, and stores what it does not know",
        DYNAMIC,
        frozenset(("allow.everyone.if.no.acl.found", "metadata.log.segment.min.bytes", "super.users")),
    ),
    Difference("port 99999 does not exist", EVERY, frozenset(("advertised.listeners",))),
    Difference(
        "bootstrap servers are written without a protocol", EVERY, frozenset(("controller.quorum.bootstrap.servers",))
    ),
    Difference("a log directory is in the list once", EVERY, frozenset(("log.dir", "log.dirs")), frozenset(("a,a",))),
    Difference(
        "Kafka takes a negative flush interval and fails when it applies it",
        DYNAMIC,
        frozenset(("log.flush.interval.ms", "log.flush.scheduler.interval.ms")),
    ),
    Difference("refused in a file by Kafka, too", DYNAMIC, frozenset(("config.providers",)), frozenset((",", "a,,b"))),
    Difference(
        "an empty item is no replica",
        frozenset(("topic",)),
        frozenset(("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")),
        frozenset((",",)),
    ),
    Difference("a segment has a size", frozenset(("topic",)), frozenset(("internal.segment.bytes",))),
    Difference(
        "Kafka reads only the type of these below listener.name, where they have no effect",
        LISTENER,
        frozenset(
            (
                *("advertised.listeners", "controller.listener.names", "default.replication.factor"),
                *("group.consumer.assignors", "group.share.assignors", "kafka.metrics.reporters"),
                *("listener.security.protocol.map", "listeners", "max.connections.per.ip.overrides"),
                *("metric.reporters", "metrics.recording.level", "offsets.topic.compression.codec"),
                "share.coordinator.state.topic.compression.codec",
            )
        ),
    ),
)
"""In all of them Kvorum refuses a value that Kafka takes."""
TAKEN_HERE = {("listener", "node.id"), ("listener", "process.roles")}
"""Values that Kafka refuses and Kvorum takes: below listener.name these keys have no effect."""


def is_known(scope: str, key: str) -> bool:
    tables: Mapping[str, Any] = {"topic": config_defs.TOPIC, "group": config_defs.GROUP}
    return scope == "client-metrics" or key in tables.get(scope, config_defs.BROKER)


def rows_of(*scopes: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield scope, key and (value, Kafka's letter) of each config that Kvorum has; of read-only ones a few values."""
    for (scope, full_key), codes in answers().rows.items():
        key = full_key.removeprefix("listener.name.plaintext.")
        if scope not in scopes or not is_known(scope, key):
            continue
        pairs = list(zip(answers().values, codes, strict=True))
        is_fixed = scope not in ("static", "client-metrics") and set(codes) == {"q"}
        yield scope, key, pairs[::23] if is_fixed else pairs


def static_code(key: str, value: str) -> str:
    try:
        check_node(Settings.of({**NODE, key: value}))
    except ConfigError:
        return "x"
    return "."


def explained(scope: str, key: str, value: str) -> bool:
    return any(
        scope in each.scopes and key in each.keys and (each.values is None or value in each.values)
        for each in DIFFERENCES
    )


@pytest.mark.parametrize(
    "scopes",
    [("static",), ("broker", "default"), ("topic", "group", "client-metrics"), ("listener", "listener-default")],
)
def test_a_value_is_taken_or_refused_with_kafkas_code(scopes: tuple[str, ...]) -> None:
    wrong, count = [], 0
    for scope, key, pairs in rows_of(*scopes):
        for value, letter in pairs:
            kafka = CODES[letter]
            kvorum = CODES[static_code(key, value)] if scope == "static" else code_of_change(scope, key, value)
            count += 1
            if kafka == kvorum or (kafka is ErrorCode.NONE and explained(scope, key, value)):
                continue
            if kvorum is not ErrorCode.NONE or (scope, key) not in TAKEN_HERE:
                wrong.append((scope, key, value, kafka, kvorum))
    assert not wrong, f"{len(wrong)} of {count}: {wrong[:20]}"
    assert count > 1_000


def test_resolved_differences_are_not_listed() -> None:
    found: set[Difference] = set()
    for scope, key, pairs in rows_of(*EVERY):
        for each in DIFFERENCES:
            if each in found or scope not in each.scopes or key not in each.keys:
                continue
            tried = [
                value for value, letter in pairs if letter == "." and (each.values is None or value in each.values)
            ]
            if scope == "static":
                codes: Iterator[Any] = (static_code(key, value) for value in tried)
            else:
                codes = (code_of_change(scope, key, value) for value in tried)
            if any(code not in (".", ErrorCode.NONE) for code in codes):
                found.add(each)
    assert not set(DIFFERENCES) - found


def test_a_controller_refuses_the_same_configs_as_a_broker() -> None:
    """A client may send its changes to a controller, which no broker has checked then."""
    wrong, count = [], 0
    for scope, key, pairs in rows_of("broker", "default"):
        for value, _ in pairs[::4]:
            if code_of_change(scope, key, value) is ErrorCode.NONE:
                continue
            count += 1
            if decided(*RESOURCES[scope][:2], key, value, is_direct=True) is ErrorCode.NONE:
                wrong.append((scope, key, value))
    assert count > 1_000 and not wrong


@pytest.mark.parametrize("kind", ["user", "client-id", "ip"])
def test_a_quota_is_taken_or_refused_with_kafkas_code(kind: str) -> None:
    differences = []
    for (scope, key), codes in answers().rows.items():
        if scope != f"quota-{kind}":
            continue
        for number, letter in zip(answers().quotas, codes, strict=True):
            entity = quotas.RequestEntityData(entity_type=kind, entity_name="127.0.0.1" if kind == "ip" else "u")
            op = quotas.OpData(key=key, value=number, remove=False)
            request = quotas.AlterClientQuotasRequest(
                entries=[quotas.RequestEntryData(entity=[entity], ops=[op])], validate_only=True
            )
            result = alter_client_quotas(context_of(), QuotaAlterations(request=request))
            (row,) = result.response.entries
            if row.error_code != CODES[letter]:
                differences.append((key, str(number)))
    numbers = [("controller_mutation_rate", "inf"), ("request_percentage", "inf")]
    nans = [("consumer_byte_rate", "nan"), ("producer_byte_rate", "nan"), *((key, "nan") for key, _ in numbers)]
    # No record holds a number that is not finite; Kafka stores it.
    assert sorted(differences) == (sorted([*numbers, *nans]) if kind != "ip" else [("connection_creation_rate", "nan")])
