"""DescribeConfigs of a controller that is asked directly: of itself and of what the metadata say, whoever leads."""

from typing import Any

import pytest

from kvorum.network.authorizer import AllowAll, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.broker_loggers import kafka_name
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.quorum.api.registry import served_versions
from kvorum.quorum.image.configs import ResourceType as Kind
from kvorum.runtime import logs
from kvorum.runtime.config import ConfigSource
from tests.unit.quorum.runtime.runtime_kit import World

TRUSTSTORE = "ssl.truststore.password"


class NothingDescribed(AllowAll):
    """Everything but this."""

    def authorize(
        self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return operation is not Operation.DESCRIBE_CONFIGS


def describe(world: World, kind: int, name: str, keys: list[str] | None = None, **more: Any) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = world.run(world.ask(DescribeConfigsRequest(resources=[resource], **more))).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def alter(world: World, kind: int, name: str, key: str, value: str) -> None:
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    (row,) = world.run(world.ask(IncrementalAlterConfigsRequest(resources=[resource]))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def reported(result: Any) -> dict[str, tuple[str | None, int]]:
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {each.name: (each.value, each.config_source) for each in result.configs}


def test_it_is_advertised() -> None:
    assert served_versions()[DescribeConfigsRequest.API_KEY] == (1, 4)


def test_a_controller_that_does_not_lead_describes_itself() -> None:
    world = World(**{"log.retention.hours": 3, TRUSTSTORE: "swordfish"})
    assert not world.server.services.is_serving()
    found = describe(world, Kind.BROKER, "1", include_synonyms=True, include_documentation=True)
    configs = {each.name: each for each in found.configs}
    assert reported(found)["node.id"] == ("1", ConfigSource.STATIC_BROKER_CONFIG)
    assert reported(found)["log.retention.hours"] == ("3", ConfigSource.STATIC_BROKER_CONFIG)
    assert reported(found)["num.partitions"] == ("1", ConfigSource.DEFAULT_CONFIG)
    secret = configs[TRUSTSTORE]
    assert (secret.value, secret.is_sensitive) == (None, True)
    assert {each.value for each in secret.synonyms} == {None}
    hours = [(each.name, each.value, each.source) for each in configs["log.retention.hours"].synonyms]
    assert hours == [
        ("log.retention.hours", "3", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]
    assert configs["node.id"].documentation and configs["node.id"].read_only
    bare = describe(world, Kind.BROKER, "1", ["node.id"])
    assert [(each.name, each.documentation, each.synonyms) for each in bare.configs] == [("node.id", None, [])]
    world.end()


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (Kind.BROKER, "7", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (Kind.BROKER, "me", "Broker id must be an integer, but it is: me"),
        (Kind.BROKER_LOGGER, "7", "Unexpected broker id, expected 1, but received 7"),
        (Kind.BROKER_LOGGER, "", "Broker id must not be empty"),
        (Kind.GROUP, "", "Group name must not be empty"),
        (77, "x", "Unsupported resource type: 77"),
    ],
)
def test_configs_of_other_nodes_are_refused(world: World, kind: int, name: str, message: str) -> None:
    refused = describe(world, kind, name)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_topics_and_their_absence(world: World) -> None:
    world.elect()
    world.run(world.join(1, 2))
    world.run(world.create_topic("orders"))
    alter(world, Kind.TOPIC, "orders", "retention.ms", "5")
    orders = reported(describe(world, Kind.TOPIC, "orders"))
    assert orders["retention.ms"] == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert orders["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT_CONFIG)
    assert describe(world, Kind.TOPIC, "nothere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(world, Kind.TOPIC, "not here").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_dynamic_configs_of_all_brokers_and_of_itself(world: World) -> None:
    world.elect()
    alter(world, Kind.BROKER, "", "log.retention.ms", "7")
    default = {"log.retention.ms": ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)}
    assert reported(describe(world, Kind.BROKER, "")).items() > default.items()
    assert reported(describe(world, Kind.BROKER, "", ["log.retention.ms"])) == default
    assert reported(describe(world, Kind.BROKER, "1", ["log.retention.ms"])) == default
    alter(world, Kind.BROKER, "1", "log.retention.ms", "9")
    own = describe(world, Kind.BROKER, "1", ["log.retention.ms"], include_synonyms=True)
    assert reported(own) == {"log.retention.ms": ("9", ConfigSource.DYNAMIC_BROKER_CONFIG)}
    assert [(each.value, each.source) for each in own.configs[0].synonyms] == [
        ("9", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("168", ConfigSource.DEFAULT_CONFIG),
    ]
    state = reported(describe(world, Kind.BROKER, "2", ["kvorum.broker.state"]))
    assert state == {"kvorum.broker.state": ("active", ConfigSource.DEFAULT_CONFIG)}, "the metadata alone know it"


def test_groups_and_subscriptions_to_clients_metrics(world: World) -> None:
    world.elect()
    alter(world, Kind.GROUP, "pay", "consumer.session.timeout.ms", "50000")
    alter(world, Kind.CLIENT_METRICS, "sub", "interval.ms", "1000")
    pay = reported(describe(world, Kind.GROUP, "pay"))
    assert pay["consumer.session.timeout.ms"] == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    sub = reported(describe(world, Kind.CLIENT_METRICS, "sub", ["interval.ms"]))
    assert sub == {"interval.ms": ("1000", ConfigSource.CLIENT_METRICS_CONFIG)}


def test_loggers_are_this_process_s(world: World) -> None:
    found = reported(describe(world, Kind.BROKER_LOGGER, "1"))
    assert {value for _, value in found.values()} == {ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG}
    assert found["root"][0] == kafka_name(logs.get_level())
    assert {"quorum", "network"} <= found.keys()
    assert list(reported(describe(world, Kind.BROKER_LOGGER, "1", ["quorum"]))) == ["quorum"]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (Kind.TOPIC, "secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Kind.GROUP, "secret", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (Kind.BROKER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (Kind.BROKER_LOGGER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (Kind.CLIENT_METRICS, "sub", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_describing_without_permission_is_an_error(world: World, kind: int, name: str, code: ErrorCode) -> None:
    world.server.services.authorizer = NothingDescribed()
    refused = describe(world, kind, name)
    assert (refused.error_code, refused.configs) == (code, [])
