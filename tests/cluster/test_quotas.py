"""Client quotas: set by one library, or Apache Kafka's own tool, and kept to by another that knows nothing of them."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer

from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import Start
from tests.cluster.dump_log import JARS, needs_kafka
from tests.cluster.nodes import addresses

TOPIC = "orders"
VALUE = bytes(10_000)
COUNT = 40
RATE = 100_000
"""Bytes a second: all records take four seconds, one of which is saved up in two windows of a second."""
SLOW_SECONDS = 2.0
APP: list[tuple[str, str | None]] = [("client-id", "app")]


class Admin:
    """kafka-python's side of the protocol; it has requests for quotas, and no methods yet."""

    def __init__(self, client: Any) -> None:
        self._manager = client._manager

    def alter(self, entity: list[tuple[str, str | None]], **quotas: float | None) -> list[int]:
        """Set quotas (None removes one) and return the codes."""
        from kafka.protocol.admin import AlterClientQuotasRequest

        entry = AlterClientQuotasRequest.EntryData
        ops = [entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
        parts = [entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        request = AlterClientQuotasRequest(entries=[entry(entity=parts, ops=ops)], validate_only=False)
        return [row.error_code for row in self._manager.run(self._manager.send, request).entries]

    def described(self) -> list[tuple[list[tuple[str, str | None]], dict[str, float]]]:
        """Return all quotas of the cluster."""
        from kafka.protocol.admin import DescribeClientQuotasRequest

        answer = self._manager.run(self._manager.send, DescribeClientQuotasRequest(components=[], strict=False))
        assert answer.error_code == 0, answer.error_message
        return [
            (
                [(part.entity_type, part.entity_name) for part in entry.entity],
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries
        ]


@contextmanager
def admin_of(bootstrap: str) -> Iterator[Admin]:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield Admin(client)
    finally:
        client.close()


def produce(bootstrap: str, client_id: str) -> tuple[float, list[float]]:
    """Send all records; return the seconds it took and the throttle times that the library heard of."""
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": 20_000,
            "linger.ms": 0,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    began = time.monotonic()
    for _ in range(COUNT):
        producer.produce(TOPIC, VALUE, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return time.monotonic() - began, [each for each in throttled if each > 0]


def consume(bootstrap: str, client_id: str) -> tuple[float, list[float]]:
    """Read as many records; return the same."""
    throttled: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": f"group-of-{client_id}",
            "auto.offset.reset": "earliest",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    consumer.subscribe([TOPIC])
    found, began = 0, 0.0
    deadline = time.monotonic() + 60
    while found < COUNT:
        assert time.monotonic() < deadline, f"{found} of {COUNT} records"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            began = began or time.monotonic()
            assert message.value() == VALUE
            found += 1
    took = time.monotonic() - began
    consumer.close()
    return took, [each for each in throttled if each > 0]


def test_a_client_is_throttled_to_its_quota_until_the_quota_is_removed(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml", "quota.window.num=2", "group.initial.rebalance.delay.ms=0")
    bootstrap = ",".join(addresses(cluster).values())
    create_topic(bootstrap, TOPIC, 1, 1)
    _, throttled = produce(bootstrap, "app")
    assert throttled == []
    with admin_of(bootstrap) as admin:
        assert admin.alter(APP, producer_byte_rate=RATE, consumer_byte_rate=RATE) == [0]
        assert admin.alter([("user", "ANONYMOUS"), ("client-id", "other")], producer_byte_rate=10**9) == [0]
        assert admin.alter(APP, producer_byte_rate=-1) == [42]
        expected = [
            (APP, {"consumer_byte_rate": RATE, "producer_byte_rate": RATE}),
            ([("client-id", "other"), ("user", "ANONYMOUS")], {"producer_byte_rate": 1e9}),
        ]
        eventually(lambda: admin.described() == expected, lambda: f"{admin.described()}")
        slowed, throttled = produce(bootstrap, "app")
        assert slowed > SLOW_SECONDS, "a producer with a quota"
        assert throttled, "and it was told"
        _, throttled = produce(bootstrap, "other")
        assert throttled == []
        took, throttled = consume(bootstrap, "app")
        assert took > SLOW_SECONDS / 2 and throttled, "a consumer with a quota"
        assert admin.alter(APP, producer_byte_rate=None, consumer_byte_rate=None) == [0]
        eventually(lambda: admin.described() == expected[1:], lambda: f"{admin.described()}")
    _, throttled = produce(bootstrap, "app")
    assert throttled == []


@needs_kafka
def test_kafka_configs_sets_shows_and_removes_quotas(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    bootstrap = ",".join(addresses(cluster).values())

    def printed(*words: str) -> str:
        command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", "kafka.admin.ConfigCommand"]
        done = subprocess.run(
            [*command, "--bootstrap-server", bootstrap, *words], capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    entity = ("--entity-type", "clients", "--entity-name", "app")
    answer = printed("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50.5", *entity)
    assert "Completed updating config for client app" in answer
    with admin_of(bootstrap) as admin:
        wanted = [(APP, {"producer_byte_rate": 1024.0, "request_percentage": 50.5})]
        eventually(lambda: admin.described() == wanted, lambda: f"{admin.described()}")
    shown = printed("--describe", *entity)
    assert "client-id 'app'" in shown and "producer_byte_rate=1024.0" in shown
    assert "Completed updating" in printed(
        "--alter", "--delete-config", "producer_byte_rate,request_percentage", *entity
    )
    with admin_of(bootstrap) as admin:
        eventually(lambda: admin.described() == [], lambda: f"{admin.described()}")
