"""The public Python API on three running nodes: the examples, and each namespace. All tests share a cluster."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kvorum.client import (
    AdminState,
    Cluster,
    ErrorCode,
    KafkaError,
    ResourceType,
    SyncCluster,
    TopicPartition,
    TopicPartitionReplica,
    Unreachable,
)
from kvorum.cluster.local.ports import free_ports
from tests.cluster.clients import eventually
from tests.cluster.conftest import ROOT, clusters_in

EXAMPLES = ROOT / "docs" / "examples" / "api"
PAGE = ROOT / "docs" / "python-api.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 60


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with clusters_in(tmp_path_factory.mktemp("api")) as start:
        yield start().plan.bootstrap


@pytest.fixture(scope="module")
def cluster(bootstrap: str) -> Iterator[SyncCluster]:
    with SyncCluster.connect(bootstrap) as found:
        yield found


def run(example: Path, *arguments: str, **environment: str) -> str:
    """Return what an example prints."""
    command = [sys.executable, str(example), *arguments]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **environment}, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_script_of_the_documentation_works(bootstrap: str) -> None:
    report = "orders: 6 partitions x 3 replicas, 0 records"
    assert run(EXAMPLES / "orders_report.py", bootstrap).splitlines() == ["created orders with 6 partitions", report]
    assert run(EXAMPLES / "orders_report.py", bootstrap).splitlines() == [report]


def test_the_notebook_of_the_documentation_works(bootstrap: str) -> None:
    assert "{'retention.ms': '3600000'}" in run(EXAMPLES / "notebook.py", KAFKA_SERVERS=bootstrap).splitlines()


def test_the_pages_examples_work(bootstrap: str, cluster: SyncCluster) -> None:
    with suppress(KafkaError):
        cluster.topics.delete("orders")
    for number, text in enumerate(BLOCK.findall(PAGE.read_text())):
        if "kvorum_cluster" not in text and "cluster.tokens" not in text:  # tokens need an authenticated connection
            exec(compile(text.replace("localhost:9092", bootstrap), f"{PAGE.name}, block {number}", "exec"), {})


def test_topics_partitions_and_configs(cluster: SyncCluster, bootstrap: str) -> None:
    created = cluster.topics.create("api", partitions=2, replication_factor=3, configs={"min.insync.replicas": "2"})
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(5):
        producer.produce("api", str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    topic = cluster.topics.describe("api")
    assert (topic.topic_id, topic.configs) == (created.topic_id, {"min.insync.replicas": "2"})
    assert [each.latest_offset for each in topic.partitions] == [5, 0] and topic.partitions[0].elr == ()
    first = TopicPartition("api", 0)
    assert cluster.partitions.delete_records({first: 3}) == {first: 3}
    error = cluster.partitions.elect_leaders([first])[first]
    assert error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED
    cluster.partitions.add("api", 3)
    cluster.configs.alter(ResourceType.TOPIC, "api", append={"cleanup.policy": "compact"})
    described = cluster.topics.describe("api")
    assert described.configs == {"cleanup.policy": "delete,compact", "min.insync.replicas": "2"}
    assert len(described.partitions) == 3
    with pytest.raises(KafkaError) as refused:
        cluster.configs.alter(ResourceType.TOPIC, "api", set={"retention.ms": "soon"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert cluster.topics.delete_many(["api", "missing"])["api"] is None


def test_brokers_logs_and_metadata(cluster: SyncCluster) -> None:
    brokers = [each.id for each in cluster.brokers.list()]
    assert brokers == [1, 2, 3] and cluster.metadata.cluster().brokers == tuple(cluster.brokers.list())
    cluster.brokers.begin_maintenance(3)
    eventually(lambda: cluster.brokers.state(3).state is AdminState.MAINTENANCE, "maintenance")
    cluster.brokers.end_maintenance(3)
    quorum = cluster.quorum.describe()
    assert len(quorum.voters) == 3 and all(each.listeners for each in quorum.voters)
    assert cluster.metadata.log_end_offset() >= quorum.high_watermark
    cluster.topics.create("dirs", replication_factor=1)
    assert isinstance(cluster.metadata.tree("/image/topics/byName/dirs/0"), dict)
    leader = cluster.topics.describe("dirs").partitions[0].leader
    assert leader is not None
    (directory,) = cluster.log_dirs.list([leader])
    assert TopicPartition("dirs", 0) in [each.topic_partition for each in directory.replicas]
    replica = TopicPartitionReplica("dirs", 0, leader)
    error = cluster.log_dirs.move({replica: "/missing"})[replica]
    assert error is not None and error.code is ErrorCode.LOG_DIR_NOT_FOUND
    assert {each.name for each in cluster.features.list()} >= {"metadata.version", "transaction.version"}


def test_a_cluster_that_is_down_is_unreachable() -> None:
    (port,) = free_ports(["127.0.0.1"])

    async def connect() -> None:
        async with Cluster.connect(f"127.0.0.1:{port}", request_timeout_ms=3_000):
            pass

    with pytest.raises(Unreachable, match=str(port)):
        asyncio.run(connect())
