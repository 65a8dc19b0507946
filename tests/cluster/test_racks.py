"""A consumer with a rack reads from the follower that stands in it, and goes on when that one dies (KIP-392)."""

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.cluster.local.local import LocalCluster
from kvorum.runtime import metric_names as names
from tests.cluster.clients import Sender, all_led, eventually, leader_of
from tests.cluster.conftest import ROOT, Start
from tests.cluster.nodes import name_of
from tests.cluster.test_observability import scrape, total, urls

SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER, FOLLOWER = 1, 2
COUNT = 2_000


def racked(folder: Path) -> str:
    """Write the configuration of three nodes, each in a rack of its own, and return its path."""
    text = (ROOT / "configs" / "three-nodes.yaml").read_text()
    for node_id in (1, 2, 3):
        text = text.replace(f"node.id: {node_id}\n", f"node.id: {node_id}\n    broker.rack: rack-{node_id}\n")
    path = folder / "racked.yaml"
    path.write_text(text)
    return str(path)


def sent_to_consumers(cluster: LocalCluster, broker_id: int, topic: str) -> float:
    """Return the bytes of this topic that a broker has sent to consumers."""
    found = scrape(urls(cluster, name_of(cluster, broker_id))[0])
    return total(found, names.BYTES_OUT, topic=topic)


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """Return the values of the next records."""
    found: list[bytes | None] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(found), 0.5):
            if message.error() is None:
                found.append(message.value())
        return len(found) >= count

    eventually(enough, lambda: f"{count} records, there are {len(found)}")
    return found


def test_a_consumer_reads_from_the_follower_in_its_rack_and_continues_when_that_dies(
    start_cluster: Start, tmp_path: Path
) -> None:
    cluster = start_cluster(racked(tmp_path), SELECTOR)
    bootstrap = cluster.plan.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("orders", num_partitions=1, replica_assignment=[[LEADER, FOLLOWER, 3]])
    admin.create_topics([topic], operation_timeout=30)["orders"].result(30)
    eventually(lambda: all_led(admin, "orders", 1), "a leader")
    assert leader_of(bootstrap, "orders", 0) == LEADER
    sender = Sender(bootstrap, "orders")
    sender.send(COUNT)
    sender.flush_acked(COUNT)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "client.rack": f"rack-{FOLLOWER}",
        }
    )
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        values = read(consumer, COUNT)
        assert values == [b"%08d" % number for number in range(COUNT)]
        size = sum(len(value or b"") for value in values)
        assert sent_to_consumers(cluster, FOLLOWER, "orders") > size, "the follower has sent them all"
        assert sent_to_consumers(cluster, LEADER, "orders") == 0, "and the leader none"

        sender.send(100)
        sender.flush_acked(COUNT + 100)
        assert len(read(consumer, 100)) == 100, "what comes later is waited for at the follower, too"
        assert sent_to_consumers(cluster, LEADER, "orders") == 0

        cluster.kill(name_of(cluster, FOLLOWER))
        sender.send(100)
        sender.flush_acked(COUNT + 200)
        assert read(consumer, 100) == [b"%08d" % number for number in range(COUNT + 100, COUNT + 200)]
    finally:
        consumer.close()
