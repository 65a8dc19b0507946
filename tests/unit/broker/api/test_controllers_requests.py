"""The controller's requests: taken there in the client's name, refused here only where the broker has to judge."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.api import BROKER_APIS, ApiKey
from kvorum.protocol.broker_loggers import levels_by_name
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.runtime import logs
from kvorum.security.principal import Principal
from tests.unit.broker.api.api_kit import Forwarded, Rules, a_broker, ask

ALICE = Principal("User", "alice")
TOPIC, BROKER, LOGGER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER
SET, DELETE, APPEND = 0, 1, 2

REQUESTS = [
    create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="a")]),
    delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="a")], topic_names=["a"]),
    create_partitions.CreatePartitionsRequest(topics=[create_partitions.CreatePartitionsTopic(name="a", count=3)]),
    elect_leaders.ElectLeadersRequest(topic_partitions=[elect_leaders.TopicPartitions(topic="a", partitions=[0])]),
    alter_configs.AlterConfigsRequest(
        resources=[alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="a")]
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="a")]
    ),
    unregister_broker.UnregisterBrokerRequest(broker_id=2),
    update_features.UpdateFeaturesRequest(),
    describe_quorum.DescribeQuorumRequest(),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                name="a", partitions=[alter_partition_reassignments.ReassignablePartition(replicas=[1])]
            )
        ]
    ),
    list_partition_reassignments.ListPartitionReassignmentsRequest(
        topics=[list_partition_reassignments.ListPartitionReassignmentsTopics(name="a", partition_indexes=[0])]
    ),
]
NAMES = [type(each).__name__ for each in REQUESTS]


def empty_answer(request: Any) -> Any:
    """What a controller answers that has nothing to say."""
    module = __import__(type(request).__module__, fromlist=["x"])
    return getattr(module, type(request).__name__.replace("Request", "Response"))()


@pytest.mark.parametrize("request_", REQUESTS, ids=NAMES)
def test_a_request_of_the_controllers_goes_there_in_the_clients_name(request_: Any) -> None:
    first, last = BROKER_APIS[ApiKey(request_.API_KEY)]
    for version in range(first, last + 1):
        controller = Forwarded(empty_answer)
        ask(a_broker(controller=controller), request_, version, principal=ALICE, client_address="10.0.0.9")
        ((ctx, sent),) = controller.seen
        assert (ctx.principal, ctx.client_address, ctx.api_version) == (ALICE, "10.0.0.9", version)
        assert type(sent) is type(request_)


def codes_in(value: Any) -> set[int]:
    """Every error code anywhere in an answer, but for topic_config_error_code."""
    found: set[int] = set()
    for field in type(value).FIELDS:
        inner = getattr(value, field.name)
        if field.name == "error_code":
            found.add(inner)
        elif field.struct is not None and field.array:
            found.update(*(codes_in(each) for each in inner or ()), ())
    return found


@pytest.mark.parametrize("request_", REQUESTS, ids=NAMES)
def test_a_controller_that_is_not_reached_is_reported_for_everything_queried(request_: Any) -> None:
    first, last = BROKER_APIS[ApiKey(request_.API_KEY)]
    for version in range(first, last + 1):
        controller = Forwarded(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"))
        answer = ask(a_broker(controller=controller), request_, version)
        assert codes_in(answer) - {0} == {ErrorCode.REQUEST_TIMED_OUT}, version


def incremental(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> Any:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in configs
                ],
            )
            for kind, name, configs in resources
        ]
    )


def replacing(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> Any:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, _, value in configs],
            )
            for kind, name, configs in resources
        ]
    )


def echo(request: Any) -> Any:
    """A controller that takes everything."""
    answer = empty_answer(request)
    module = __import__(type(request).__module__, fromlist=["x"])
    for each in request.resources:
        answer.responses.append(
            module.AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
        )
    return answer


JUDGED = [
    (BROKER, "1", [("log.cleaner.threads", SET, "2")], ErrorCode.NONE),
    (BROKER, "1", [("some.plugins.key", SET, "x")], ErrorCode.NONE),
    (BROKER, "1", [("log.cleaner.threads", SET, "abc")], ErrorCode.INVALID_REQUEST),
    (BROKER, "1", [("node.id", SET, "2")], ErrorCode.INVALID_REQUEST),
    (BROKER, "2", [("log.cleaner.threads", SET, "2")], ErrorCode.INVALID_REQUEST),
    (BROKER, "2", [("kvorum.broker.state", SET, "maintenance")], ErrorCode.NONE),
    (BROKER, "2", [("kvorum.broker.state", SET, "asleep")], ErrorCode.INVALID_REQUEST),
    (BROKER, "2", [("kvorum.broker.state", SET, "active"), ("num.io.threads", SET, "2")], ErrorCode.INVALID_REQUEST),
    (BROKER, "", [("kvorum.broker.state", SET, "maintenance")], ErrorCode.INVALID_REQUEST),
    (BROKER, "one", [("log.cleaner.threads", SET, "2")], ErrorCode.INVALID_REQUEST),
    (BROKER, "", [("log.retention.ms", SET, "2")], ErrorCode.NONE),
    (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], ErrorCode.INVALID_REQUEST),
    (BROKER, "1", [("listener.name.plaintext.ssl.key.password", SET, "hush")], ErrorCode.INVALID_CONFIG),
    (BROKER, "1", [("listener.name.tls.ssl.keystore.key", SET, "hush")], ErrorCode.INVALID_CONFIG),
    (BROKER, "1", [("listener.name.a.scram-sha-256.sasl.jaas.config", SET, "hush")], ErrorCode.INVALID_CONFIG),
    (BROKER, "", [("listener.name.plaintext.ssl.key.password", SET, "hush")], ErrorCode.INVALID_REQUEST),
    (TOPIC, "a", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
    (TOPIC, "a", [("whatever", SET, "is the controller's to judge")], ErrorCode.NONE),
    (77, "x", [], ErrorCode.INVALID_REQUEST),
    (0, "x", [], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize("make", [incremental, replacing])
@pytest.mark.parametrize(("kind", "name", "configs", "code"), JUDGED)
def test_changes_of_configs_are_judged_where_the_broker_knows_better(make, kind, name, configs, code) -> None:
    controller = Forwarded(echo)
    (reported,) = ask(a_broker(controller=controller), make((kind, name, configs)), 1).responses
    assert (reported.error_code, reported.resource_type, reported.resource_name) == (code, kind, name)
    assert bool(controller.seen) is (code is ErrorCode.NONE)


def test_a_deleted_config_needs_no_value() -> None:
    controller = Forwarded(echo)
    deleted = [("log.cleaner.threads", DELETE, None), ("ssl.key.password", DELETE, None)]
    sent = incremental((TOPIC, "a", [("retention.ms", DELETE, None)]), (BROKER, "1", deleted))
    assert [each.error_code for each in ask(a_broker(controller=controller), sent, 1).responses] == [0, 0]


@pytest.mark.parametrize("make", [incremental, replacing])
def test_a_secret_goes_nowhere_and_is_not_repeated_in_the_refusal(make) -> None:
    controller = Forwarded(echo)
    request = make((BROKER, "1", [("listener.name.plaintext.ssl.key.password", SET, "hush")]))
    (reported,) = ask(a_broker(controller=controller), request, 1).responses
    assert reported.error_code == ErrorCode.INVALID_CONFIG
    assert "ssl.key.password" in reported.error_message and "unencrypted" in reported.error_message
    assert "hush" not in reported.error_message and not controller.seen


@pytest.mark.parametrize("make", [incremental, replacing])
def test_a_resource_named_twice_is_refused_and_the_others_continue(make) -> None:
    controller = Forwarded(echo)
    answer = ask(a_broker(controller=controller), make((TOPIC, "a", []), (TOPIC, "b", []), (TOPIC, "a", [])), 1)
    assert sorted((each.resource_name, each.error_code) for each in answer.responses) == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", 0),
    ]
    ((_, sent),) = controller.seen
    assert [each.resource_name for each in sent.resources] == ["b"]


@pytest.fixture
def levels() -> Iterator[Callable[[], dict[str, str]]]:
    """Levels of the loggers, by Kafka's names; they are as before at the end."""
    root, before = logs.get_level(), logs.get_levels()
    yield lambda: levels_by_name(logs.get_level(), logs.get_levels())
    logs.set_level(root)
    for name in logs.get_levels():
        logs.set_level(None, name)
    assert logs.get_levels() == before | {name: root for name in logs.get_levels() if name not in before}


