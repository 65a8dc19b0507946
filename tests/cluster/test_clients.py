"""Acceptance 1 and 7: unmodified clients of four makes read each other's records, and the metadata log."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import time
import urllib.request
from typing import Any, NamedTuple

import pytest

from tests.cluster.clients import create_topic, read_all
from tests.cluster.conftest import Start

COUNT = int(os.environ.get("KVORUM_RECORDS", "2000"))
"""Records a client and compression type; `make acceptance` sends 20,000."""
PARTITIONS = 6
START_MS = 1_700_000_000_000
READ_SECONDS = 120.0
KCAT_LINES = 200
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


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
        bootstrap_servers=bootstrap,
        compression_type=None if compression == "none" else compression,
        enable_idempotence=True,
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


class Found(NamedTuple):
    """A record as a client gave it."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp: int
    partition: int
    offset: int


def read_by_confluent(bootstrap: str, topic: str) -> list[Found]:
    return [
        Found(m.key(), m.value(), list(m.headers()), m.timestamp()[1], m.partition(), m.offset())
        for messages in read_all(bootstrap, topic, PARTITIONS).values()
        for m in messages
    ]


def read_by_kafka_python(bootstrap: str, topic: str) -> list[Found]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(consumer.assignment())
    found: list[Found] = []
    deadline = time.monotonic() + READ_SECONDS
    while any(consumer.position(partition) < end for partition, end in ends.items()) and time.monotonic() < deadline:
        for messages in consumer.poll(1000).values():
            found += [Found(m.key, m.value, list(m.headers), m.timestamp, m.partition, m.offset) for m in messages]
    consumer.close()
    return found


def read_by_aiokafka(bootstrap: str, topic: str) -> list[Found]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> list[Found]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(consumer.assignment())
        positions = dict.fromkeys(ends, 0)
        found: list[Found] = []
        deadline = time.monotonic() + READ_SECONDS
        while any(positions[each] < end for each, end in ends.items()) and time.monotonic() < deadline:
            for messages in (await consumer.getmany(timeout_ms=1000)).values():
                found += [Found(m.key, m.value, list(m.headers), m.timestamp, m.partition, m.offset) for m in messages]
            positions = {each: await consumer.position(each) for each in ends}
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
    "confluent": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


def test_clients_of_three_makes_read_each_others_records_byte_for_byte(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    admin = cluster.plan.admin_urls()[0]
    spec = {"partitions": PARTITIONS, "replication_factor": 3, "configs": {"min.insync.replicas": "2"}}
    made = http("POST", f"{admin}/v1/topics", {"name": "records", **spec})
    assert (made["partitions"], made["replication_factor"]) == (PARTITIONS, 3)
    assert http("PUT", f"{admin}/v1/topics/records", spec)["changes"] == []
    expected: dict[bytes, tuple[bytes, list[tuple[str, bytes]], int, int]] = {}
    known: dict[str, dict[bytes, tuple[int, int]]] = {}
    for client, produce in PRODUCERS.items():
        for compression in CODECS:
            produce(bootstrap, "records", compression)
            for index in range(COUNT):
                key, value, headers, timestamp = record(client, compression, index)
                expected[key] = (value, headers, timestamp, index % PARTITIONS)
    for reader in (read_by_confluent, read_by_kafka_python, read_by_aiokafka):
        found = reader(bootstrap, "records")
        assert len(found) == len(expected), f"{reader.__name__}: lost or doubled"
        assert {each.key: each[1:5] for each in found} == expected, reader.__name__
        assert_order_kept(found)
        places = {each.key: (each.partition, each.offset) for each in found}
        assert places == known.setdefault("places", places), reader.__name__


def assert_order_kept(found: list[Found]) -> None:
    """What one producer sent to a partition lies there in the order in which it was sent."""
    last: dict[tuple[str, int], int] = {}
    for each in sorted(found, key=lambda each: (each.partition, each.offset)):
        producer, _, index = each.key.decode().rpartition("-")
        assert last.get((producer, each.partition), -1) < int(index), f"{each.key!r} at {each.partition}, {each.offset}"
        last[producer, each.partition] = int(index)
    assert len(last) == PARTITIONS * len(PRODUCERS) * len(CODECS)


def test_kcat_lists_produces_consumes_and_reads_the_metadata_log_as_json(start_cluster: Start) -> None:
    cluster = start_cluster()
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "lines", 3, 3, min_insync_replicas="2")
    for codec in CODECS:
        lines = "".join(f"{codec}-{index}:{index}\n" for index in range(KCAT_LINES))
        kcat("-b", bootstrap, "-P", "-t", "lines", "-K", ":", "-z", codec, "-X", "acks=all", given=lines.encode())
    listed = json.loads(kcat("-b", bootstrap, "-L", "-J"))
    assert sorted(broker["id"] for broker in listed["brokers"]) == [1, 2, 3]
    (topic,) = listed["topics"]
    assert topic["topic"] == "lines"
    for row in topic["partitions"]:
        assert sorted(replica["id"] for replica in row["replicas"]) == [1, 2, 3] and row["leader"] in (1, 2, 3)
    assert [row["partition"] for row in topic["partitions"]] == [0, 1, 2]
    rows = kcat("-b", bootstrap, "-C", "-t", "lines", "-e", "-q", "-f", "%k=%s\n").splitlines()
    assert sorted(rows) == sorted(f"{codec}-{index}={index}" for codec in CODECS for index in range(KCAT_LINES))
    records = [
        json.loads(line)
        for line in kcat(
            "-b", bootstrap, "-C", "-t", "__cluster_metadata", "-p", "0", "-o", "beginning", "-e", "-q"
        ).splitlines()
    ]
    assert {"RegisterBroker", "Topic", "Partition"} <= {each["type"] for each in records}
    assert sorted(each["broker_id"] for each in records if each["type"] == "RegisterBroker") == [1, 2, 3]
    assert [each["name"] for each in records if each["type"] == "Topic"] == ["lines"]
    assert [each["partition_id"] for each in records if each["type"] == "Partition"] == [0, 1, 2]
