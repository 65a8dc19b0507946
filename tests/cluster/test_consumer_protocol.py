"""The consumer protocol (KIP-848) by confluent-kafka, members in processes of their own, on one cluster.

Members come, leave and are killed; what they have is followed by what they tell. Times of the group are short, so that
a killed member is missed soon; what is waited for has the deadline of `eventually`.
"""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import DEADLINE_SECONDS, create_topic, eventually
from tests.cluster.conftest import KEPT, clusters_in
from tests.cluster.group_member import SHORT_SESSION_MS
from tests.cluster.nodes import name_of, restart

WORKER = Path(__file__).with_name("consumer_worker.py")
PARTITIONS = 6
EVERYTHING = {("t", number) for number in range(PARTITIONS)}
SETTINGS = (
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.min.session.timeout.ms=6000",
    # Longer than a test waits: the session of a busy member, or of one that starts again, does not end.
    "group.consumer.max.session.timeout.ms=120000",
    "group.consumer.session.timeout.ms=120000",
    "group.consumer.assignment.interval.ms=200",
    "group.initial.rebalance.delay.ms=300",
    "offsets.topic.num.partitions=4",
)

Key = tuple[str, int]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One cluster for all tests here: each has a group of its own."""
    with clusters_in(tmp_path_factory.mktemp("consumers")) as start:
        found = start("three-nodes.yaml", *SETTINGS, KEPT)
        create_topic(found.plan.bootstrap, "t", PARTITIONS, 3)
        yield found


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.plan.bootstrap})


class Worker:
    """A member in a process of its own, and what it told."""

    def __init__(self, bootstrap: str, group: str, name: str, *topics: str, **config: Any) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        self.name = name
        self.owned: set[Key] = set()
        self.taken_away: list[Key] = []
        self.read: list[tuple[str, int, int]] = []
        self.values: list[str] = []
        self.others: list[dict[str, Any]] = []
        command = [sys.executable, str(WORKER), json.dumps(settings), *(topics or ("t",))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            reported = json.loads(line)
            match reported["event"]:
                case "assigned":
                    self.owned = self.owned | {(topic, number) for topic, number in reported["partitions"]}
                case "revoked" | "lost":
                    gone = {(topic, number) for topic, number in reported["partitions"]}
                    self.taken_away += sorted(gone)
                    self.owned = self.owned - gone
                case "read":
                    self.read.append((reported["topic"], reported["partition"], reported["offset"]))
                    self.values.append(reported["value"])
                case _:
                    self.others.append(reported)

    def stop(self) -> None:
        """Have it leave as a good client does."""
        self.process.terminate()
        assert self.process.wait(DEADLINE_SECONDS) == 0
        self._listener.join(DEADLINE_SECONDS)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE_SECONDS)
        self._listener.join(DEADLINE_SECONDS)
        self.owned = set()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self._listener.join(DEADLINE_SECONDS)
        self.process.stdout.close()


@pytest.fixture
def workers(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a function that starts members of this test's group."""
    started: list[Worker] = []

    def start(name: str, *topics: str, **config: Any) -> Worker:
        started.append(Worker(cluster.plan.bootstrap, group_of(request), name, *topics, **config))
        return started[-1]

    yield start
    for worker in started:
        worker.close()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return group_of(request)


def group_of(request: pytest.FixtureRequest) -> str:
    return f"g-{request.node.name}"


