"""Faults from inside real brokers under an unmodified client: what was acknowledged is there, once, in its order."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.chaos.faults.inside_faults import InsideFaults, inside_configs
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.shape import LabShape

QUIET = {"log_level": 0, "socket.timeout.ms": 5000}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers whose processes can be reached from inside."""
    folder = tmp_path_factory.mktemp("inside")
    configs = {**inside_configs(str(folder)), "min.insync.replicas": "2"}
    with Lab.create(str(folder / "cluster"), LabShape(configs=configs), network="plain") as made:
        made.wait_until_healthy()
        yield made


@pytest.fixture
def inside(lab: Lab) -> Iterator[InsideFaults]:
    """The way in; everything is healed and well again after the test."""
    found = InsideFaults.of(lab.plan.cluster, lab.register)
    yield found
    found.heal()
    assert not lab.register.in_force()
    lab.wait_until_healthy()


def sent(lab: Lab, topic: str, count: int, at: int, then: Callable[[], object]) -> list[int]:
    """Make a topic, send numbers as an idempotent producer, do something on the way; return what was acknowledged."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(30)
    lab.wait_until_healthy()
    acked: list[int] = []
    producer = Producer({"bootstrap.servers": lab.bootstrap, "acks": "all", "enable.idempotence": True, **QUIET})

    def on_delivery(error: object, message: object) -> None:
        if error is None:
            acked.append(int(message.value()))  # type: ignore[attr-defined]

    for number in range(count):
        if number == at:
            producer.flush(10)
            then()
        producer.produce(topic, str(number).encode(), partition=0, on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(60) == 0
    return acked


def read(lab: Lab, topic: str, count: int) -> list[int]:
    configs = {"bootstrap.servers": lab.bootstrap, "group.id": "inside", "enable.auto.commit": False, **QUIET}
    consumer = Consumer(configs)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"only {found} came"
        assert message.error() is None, message.error()
        found.append(int(message.value()))
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    consumer.close()
    assert end == count, "nothing was written twice"
    return found


def test_answers_that_are_lost_are_requested_again_and_nothing_is_written_twice(lab: Lab, inside: InsideFaults) -> None:
    with ExitStack() as faults:

        def lose() -> None:
            leader = f"{lab.leader_of('lost-answers', 0)}/broker"
            faults.enter_context(inside.drop(leader, "PRODUCE", handled=True, count=2))
            faults.enter_context(inside.error(leader, "PRODUCE", "NOT_LEADER_OR_FOLLOWER", count=2))

        acked = sent(lab, "lost-answers", 200, 100, lose)
        state = [each for each in inside.state().values() if each is not None]
        assert not any(each["rules"] for each in state), "each was used up"
    assert acked == list(range(200)) == read(lab, "lost-answers", 200)


def test_a_leader_that_dies_at_a_failpoint_armed_while_it_runs_loses_nothing(lab: Lab, inside: InsideFaults) -> None:
    def arm() -> None:
        leader = lab.leader_of("failpoint", 0)
        pids.append((leader, lab.cluster.pid_of(leader, "broker")))
        inside.failpoints(f"{leader}/broker", "log.append.after=kill")

    pids: list[tuple[str, int]] = []
    acked = sent(lab, "failpoint", 200, 100, arm)
    lab.wait_until_healthy()
    ((leader, pid),) = pids
    assert lab.cluster.pid_of(leader, "broker") != pid
    assert acked == list(range(200)) == read(lab, "failpoint", 200)


def test_a_broker_whose_listeners_refuse_while_it_lives_costs_no_acknowledged_record(
    lab: Lab, inside: InsideFaults
) -> None:
    def refuse() -> None:
        leader = lab.leader_of("refused", 0)
        for name in ("INTERNAL", "CLIENTS"):
            inside.refuse(f"{leader}/broker", name)
        assert {each["refusing"] for each in inside.ask(f"{leader}/broker", {"do": "state"})["listeners"].values()} == {
            True
        }

    acked = sent(lab, "refused", 200, 100, refuse)
    inside.heal()
    lab.wait_until_healthy()
    assert acked == list(range(200)) == read(lab, "refused", 200)
