"""An idempotent librdkafka writes a record twice when it begins a new producer epoch while an answer is unknown.

docs/delivery.md tells users of it. The broker does what Kafka does: the two copies have different producer epochs, so
neither its sequences nor Kafka's can tell that they are one record.
"""

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.inside_faults import InsideFaults, inside_configs
from kvorum.protocol.records import batches
from tests.cluster.clients import create_topic, eventually, read_all
from tests.cluster.conftest import Start
from tests.cluster.nodes import addresses

TOPIC = "orders"
RETRY_MS = 5_000
"""Longer than the producer needs to meet the second fault: the lost answer is not retried under the old epoch."""


def test_a_new_producer_epoch_repeats_a_record_whose_answer_was_lost(start_cluster: Start, tmp_path: Path) -> None:
    """Partition 1 writes a record and its answer is lost; partition 0 refuses a sequence; both records are retried."""
    doors = [f"{key}={value}" for key, value in inside_configs(str(tmp_path / "doors")).items()]
    cluster = start_cluster("single.yaml", *doors)
    (name, bootstrap), inside = next(iter(addresses(cluster).items())), InsideFaults.of(cluster.plan, FaultRegister())
    process = f"{name}/broker"
    create_topic(bootstrap, TOPIC, 2, 1)
    acked: list[bytes] = []

    def delivered(error: object, message: Any) -> None:
        assert error is None, str(error)
        acked.append(message.value())

    backoff = {"retry.backoff.ms": RETRY_MS, "retry.backoff.max.ms": RETRY_MS}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0} | backoff)
    for partition in (0, 1):
        producer.produce(TOPIC, b"before", partition=partition, on_delivery=delivered)
    assert producer.flush(60) == 0

    lost = inside.drop(process, "PRODUCE", count=1, handled=True)
    producer.produce(TOPIC, b"answer lost", partition=1, on_delivery=delivered)
    eventually(lambda: producer.poll(0.05) or values(bootstrap, 1) == [b"before", b"answer lost"], "it is written")
    refused = inside.error(process, "PRODUCE", "UNKNOWN_PRODUCER_ID", count=1)
    producer.produce(TOPIC, b"refused", partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0 and sorted(acked) == [b"answer lost", b"before", b"before", b"refused"]
    lost.end()
    refused.end()

    assert values(bootstrap, 0) == [b"before", b"refused"]
    assert values(bootstrap, 1) == [b"before", b"answer lost", b"answer lost"]
    cluster.stop()
    log = Path(cluster.node(name).data, f"{TOPIC}-1", f"{0:020}.log").read_bytes()
    headers = [header for _, header in batches(memoryview(log))]
    assert [(each.producer_epoch, each.base_sequence) for each in headers] == [(0, 0), (0, 1), (1, 0)]
    assert len({each.producer_id for each in headers}) == 1


def values(bootstrap: str, partition: int) -> list[bytes]:
    """Return what a partition holds."""
    return [message.value() for message in read_all(bootstrap, TOPIC, 2)[partition]]
