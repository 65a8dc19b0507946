"""What a broker says of requests about its log directories, before anything is moved."""

from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.broker.api.config_rules import check_broker
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.config import Settings
from tests.unit.broker.api.api_kit import a_broker, ask

REQUEST = AlterReplicaLogDirsRequest(
    dirs=[
        AlterReplicaLogDir(path="/a", topics=[AlterReplicaLogDirTopic(name="orders", partitions=[0, 1])]),
        AlterReplicaLogDir(path="/b", topics=[AlterReplicaLogDirTopic(name="bills", partitions=[0])]),
    ]
)


class Moves:
    """Refuses what goes to /b."""

    def __init__(self) -> None:
        self.requested: list[tuple[TopicPartition, str]] = []

    async def alter(self, key: TopicPartition, path: str) -> None:
        self.requested.append((key, path))
        if path == "/b":
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, "no")


def codes_of(response: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic_name, row.partition_index): ErrorCode(row.error_code)
        for topic in response.results
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
def test_each_replica_has_its_own_answer(version: int) -> None:
    moves = Moves()
    answer = ask(a_broker(replica_manager=SimpleNamespace(moves=moves)), REQUEST, version)
    assert codes_of(answer) == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 1): ErrorCode.NONE,
        ("bills", 0): ErrorCode.LOG_DIR_NOT_FOUND,
    }
    assert moves.requested[0] == (TopicPartition("orders", 0), "/a")


def test_moves_require_alter_permission_on_the_cluster() -> None:
    moves = Moves()
    nobody = SimpleNamespace(authorize=lambda *requested: False)
    answer = ask(a_broker(replica_manager=SimpleNamespace(moves=moves), authorizer=nobody), REQUEST, 2)
    assert set(codes_of(answer).values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED} and not moves.requested


@pytest.mark.parametrize(
    ("value", "words"),
    [("/a", ""), ("*", ""), ("", ""), ("/a,/b", ""), ("/a,/c", "/c"), ("*,/a", "must not contain other values")],
)
def test_cordoned_directories_are_those_of_the_broker(value: str, words: str) -> None:
    broker = a_broker(configs=DynamicConfig(Settings.of({"node.id": 1, "log.dirs": "/a,/b"}), 1))
    if not words:
        check_broker(broker, "1", {"cordoned.log.dirs": value})
        return
    with pytest.raises(KafkaError, match=words) as raised:
        check_broker(broker, "1", {"cordoned.log.dirs": value})
    assert raised.value.code is ErrorCode.INVALID_REQUEST
