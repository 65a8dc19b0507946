"""Keys land where clients of other makes put them: `kvorum produce` partitions by murmur2, as Java's clients do."""

import hashlib
import random
import subprocess
import sys
from typing import Any

from kafka import KafkaProducer
from kafka.partitioner import murmur2

from tests.cluster.clients import create_topic, read_all
from tests.cluster.conftest import Start

KEYS = 10_000
PARTITIONS = 12
SEED = 21

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""What org.apache.kafka.common.utils.Utils.murmur2 answers (Kafka's UtilsTest)."""


def partition_of(key: bytes) -> int:
    """Return the partition as Java's BuiltInPartitioner and kafka-python's DefaultPartitioner choose it."""
    return int(murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def keys() -> list[bytes]:
    """Return different keys of all lengths up to 40 and of any byte but line ends and the separator."""
    rng = random.Random(SEED)
    allowed = bytes(byte for byte in range(256) if byte not in b"\r\n\t")
    found = dict.fromkeys([b"", *JAVA])
    while len(found) < KEYS:
        found[bytes(rng.choices(allowed, k=rng.randint(1, 40)))] = None
    return list(found)


def value_of(key: bytes) -> bytes:
    return hashlib.sha256(key).hexdigest().encode()


def where(messages: dict[int, list[Any]]) -> dict[bytes, int]:
    """Return {key: partition}; each key must be there once, with its value."""
    found: dict[bytes, int] = {}
    for partition, records in messages.items():
        for record in records:
            assert record.value() == value_of(record.key()) and record.key() not in found
            found[record.key()] = partition
    return found


def test_the_reference_agrees_with_java() -> None:
    for key, answer in JAVA.items():
        assert (murmur2(key) ^ 1 << 31) - (1 << 31) == answer


def test_ten_thousand_keys_land_where_java_and_kafka_python_put_them(start_cluster: Start) -> None:
    bootstrap = start_cluster("single.yaml").plan.bootstrap
    every = keys()
    expected = {key: partition_of(key) for key in every}
    assert set(expected.values()) == set(range(PARTITIONS))

    create_topic(bootstrap, "by-kvorum", PARTITIONS, 1)
    command = [sys.executable, "-m", "kvorum.cli.main", "produce", "by-kvorum", "-k", "\t", "-b", bootstrap]
    lines = b"".join(key + b"\t" + value_of(key) + b"\n" for key in every)
    done = subprocess.run(command, input=lines, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, b"10000 records")
    assert where(read_all(bootstrap, "by-kvorum", PARTITIONS)) == expected

    create_topic(bootstrap, "by-kafka-python", PARTITIONS, 1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20)
    for future in [producer.send("by-kafka-python", value_of(key), key) for key in every]:
        future.get(60)
    producer.close()
    assert where(read_all(bootstrap, "by-kafka-python", PARTITIONS)) == expected
