"""Quotas of the loop's time, of partitions made and removed, and of connections, as clients of others meet them."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.protocol.errors import ErrorCode
from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import Start
from tests.cluster.nodes import addresses
from tests.cluster.test_quotas import admin_of

TOPIC = "orders"
WINDOWS = ("quota.window.num=2", "controller.quota.window.num=2")
"""Of a second each: one of them is saved up, or two of what a controller makes."""
HELD_SECONDS = 3.0
"""Ten connections at two a second take at least as long; without a rate they take a fraction of it."""


@pytest.fixture
def bootstrap(start_cluster: Start) -> Iterator[str]:
    cluster = start_cluster("single.yaml", *WINDOWS)
    yield ",".join(addresses(cluster).values())


def throttles_in(bootstrap: str, client_id: str, seconds: float) -> list[float]:
    """Send one record after another, each a request, for so long; return the throttle times of their responses."""
    reported: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "linger.ms": 0,
            "throttle_cb": lambda event: reported.append(event.throttle_time),
        }
    )
    producer.produce(TOPIC, b"first", partition=0)
    assert producer.flush(60) == 0
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        producer.produce(TOPIC, b"x", partition=0)
        assert producer.flush(60) == 0
    return [each for each in reported if each > 0]


def test_a_client_uses_its_share_of_the_loop_and_no_more(bootstrap: str) -> None:
    create_topic(bootstrap, TOPIC, 1, 1)
    assert throttles_in(bootstrap, "busy", 2) == []
    with admin_of(bootstrap) as admin:
        # A thousandth of the loop: a request that takes 0.3 ms of it is followed by 0.3 s.
        assert admin.alter([("client-id", "busy")], request_percentage=0.1) == [0]
        eventually(lambda: throttles_in(bootstrap, "busy", 0.1), "it is told of its throttle")
        reported = throttles_in(bootstrap, "busy", 4)
        assert sum(reported) > 1 and max(reported) <= 1, (
            f"throttled for {reported} s in 4 s, each time for a window at the most"
        )
        assert throttles_in(bootstrap, "other", 2) == [], "another client is not throttled"
        assert admin.alter([("client-id", "busy")], request_percentage=None) == [0]
        eventually(lambda: not admin.described(), "the quota is gone")
    eventually(lambda: not throttles_in(bootstrap, "busy", 0.1), "nobody is told of a throttle any more")
    assert throttles_in(bootstrap, "busy", 2) == []


@contextmanager
def client_of(bootstrap: str, client_id: str) -> Iterator[Any]:
    """Give a client that was told of no throttle yet: one that was asks nothing itself for so long."""
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id)
    try:
        yield client
    finally:
        client.close()


def code_of(answer: dict[str, Any]) -> tuple[int, str]:
    """Return the code and the message of the only topic of an answer."""
    (row,) = answer["topics"]
    return row["error_code"], row["error_message"]


def test_a_client_that_knows_the_code_is_refused_until_its_bucket_has_filled_up(bootstrap: str) -> None:
    create_topic(bootstrap, TOPIC, 1, 1)
    refused = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
    with admin_of(bootstrap) as admin:
        assert admin.alter([("client-id", "maker")], controller_mutation_rate=1) == [0]
        eventually(admin.described, "the quota")

    def make(client_id: str, name: str, partitions: int = 1) -> tuple[int, str]:
        topics = {name: {"num_partitions": partitions, "replication_factor": 1}}
        with client_of(bootstrap, client_id) as client:
            return code_of(client.create_topics(topics, raise_errors=False))

    # Two are saved up; what empties the bucket is taken whole, and what comes then is refused for six seconds.
    assert make("maker", "large", 8)[0] == ErrorCode.NONE
    emptied = time.monotonic()
    assert make("maker", "small") == refused
    with client_of(bootstrap, "maker") as client:
        (row,) = client.create_partitions({TOPIC: 2}, raise_errors=False).results
        assert (row.error_code, row.error_message) == refused
    with client_of(bootstrap, "maker") as client:
        assert code_of(client.delete_topics([TOPIC], raise_errors=False)) == refused
    assert make("other", "others", 20)[0] == ErrorCode.NONE
    with client_of(bootstrap, "other") as client:
        eventually(lambda: "others" in client.list_topics(), "what was made last")
        assert {"small", "large", TOPIC} & set(client.list_topics()) == {"large", TOPIC}
    eventually(lambda: make("maker", "small")[0] == ErrorCode.NONE, "the bucket is full again")
    assert time.monotonic() - emptied > 3, "8 of which 2 were saved up, at 1 a second"


def test_a_client_that_does_not_know_the_code_is_served_and_held_back(bootstrap: str) -> None:
    with admin_of(bootstrap) as admin:
        assert admin.alter([("client-id", "maker")], controller_mutation_rate=1) == [0]
        eventually(admin.described, "the quota")
    clients = {name: AdminClient({"bootstrap.servers": bootstrap, "client.id": name}) for name in ("maker", "other")}

    def make(client: str, name: str, partitions: int) -> float:
        began = time.monotonic()
        clients[client].create_topics([NewTopic(name, partitions, 1)], request_timeout=50)[name].result(60)
        return time.monotonic() - began

    make("maker", "first", 8)
    took = make("maker", "second", 1)  # answered, but not before the six seconds that the first one left behind
    assert took > 3, f"it took {took:.1f} s"
    names = (f"other-{number}" for number in itertools.count())
    eventually(lambda: make("other", next(names), 20) < 3, "another client is served at once")
    made = {"first", "second", "other-0"}
    eventually(lambda: made <= set(clients["other"].list_topics(timeout=30).topics), "all three are there")


def test_an_address_connects_no_faster_than_its_rate(bootstrap: str) -> None:
    def connect(count: int) -> float:
        """Have so many clients ask who is there, one after another; return the seconds it took."""
        began = time.monotonic()
        for _ in range(count):
            assert AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}).list_topics(
                timeout=60
            )
        return time.monotonic() - began

    connect(1)
    with admin_of(bootstrap) as admin:
        # A connection that is there is not touched: this one goes on.
        assert admin.alter([("ip", "127.0.0.1")], connection_creation_rate=2) == [0]
        eventually(admin.described, "the quota")
        held = connect(10)
        assert held > HELD_SECONDS, f"{held:.1f} s at two a second"
        assert admin.alter([("ip", "127.0.0.1")], connection_creation_rate=None) == [0]
        eventually(lambda: not admin.described(), "the quota is gone")
    eventually(lambda: connect(10) < HELD_SECONDS, "connections are as fast as before")
