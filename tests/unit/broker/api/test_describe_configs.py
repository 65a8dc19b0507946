"""DescribeConfigs: every config with its default, type, source and what else decides it, as Apache Kafka answers."""

from pathlib import Path
from typing import Any

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.broker_loggers import kafka_name
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.quorum.records import Config
from kvorum.runtime import logs
from kvorum.runtime.config import ConfigSource
from kvorum.runtime.config_types import ConfigType
from tests.unit.broker.api.api_kit import TOPIC_ID, Rules, a_broker, ask, three_brokers, topic

TOPIC, BROKER, LOGGER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER
METRICS = ConfigResourceType.CLIENT_METRICS
TABLE = Path(__file__).parent.parent.parent.parent / "data" / "kafka-4.3-configs.tsv"
# How the Kafka that was asked had been started, and what it held dynamically.
STATIC = {
    "node.id": 1,
    "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
    "broker.id": 1,
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "group.initial.rebalance.delay.ms": 0,
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "log.dirs": "(given)",
    "offsets.topic.replication.factor": 1,
    "process.roles": "broker,controller",
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.replication.factor": 1,
}


def set_config(kind: int, name: str, key: str, value: str) -> Config:
    return Config(resource_type=kind, resource_name=name, name=key, value=value)


def orders(*configs: Config) -> list[Any]:
    return [*three_brokers(), *topic("orders", TOPIC_ID, ((1, 2), (1, 2), 1)), *configs]


def describe(broker: Any, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: Any) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = ask(broker, DescribeConfigsRequest(resources=[resource], **more), version).results
    return result


def listed() -> list[dict[str, str]]:
    header, *rows = TABLE.read_text().splitlines()
    return [dict(zip(header.split("\t"), row.split("\t"), strict=True)) for row in rows]


def as_listed(entry: Any) -> dict[str, str]:
    """One config as the table writes it."""
    synonyms = "; ".join(f"{each.name}={each.value} ({ConfigSource(each.source).name})" for each in entry.synonyms)
    mutability = "read-only" if entry.read_only else "dynamic"
    return {
        "name": entry.name,
        "value": "null" if entry.value is None else entry.value,
        "type": ConfigType(entry.config_type).name,
        "mutability": mutability + (" sensitive" if entry.is_sensitive else ""),
        "source": ConfigSource(entry.config_source).name,
        "synonyms": synonyms,
    }


def test_every_config_of_kafka_is_described_as_kafka_describes_it() -> None:
    broker = a_broker(*orders(set_config(BROKER, "", "min.insync.replicas", "1")), settings=STATIC)
    reported = {}
    for kind, name in ((BROKER, "1"), (TOPIC, "orders")):
        for entry in describe(broker, kind, name, include_synonyms=True).configs:
            reported[kind.name, entry.name] = as_listed(entry)
    rows = listed()
    assert len(rows) > 370
    assert [row for row in rows if reported.get((row.pop("resource"), row["name"])) != row] == []


