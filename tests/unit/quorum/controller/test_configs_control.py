"""Config changes, incremental and legacy, each decision with its error code; and the schema behind them."""

from collections.abc import Mapping

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import alter_configs as legacy
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.quorum.configs.alterations import Operation
from kvorum.quorum.controller.config_schema import CONFIG_LENGTH_MAX, CONFIGS_PER_RESOURCE_MAX
from kvorum.quorum.controller.configs_control import (
    CONFIGS_MAX,
    alter_configs,
    incremental_alter_configs,
)
from kvorum.quorum.image.configs import ResourceType
from kvorum.runtime import config_defs
from tests.unit.quorum.controller.controller_kit import CONTROLLER_ID, World

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT

Alteration = tuple[str, int, str | None]


@pytest.fixture
def world() -> World:
    """Broker 1, a topic with one config."""
    world = World(controller_ids=frozenset({CONTROLLER_ID, 101}))
    world.start(1)
    world.topic("a", (1,), retention_ms="1000")
    return world


def resource(kind: int, name: str, *alterations: Alteration) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in alterations],
    )


def alter(world: World, *resources: AlterConfigsResource, validate_only: bool = False) -> list[int]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = world.do(incremental_alter_configs, request)
    assert all((answer.error_message is None) == (answer.error_code == 0) for answer in response.responses)
    return [answer.error_code for answer in response.responses]


def of_topic(world: World) -> Mapping[str, str]:
    return dict(world.image.configs.topic("a"))


def test_configs_are_set_and_removed(world: World) -> None:
    change = resource(TOPIC, "a", ("retention.ms", DELETE, None), ("max.message.bytes", SET, "2000"))
    assert alter(world, change) == [ErrorCode.NONE]
    assert of_topic(world) == {"max.message.bytes": "2000"}


def test_a_value_that_is_set_already_is_written_again_for_brokers_only(world: World) -> None:
    offset = world.next_offset
    assert alter(world, resource(TOPIC, "a", ("retention.ms", SET, "1000"))) == [ErrorCode.NONE]
    assert world.next_offset == offset
    change = resource(BROKER, "1", ("log.cleaner.threads", SET, "2"))
    assert alter(world, change) == alter(world, change) == [ErrorCode.NONE]
    assert world.next_offset == offset + 2
    assert dict(world.image.configs.of(BROKER, "1")) == {"log.cleaner.threads": "2"}


def test_lists_are_appended_to_and_subtracted_from(world: World) -> None:
    steps: list[tuple[int, str, str | None]] = [
        (APPEND, "compact", "delete,compact"),  # begins with the default
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (APPEND, "delete,compact", "compact,delete"),
        (DELETE, "", None),
    ]
    for operation, value, expected in steps:
        assert alter(world, resource(TOPIC, "a", ("cleanup.policy", operation, value))) == [ErrorCode.NONE]
        assert of_topic(world).get("cleanup.policy") == expected


