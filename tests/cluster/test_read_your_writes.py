"""A client that changes something at a broker and reads at that broker at once finds its change, on a busy machine too.

The broker and the active controller are processes of their own, as in every node.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.conftest import Start
from tests.cluster.nodes import addresses
from tests.cluster.topics import topics_at

LIMIT = "kvorum.metadata.read.your.writes.max.ms"
ANSWER_SECONDS = 60.0
RETENTION_MS = "123456"


@contextmanager
def busy_machine() -> Iterator[None]:
    """Keep every core busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def by_confluent(bootstrap: str, rounds: int) -> list[str]:
    """Return the changes that were not seen."""
    admin, misses = AdminClient({"bootstrap.servers": bootstrap}), []

    def partitions(name: str) -> int:
        return len(admin.list_topics(timeout=ANSWER_SECONDS).topics[name].partitions)

    for name in (f"confluent-{number}" for number in range(rounds)):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(ANSWER_SECONDS)
        if name not in admin.list_topics(timeout=ANSWER_SECONDS).topics:
            misses.append(f"create {name}")
            continue
        admin.create_partitions([NewPartitions(name, 3)])[name].result(ANSWER_SECONDS)
        if partitions(name) != 3:
            misses.append(f"partitions of {name}")
        resource = ConfigResource(ResourceType.TOPIC, name)
        resource.add_incremental_config(
            ConfigEntry("retention.ms", RETENTION_MS, incremental_operation=AlterConfigOpType.SET)
        )
        admin.incremental_alter_configs([resource])[resource].result(ANSWER_SECONDS)
        described = admin.describe_configs([resource])[resource].result(ANSWER_SECONDS)
        if described["retention.ms"].value != RETENTION_MS:
            misses.append(f"config of {name}")
        admin.delete_topics([name])[name].result(ANSWER_SECONDS)
        if name in admin.list_topics(timeout=ANSWER_SECONDS).topics:
            misses.append(f"delete {name}")
    return misses


def by_kafka_python(bootstrap: str, rounds: int) -> list[str]:
    """Return the changes that were not seen."""
    from kafka.admin import KafkaAdminClient

    admin, misses = KafkaAdminClient(bootstrap_servers=bootstrap), []
    for name in (f"kafka-python-{number}" for number in range(rounds)):
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
        if name not in admin.list_topics():
            misses.append(f"create {name}")
            continue
        admin.create_partitions({name: 2})
        (described,) = admin.describe_topics([name])
        if len(described["partitions"]) != 2:
            misses.append(f"partitions of {name}")
        admin.delete_topics([name])
        if name in admin.list_topics():
            misses.append(f"delete {name}")
    admin.close()
    return misses


def by_aiokafka(bootstrap: str, rounds: int) -> list[str]:
    """Do as aiokafka's tests test_create_partitions and test_delete_topics; return the changes that were not seen."""
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.admin import NewPartitions as MorePartitions
    from aiokafka.admin import NewTopic as AnotherTopic

    async def run() -> list[str]:
        admin, misses = AIOKafkaAdminClient(bootstrap_servers=bootstrap), []
        await admin.start()
        for name in (f"aiokafka-{number}" for number in range(rounds)):
            await admin.create_topics([AnotherTopic(name, 1, 1)])
            if name not in await admin.list_topics():
                misses.append(f"create {name}")
            old: Any = await admin.describe_topics([name])
            await admin.create_partitions({name: MorePartitions(total_count=2)})
            new: Any = await admin.describe_topics([name])
            if [len(each[0]["partitions"]) for each in (old, new)] != [1, 2]:
                misses.append(f"partitions of {name}")
            await admin.delete_topics([name])
            if name in await admin.list_topics():
                misses.append(f"delete {name}")
        await admin.close()
        return misses

    return asyncio.run(run())


CLIENTS = (by_confluent, by_kafka_python, by_aiokafka)


def single(start_cluster: Start, *settings: str) -> str:
    """Start one node of a broker and a controller; return the broker's address."""
    return address_of(start_cluster("single.yaml", *settings))


def address_of(cluster: LocalCluster) -> str:
    return next(iter(addresses(cluster).values()))


def test_a_client_finds_its_change_at_once(start_cluster: Start) -> None:
    bootstrap = single(start_cluster, f"{LIMIT}=30000")
    with busy_machine():
        assert [client(bootstrap, 5) for client in CLIENTS] == [[], [], []]


@pytest.mark.long
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_finds_its_change_200_times_of_200_with_the_default_limit(start_cluster: Start, client: Any) -> None:
    bootstrap = single(start_cluster)
    with busy_machine():
        assert client(bootstrap, 200) == []


@pytest.mark.long
def test_a_new_topic_is_known_at_every_broker(start_cluster: Start) -> None:
    cluster = start_cluster("three-nodes.yaml", f"{LIMIT}=30000")
    admin = AdminClient({"bootstrap.servers": address_of(cluster)})
    with busy_machine():
        for name in (f"orders-{number}" for number in range(50)):
            admin.create_topics([NewTopic(name, 3, 3)])[name].result(ANSWER_SECONDS)
            for address in addresses(cluster).values():
                topic = topics_at(address, name)[name]
                assert topic.error_code == 0 and len(topic.partitions) == 3
