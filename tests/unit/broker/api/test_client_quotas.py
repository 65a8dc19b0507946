"""Quotas as a broker's clients see them: described from its metadata, changed by the controller, kept to by Fetch."""

from typing import Any

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, NoQuotas, Operation, ResourceType
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest
from kvorum.protocol.messages.fetch import FetchRequest, ReplicaState
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import ZERO_UUID
from kvorum.quorum.image.client_quotas import entity_of, quota_record
from tests.unit.broker.api.api_kit import Forwarded, Rules, a_broker, ask, three_brokers
from tests.unit.broker.api.test_fetch import Replicas, a_fetching_broker, request, rows_of

EXACT, DEFAULT, ANY = 0, 1, 2
QUOTAS = [
    quota_record(entity_of(entity), "producer_byte_rate", value)
    for value, entity in enumerate(
        [
            [("user", "ann")],
            [("user", None)],
            [("user", "ann"), ("client-id", "app")],
            [("user", None), ("client-id", "app")],
            [("client-id", "app")],
            [("ip", "10.0.0.1")],
        ],
        start=1,
    )
]


def describe(*components: tuple[str, int, str | None], strict: bool = False, version: int = 1, **parts: Any) -> Any:
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    broker = a_broker(*three_brokers(), *QUOTAS, **parts)
    return ask(broker, DescribeClientQuotasRequest(components=wanted, strict=strict), version)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "loose", "strict"),
    [
        ([], [1, 2, 3, 4, 5, 6], []),
        ([("user", EXACT, "ann")], [1, 3], [1]),
        ([("user", DEFAULT, None)], [2, 4], [2]),
        ([("user", ANY, None)], [1, 2, 3, 4], [1, 2]),
        ([("client-id", ANY, None)], [3, 4, 5], [5]),
        ([("client-id", EXACT, "app"), ("user", ANY, None)], [3, 4], [3, 4]),
        ([("client-id", EXACT, "app"), ("user", DEFAULT, None)], [4], [4]),
        ([("ip", EXACT, "10.0.0.1")], [6], [6]),
        ([("ip", DEFAULT, None)], [], []),
        ([("user", EXACT, "bob")], [], []),
    ],
    ids=str,
)
def test_entities_are_found_by_the_filter(version: int, components: Any, loose: Any, strict: Any) -> None:
    for is_strict, expected in ((False, loose), (True, strict)):
        answer = describe(*components, strict=is_strict, version=version)
        assert answer.error_code == 0
        assert sorted(entry.values[0].value for entry in answer.entries) == expected


def test_an_entity_is_reported_with_its_types_and_names() -> None:
    (entry,) = describe(("user", DEFAULT, None), ("client-id", ANY, None)).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("client-id", "app"), ("user", None)]
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 4.0)]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, "a"), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("client-id", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_is_refused(components: Any, code: ErrorCode) -> None:
    answer = describe(*components)
    assert answer.error_code == code and answer.error_message and answer.entries is None


def test_describing_cluster_configs_without_permission_is_an_error() -> None:
    rules = Rules({(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)})
    answer = describe(authorizer=rules)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and answer.entries is None


class Held(NoQuotas):
    """Quotas that hold everybody back for so long."""

    enabled = True

    def __init__(self, ms: int, bytes_max: int = 1 << 30) -> None:
        self.ms = ms
        self.bytes_max = bytes_max
        self.fetched: list[int] = []

    def throttle_ms(self, ctx: Any, *, produced: int = 0, exempt: bool = False) -> int:
        return 0 if exempt else self.ms

    def fetch_throttle_ms(self, ctx: Any, fetched: int) -> int:
        self.fetched.append(fetched)
        return self.ms

    def fetch_bytes_max(self, ctx: Any) -> int:
        return self.bytes_max


@pytest.mark.parametrize("own", [20, 70])
def test_a_change_is_the_controllers_and_the_longer_throttle_time_counts(own: int) -> None:
    controller = Forwarded(lambda _: AlterClientQuotasResponse(throttle_time=50))
    broker = a_broker(controller=controller, quotas=Held(own))
    assert ask(broker, AlterClientQuotasRequest(), 1).throttle_time == max(own, 50)


@pytest.mark.parametrize(
    ("refused", "version"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=ZERO_UUID)]), 11),
        (ApiVersionsRequest(client_software_name="-no-", client_software_version="1"), 3),
        (AddPartitionsToTxnRequest(), 4),
        (FetchRequest(isolation_level=7), 12),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_handler_that_refuses_a_whole_request_counts_it(refused: Message, version: int) -> None:
    nobody = Rules({(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)})
    broker = a_broker(*three_brokers(), quotas=Held(40), authorizer=nobody)
    answer = ask(broker, refused, version)
    assert (answer.error_code != 0 or refused.API_KEY == ApiKey.METADATA) and answer.throttle_time == 40