def test_the_clusters_defaults_and_a_controllers_own_configs_can_be_set(world: World) -> None:
    for name in ("", "1", str(CONTROLLER_ID), "101"):
        assert alter(world, resource(BROKER, name, ("log.cleaner.threads", SET, "2"))) == [ErrorCode.NONE]
        assert world.image.configs.of(BROKER, name)["log.cleaner.threads"] == "2"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (resource(TOPIC, "a", ("no.such", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "a", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "a", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "a", ("retention.ms", SUBTRACT, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "a", ("cleanup.policy", APPEND, "burn")), ErrorCode.INVALID_CONFIG),
        (
            resource(TOPIC, "a", ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(TOPIC, "a", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "a", ("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "a", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "b", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "b", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "!", ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(BROKER, "x", ("log.cleaner.threads", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "²", ("log.cleaner.threads", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "-1", ("log.cleaner.threads", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "9" * 5000, ("log.cleaner.threads", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "2", ("log.cleaner.threads", SET, "1")), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (resource(BROKER, "1", ("log.cleaner.threads", SET, "many")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "1", ("broker.session.timeout.ms", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://a:1")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "1", ("ssl.key.password", SET, "hush")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "", ("ssl.key.password", SET, "hush")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "1", ("listener.name.tls.ssl.keystore.password", SET, "hush")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "1", ("my.plugin.knob", SET, "1")), ErrorCode.NONE),
        (resource(0, "a", ("x", SET, "1")), ErrorCode.UNSUPPORTED_VERSION),
        (resource(3, "a", ("x", SET, "1")), ErrorCode.UNSUPPORTED_VERSION),
        (resource(8, "1", ("x", SET, "INFO")), ErrorCode.INVALID_REQUEST),
        (
            resource(16, "m", ("interval.ms", SET, "100"), ("metrics", SET, "*"), ("match", SET, "client_id=a.*")),
            ErrorCode.NONE,
        ),
        (resource(16, "m", ("interval.ms", SET, "99")), ErrorCode.INVALID_REQUEST),
        (resource(16, "m", ("interval.ms", SET, "3600001")), ErrorCode.INVALID_REQUEST),
        (resource(16, "m", ("interval.ms", SET, "soon")), ErrorCode.INVALID_CONFIG),
        (resource(16, "m", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(16, "m", ("match", SET, "client_id")), ErrorCode.INVALID_CONFIG),
        (resource(16, "m", ("match", SET, "client_id=a=b")), ErrorCode.INVALID_CONFIG),
        (resource(16, "m", ("match", SET, "name=a")), ErrorCode.INVALID_CONFIG),
        (resource(16, "m", ("match", SET, "client_id=(")), ErrorCode.INVALID_CONFIG),
        (resource(16, "m", ("metrics", APPEND, "a")), ErrorCode.INVALID_CONFIG),
        (resource(16, "", ("interval.ms", SET, "100")), ErrorCode.INVALID_REQUEST),
        (resource(32, "g", ("consumer.session.timeout.ms", SET, "50000")), ErrorCode.NONE),
        (resource(32, "g", ("consumer.heartbeat.interval.ms", SET, "5000")), ErrorCode.NONE),
        (resource(32, "g", ("consumer.session.timeout.ms", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(32, "g", ("consumer.session.timeout.ms", SET, "60001")), ErrorCode.INVALID_CONFIG),
        (resource(32, "g", ("consumer.session.timeout.ms", SET, "soon")), ErrorCode.INVALID_CONFIG),
        (resource(32, "g", ("retention.ms", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(32, "", ("consumer.session.timeout.ms", SET, "50000")), ErrorCode.INVALID_REQUEST),
    ],
)
def test_each_resource_gets_kafkas_code(world: World, change: AlterConfigsResource, code: ErrorCode) -> None:
    offset = world.next_offset
    assert alter(world, change) == [code]
    assert (world.next_offset > offset) == (code == ErrorCode.NONE)


SECRETS = sorted(each.name for each in config_defs.BROKER.values() if each.sensitive)


@pytest.mark.parametrize("key", [*SECRETS, *(f"listener.name.tls.{key}" for key in SECRETS)])
def test_no_secret_gets_into_the_metadata_by_either_request(world: World, key: str) -> None:
    """There is nothing yet to encode it with, and whoever reads `__cluster_metadata` would read it."""
    change = IncrementalAlterConfigsRequest(resources=[resource(BROKER, "1", (key, SET, "hush"))])
    whole = legacy.AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[legacy.AlterableConfig(name=key, value="hush")]
    )
    offset = world.next_offset
    answers = [
        *world.do(incremental_alter_configs, change).responses,
        *world.do(alter_configs, legacy.AlterConfigsRequest(resources=[whole])).responses,
    ]
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_CONFIG] * 2
    assert all(key in (answer.error_message or "") for answer in answers)
    assert not any("hush" in (answer.error_message or "") for answer in answers)
    assert world.next_offset == offset


def test_one_wrong_config_refuses_its_resource_and_no_other(world: World) -> None:
    world.topic("b", (1,))
    bad = resource(TOPIC, "a", ("max.message.bytes", SET, "2000"), ("retention.ms", SET, "x"))
    good = resource(TOPIC, "b", ("retention.ms", SET, "5"))
    assert alter(world, bad, good) == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert of_topic(world) == {"retention.ms": "1000"}
    assert dict(world.image.configs.topic("b")) == {"retention.ms": "5"}


def test_a_duplicate_resource_is_refused_once(world: World) -> None:
    change = resource(TOPIC, "a", ("retention.ms", SET, "5"))
    assert alter(world, change, change) == [ErrorCode.INVALID_REQUEST]
    assert of_topic(world) == {"retention.ms": "1000"}


def test_validate_only_changes_nothing(world: World) -> None:
    good = resource(TOPIC, "a", ("retention.ms", SET, "5"))
    assert alter(world, good, resource(TOPIC, "b"), validate_only=True) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert of_topic(world) == {"retention.ms": "1000"}


def test_a_request_of_too_many_configs_is_refused_as_a_whole(world: World) -> None:
    configs = [AlterableConfig(name=f"c{index}", value="1") for index in range(CONFIGS_MAX + 1)]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)]
    )
    assert world.refused(incremental_alter_configs, request) == ErrorCode.POLICY_VIOLATION


def replace(world: World, kind: int, name: str, *configs: tuple[str, str | None], validate_only: bool = False) -> int:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs],
            )
        ],
        validate_only=validate_only,
    )
    (answer,) = world.do(alter_configs, request).responses
    return answer.error_code


