"""A compacted topic under load, with brokers that die while they clean: unmodified clients, Kafka's own dump tool."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from kvorum.chaos.faults.events import FaultRegister
from kvorum.chaos.faults.inside_faults import InsideFaults, ResponseMissing, inside_configs
from kvorum.cluster.local.local import LocalCluster, wait_for_exit
from kvorum.protocol.compression import Codec
from kvorum.runtime.process import identify, send
from tests.cluster.clients import TRANSIENT, create_topic, eventually
from tests.cluster.compaction_load import (
    Entries,
    Entry,
    KeyedLoad,
    check_entries,
    check_replicas_agree,
    entries_on_disk,
)
from tests.cluster.conftest import ROOT, Start
from tests.cluster.dump_log import dump_log, has_kafka, needs_kafka, sanity_check
from tests.cluster.nodes import addresses
from tests.unit.storage.cleaner.kit import FOLDER, Broker, compacted, end_transaction, put, records_of
from tests.unit.storage.kit import NOW_MS

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "0"))
"""So often the brokers die at each of the cleaner's failpoints, random kills in between; 0: at every other one."""
RANDOM_KILL_EVERY = 4
PARTITIONS = 2
PRODUCERS = 3
KEYS = 60
TOPIC = "keyed"
READ_SECONDS_MAX = 90.0
ONLY_AT_STARTS = ("cleaner.settle.", "cleaner.withdraw.")
"""Places that a running broker does not come by; they are killed at in tests/unit/chaos/inside."""


def cleaner_places() -> list[str]:
    """The failpoints that a cleaning passes, from the source."""
    found: set[str] = set()
    for path in [*(ROOT / "storage" / "cleaner").glob("*.py"), *(ROOT / "storage").glob("log_cleaning.py")]:
        parts = path.read_text().split('failpoints.hit("cleaner.')[1:]
        found |= {"cleaner." + part.partition('"')[0] for part in parts}
    return sorted(name for name in found if not name.startswith(ONLY_AT_STARTS))


def cleaned_offset(cluster: LocalCluster, node: str, partition: int) -> int:
    """Up to where a node's checkpoint says that a partition is clean."""
    path = Path(cluster.node(node).data, "cleaner-offset-checkpoint")
    lines = path.read_text().splitlines() if path.exists() else []
    return max((int(line.split()[2]) for line in lines[2:] if line.startswith(f"{TOPIC} {partition} ")), default=0)


def full_isr(admin: AdminClient) -> None:
    """Wait until nobody is missing."""

    def is_full() -> bool:
        found = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        return len(found) == PARTITIONS and all(sorted(each.isrs) == [1, 2, 3] for each in found.values())

    eventually(is_full, "a full ISR")


def die_at(cluster: LocalCluster, inside: InsideFaults, node: str, place: str, hit: int) -> None:
    """Have a broker die where the cleaner passes this place, and come back."""
    broker = identify(cluster.pid_of(node, "broker"))
    assert broker is not None
    with suppress(ResponseMissing):  # it may come by at once
        inside.ask(f"{node}/broker", {"do": "failpoints", "arm": f"{place}=kill@{hit}"})
    assert wait_for_exit(broker, 60), f"{node} never came by {place}"


def die_now(cluster: LocalCluster, node: str) -> None:
    """kill -9 a broker; its supervisor starts it again."""
    broker = identify(cluster.pid_of(node, "broker"))
    assert broker is not None and send(broker, signal.SIGKILL)
    assert wait_for_exit(broker, 30)


def check_by_reading(bootstrap: str, load: KeyedLoad, seen: dict[int, Entries]) -> None:
    """Read it all as a consumer does: what is told at an offset is always the same."""
    for partition in range(PARTITIONS):
        entries = read_until_now(bootstrap, partition)
        known = seen.setdefault(partition, {})
        changed = {offset for offset, entry in entries.items() if known.setdefault(offset, entry) != entry}
        assert not changed, f"partition {partition} changed at {sorted(changed)[:5]}"
        acked = load.acked_in(partition)
        wrong = {offset for offset, entry in entries.items() if acked.get(offset, entry) != entry}
        assert not wrong, f"partition {partition} is not what was acknowledged at {sorted(wrong)[:5]}"


def read_until_now(bootstrap: str, partition: int) -> Entries:
    """Return what lies below the high watermark of this moment: more comes all the while."""
    config = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(config | {"auto.offset.reset": "error", "enable.partition.eof": True})
    found: Entries = {}
    try:
        at = TopicPartition(TOPIC, partition, 0)
        _, end_offset = consumer.get_watermark_offsets(at, timeout=60)
        consumer.assign([at])
        reached, deadline = 0, time.monotonic() + READ_SECONDS_MAX
        while reached < end_offset:
            assert time.monotonic() < deadline, f"partition {partition} is read to {reached} of {end_offset}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is None:
                assert message.offset() >= reached, "read backwards"
                found[message.offset()] = Entry(message.key(), message.value(), message.timestamp()[1])
                reached = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = message.offset()
            else:
                assert error.retriable() or error.code() in TRANSIENT, str(error)
    finally:
        consumer.close()
    return found


