"""Faults on links as users get them: by the pytest fixture, and by the HTTP verbs of `kvorum chaos serve`.

With an unmodified client, which has to feel each fault and get over it.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it means to export them

from kvorum.chaos.faults.toxiproxy_binary import VARIABLE, NoToxiproxy, find_or_build
from tests.cluster.chaos.test_pytest_plugin import outcome, plugged
from tests.cluster.chaos.test_serve import Command, serving, until

pytest_plugins = ["pytester"]
SUITE = """
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "orders"
SECONDS = 60


@pytest.fixture(scope="session")
def producer(kvorum_session_cluster):
    servers = {"bootstrap.servers": kvorum_session_cluster.bootstrap}
    admin = AdminClient(servers)
    # A partition led by each node.
    topic = NewTopic(TOPIC, 3, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    admin.create_topics([topic])[TOPIC].result(30)
    kvorum_session_cluster.wait_until_healthy()
    producer = Producer({**servers, "linger.ms": 0, "socket.timeout.ms": 2000, "reconnect.backoff.max.ms": 200})
    for partition in range(3):
        assert sent(producer, SECONDS, partition) is not None
    return producer


def sent(producer, seconds, partition=0):
    "Send a record; seconds until it is acknowledged, None if it is not within so many."
    errors = []
    began = time.monotonic()
    producer.produce(TOPIC, b"one", partition=partition, on_delivery=lambda error, message: errors.append(error))
    producer.flush(seconds)
    assert errors in ([], [None]), errors
    return time.monotonic() - began if errors else None


def is_quick(producer):
    "Whether a record is acknowledged sooner than the slow link lets any; a busy machine may need several tries."
    return any((sent(producer, SECONDS) or SECONDS) < 0.8 for _ in range(20))


def until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_slow(kvorum_session_cluster, producer):
    cluster = kvorum_session_cluster
    assert is_quick(producer)
    with cluster.slow("clients", cluster.leader_of(TOPIC, 0), 400):
        late = sent(producer, SECONDS)
        assert late is not None and late >= 0.8, "400 ms each way"
    assert is_quick(producer)


def test_cut_and_heal(kvorum_session_cluster, producer):
    cluster = kvorum_session_cluster
    leader = cluster.leader_of(TOPIC, 0)
    cluster.cut("clients", leader)
    assert sent(producer, 1.5) is None, "nothing passes"
    assert cluster.leader_of(TOPIC, 0) == leader, "the brokers do not mind"
    cluster.heal()
    assert producer.flush(SECONDS) == 0 and sent(producer, SECONDS) is not None


def test_one_way(kvorum_session_cluster, producer):
    cluster = kvorum_session_cluster
    with cluster.cut_one_way(cluster.leader_of(TOPIC, 0), "clients"):
        assert sent(producer, 1.5) is None, "what the leader says does not arrive"
    assert producer.flush(SECONDS) == 0


def test_isolate(kvorum_session_cluster, producer):
    cluster = kvorum_session_cluster
    active = cluster.active_controller()
    leaders = [cluster.leader_of(TOPIC, partition) for partition in range(3)]
    partition, old = next((number, node) for number, node in enumerate(leaders) if node != active)
    with cluster.isolate(old):
        assert sent(producer, SECONDS, partition) is not None, "another leads"
        until(lambda: cluster.leader_of(TOPIC, partition) != old and old not in cluster.isr_of(TOPIC, partition))
    cluster.wait_until_healthy()


def test_all_was_repaired_by_the_fixture(kvorum_session_cluster, producer):
    assert not kvorum_session_cluster.is_touched
    for partition in range(3):
        assert sent(producer, SECONDS, partition) is not None
"""
FAST = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000")
TOPIC = "orders"
SECONDS = 60.0
"""For what comes soon on a quiet machine."""


@pytest.fixture(scope="module", autouse=True)
def toxiproxy() -> Iterator[None]:
    """Without the server no link can be cut; it says why. Inner runs have a home without a cache: they are told."""
    try:
        found = find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, found)
        yield


def test_the_fixture_cuts_slows_isolates_and_heals(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    configs = [word for config in FAST for word in ("--kvorum-config", config)]
    done = plugged(pytester, "--kvorum-links", *configs)
    assert "5 passed" in outcome(done), done.stdout + done.stderr


def test_the_http_verbs_cut_slow_isolate_and_heal(tmp_path: Path) -> None:
    configs = [word for config in FAST for word in ("-c", config)]
    with serving(tmp_path, "--create", "--brokers", "3", "--controllers", "1", *configs) as command:
        ask = command.ask
        state = ask("GET", "/state")
        assert {"clients--node-3.broker", "node-3.broker--node-1.controller"} <= {
            each["name"] for each in state["links"]
        }
        until(lambda: ask("GET", "/state?health=true")["ailments"] == [])
        servers = {"bootstrap.servers": state["bootstrap"]}
        # Led by node-3, which is no controller.
        admin = AdminClient(servers)
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[3, 2, 1]])])[TOPIC].result(30)
        until(lambda: ask("GET", "/state?health=true")["ailments"] == [])
        producer = Producer({**servers, "linger.ms": 0, "socket.timeout.ms": 2000, "reconnect.backoff.max.ms": 200})
        assert sent(producer, SECONDS) is not None

        slow = begin(command, "slow", ["clients", "node-3"], latency_ms=400)
        took = sent(producer, SECONDS)
        assert took is not None and took >= 0.8, "400 ms each way"
        assert ask("DELETE", f"/faults/{slow}")["in_force"] is False
        until(lambda: (sent(producer, SECONDS) or SECONDS) < 0.8)

        begin(command, "cut", ["clients", "node-3"])
        assert [each["fault"] for each in ask("GET", "/faults")] == ["black_hole"]
        assert sent(producer, 1.5) is None
        assert ask("POST", "/heal", {"start": False})["in_force"] == []
        assert producer.flush(SECONDS) == 0

        lost = begin(command, "link", ["clients", "node-3"], kind="lose_responses")
        assert sent(producer, 1.5) is None
        ask("DELETE", f"/faults/{lost}")
        assert producer.flush(SECONDS) == 0

        isolated = begin(command, "isolate", ["node-3"], clients=True)
        assert sent(producer, SECONDS) is not None, "another leads"
        until(lambda: any("3 is fenced" in each for each in ask("GET", "/state?health=true")["ailments"]))
        ask("DELETE", f"/faults/{isolated}")
        until(lambda: ask("GET", "/state?health=true")["ailments"] == [])


def begin(command: Command, fault: str, targets: list[str], **options: object) -> int:
    """Begin a fault; returns its id."""
    begun = command.ask("POST", "/faults", {"fault": fault, "targets": targets, "options": options})
    assert begun["in_force"] is True and begun["targets"] == targets
    return int(begun["id"])


def sent(producer: Producer, seconds: float) -> float | None:
    """Send a record; seconds until it is acknowledged, None if it is not within so many."""
    errors: list[object] = []
    on_delivery: Callable[[object, object], None] = lambda error, message: errors.append(error)  # noqa: E731
    began = time.monotonic()
    producer.produce(TOPIC, b"one", on_delivery=on_delivery)
    producer.flush(seconds)
    assert errors in ([], [None]), errors
    return time.monotonic() - began if errors else None
