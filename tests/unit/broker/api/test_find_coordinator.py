"""FindCoordinator: the leader of the partition that a group or a transactional id lives on."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.unit.broker.api.api_kit import OTHER_ID, TOPIC_ID, Rules, a_broker, ask, three_brokers, topic

SHARE_KEY = f"group:{TOPIC_ID}:3"
LED_BY_1, LED_BY_2, LED_BY_FENCED, UNLED = (((1,), (1,), leader) for leader in (1, 2, 3, -1))


@dataclass
class Topics:
    """Topics that are there, or not yet."""

    refusal: KafkaError | None = None
    requested: list[str] = field(default_factory=list)

    async def ensure(self, name: str) -> None:
        self.requested.append(name)
        await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal


def a_cluster(*partitions: Any, **parts: Any) -> Any:
    """A broker that knows both internal topics, with these partitions."""
    made = [
        *three_brokers(),
        *topic("__consumer_offsets", TOPIC_ID, *partitions),
        *topic("__transaction_state", OTHER_ID, *partitions),
    ]
    return a_broker(*made, internal_topics=parts.pop("internal_topics", Topics()), **parts)


@pytest.mark.parametrize("version", range(7))
def test_a_key_is_coordinated_by_the_leader_of_its_partition(version: int) -> None:
    """Java's hash of "g" is 103, of "h" 104."""
    topics = Topics()
    broker = a_cluster(LED_BY_1, LED_BY_2, internal_topics=topics)
    for key, node_id in (("g", 2), ("h", 1)):
        for key_type in (0, 1) if version >= 1 else (0,):
            request = (
                FindCoordinatorRequest(coordinator_keys=[key]) if version >= 4 else FindCoordinatorRequest(key=key)
            )
            if version >= 1:
                request.key_type = key_type
            answer = ask(broker, request, version)
            reported = answer.coordinators[0] if version >= 4 else answer
            assert (reported.error_code, reported.node_id, reported.host) == (0, node_id, f"plaintext-{node_id}")
            assert reported.port == 9000 + node_id
    assert set(topics.requested) == {"__consumer_offsets", "__transaction_state"} if version else {"__consumer_offsets"}


def test_several_keys_are_answered_each_by_itself() -> None:
    rules = Rules({(Operation.DESCRIBE, ResourceType.GROUP, "secret")})
    request = FindCoordinatorRequest(coordinator_keys=["g", "secret", "h"])
    rows = ask(a_cluster(LED_BY_1, LED_BY_2, authorizer=rules), request, 4).coordinators
    assert [(row.key, row.node_id, row.error_code) for row in rows] == [
        ("g", 2, 0),
        ("secret", -1, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("h", 1, 0),
    ]


@pytest.mark.parametrize("partition", [LED_BY_FENCED, UNLED])
@pytest.mark.parametrize("version", [0, 3, 6])
def test_an_unreachable_coordinator_is_not_returned(version: int, partition: Any) -> None:
    answer = ask(a_cluster(partition), FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    reported = answer.coordinators[0] if version >= 4 else answer
    assert (reported.error_code, reported.node_id, reported.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


def test_a_missing_topic_is_a_retriable_error() -> None:
    topics = Topics(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not yet"))
    answer = ask(a_broker(internal_topics=topics), FindCoordinatorRequest(key="g", key_type=1), 3)
    assert (answer.error_code, answer.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "not yet")
    assert topics.requested == ["__transaction_state"]


@pytest.mark.parametrize(
    ("key_type", "key", "version", "code"),
    [
        (0, "secret", 4, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (1, "secret", 4, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, SHARE_KEY, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, "g", 6, ErrorCode.INVALID_REQUEST),
        (2, "a:b:c", 6, ErrorCode.INVALID_REQUEST),
        (2, SHARE_KEY, 5, ErrorCode.INVALID_REQUEST),
        (7, "x", 4, ErrorCode.INVALID_REQUEST),
        (7, "x", 3, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_lookup_creates_no_topic(key_type: int, key: str, version: int, code: ErrorCode) -> None:
    rules = Rules(
        {
            (Operation.DESCRIBE, ResourceType.GROUP, "secret"),
            (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "secret"),
        }
    )
    topics = Topics()
    broker = a_broker(authorizer=rules, internal_topics=topics)
    answer = ask(broker, FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key]), version)
    reported = answer.coordinators[0] if version >= 4 else answer
    assert (reported.error_code, reported.node_id, reported.host, reported.port) == (code, -1, "", -1)
    assert topics.requested == []


def test_share_coordinators_are_for_brokers() -> None:
    rules = Rules({(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)})
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[SHARE_KEY])
    (row,) = ask(a_broker(authorizer=rules), request, 6).coordinators
    assert row.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