@pytest.mark.parametrize(("software", "throttle_ms"), [("kvorum", 0), ("librdkafka", 20)])
def test_the_first_requests_of_a_node_on_a_connection_are_exempt_from_quotas(software: str, throttle_ms: int) -> None:
    broker = a_broker(quotas=Held(20))
    versions = ApiVersionsRequest(client_software_name=software, client_software_version="1")
    assert ask(broker, versions, 3).throttle_time == throttle_ms
    assert ask(broker, DescribeClusterRequest(), 1, software_name=software).throttle_time == throttle_ms


def test_without_a_controller_each_entity_is_reported() -> None:
    entity = RequestEntityData(entity_type="user", entity_name=None)
    entry = RequestEntryData(entity=[entity], ops=[OpData(key="k", value=1.0)])
    broker = a_broker(controller=Forwarded(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody")))
    (row,) = ask(broker, AlterClientQuotasRequest(entries=[entry]), 0).entries
    assert (row.error_code, row.error_message) == (ErrorCode.REQUEST_TIMED_OUT, "nobody")
    assert (row.entity[0].entity_type, row.entity[0].entity_name) == ("user", None)


def test_a_consumer_over_its_quota_gets_an_empty_answer_and_everything_later() -> None:
    quotas = Held(40)
    broker = a_fetching_broker(Replicas(), quotas=quotas)
    held = ask(broker, request(0, 1, session_epoch=0), 12)
    assert (held.throttle_time, held.session_id, held.responses, held.error_code) == (40, 0, [], 0)
    assert quotas.fetched == [2 * len(b"records")]
    quotas.ms = 0
    first = ask(broker, request(0, 1, session_epoch=0), 12)
    assert first.throttle_time == 0 and len(rows_of(first)) == 2 and first.session_id
    quotas.ms = 40
    again = FetchRequest(session_id=first.session_id, session_epoch=1, max_wait=0, min_bytes=1, max_bytes=10_000)
    held = ask(broker, again, 12)
    assert (held.throttle_time, held.session_id, held.responses, held.error_code) == (40, first.session_id, [], 0)
    stray = ask(broker, again, 12)
    assert stray.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    quotas.ms = 0
    again.session_epoch = 2
    assert len(rows_of(ask(broker, again, 12))) == 2, "nothing was told before, all of it is now"


def test_a_consumer_is_limited_by_its_quota_and_a_follower_is_not() -> None:
    replicas = Replicas()
    broker = a_fetching_broker(replicas, quotas=Held(0, bytes_max=300))
    ask(broker, request(0), 12)
    ask(broker, request(0, max_bytes=100), 12)
    assert [params.max_bytes for params in replicas.params] == [300, 100]
    broker.quotas = Held(40, bytes_max=300)
    follower = ask(broker, request(0, replica_state=ReplicaState(replica_id=2, replica_epoch=2)), 15)
    assert follower.throttle_time == 0 and len(rows_of(follower)) == 1
    assert replicas.params[-1].max_bytes == 10_000 and broker.quotas.fetched == []
