"""Acceptance 1 and 7: unmodified clients of four makes read each other's records, and the metadata log."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import time
import urllib.request
from typing import Any

import pytest

from tests.cluster.clients import read_all
from tests.cluster.conftest import Start

pytestmark = pytest.mark.cluster
COUNT = int(os.environ.get("KVORUM_RECORDS", "2000"))
"""Records a client and compression type; `make acceptance` sends 20,000."""
PARTITIONS = 6
START_MS = 1_700_000_000_000


def record(client: str, compression: str, index: int) -> tuple[bytes, bytes, list[tuple[str, bytes]], int]:
    """Return key, value, headers, timestamp of a record: all different, of different sizes."""
    key = f"{client}-{compression}-{index}".encode()
    value = hashlib.sha256(key).hexdigest().encode() * (1 + index % 5)
    headers = [("client", client.encode()), ("index", str(index).encode()), ("empty", b"")]
    return key, value, headers, START_MS + index


def by_confluent(bootstrap: str, topic: str, compression: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": compression, "enable.idempotence": True})
    failed: list[str] = []
    for index in range(COUNT):
        key, value, headers, timestamp = record("confluent", compression, index)
        producer.produce(
            topic,
            value,
            key,
            index % PARTITIONS,
            lambda error, _: failed.append(str(error)) if error else None,
            timestamp=timestamp,
            headers=headers,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed


def by_kafka_python(bootstrap: str, topic: str, compression: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if compression == "none" else compression, acks="all"
    )
    futures = []
    for index in range(COUNT):
        key, value, headers, timestamp = record("kafka-python", compression, index)
        partition = index % PARTITIONS
        futures.append(producer.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp))
    for future in futures:
        future.get(60)
    producer.close()


def by_aiokafka(bootstrap: str, topic: str, compression: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=True,
        )
        await producer.start()
        futures = []
        for index in range(COUNT):
            key, value, headers, timestamp = record("aiokafka", compression, index)
            partition = index % PARTITIONS
            futures.append(
                await producer.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp)
            )
        await asyncio.gather(*futures)
        await producer.stop()

    asyncio.run(run())


def read_by_kafka_python(bootstrap: str, topic: str, expected: int) -> dict[bytes, tuple[Any, ...]]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    consumer.seek_to_beginning()
    found: dict[bytes, tuple[Any, ...]] = {}
    deadline = time.monotonic() + 120
    while len(found) < expected and time.monotonic() < deadline:
        for messages in consumer.poll(1000).values():
            found |= {m.key: (m.value, list(m.headers), m.timestamp, m.partition, m.offset) for m in messages}
    consumer.close()
    return found


def read_by_aiokafka(bootstrap: str, topic: str, expected: int) -> dict[bytes, tuple[Any, ...]]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> dict[bytes, tuple[Any, ...]]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        found: dict[bytes, tuple[Any, ...]] = {}
        deadline = time.monotonic() + 120
        while len(found) < expected and time.monotonic() < deadline:
            for messages in (await consumer.getmany(timeout_ms=1000)).values():
                found |= {m.key: (m.value, list(m.headers), m.timestamp, m.partition, m.offset) for m in messages}
        await consumer.stop()
        return found

    return asyncio.run(run())


def http(method: str, url: str, body: object = None) -> Any:
    """Return the JSON answer of an HTTP request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def kcat(*arguments: str, given: bytes = b"") -> str:
    """Run kcat and return what it printed."""
    if shutil.which("kcat") is None:
        pytest.skip("missing tool: kcat is not installed")
    done = subprocess.run(["kcat", *arguments], input=given, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


PRODUCERS = {
    "confluent": (by_confluent, ["none", "gzip", "snappy", "lz4", "zstd"]),
    "kafka-python": (by_kafka_python, ["none", "gzip", "snappy", "lz4", "zstd"]),
    "aiokafka": (by_aiokafka, ["none", "gzip", "snappy", "lz4", "zstd"]),
}


def test_clients_of_three_makes_read_each_others_records_byte_for_byte(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    admin = cluster.plan.admin_urls()[0]
    spec = {"partitions": PARTITIONS, "replication_factor": 3, "configs": {"min.insync.replicas": "2"}}
    made = http("POST", f"{admin}/v1/topics", {"name": "records", **spec})
    assert (made["partitions"], made["replication_factor"]) == (PARTITIONS, 3)
    assert http("PUT", f"{admin}/v1/topics/records", spec)["changes"] == []
    expected = {}
    for client, (produce, compressions) in PRODUCERS.items():
        for compression in compressions:
            produce(bootstrap, "records", compression)
            for index in range(COUNT):
                key, value, headers, timestamp = record(client, compression, index)
                expected[key] = (value, headers, timestamp, index % PARTITIONS)
    readers = {
        "confluent": {
            m.key(): (m.value(), list(m.headers()), m.timestamp()[1], m.partition(), m.offset())
            for messages in read_all(bootstrap, "records", PARTITIONS).values()
            for m in messages
        },
        "kafka-python": read_by_kafka_python(bootstrap, "records", len(expected)),
        "aiokafka": read_by_aiokafka(bootstrap, "records", len(expected)),
    }
    for reader, found in readers.items():
        assert len(found) == len(expected), reader
        for key, fields in expected.items():
            assert found[key][:4] == fields, (reader, key)
    places = {reader: {key: fields[3:] for key, fields in found.items()} for reader, found in readers.items()}
    assert places["confluent"] == places["kafka-python"] == places["aiokafka"]


def test_kcat_lists_produces_consumes_and_reads_the_metadata_log_as_json(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    bootstrap = cluster.plan.bootstrap
    kcat("-b", bootstrap, "-P", "-t", "lines", "-K", ":", given=b"a:1\nb:2\nc:3\n")
    listed = json.loads(kcat("-b", bootstrap, "-L", "-J"))
    assert [topic["topic"] for topic in listed["topics"]] == ["lines"]
    assert sorted(kcat("-b", bootstrap, "-C", "-t", "lines", "-e", "-q", "-f", "%k=%s\n").split()) == [
        "a=1",
        "b=2",
        "c=3",
    ]
    lines = kcat(
        "-b", bootstrap, "-C", "-t", "__cluster_metadata", "-p", "0", "-o", "beginning", "-e", "-q"
    ).splitlines()
    records = [json.loads(line) for line in lines]
    assert {"RegisterBroker", "Topic", "Partition"} <= {each["type"] for each in records}
    assert [each["name"] for each in records if each["type"] == "Topic"] == ["lines"]
