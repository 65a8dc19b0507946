"""ApiVersions, InitProducerId, DescribeProducers, DescribeLogDirs."""

from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.broker.api import registry
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kvorum.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.producer_state import ProducerEntry
from tests.unit.broker.api.api_kit import TOPIC_ID, Rules, a_broker, ask, three_brokers, topic

SOFTWARE = {"client_software_name": "a-client", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(5))
def test_served_apis_are_the_registered_ones(version: int) -> None:
    answer = ask(a_broker(), ApiVersionsRequest(**SOFTWARE), version)
    reported = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert reported == registry.advertised()
    assert reported[ApiKey.PRODUCE] == (0, 13)
    assert answer.error_code == 0


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        (3, ["metadata.version"]),
        (
            4,
            [
                *("eligible.leader.replicas.version", "group.version", "kraft.version", "metadata.version"),
                "transaction.version",
            ],
        ),
    ],
)
def test_features_are_reported_with_their_epoch(version: int, supported: list[str]) -> None:
    answer = ask(a_broker(), ApiVersionsRequest(**SOFTWARE), version)
    assert [each.name for each in answer.supported_features] == supported
    assert [(each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features] == [
        ("metadata.version", 9, 9)
    ]
    assert answer.finalized_features_epoch == 100


def test_a_client_with_an_impossible_name_is_refused() -> None:
    answer = ask(a_broker(), ApiVersionsRequest(client_software_name="-no-", client_software_version="1"), 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


def test_the_features_of_brokers_are_those_of_controllers() -> None:
    from kvorum.broker.metadata.features import SUPPORTED_FEATURES
    from kvorum.quorum.controller.features import SUPPORTED

    assert {
        name: (each.min_supported, each.max_supported) for name, each in SUPPORTED.items() if each.max_supported > 0
    } == SUPPORTED_FEATURES


class Ids:
    """Producer ids from 4000 on, or none."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code

    async def next_producer_id(self) -> int:
        if self.code is not ErrorCode.NONE:
            raise KafkaError(self.code)
        return 4000


@pytest.mark.parametrize("version", range(6))
def test_an_idempotent_producer_gets_an_id_with_epoch_0(version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)
    answer = ask(a_broker(producer_ids=Ids()), request, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 4000, 0)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "t", "transaction_timeout": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "t", "transaction_timeout": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "theirs"}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_identities_that_cannot_be_given_are_refused(values: dict[str, Any], code: ErrorCode) -> None:
    request = InitProducerIdRequest(**{"transactional_id": None, "producer_id": -1, "producer_epoch": -1, **values})
    rules = Rules({(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "theirs")})
    answer = ask(a_broker(producer_ids=Ids(), authorizer=rules), request, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_a_missing_id_block_is_a_retriable_error() -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)
    answer = ask(a_broker(producer_ids=Ids(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)), request, 4)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_id_needs_the_right_to_write_anything() -> None:
    idempotent = (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    write = (Operation.WRITE, ResourceType.TOPIC, "orders")
    made = [*three_brokers(), *topic("orders", TOPIC_ID, ((1,), (1,), 1))]
    request = InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)
    allowed = ask(a_broker(*made, producer_ids=Ids(), authorizer=Rules({idempotent})), request, 4)
    assert allowed.error_code == 0
    refused = ask(a_broker(*made, producer_ids=Ids(), authorizer=Rules({idempotent, write})), request, 4)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Led:
    """A replica manager that leads orders-0, with one producer."""

    def partition_or_raise(self, key: TopicPartition) -> Any:
        if key != ("orders", 0):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
        entry = ProducerEntry(producer_id=7, producer_epoch=2, last_timestamp=99)
        log = SimpleNamespace(producer_state=SimpleNamespace(producers={7: entry}))
        return SimpleNamespace(log_or_raise=lambda epoch, require_leader: log)


def test_the_producers_of_a_partition_are_described() -> None:
    rules = Rules({(Operation.READ, ResourceType.TOPIC, "secret")})
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name="orders", partition_indexes=[0, 1]),
            TopicRequest(name="secret", partition_indexes=[0]),
            TopicRequest(name="no name", partition_indexes=[0]),
        ]
    )
    answer = ask(a_broker(replica_manager=Led(), authorizer=rules), request, 0)
    rows = {(each.name, row.partition_index): row for each in answer.topics for row in each.partitions}
    (producer,) = rows["orders", 0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_timestamp) == (7, 2, 99)
    assert (producer.last_sequence, producer.current_txn_start_offset) == (-1, -1)
    assert rows["orders", 1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rows["secret", 0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert rows["no name", 0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


class Directories:
    """A log manager with one directory that works and one that failed."""

    dirs = (SimpleNamespace(path="/good", is_online=True), SimpleNamespace(path="/bad", is_online=False))

    def __init__(self) -> None:
        self.logs = [
            SimpleNamespace(partition=TopicPartition(name, 0), size=size, high_watermark=5, log_end_offset=7)
            for name, size in (("orders", 100), ("bills", 200))
        ]
        self.copies: list[Any] = []
        self.futures = SimpleNamespace(get=lambda key: next((e for e in self.copies if e.partition == key), None))

    def logs_in(self, directory: Any) -> list[Any]:
        return [*self.logs, *self.copies]

    def get_log(self, key: TopicPartition) -> Any:
        return next((each for each in self.logs if each.partition == key), None)

    def is_cordoned(self, directory: Any) -> bool:
        return bool(directory.path == "/good")


def a_storing_broker(**parts: Any) -> Any:
    disk = SimpleNamespace(free_bytes=lambda path: 12345, total_bytes=lambda path: 99999)
    return a_broker(log_manager=Directories(), disk=disk, **parts)


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_are_described(version: int) -> None:
    good, bad = ask(a_storing_broker(), DescribeLogDirsRequest(topics=None), version).results
    sizes = {
        each.name: [(row.partition_index, row.partition_size, row.offset_lag) for row in each.partitions]
        for each in good.topics
    }
    assert (good.log_dir, good.error_code, sizes) == ("/good", 0, {"orders": [(0, 100, 0)], "bills": [(0, 200, 0)]})
    assert (bad.log_dir, bad.error_code, bad.topics) == ("/bad", ErrorCode.KAFKA_STORAGE_ERROR, [])
    if version >= 4:
        assert (good.usable_bytes, good.total_bytes) == (12345, 99999)
        assert (bad.usable_bytes, bad.total_bytes) == (-1, -1)
    if version >= 5:
        assert (good.is_cordoned, bad.is_cordoned) == (True, False)


def test_a_future_replica_is_described_with_its_lag() -> None:
    broker = a_storing_broker()
    copies = broker.log_manager.copies
    copies += [
        SimpleNamespace(partition=TopicPartition(name, 0), size=1, high_watermark=2, log_end_offset=3)
        for name in ("orders", "gone")
    ]
    good, _ = ask(broker, DescribeLogDirsRequest(topics=None), 4).results
    rows = {(each.name, row.is_future_key): row.offset_lag for each in good.topics for row in each.partitions}
    assert rows == {("orders", False): 0, ("bills", False): 0, ("orders", True): 4, ("gone", True): -1}


def test_only_the_partitions_requested_are_described() -> None:
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="orders", partitions=[0, 1])])
    good, _ = ask(a_storing_broker(), request, 4).results
    assert [each.name for each in good.topics] == ["orders"]


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
def test_describing_log_directories_requires_permission(version: int, code: int) -> None:
    rules = Rules({(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)})
    answer = ask(a_storing_broker(authorizer=rules), DescribeLogDirsRequest(topics=None), version)
    assert (answer.error_code, answer.results) == (code, [])