def test_sources_of_a_topics_config() -> None:
    configs = [
        set_config(TOPIC, "orders", "retention.bytes", "7"),
        set_config(BROKER, "1", "log.retention.bytes", "6"),
        set_config(BROKER, "", "log.retention.bytes", "5"),
        set_config(BROKER, "", "message.max.bytes", "999"),
    ]
    broker = a_broker(*orders(*configs), settings={"log.retention.bytes": 4, "log.roll.hours": 2})
    reported = {each.name: each for each in describe(broker, TOPIC, "orders", include_synonyms=True).configs}
    retention = reported["retention.bytes"]
    assert (retention.value, retention.config_source) == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert [(each.name, each.value, each.source) for each in retention.synonyms] == [
        ("retention.bytes", "7", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.bytes", "6", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("log.retention.bytes", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.bytes", "4", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.retention.bytes", "-1", ConfigSource.DEFAULT_CONFIG),
    ]
    size = reported["max.message.bytes"]
    assert (size.value, size.config_source) == ("999", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    # Set in hours: the right value, in ms, and as in Kafka no source but the default.
    roll = reported["segment.ms"]
    assert (roll.value, roll.config_source, roll.synonyms) == ("7200000", ConfigSource.DEFAULT_CONFIG, [])


def test_only_the_keys_requested_are_described_and_synonyms_only_on_request() -> None:
    broker = a_broker(*orders())
    reported = describe(broker, TOPIC, "orders", ["retention.ms", "min.insync.replicas", "nonsense"]).configs
    assert {each.name: each.synonyms for each in reported} == {"retention.ms": [], "min.insync.replicas": []}


def test_documentation_is_reported_from_v3_on_when_requested() -> None:
    broker = a_broker(*orders())
    (reported,) = describe(broker, BROKER, "1", ["admin.listeners"], 3, include_documentation=True).configs
    assert "admin" in reported.documentation
    (untold,) = describe(broker, BROKER, "1", ["admin.listeners"], 3).configs
    assert untold.documentation is None


def test_a_secrets_value_is_never_reported() -> None:
    broker = a_broker(
        *orders(), settings={"ssl.key.password": "hush", "listener.name.internal.ssl.key.password": "psst"}
    )
    result = describe(broker, BROKER, "1", include_synonyms=True)
    reported = {each.name: each for each in result.configs}
    for name in ("ssl.key.password", "listener.name.internal.ssl.key.password"):
        assert (reported[name].value, reported[name].is_sensitive) == (None, True)
        assert [each.value for each in reported[name].synonyms] == [None]
    assert "hush" not in repr(result)
    assert "psst" not in repr(result)


def test_the_cluster_wide_configs_are_those_that_were_set() -> None:
    broker = a_broker(
        *orders(set_config(BROKER, "", "message.max.bytes", "999"), set_config(BROKER, "1", "log.retention.bytes", "1"))
    )
    (reported,) = describe(broker, BROKER, "").configs
    assert (reported.name, reported.value, reported.config_source, reported.read_only) == (
        "message.max.bytes",
        "999",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        False,
    )


def test_requests_to_another_broker_are_reported_by_default() -> None:
    state = "kvorum.broker.state"
    broker = a_broker(*orders(set_config(BROKER, "2", state, "maintenance")))
    (reported,) = describe(broker, BROKER, "2", [state]).configs
    assert (reported.name, reported.value, reported.config_source) == (
        state,
        "maintenance",
        ConfigSource.DYNAMIC_BROKER_CONFIG,
    )
    (reported,) = describe(broker, BROKER, "3", [state]).configs
    assert (reported.value, reported.config_source) == ("active", ConfigSource.DEFAULT_CONFIG)
    assert describe(broker, BROKER, "2", [state, "num.io.threads"]).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("name", "source"), [("", "DYNAMIC_DEFAULT_BROKER_CONFIG"), ("1", "DYNAMIC_BROKER_CONFIG")])
def test_a_dynamic_broker_config_that_is_unknown_is_reported_as_a_secret(name: str, source: str) -> None:
    broker = a_broker(*orders(set_config(BROKER, name, "my.plugins.key", "hush")))
    (reported,) = describe(broker, BROKER, name, ["my.plugins.key"], include_synonyms=True).configs
    assert (reported.value, reported.is_sensitive, reported.read_only, reported.config_type) == (
        None,
        True,
        True,
        ConfigType.UNKNOWN,
    )
    assert [(each.value, ConfigSource(each.source).name) for each in reported.synonyms] == [(None, source)]


def test_a_brokers_id_is_reported_under_both_of_its_names() -> None:
    broker = a_broker(*orders())
    reported = describe(broker, BROKER, "1", ["broker.id", "node.id"], include_synonyms=True).configs
    assert {each.name: (each.value, each.config_source) for each in reported} == dict.fromkeys(
        ("broker.id", "node.id"), ("1", ConfigSource.STATIC_BROKER_CONFIG)
    )


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_resources_are_refused(kind: int, name: str, code: ErrorCode) -> None:
    rules = Rules({(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "secret")})
    result = describe(a_broker(*orders(), authorizer=rules), kind, name)
    assert (result.error_code, result.resource_type, result.resource_name, result.configs) == (code, kind, name, [])


@pytest.mark.parametrize("kind", [BROKER, LOGGER, METRICS])
def test_describing_a_broker_requires_permission(kind: int) -> None:
    rules = Rules({(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)})
    result = describe(a_broker(*orders(), authorizer=rules), kind, "1")
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_brokers_loggers_are_reported_with_their_levels() -> None:
    broker = a_broker(*orders())
    reported = {each.name: each for each in describe(broker, LOGGER, "1", include_documentation=True).configs}
    assert {"root", "broker", "network"} <= reported.keys()
    assert {each.value for each in reported.values()} == {kafka_name(logs.get_level())}
    row = reported["broker"]
    assert (row.config_source, row.read_only, row.is_sensitive, row.synonyms, row.config_type, row.documentation) == (
        *(ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, [], 0, ""),
    )
    assert [each.name for each in describe(broker, LOGGER, "1", ["root", "nobody"]).configs] == ["root"]


def test_a_subscription_to_client_metrics_is_described_whether_there_is_one_or_not() -> None:
    broker = a_broker(*orders(set_config(METRICS, "all", "metrics", "a., b.")))
    reported = {
        each.name: (each.value, each.config_source, each.config_type, each.read_only, len(each.synonyms))
        for each in describe(broker, METRICS, "all", include_synonyms=True).configs
    }
    default = ConfigSource.DEFAULT_CONFIG
    assert reported == {
        "metrics": ("a.,b.", ConfigSource.CLIENT_METRICS_CONFIG, ConfigType.LIST, False, 1),
        "interval.ms": ("300000", default, ConfigType.INT, False, 0),
        "match": ("", default, ConfigType.LIST, False, 0),
    }
    assert {each.config_source for each in describe(broker, METRICS, "none").configs} == {default}


def test_resources_with_configs_are_listed() -> None:
    broker = a_broker(*orders(set_config(METRICS, "all", "metrics", "*")))
    (only,) = ask(broker, ListConfigResourcesRequest(), 0).config_resources
    assert only.resource_name == "all"
    everything = ask(broker, ListConfigResourcesRequest(), 1).config_resources
    assert {(each.resource_type, each.resource_name) for each in everything} == {
        (TOPIC, "orders"),
        (METRICS, "all"),
        *((kind, str(broker_id)) for kind in (BROKER, LOGGER) for broker_id in (1, 2, 3)),
    }
    assert ask(broker, ListConfigResourcesRequest(resource_types=[99]), 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    rules = Rules({(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)})
    refused = ask(a_broker(*orders(), authorizer=rules), ListConfigResourcesRequest(), 1)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