def send(bootstrap: str, topic: str, values: list[str]) -> None:
    """Send values round-robin to the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap})
    # The broker that is asked may not have heard yet of a topic that was just made.
    count = eventually(lambda: len(producer.list_topics(topic, timeout=30).topics[topic].partitions), topic)
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % count)
    assert producer.flush(DEADLINE_SECONDS) == 0


def shared(*workers: Worker, wanted: set[Key] = EVERYTHING) -> None:
    """Wait until these have everything, evenly, nothing twice."""

    def is_so() -> bool:
        sizes = [len(each.owned) for each in workers]
        whole = set().union(*(each.owned for each in workers))
        return whole == wanted and sum(sizes) == len(wanted) and max(sizes) - min(sizes) <= 1

    eventually(is_so, lambda: f"an even share: {[(each.name, sorted(each.owned)) for each in workers]}")


def committed(bootstrap: str, group: str, topic: str = "t", partitions: int = PARTITIONS) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        rows = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=30)
        return [row.offset for row in rows]
    finally:
        consumer.close()


def test_members_join_leave_and_are_killed(cluster: LocalCluster, admin: AdminClient, workers: Any, group: str) -> None:
    """Nothing is skipped meanwhile, and whoever stays reads what stays its own without a stop."""
    bootstrap = cluster.plan.bootstrap
    set_session_timeout(admin, group, SHORT_SESSION_MS)
    send(bootstrap, "t", [f"a{number}" for number in range(60)])
    first = workers("first")
    shared(first)
    second = workers("second")
    shared(first, second)
    assert len(first.taken_away) == PARTITIONS // 2, "it keeps the others: they are never taken away"
    kept = set(first.owned)
    third = workers("third")
    shared(first, second, third)
    assert first.owned < kept, "of what it had, it keeps what is its share"
    more = [workers("fourth"), workers("fifth")]
    everybody = [first, second, third, *more]
    shared(*everybody)
    send(bootstrap, "t", [f"b{number}" for number in range(60)])

    def described() -> tuple[ConsumerGroupType, str, int]:
        (future,) = admin.describe_consumer_groups([group]).values()
        found = future.result(30)
        return found.type, found.state.name, len(found.members)

    # Everybody may have what is his before the last one has said so to the coordinator.
    eventually(lambda: described() == (ConsumerGroupType.CONSUMER, "STABLE", 5), described)
    for each in (*more, third):
        each.stop()
    shared(first, second)
    second.kill()
    shared(first)
    send(bootstrap, "t", [f"c{number}" for number in range(60)])
    wanted = {f"{letter}{number}" for letter in "abc" for number in range(60)}
    eventually(lambda: wanted <= set().union(*(each.values for each in everybody)), "everything read")
    first.stop()
    assert not [reported for each in everybody for reported in each.others if reported["event"] == "error"]
    ends = [
        len({offset for each in everybody for _, partition, offset in each.read if partition == number})
        for number in range(PARTITIONS)
    ]
    assert committed(bootstrap, group) == ends


def test_no_member_loses_partitions_by_the_coordinators_death(
    cluster: LocalCluster, admin: AdminClient, workers: Any, group: str
) -> None:
    """The next coordinator goes on with members, epochs and assignments as they are in the log."""
    bootstrap = cluster.plan.bootstrap
    first, second = workers("first"), workers("second")
    shared(first, second)
    before = list(first.taken_away), list(second.taken_away)
    (described,) = admin.describe_consumer_groups([group]).values()
    name = name_of(cluster, described.result(30).coordinator.id)
    cluster.kill(name)
    send(bootstrap, "t", [f"late{number}" for number in range(30)])
    wanted = {f"late{number}" for number in range(30)}
    eventually(lambda: wanted <= {*first.values, *second.values}, "what was sent without the first coordinator")
    third = workers("third")
    shared(first, second, third)
    after = [*first.taken_away, *second.taken_away]
    assert len(after) == len(before[0]) + len(before[1]) + 2, "the third's share, and nothing else"
    restart(cluster, name)


def test_a_static_member_returns_to_its_own_without_a_rebalance(workers: Any) -> None:
    first, other = workers("first", group_instance_id="i"), workers("other")
    shared(first, other)
    mine, others = set(first.owned), list(other.taken_away)
    first.stop()
    again = workers("again", group_instance_id="i")
    eventually(lambda: again.owned == mine, lambda: f"what it had, {mine}: {again.owned}")
    assert other.taken_away == others
    assert other.owned == EVERYTHING - mine


def test_a_pattern_takes_new_topics_in(cluster: LocalCluster, workers: Any) -> None:
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "p-one", 2, 3)
    create_topic(bootstrap, "other", 2, 3)
    member = workers("member", "^p-.*", topic_metadata_refresh_interval_ms=1000)
    wanted = {("p-one", 0), ("p-one", 1)}
    eventually(lambda: member.owned == wanted, lambda: f"the topics that match: {member.owned} {member.others}")
    create_topic(bootstrap, "p-two", 1, 3)
    eventually(lambda: member.owned == wanted | {("p-two", 0)}, lambda: f"the new one, too: {member.owned}")


def test_the_protocols_meet_in_one_group(workers: Any, admin: AdminClient, group: str) -> None:
    """A classic group takes in a member of the consumer protocol and becomes its kind; and back when that leaves."""

    def kind() -> ConsumerGroupType:
        rows = admin.list_consumer_groups().result(30).valid
        return next(row.type for row in rows if row.group_id == group)

    classic = {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"}
    old = workers("old", **classic)
    shared(old)
    assert kind() is ConsumerGroupType.CLASSIC
    new = workers("new")
    shared(old, new)
    assert kind() is ConsumerGroupType.CONSUMER
    new.stop()
    shared(old)
    assert kind() is ConsumerGroupType.CLASSIC


def test_seeking_pausing_and_replaying_by_time(cluster: LocalCluster, group: str) -> None:
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "clock", 1, 3)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce("clock", str(number).encode(), partition=0, timestamp=1_000 * (number + 1))
    assert producer.flush(DEADLINE_SECONDS) == 0
    config = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["clock"])

    def next_value() -> str:
        message = eventually(lambda: consumer.poll(0.5), "a record")
        assert message.error() is None, message.error()
        return (message.value() or b"").decode()

    try:
        assert [next_value() for _ in range(3)] == ["0", "1", "2"]
        place = TopicPartition("clock", 0)
        consumer.pause([place])
        assert consumer.poll(1.0) is None
        consumer.resume([place])
        (found,) = consumer.offsets_for_times([TopicPartition("clock", 0, 7_000)], timeout=30)
        assert found.offset == 6
        consumer.seek(found)
        assert [next_value() for _ in range(4)] == ["6", "7", "8", "9"]
        consumer.commit(asynchronous=False)
        assert committed(bootstrap, group, "clock", 1) == [10]
        consumer.seek(TopicPartition("clock", 0, 0))
        assert next_value() == "0"
        consumer.commit(offsets=[TopicPartition("clock", 0, 4)], asynchronous=False)
        assert committed(bootstrap, group, "clock", 1) == [4]
    finally:
        consumer.close()


def set_session_timeout(admin: AdminClient, group: str, timeout_ms: int) -> None:
    """Set a group's own session timeout."""
    entry = ConfigEntry("consumer.session.timeout.ms", str(timeout_ms), incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([change]).values()
    future.result(30)


def test_a_group_has_configs_of_its_own(admin: AdminClient, group: str) -> None:
    set_session_timeout(admin, group, 7_000)

    def described() -> dict[str, ConfigEntry]:
        (requested,) = admin.describe_configs([ConfigResource(ResourceType.GROUP, group)]).values()
        found: dict[str, ConfigEntry] = requested.result(30)
        return found

    eventually(lambda: described()["consumer.session.timeout.ms"].value == "7000", "the group's own value")
    assert described()["consumer.heartbeat.interval.ms"].value == "300", "the brokers' own"
