"""kill -9 and a stopped broker while transactions are open, or are being ended: nothing is torn, nothing hangs."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.errors import ErrorCode
from tests.cluster.clients import DEADLINE_SECONDS, create_topic, eventually, leader_of
from tests.cluster.conftest import clusters_in
from tests.cluster.nodes import addresses, kill_all, name_of, restart
from tests.cluster.raw_transactions import RawProducer
from tests.cluster.transactional import Asker, ByAiokafka, ByConfluent, ends, on_cluster, values

BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One cluster for all tests here; each leaves it whole."""
    with clusters_in(tmp_path_factory.mktemp("faults")) as start:
        yield start("three-nodes.yaml", "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")


@pytest.fixture
def asker(cluster: LocalCluster) -> Iterator[Asker]:
    with on_cluster(cluster.plan.bootstrap) as found:
        yield found


@pytest.fixture
def begun() -> Iterator[ExitStack]:
    """Closes the producers that a test made."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("make", [ByConfluent, ByAiokafka])
def test_an_open_transaction_survives_the_death_of_its_coordinator_and_of_a_leader(
    cluster: LocalCluster, asker: Asker, begun: ExitStack, make: Any
) -> None:
    """State ONGOING: the next coordinator knows it all, and what comes to it after its death belongs to the same."""
    bootstrap, name = cluster.plan.bootstrap, f"open-{make.__name__}"
    create_topic(bootstrap, name, 1, 3)
    producer = begun.enter_context(closing(make(bootstrap, name)))
    producer.begin()
    producer.send(name, b"aborted", 0)
    producer.flush()
    producer.abort()
    producer.begin()
    for number in range(5):
        producer.send(name, b"%d" % number, 0)
    producer.flush()
    for victim in (lambda: asker.coordinator(name), lambda: leader_of(bootstrap, name, 0)):
        dead = name_of(cluster, victim())
        cluster.kill(dead)
        producer.send(name, b"after", 0)
        producer.flush()
        restart(cluster, dead)
    assert values(bootstrap, name, 1) == []
    producer.commit()
    eventually(lambda: asker.is_settled(name, 1), "markers everywhere")
    assert values(bootstrap, name, 1) == [b"0", b"1", b"2", b"3", b"4", b"after", b"after"]


def test_records_and_offsets_stay_together_when_the_coordinator_dies_between_them(
    cluster: LocalCluster, asker: Asker, begun: ExitStack
) -> None:
    """Partitions are added by one coordinator, the group's offsets by the next: the end has both."""
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "between", 1, 3)
    config = {"bootstrap.servers": bootstrap, "group.id": "between", "isolation.level": "read_committed"}
    consumer = Consumer(config)
    producer = begun.enter_context(closing(ByConfluent(bootstrap, "between")))
    try:
        producer.begin()
        producer.send("between", b"record", 0)
        producer.flush()
        dead = name_of(cluster, asker.coordinator("between"))
        cluster.kill(dead)
        producer.producer.send_offsets_to_transaction(
            [TopicPartition("between", 0, 77)], consumer.consumer_group_metadata(), DEADLINE_SECONDS
        )
        producer.commit()
        restart(cluster, dead)
        assert values(bootstrap, "between", 1) == [b"record"]

        def offset() -> int:
            return int(consumer.committed([TopicPartition("between", 0)], DEADLINE_SECONDS)[0].offset)

        eventually(lambda: offset() == 77, lambda: str(offset()))
    finally:
        consumer.close()


@pytest.mark.parametrize("is_commit", [True, False])
def test_decided_transactions_are_completed_by_the_next_coordinator(
    cluster: LocalCluster, asker: Asker, is_commit: bool
) -> None:
    """State PREPARE_*: one marker is written, the other cannot be, since its leader stands still; then it dies."""
    bootstrap, name = cluster.plan.bootstrap, f"decided-{is_commit}".lower()
    producer = RawProducer(asker, bootstrap, name).init()
    coordinator = asker.coordinator(name)
    still, other = (each for each in BROKERS if each != coordinator)
    create_on(bootstrap, name, [[other], [still]])
    for partition in range(2):
        assert producer.write(name, partition, b"%d" % partition, 0).error_code == 0
    survivor = addresses(cluster)[name_of(cluster, other)]
    cluster.pause(name_of(cluster, still), "broker")
    try:
        prepared = "PrepareCommit" if is_commit else "PrepareAbort"
        with on_cluster(survivor) as beside:
            producer.asker = beside
            assert producer.end(is_commit=is_commit) == ErrorCode.NONE
            assert beside.state(name) == prepared
            eventually(lambda: ends(survivor, name, "read_committed", 0) == {0: 2}, "the marker that can be written")
            cluster.kill(name_of(cluster, coordinator))
            eventually(lambda: beside.coordinator(name) == other, "the next coordinator")
            restart(cluster, name_of(cluster, coordinator))  # two of three: what was decided can be committed
            beside.wait_for_state(name, prepared)
            assert 1 in beside.described(name)[1].topics[0].partitions, "what has no marker yet"
    finally:
        cluster.resume(name_of(cluster, still), "broker")
        eventually(lambda: asker.live_brokers() == list(BROKERS), "three brokers")
    producer.asker = asker
    asker.wait_for_state(name, "CompleteCommit" if is_commit else "CompleteAbort")
    assert values(bootstrap, name, 2) == ([b"0", b"1"] if is_commit else [])
    assert ends(bootstrap, name, "read_committed") == ends(bootstrap, name, "read_uncommitted")
    assert producer.write(name, 0, b"next", 0).error_code == 0
    assert producer.end(is_commit=True) == ErrorCode.NONE


def test_aborted_records_stay_hidden_and_repeats_are_known_after_all_died(
    cluster: LocalCluster, asker: Asker, begun: ExitStack
) -> None:
    """What is open, what was aborted, and the producers' last batches come back from the logs."""
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "all-died", 1, 3)
    producer = RawProducer(asker, bootstrap, "all-died").init()
    assert producer.write("all-died", 0, b"aborted", 0).error_code == 0
    assert producer.end(is_commit=False) == ErrorCode.NONE
    assert producer.write("all-died", 0, b"committed", 0).base_offset == 2
    kill_all(cluster)
    restart(cluster, *(node.name for node in cluster.plan.nodes))
    assert producer.write("all-died", 0, b"committed", 0).base_offset == 2, "the offset it was given first"
    assert asker.state("all-died") == "Ongoing"
    assert producer.end(is_commit=True) == ErrorCode.NONE
    asker.wait_for_state("all-died", "CompleteCommit")
    assert values(bootstrap, "all-died", 1) == [b"committed"]


def create_on(bootstrap: str, topic: str, replicas: list[list[int]]) -> None:
    """Create a topic whose partitions are on these brokers, one in-sync replica being enough."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(
        topic, num_partitions=len(replicas), replica_assignment=replicas, config={"min.insync.replicas": "1"}
    )
    admin.create_topics([new], operation_timeout=30)[topic].result(30)
    eventually(lambda: all(leader_of(bootstrap, topic, each) >= 0 for each in range(len(replicas))), "leaders")
