"""What becomes of old records, changed by AlterConfigs on a running broker, as unmodified clients and its disk tell."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kvorum.protocol.batch_header import HEADER_SIZE
from tests.cluster.clients import create_topic, eventually, read_all
from tests.cluster.conftest import Start

HOUR_MS = "3600000"
KEYS = 5
DEAD_SEGMENTS = 40
Pair = tuple[str | None, str | None]


class Node:
    """A node of its own, and what a test does with it. Topics have one partition and segments of 1000 bytes."""

    def __init__(self, start_cluster: Start) -> None:
        self.cluster = start_cluster(
            "single.yaml", "log.cleaner.backoff.ms=50", "log.retention.check.interval.ms=100",
        )  # fmt: skip
        self.bootstrap = self.cluster.plan.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, policy: str, **configs: str) -> None:
        quick = {"internal_segment_bytes": "1000", "min_cleanable_dirty_ratio": "0", "file_delete_delay_ms": HOUR_MS}
        create_topic(self.bootstrap, topic, 1, 1, **{"cleanup_policy": policy, **quick, **configs})

    def alter(self, topic: str, **configs: str) -> None:
        """AlterConfigs of a topic; of the broker where the name is empty."""
        kind = ResourceType.TOPIC if topic else ResourceType.BROKER
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(kind, topic or "1", incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def send(self, topic: str, *pairs: Pair, timestamp: int = 0) -> list[str]:
        """Send records one by one; return the names of what they were refused with."""
        errors: list[str] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
        for key, value in pairs:
            producer.produce(
                topic, value, key, timestamp=timestamp,
                on_delivery=lambda error, _: errors.append(error.name()) if error else None,
            )  # fmt: skip
        assert producer.flush(30) == 0
        return errors

    def fill(self, topic: str, count: int = 100, prefix: str = "v") -> None:
        """Records of a few keys in turn; then so many of another one that all of these are in full segments."""
        assert self.send(topic, *[(f"k{n % KEYS}", f"{prefix}{n}") for n in range(count)]) == []
        self.pad(topic)

    def pad(self, topic: str) -> None:
        """Have what is there lie in full segments, synced."""
        assert self.send(topic, *[("pad", "x" * 400) for _ in range(4)]) == []

    def read(self, topic: str) -> list[Pair]:
        """What a consumer reads, without what only pads."""
        found = read_all(self.bootstrap, topic, 1, **{"auto.offset.reset": "earliest"})[0]
        pairs = [(message.key(), message.value()) for message in found]
        decoded = [(key and key.decode(), value if value is None else value.decode()) for key, value in pairs]
        return [(key, value) for key, value in decoded if key != "pad"]

    def reads(self, topic: str, check: Callable[[list[Pair]], bool], what: str) -> None:
        seen: list[list[Pair]] = [[]]

        def is_so() -> bool:
            seen[0] = self.read(topic)
            return check(seen[0])

        eventually(is_so, lambda: f"{what}: {seen[0][:20]}")

    def files(self, topic: str) -> list[str]:
        return sorted(path.name for path in Path(self.cluster.node("node-1").data, f"{topic}-0").iterdir())


def last_values(count: int, prefix: str = "v") -> set[Pair]:
    return {(f"k{n % KEYS}", f"{prefix}{n}") for n in range(count - KEYS, count)}


def is_last(count: int, prefix: str = "v") -> Callable[[list[Pair]], bool]:
    wanted = last_values(count, prefix)
    return lambda found: len(found) == KEYS and set(found) == wanted


def test_each_policy_does_its_own_from_the_moment_it_is_set(start_cluster: Start) -> None:
    """None, compact, delete, both. That nothing happens is seen when it has happened to another topic beside it."""
    node = Node(start_cluster)
    for topic, policy in (("changing", ""), ("compacted", "compact"), ("deleted", "delete")):
        node.create(topic, policy, retention_ms="1")
        node.fill(topic)
    node.reads("compacted", is_last(100), "the last of each key")
    node.reads("deleted", lambda found: not found, "nothing")
    assert len(node.read("changing")) == 100, "no policy: nothing goes, whatever retention.ms says"

    node.alter("changing", cleanup_policy="compact")
    node.reads("changing", is_last(100), "the last of each key")
    assert node.read("compacted") == node.read("changing")
    assert node.send("changing", (None, "no key")) == ["INVALID_RECORD"]
    assert node.send("changing", ("k0", "v95")) == []

    node.alter("changing", cleanup_policy="delete", retention_ms="-1", retention_bytes="-1")
    assert node.send("changing", (None, "no key")) == [], "a topic that is not compacted takes it"
    node.fill("changing", prefix="w")
    node.fill("compacted", prefix="w")
    node.reads("compacted", is_last(100, "w"), "the last of each key")
    assert len(node.read("changing")) >= 100

    node.alter("changing", cleanup_policy="compact,delete")
    node.reads("changing", is_last(100, "w"), "what has no key is gone too")
    node.alter("changing", retention_ms="1")
    node.reads("changing", lambda found: not found, "nothing, by time")


def test_a_consumer_reads_over_segments_of_which_nothing_is_left(start_cluster: Start) -> None:
    """librdkafka takes an answer without records for one that was too small.

    It doubles what it asks for, from 1 MiB on, and gives up at 1 GiB (MSG_SIZE_TOO_LARGE).
    """
    node = Node(start_cluster)
    # Synced as it is written, so that all is cleaned in one go; and not once more, which would join the dead.
    node.create("dead", "delete", retention_ms="-1", flush_messages="1", min_cleanable_dirty_ratio="0.5")
    assert node.send("dead", *[("key", f"{number:600}") for number in range(DEAD_SEGMENTS + 1)], ("key", "last")) == []
    node.pad("dead")
    node.alter("dead", cleanup_policy="compact")
    folder = Path(node.cluster.node("node-1").data, "dead-0")

    def are_dead() -> bool:
        names = [name for name in node.files("dead") if name.endswith(".log")]
        try:
            sizes = [Path(folder, name).stat().st_size for name in names]
        except FileNotFoundError:
            return False  # it is being renamed
        return sizes.count(HEADER_SIZE) >= DEAD_SEGMENTS

    eventually(are_dead, "segments with nothing but a header")
    # The one before the last lies beside it, in a segment that may be cleaned later than those.
    node.reads("dead", lambda found: found == [("key", "last")], "the last one alone")


def test_lags_and_the_retention_of_tombstones_change_at_once(start_cluster: Start) -> None:
    node = Node(start_cluster)
    node.create("waiting", "compact", min_compaction_lag_ms=HOUR_MS)
    node.create("eager", "compact", delete_retention_ms="0")
    for topic in ("waiting", "eager"):
        node.fill(topic)
    node.reads("eager", is_last(100), "the last of each key")
    assert len(node.read("waiting")) == 100
    node.alter("waiting", min_compaction_lag_ms="0")
    node.reads("waiting", is_last(100), "the last of each key")

    for topic in ("waiting", "eager"):
        assert node.send(topic, ("k0", None)) == []
        node.pad(topic)

    def cleaned_once_more(topic: str) -> list[Pair]:
        assert node.send(topic, ("k1", "again"), ("k1", "again")) == []
        node.pad(topic)
        return node.read(topic)

    eventually(lambda: not any(key == "k0" for key, _ in cleaned_once_more("eager")), "no trace of k0")
    node.reads("waiting", lambda found: ("k0", None) in found and len(found) == KEYS, "the tombstone of k0 alone")
    assert not [value for key, value in cleaned_once_more("waiting") if key == "k0" and value is not None]

    node.alter("waiting", min_cleanable_dirty_ratio="1")
    node.fill("waiting", prefix="w")
    node.fill("eager", prefix="w")
    node.reads("eager", is_last(100, "w"), "the last of each key")
    assert len(node.read("waiting")) >= 100, "not dirty enough"
    node.alter("waiting", max_compaction_lag_ms="1")
    node.reads("waiting", lambda found: len(found) <= KEYS + 1, "cleaned however clean it is")


def test_retention_by_bytes_and_time_and_its_files(start_cluster: Start) -> None:
    node = Node(start_cluster)
    node.create("kept", "delete", file_delete_delay_ms="3600000")
    node.fill("kept")
    assert len(node.read("kept")) == 100
    node.alter("kept", retention_bytes="3000")
    node.reads("kept", lambda found: 0 < len(found) < 60, "what fits")
    gone = [name for name in node.files("kept") if name.endswith(".deleted")]
    assert gone, "files of deleted segments stay for file.delete.delay.ms"
    node.alter("kept", file_delete_delay_ms="0", retention_bytes="-1", retention_ms="1")
    node.reads("kept", lambda found: not found, "nothing, by time")
    left = set(gone)
    assert left <= set(node.files("kept")), "each has the delay that held when it went"
    eventually(
        lambda: {name for name in node.files("kept") if name.endswith(".deleted")} == left, "no files of the others"
    )

    node.alter("kept", retention_ms="-1", segment_ms="1")
    node.alter("kept", internal_segment_bytes="1000000")
    before = len([name for name in node.files("kept") if name.endswith(".log")])
    now_ms = int(time.time() * 1000)
    for number in range(5):
        assert node.send("kept", ("k", "v"), timestamp=now_ms + 10 * number) == []
    after = len([name for name in node.files("kept") if name.endswith(".log")])
    assert after >= before + 4, "segment.ms=1: each record begins a segment"


def test_records_are_deleted_on_request_under_permitting_policies(start_cluster: Start) -> None:
    """Kafka refuses DeleteRecords on a topic that is only compacted; with both policies it is as on any other."""
    node = Node(start_cluster)
    for topic, policy in (("deleted", "delete"), ("both", "compact,delete"), ("compacted", "compact")):
        node.create(topic, policy, retention_ms="-1", min_compaction_lag_ms=HOUR_MS)
        node.fill(topic)

    def delete(topic: str) -> int:
        requested = TopicPartition(topic, 0, 40)
        return int(node.admin.delete_records([requested])[requested].result(30).low_watermark)

    for topic in ("deleted", "both"):
        assert delete(topic) == 40
        assert node.read(topic) == [(f"k{n % KEYS}", f"v{n}") for n in range(40, 100)]
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        delete("compacted")
    node.alter("both", min_compaction_lag_ms="0")
    node.reads("both", is_last(100), "the last of each key")


def test_the_brokers_own_keys_change_at_once(start_cluster: Start) -> None:
    """Those of the cleaner, by AlterConfigs of the broker: pace, buffers, what counts as dirty."""
    node = Node(start_cluster)
    node.alter("", log_cleaner_io_max_bytes_per_second="1")
    node.create("slow", "compact")
    node.fill("slow")
    node.create("deleted", "delete", retention_ms="1")
    node.fill("deleted")
    node.reads("deleted", lambda found: not found, "nothing")
    assert len(node.read("slow")) == 100, "a byte a second"
    node.alter("", log_cleaner_io_max_bytes_per_second="1e9", log_cleaner_threads="2",
               log_cleaner_dedupe_buffer_size="4000000", log_cleaner_io_buffer_size="100000")  # fmt: skip
    node.reads("slow", is_last(100), "the last of each key")
    node.alter("", log_cleaner_backoff_ms=HOUR_MS)
    node.fill("slow", prefix="w")
    node.create("other", "delete", retention_ms="1")
    node.fill("other")
    node.reads("other", lambda found: not found, "nothing")
    node.alter("", log_cleaner_backoff_ms="50", log_cleaner_threads="1")
    node.reads("slow", is_last(100, "w"), "the last of each key")
    with pytest.raises(KafkaException, match=r"log\.retention\.check\.interval\.ms"):
        node.alter("", log_retention_check_interval_ms="5")