def test_nothing_last_is_lost_while_brokers_die_cleaning(start_cluster: Start, tmp_path: Path) -> None:
    """At the failpoints of the cleaner, one broker after the other, and at random moments in between."""
    doors = [f"{key}={value}" for key, value in inside_configs(str(tmp_path / "doors")).items()]
    cluster = start_cluster(
        "three-nodes.yaml", "log.cleaner.backoff.ms=50", "log.cleaner.min.cleanable.ratio=0.01",
        "log.segment.delete.delay.ms=500", *doors,
    )  # fmt: skip
    bootstrap = cluster.plan.bootstrap
    inside = InsideFaults.of(cluster.plan, FaultRegister())
    create_topic(
        bootstrap, TOPIC, PARTITIONS, 3, min_insync_replicas="2", cleanup_policy="compact", segment_ms="300",
        internal_segment_bytes="40000", delete_retention_ms="500",
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    rng = random.Random(7)
    load = KeyedLoad(bootstrap, TOPIC, PARTITIONS, PRODUCERS, KEYS)
    load.start()
    seen: dict[int, Entries] = {}
    nodes = list(addresses(cluster))
    try:
        every = [(place, round_number) for round_number in range(max(ROUNDS, 1)) for place in cleaner_places()]
        places = every if ROUNDS else every[::2]
        for number, (place, round_number) in enumerate(places):
            node = nodes[number % len(nodes)]
            before = [cleaned_offset(cluster, node, each) for each in range(PARTITIONS)]
            die_at(cluster, inside, node, place, 1 + round_number)
            full_isr(admin)
            assert before <= [cleaned_offset(cluster, node, each) for each in range(PARTITIONS)]
            if number % RANDOM_KILL_EVERY == RANDOM_KILL_EVERY - 1:
                load.wait_for_more(rng.randrange(1, 500))  # a moment that no failpoint names
                die_now(cluster, rng.choice(nodes))
                full_isr(admin)
                check_by_reading(bootstrap, load, seen)
    finally:
        load.stop()
    for partition in range(PARTITIONS):
        for node in nodes:
            wanted = max(load.acked[partition]) // 2
            eventually(
                lambda node=node, each=partition, wanted=wanted: cleaned_offset(cluster, node, each) > wanted,  # type: ignore[misc]
                f"{node} to clean partition {partition}",
            )
    check_by_reading(bootstrap, load, seen)
    full_isr(admin)  # again: it may have been asked before the controller knew of the last death
    assert cluster.stop() == []
    check_on_disk(cluster, load)


def check_on_disk(cluster: LocalCluster, load: KeyedLoad) -> None:
    """Every replica of every partition, by our own decoder and by Kafka's tool where it is."""
    for partition in range(PARTITIONS):
        folders = {node: Path(cluster.node(node).data, f"{TOPIC}-{partition}") for node in addresses(cluster)}
        replicas = {node: entries_on_disk(folder) for node, folder in folders.items()}
        acked = load.acked[partition]
        for node, found in replicas.items():
            assert len(found) < len(acked) / 2, f"{node} has hardly cleaned anything"
            check_entries(found, acked, load.without_offset.get(partition, []), f"{node}, partition {partition}")
            assert not [path.name for path in folders[node].iterdir() if path.suffix in (".cleaned", ".swap")]
        check_replicas_agree(replicas, f"partition {partition}")
        if has_kafka():
            for folder in folders.values():
                dump_log(folder)
                sanity_check(folder)


@needs_kafka
def test_kafka_dump_log_finds_nothing_wrong_with_a_cleaned_log(tmp_path: Path) -> None:
    """Every codec, tombstones, transactions with their index, bare headers of producers."""
    broker = Broker(compacted(segment_bytes=1500, delete_retention_ms=1000))
    for number in range(120):
        pairs = [(b"k%d" % ((number + each) % 9), b"v%d" % number) for each in range(4)]
        codec = list(Codec)[number % len(Codec)]
        put(broker.log, *pairs, timestamp=NOW_MS + number, codec=codec, producer_id=number % 3, producer_epoch=0,
            base_sequence=(number // 3) * 4)  # fmt: skip
        if number % 10 == 0:
            put(broker.log, (b"gone %d" % number, None), (b"other", b"%d" % number), codec=codec)
        if number % 7 == 0:
            put(broker.log, (b"t", b"%d" % number), producer_id=50, producer_epoch=0, base_sequence=number // 7,
                is_transactional=True)  # fmt: skip
            end_transaction(broker.log, 50, is_commit=number % 2 == 0)
        if number % 40 == 39:
            broker.settle()
            assert broker.clean()
    assert len(records_of(broker.log)) < 60
    for name in broker.disk.listdir(FOLDER):
        (tmp_path / name).write_bytes(broker.disk.read(f"{FOLDER}/{name}"))
    printed = dump_log(tmp_path)
    sanity_check(tmp_path)
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS + 1000}]" in printed
    assert "endTxnMarker: ABORT" in printed
