"""A mirror between two clusters of real nodes: a three-node one, and one of a single node."""

import os
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.spark.conftest import TopicFactory
from tests.unit.pipelines.mirror.kit import (
    commit,
    committed,
    everything,
    goes_on,
    produce,
    produce_transactions,
    records,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

RECORDS = int(os.environ.get("KVORUM_RECORDS", "10000"))
TOPICS = 100 if RECORDS >= 1_000_000 else 5
PARTITIONS = 2


def mirrored(spark: "SparkSession", **said: Any) -> Any:
    """Run a mirror over what is there now; returns its figures."""
    from kvorum.pipelines.mirror.run import run
    from kvorum.pipelines.mirror.spec import MirrorSpec

    said = {"trigger": "available-now", "sync": {"interval": "200ms"}, **said}
    return run(MirrorSpec.model_validate(said), spark, threading.Event())


def test_records_configs_partitions_and_groups_are_followed(
    spark: "SparkSession", bootstrap: str, other: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """Some batches, then growth on the source while nobody mirrors, then a restart on the same checkpoint."""
    prefix = f"m{uuid.uuid4().hex[:6]}"
    topics = [make_topic(PARTITIONS, prefix, retention_ms="-1", segment_ms="600000") for _ in range(TOPICS)]
    each = RECORDS // TOPICS
    for topic in topics:
        produce(bootstrap, topic, PARTITIONS, each)
    produce_transactions(bootstrap, topics[0], 9)
    half, group = each // PARTITIONS // 2, f"g-{prefix}"
    commit(bootstrap, group, {(topic, number): half + number for topic in topics for number in range(PARTITIONS)})
    said = {
        "name": f"mirror-{prefix}",
        "source": {"alias": "a", "bootstrap": bootstrap},
        "target": {"alias": "b", "bootstrap": other},
        "topics": [f"{prefix}-.*"],
        "groups": [f"g-{prefix}.*"],
        "checkpoint": str(tmp_path / "checkpoint"),
        "maxOffsetsPerTrigger": max(1000, RECORDS // 3),
    }
    figures = mirrored(spark, **said)
    assert figures.batches >= 3 and sum(figures.lag().values()) == 0 and figures.errors == 0
    assert_equal(bootstrap, other, dict.fromkeys(topics, PARTITIONS))
    assert_group(bootstrap, other, group, topics)

    admin, target = (AdminClient({"bootstrap.servers": address}) for address in (bootstrap, other))
    admin.create_partitions([NewPartitions(topics[1], PARTITIONS + 1)])[topics[1]].result(60)
    alter(admin, topics[2], {"retention.ms": "8640000000000"}, ["segment.ms"])
    produce(bootstrap, topics[1], PARTITIONS + 1, 300, start=each)
    late = make_topic(1, prefix, retention_ms="-1")
    produce(bootstrap, late, 1, 100)
    commit(bootstrap, f"{group}-late", {(late, 0): 40, (topics[1], 2): 50})
    before = committed(other, group)

    figures = mirrored(spark, **said)
    assert figures.errors == 0
    assert_equal(bootstrap, other, {**dict.fromkeys(topics, PARTITIONS), topics[1]: PARTITIONS + 1, late: 1})
    assert len(records(other, f"a.{topics[1]}", PARTITIONS)) == 100
    assert configs(target, f"a.{topics[2]}") == {"retention.ms": "8640000000000"}
    assert configs(target, f"a.{topics[0]}") == {"retention.ms": "-1", "segment.ms": "600000"}
    assert committed(other, group) == before, "the group stands where it was"
    assert_group(bootstrap, other, f"{group}-late", [late])


def test_a_crash_after_the_records_and_before_their_mark_repeats_nothing_and_skips_nothing(
    spark: "SparkSession",
    bootstrap: str,
    other: str,
    make_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the same checkpoint again. A group that is used on the target stays as it is."""
    from kvorum.pipelines.mirror.run import Mirror

    topic = make_topic(1, "crash", retention_ms="-1")
    produce(bootstrap, topic, 1, 200)
    group = f"g-{topic}"
    commit(bootstrap, group, {(topic, 0): 77})
    said = {
        "name": f"mirror-{topic}",
        "source": {"alias": "a", "bootstrap": bootstrap},
        "target": {"alias": "b", "bootstrap": other},
        "topics": [topic],
        "groups": [group],
        "checkpoint": str(tmp_path / "checkpoint"),
        "sync": {"interval": "200ms"},
    }
    marked: list[int] = []

    def cut_off(self: Mirror, sources: dict[Any, int]) -> None:
        marked.append(1)
        if len(marked) == 2:
            raise RuntimeError("cut off")
        whole(self, sources)

    whole = Mirror._mark
    monkeypatch.setattr(Mirror, "_mark", cut_off)
    with pytest.raises(Exception, match="cut off"):
        mirrored(spark, **said)
    assert len(records(other, f"a.{topic}", 0)) == 200
    member = Consumer({"bootstrap.servers": other, "group.id": group, "enable.auto.commit": False})
    member.subscribe([f"a.{topic}"])
    while not member.assignment():
        member.poll(0.2)
    before = committed(other, group)
    figures = mirrored(spark, **said)
    assert figures.groups_active == 1 and committed(other, group) == before
    assert set(before.values()) <= {0}, "before there was a mark the group could only be told to begin at the start"
    member.close()
    produce(bootstrap, topic, 1, 50, start=200)
    mirrored(spark, **said)
    assert records(other, f"a.{topic}", 0) == records(bootstrap, topic, 0)
    place = committed(other, group)[f"a.{topic}", 0]
    assert records(other, f"a.{topic}", 0, place) == records(bootstrap, topic, 0, 77)


def test_both_ways_under_the_same_name_without_a_loop(
    spark: "SparkSession", bootstrap: str, other: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """Policy identity: each cluster gets the other's records once, and none of its own back."""
    topic = make_topic(1, "both", retention_ms="-1")
    group = f"both-{topic}"
    ways = [
        {
            "name": f"{one}-{two}-{topic}",
            "source": {"alias": one, "bootstrap": from_},
            "target": {"alias": two, "bootstrap": to},
            "topics": [topic],
            "groups": [group],
            "policy": "identity",
            "checkpoint": str(tmp_path / one),
        }
        for one, from_, two, to in (("a", bootstrap, "b", other), ("b", other, "a", bootstrap))
    ]
    produce(bootstrap, topic, 1, 40)
    commit(bootstrap, group, {(topic, 0): 10})
    mirrored(spark, **ways[0])
    assert committed(other, group) == {(topic, 0): 10}
    figures = mirrored(spark, **ways[1])
    assert committed(bootstrap, group) == {(topic, 0): 10}, "30 records that the group has not read are not passed"
    assert figures.groups_held == 1
    produce(other, topic, 1, 30, start=1000, seed=2)
    for _ in range(2):
        for way in (ways[1], ways[0]):
            mirrored(spark, **way)
    here, there = records(bootstrap, topic, 0), records(other, topic, 0)
    assert len(here) == len(there) == 70
    plain = [[each[:3] for each in side] for side in (here, there)]
    assert sorted(plain[0], key=repr) == sorted(plain[1], key=repr)
    assert {each[3][-1] for each in there[:40]} == {("kvorum-mirror-source", b"a")}
    assert {each[3][-1] for each in here[40:]} == {("kvorum-mirror-source", b"b")}


def assert_equal(bootstrap: str, other: str, topics: dict[str, int]) -> None:
    """Every partition of these topics holds the same records, in the same order, on both sides."""
    places = [(topic, number) for topic, partitions in topics.items() for number in range(partitions)]
    here = everything(bootstrap, [(topic, number, 0) for topic, number in places])
    there = everything(other, [(f"a.{topic}", number, 0) for topic, number in places])
    for topic, number in places:
        source, target = ([each for _, each in side] for side in (here[topic, number], there[f"a.{topic}", number]))
        assert len(target) == len(source) and target == source, f"{topic}-{number}"


def assert_group(bootstrap: str, other: str, group: str, topics: list[str]) -> None:
    """The group stands at exactly the record it would go on with on the source; a member of these topics gets it."""
    positions, there = committed(bootstrap, group), committed(other, group)
    assert there.keys() == {(f"a.{topic}", number) for topic, number in positions}
    waits = everything(bootstrap, [(*place, offset) for place, offset in positions.items()])
    found = everything(other, [(*place, offset) for place, offset in there.items()])
    got = goes_on(other, group, [f"a.{topic}" for topic in topics])
    for topic, number in positions:
        rest = [each for _, each in waits[topic, number]]
        assert [each for _, each in found[f"a.{topic}", number]] == rest, (topic, number)
        if topic in topics:
            assert got.get((f"a.{topic}", number), []) == rest, (topic, number)


def alter(admin: AdminClient, topic: str, setting: dict[str, str], unsetting: list[str]) -> None:
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in setting.items()]
    entries += [ConfigEntry(k, None, incremental_operation=AlterConfigOpType.DELETE) for k in unsetting]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


def configs(admin: AdminClient, topic: str) -> dict[str, str]:
    from kvorum.pipelines.mirror.topics import TopicSync

    return TopicSync.configs_of(admin, [topic])[topic]