def test_log_levels_are_set_on_this_broker_and_at_once(levels: Callable[[], dict[str, str]]) -> None:
    """The root's counts for every logger that has none of its own."""
    controller = Forwarded(echo)
    broker = a_broker(controller=controller)

    def alter(*configs: tuple[str, int, str | None], validate_only: bool = False) -> tuple[int, str | None]:
        sent = incremental((LOGGER, "1", list(configs)))
        sent.validate_only = validate_only
        (reported,) = ask(broker, sent, 1).responses
        return reported.error_code, reported.error_message

    assert alter(("root", SET, "ERROR"), ("broker", SET, "TRACE")) == (ErrorCode.NONE, None)
    assert (levels()["root"], levels()["broker"], levels()["network"]) == ("ERROR", "TRACE", "ERROR")
    assert alter(("broker", SET, "WARN"), validate_only=True) == (ErrorCode.NONE, None)
    assert levels()["broker"] == "TRACE"
    assert alter(("broker", SET, "WARN")) == (ErrorCode.NONE, None)
    assert levels()["broker"] == "WARN"
    assert alter(("broker", DELETE, None)) == (ErrorCode.NONE, None)
    assert levels()["broker"] == "ERROR"
    assert controller.seen == []


@pytest.mark.parametrize(
    ("name", "config", "code", "word"),
    [
        ("1", ("nobody", SET, "DEBUG"), ErrorCode.INVALID_CONFIG, "Logger nobody does not exist!"),
        ("1", ("nobody", DELETE, None), ErrorCode.INVALID_CONFIG, "Logger nobody does not exist!"),
        ("1", ("root", SET, "debug"), ErrorCode.INVALID_CONFIG, "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        ("1", ("root", SET, "OFF"), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
        ("1", ("root", 2, "DEBUG"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        ("1", ("root", 3, "DEBUG"), ErrorCode.INVALID_REQUEST, "SUBTRACT operation is not allowed"),
        ("1", ("root", 4, "DEBUG"), ErrorCode.INVALID_REQUEST, "Unknown operation type 4"),
        ("2", ("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST, "Expected 1, but received 2"),
        ("one", ("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST, "must be an integer"),
    ],
)
def test_a_refused_change_of_log_levels_changes_none(
    name: str, config: Any, code: ErrorCode, word: str, levels: Callable[[], dict[str, str]]
) -> None:
    before = levels()
    sent = incremental((LOGGER, name, [("broker", SET, "TRACE"), config]))
    (reported,) = ask(a_broker(), sent, 1).responses
    assert (reported.error_code, levels()) == (code, before)
    assert word in reported.error_message


def test_log_levels_require_permission() -> None:
    rules = Rules({(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)})
    sent = incremental((LOGGER, "1", []))
    (reported,) = ask(a_broker(authorizer=rules), sent, 1).responses
    assert reported.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