def test_the_legacy_request_replaces_everything(world: World) -> None:
    assert replace(world, TOPIC, "a", ("max.message.bytes", "2000"), validate_only=True) == ErrorCode.NONE
    assert of_topic(world) == {"retention.ms": "1000"}
    assert replace(world, TOPIC, "a", ("max.message.bytes", "2000"), ("segment.ms", "3000")) == ErrorCode.NONE
    assert of_topic(world) == {"max.message.bytes": "2000", "segment.ms": "3000"}
    assert replace(world, TOPIC, "a") == ErrorCode.NONE
    assert of_topic(world) == {}
    assert [tuple(each) for each in world.image.configs.resources] == [(BROKER, "")], (
        "the cluster's min.insync.replicas"
    )


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (TOPIC, "a", [("retention.ms", None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "a", [("segment.ms", "1"), ("segment.ms", "2")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "a", [("retention.ms", "x")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "b", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "7", [], ErrorCode.BROKER_ID_NOT_REGISTERED),
        (9, "a", [], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_the_legacy_request_is_refused_as_the_other(
    world: World, kind: int, name: str, configs: list[tuple[str, str | None]], code: ErrorCode
) -> None:
    assert replace(world, kind, name, *configs) == code
    assert of_topic(world) == {"retention.ms": "1000"}


def test_a_topics_min_isr_in_effect_never_exceeds_its_replication_factor(world: World) -> None:
    world.start(2)
    world.topic("b", (1, 2))
    topic = world.image.topics.topic("b")
    assert topic is not None
    assert world.context().effective_min_isr(topic) == 1
    alter(world, resource(BROKER, "", ("min.insync.replicas", SET, "2")))
    assert world.context().effective_min_isr(topic) == 2
    alter(world, resource(TOPIC, "b", ("min.insync.replicas", SET, "3")))
    assert world.context().effective_min_isr(topic) == 2


def test_values_too_large_for_a_record_are_refused(world: World) -> None:
    for size, code in ((CONFIG_LENGTH_MAX - 3, ErrorCode.NONE), (CONFIG_LENGTH_MAX, ErrorCode.INVALID_CONFIG)):
        assert alter(world, resource(BROKER, "1", ("my.", SET, "\x01" * size))) == [code]
    longest = "\x01" * (CONFIG_LENGTH_MAX + 1)
    assert alter(world, resource(BROKER, "1", (longest, SET, ""))) == [ErrorCode.INVALID_CONFIG]


def test_a_resource_has_a_limit_of_configs(world: World) -> None:
    many = [(f"plugin.{index}", int(SET), "1") for index in range(CONFIGS_PER_RESOURCE_MAX)]
    assert alter(world, resource(BROKER, "1", *many)) == [ErrorCode.NONE]
    assert alter(world, resource(BROKER, "1", ("plugin.more", SET, "1"))) == [ErrorCode.INVALID_CONFIG]
    assert alter(world, resource(BROKER, "1", ("plugin.1", DELETE, None))) == [ErrorCode.NONE]
