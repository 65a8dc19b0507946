"""pytest --kvorum-export KAFKA_SERVERS test_quix_invoices.py

The application runs in its own process, as in production, and inherits the exported address.
"""

import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

COUNT = 200
APPLICATION = Path(__file__).with_name("quix_invoices.py")


def test_every_order_is_invoiced_though_a_leader_dies(kvorum_session_cluster):
    """Kill the leader of `invoices` in the middle."""
    kvorum_session_cluster.create_topic("orders", replicas=3)
    kvorum_session_cluster.create_topic("invoices", replicas=3)
    application = subprocess.Popen([sys.executable, APPLICATION])
    try:
        producer = Producer({"bootstrap.servers": kvorum_session_cluster.bootstrap, "acks": "all"})
        for number in range(COUNT):
            producer.produce("orders", f"order-{number}")
            producer.poll(0.01)
            if number == COUNT // 2:
                kvorum_session_cluster.kill(kvorum_session_cluster.leader_of("invoices", 0))
        assert producer.flush(60) == 0
        kvorum_session_cluster.wait_for_lag("invoicing", "orders", timeout_seconds=120)
        assert application.poll() is None, "it still runs"
    finally:
        application.terminate()
        application.wait(60)
    assert invoices_of(kvorum_session_cluster) >= {f"invoice for order-{number}" for number in range(COUNT)}


def invoices_of(cluster):
    """Read until this many different invoices have arrived; duplicates are possible."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "check"})
    consumer.assign([TopicPartition("invoices", 0, 0)])
    found = set()
    while len(found) < COUNT:
        message = consumer.poll(30)
        assert message is not None, f"only {len(found)} invoices came"
        if message.error() is None:
            found.add(message.value().decode())
    consumer.close()
    return found
