"""Leader epochs, history and replicas of a partition, over HTTP in front of a fake cluster."""

from typing import Any

import pytest

from kvorum.admin.v1.partitions import verify_routes
from kvorum.client.analysis.replica_check import Fault, Kind, ReplicaBatch, ReplicaCheck, ReplicaState
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from kvorum.protocol.control import marker
from kvorum.protocol.records import Record, build_batch, patch_place
from kvorum.quorum import records
from tests.unit.admin.fake import NOW_MS, Client, Log, call
from tests.unit.admin.managed import ManagedCluster, with_managed
from tests.unit.admin.operated import TOPIC
from tests.unit.admin.test_message_routes import events_of

EPOCHS = "/v1/topics/t/partitions/0/epochs"
HISTORY = "/v1/topics/t/partitions/0/history"
VERIFY = "/v1/topics/t/partitions/0/verify"


def write(log: Log, count: int) -> None:
    for number in range(count):
        log.append(Record(value=b"v%d" % number, timestamp=NOW_MS))


@pytest.mark.parametrize(
    ("start", "known", "found"),
    [
        (0, [(0, 0), (3, 4), (7, 9)], [(7, 9, 10), (3, 4, 9), (0, 0, 4)]),
        (0, [(2, 0), (3, 4)], [(3, 4, 10), (2, 0, 4)]),
        (5, [(2, 5), (3, 8)], [(3, 8, 10), (2, 5, 8)]),
        (6, [(2, 2), (3, 8)], [(3, 8, 10), (2, 6, 8)]),
        (0, [(3, 0)], [(3, 0, 10)]),
        (0, [(1, 0), (3, 10)], [(3, 10, 10), (1, 0, 10)]),
        (0, [(5, 4)], [(5, 4, 10)]),
        (10, [(4, 10)], [(4, 10, 10)]),
        (0, [], []),
    ],
    ids=[
        "several",
        "not from 0",
        "begun later",
        "trimmed",
        "one",
        "empty newest",
        "older unknown",
        "empty",
        "none",
    ],
)
def test_epochs_are_reported_with_their_offsets(
    start: int, known: list[tuple[int, int]], found: list[tuple[int, int, int]]
) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2])
        (log,) = cluster.logs["t"]
        write(log, 10)
        log.start = start
        cluster.epochs["t", 0] = known
        cluster.leader_epochs["t", 0] = known[-1][0] if known else 0
        status, page = await call(client, "GET", EPOCHS)
        assert (status, page["log_start_offset"], page["next"]) == (200, start, None), page
        rows = [(row["epoch"], row["start_offset"], row["end_offset"]) for row in page["epochs"]]
        assert rows == found
        paged, before = [], ""
        for _ in range(len(found) + 1):
            page = (await call(client, "GET", f"{EPOCHS}?limit=1{before}"))[1]
            paged += [(row["epoch"], row["start_offset"], row["end_offset"]) for row in page["epochs"]]
            if page["next"] is None:
                break
            before = f"&before={page['next']}"
        assert paged == found

    with_managed(test)


def test_epochs_of_missing_partitions_are_refused() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1])
        assert (await call(client, "GET", "/v1/topics/t/partitions/1/epochs"))[0] == 404
        assert (await call(client, "GET", "/v1/topics/x/partitions/0/epochs"))[0] == 404
        assert (await call(client, "GET", f"{EPOCHS}?before=0"))[1]["field"] == "before"
        cluster.leaders["t", 0] = -1
        assert (await call(client, "GET", EPOCHS))[1]["error"] == "LEADER_NOT_AVAILABLE"

    with_managed(test)


def metadata(cluster: ManagedCluster, *found: records.MetadataRecord) -> int:
    """Append one change to the metadata log; return its offset."""
    rows = [Record(value=records.encode(each), timestamp=NOW_MS) for each in found]
    return cluster.logs[METADATA_TOPIC][0].append(*rows)


def test_a_partitions_history_is_reported_from_the_metadata_log() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2, 3])
        cluster.place("u", [1, 2, 3])
        mine, other = cluster.ids["t"], cluster.ids["u"]
        for name, topic_id in (("u", other), ("t", mine)):
            row = records.Partition(topic_id=topic_id, partition_id=0, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
            metadata(cluster, records.Topic(name=name, topic_id=topic_id), row)
        metadata(cluster, records.PartitionChange(topic_id=other, partition_id=0, isr=(1,)))
        metadata(cluster, records.PartitionChange(topic_id=mine, partition_id=1, isr=(1,)))
        metadata(cluster, records.NoOp())
        moved = metadata(cluster, records.PartitionChange(topic_id=mine, partition_id=0, isr=(2, 3), leader=2))
        metadata(cluster, records.BeginTransaction(name="x"))
        metadata(cluster, records.PartitionChange(topic_id=mine, partition_id=0, isr=(2,)))
        metadata(cluster, records.AbortTransaction(reason="x"))
        begun = metadata(cluster, records.PartitionChange(topic_id=mine, partition_id=0, adding_replicas=(4,)))
        status, page = await call(client, "GET", HISTORY)
        assert (status, page["more"], page["topic_id"], page["last"]) == (200, False, str(mine), begun)
        reported = [(row["type"], row["offset"], row["partition"]) for row in page["events"]]
        assert reported == [
            ("partition_created", 3, 0),
            ("leader_elected", moved, 0),
            ("isr_changed", moved, 0),
            ("reassignment_changed", begun, 0),
        ]
        elected, shrunk = page["events"][1:3]
        assert (elected["before"]["leader"], elected["after"]["leader"], elected["topic"]) == (1, 2, "t")
        assert (shrunk["before"]["isr"], shrunk["after"]["isr"]) == ([1, 2, 3], [2, 3])
        newest = (await call(client, "GET", f"{HISTORY}?limit=1"))[1]
        assert ([row["offset"] for row in newest["events"]], newest["more"]) == ([begun], True)
        older = (await call(client, "GET", f"{HISTORY}?limit=1&before={begun}"))[1]
        assert [row["type"] for row in older["events"]] == ["leader_elected", "isr_changed"], "of one record together"
        oldest = (await call(client, "GET", f"{HISTORY}?limit=5&before={moved}"))[1]
        assert ([row["type"] for row in oldest["events"]], oldest["more"]) == (["partition_created"], False)
        for path in ("/v1/topics/t/partitions/7/history", "/v1/topics/none/partitions/0/history"):
            assert (await call(client, "GET", path))[0] == 404

    with_managed(test)


def seen(base: int, last: int, crc: int = 1, valid: bool = True) -> ReplicaBatch:
    return ReplicaBatch(base, last, 100, crc, valid)


Told = list[tuple[int, Kind, int]]
"""(broker, kind, base offset)."""


def checked(*logs: list[ReplicaBatch], begins: tuple[int, ...] = (0, 0, 0), compared: bool = True) -> Told:
    """Hold replicas against each other, a batch of each at a time."""
    states = [
        ReplicaState(broker=number, begin=begin, next_offset=begin)
        for number, begin in zip(range(1, len(logs) + 1), begins, strict=False)
    ]
    check, faults, left = ReplicaCheck(states, compared), list[Fault](), [list(log) for log in logs]
    while reading := check.next():
        for state in reading:
            rows = left[state.broker - 1]
            faults += check.take(state, [rows.pop(0)] if rows else [])
            state.is_finished = not rows
        faults += check.settle()
    return [(each.broker, each.kind, each.base_offset) for each in faults]


GOOD = [seen(0, 3, 10), seen(4, 4, 11), seen(5, 9, 12), seen(10, 10, 13)]


@pytest.mark.parametrize(
    ("logs", "begins", "found"),
    [
        ([GOOD, GOOD, GOOD], (0, 0, 0), []),
        ([GOOD, GOOD[:2], GOOD], (0, 0, 0), []),
        ([GOOD[2:], GOOD, GOOD[1:]], (5, 0, 4), []),
        ([GOOD, [GOOD[0], *GOOD[2:]], GOOD], (0, 0, 0), [(2, Kind.MISSING, 4)]),
        ([[GOOD[0], *GOOD[2:]], GOOD], (0, 0), [(2, Kind.SURPLUS, 4)]),
        ([GOOD, [*GOOD[:2], seen(5, 9, 99), GOOD[3]]], (0, 0), [(2, Kind.DIFFERENT, 5)]),
        (
            [GOOD, [*GOOD[:2], seen(5, 7, 12), seen(8, 9, 14), GOOD[3]]],
            (0, 0),
            [(2, Kind.DIFFERENT, 5), (2, Kind.SURPLUS, 8)],
        ),
        ([GOOD, [*GOOD[:2], seen(5, 9, 12, valid=False), GOOD[3]]], (0, 0), [(2, Kind.DAMAGED, 5)]),
        ([[seen(0, 3, 10, valid=False)], GOOD], (0, 0), [(1, Kind.DAMAGED, 0)]),
    ],
    ids=["same", "behind", "begun later", "missing", "surplus", "other bytes", "cut otherwise", "damaged", "leader's"],
)
def test_replicas_are_held_against_the_leaders(
    logs: list[list[ReplicaBatch]], begins: tuple[int, ...], found: Told
) -> None:
    assert checked(*logs, begins=begins) == found


def test_compacted_topics_are_checked_but_not_compared() -> None:
    logs = (GOOD, [GOOD[0], seen(5, 9, 77, valid=False)])
    assert checked(*logs, begins=(0, 0), compared=False) == [(2, Kind.DAMAGED, 5)]


def copied(log: Log) -> Log:
    """Return a follower's copy."""
    copy = Log()
    copy.batches, copy.start, copy.end = list(log.batches), log.start, log.end
    return copy


def replicated(cluster: ManagedCluster, count: int = 40) -> Log:
    """Topic t, led by broker 2, with copies at 1 and 3; return the leader's log."""
    cluster.place("t", [2, 1, 3])
    (log,) = cluster.logs["t"]
    write(log, count - 1)
    log.append_batch(marker(7, 1, is_commit=True, coordinator_epoch=4, timestamp=4))
    for broker in (1, 2, 3):
        cluster.copies[broker, "t", 0] = copied(log)
    return log


async def verified(client: Client, query: str = "") -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Return all events, and what the result says."""
    async with client.get(VERIFY + query) as answer:
        text = await answer.text()
        assert answer.status == 200, text
    async with client.get(VERIFY + query) as answer:
        found = await events_of(answer.content, text.count("event: "))
    assert [name for name, _ in found][-2:] == ["result", "end"]
    return found, found[-2][1]


def test_sound_replicas_are_reported_as_sound() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        log = replicated(cluster)
        found, result = await verified(client)
        assert [name for name, _ in found] == ["progress", "result", "end"]
        assert (result["sound"], result["compared"], result["reference"], result["end_offset"]) == (True, True, 2, 40)
        for row in result["replicas"]:
            reported = (row["batches"], row["bytes"], row["end_offset"], row["error"], row["damaged"])
            assert reported == (40, sum(map(len, log.batches)), 40, None, 0)
        assert [(row["broker"], row["leader"]) for row in result["replicas"]] == [(1, False), (2, True), (3, False)]
        part = (await verified(client, "?offset=30"))[1]
        assert [row["batches"] for row in part["replicas"]] == [10, 10, 10] and part["sound"]

    with_managed(test)


def test_errors_are_reported_when_found() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        replicated(cluster)
        damaged = bytearray(cluster.copies[1, "t", 0].batches[5])
        damaged[-1] ^= 1
        cluster.copies[1, "t", 0].batches[5] = bytes(damaged)
        other = build_batch([Record(value=b"another", timestamp=NOW_MS)])
        with memoryview(other) as view:
            patch_place(view, 0, 9, 0)
        cluster.copies[3, "t", 0].batches[9] = bytes(other)
        del cluster.copies[3, "t", 0].batches[20]
        found, result = await verified(client)
        faults = [(row["broker"], row["kind"], row["base_offset"]) for name, row in found if name == "fault"]
        assert sorted(faults) == [(1, "damaged", 5), (3, "different", 9), (3, "missing", 20)]
        assert not result["sound"]
        first, leader, third = result["replicas"]
        assert (first["damaged"], third["different"], third["missing"], leader["damaged"]) == (1, 1, 1, 0)
        cluster.set_config(TOPIC, "t", "cleanup.policy", "compact,delete")
        found, result = await verified(client)
        assert [row["kind"] for name, row in found if name == "fault"] == ["damaged"] and not result["compared"]

    with_managed(test)


def test_a_replica_that_cannot_be_read_is_reported_and_the_others_are_compared() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        replicated(cluster)
        cluster.silent = {3}
        cluster.copies[1, "t", 0].end = 30
        del cluster.copies[1, "t", 0].batches[30:]
        result = (await verified(client))[1]
        first, _, third = result["replicas"]
        assert (first["end_offset"], first["error"], first["missing"]) == (30, None, 0), "it is behind, not damaged"
        assert third["batches"] == 0 and "refused" in third["error"] and not result["sound"]
        assert third["end_offset"] is None
        for path in ("/v1/topics/t/partitions/9/verify", "/v1/topics/none/partitions/0/verify"):
            assert (await call(client, "GET", path))[0] == 404
        cluster.leaders["t", 0] = -1
        assert (await call(client, "GET", VERIFY))[1]["error"] == "LEADER_NOT_AVAILABLE"

    with_managed(test)


@pytest.mark.parametrize("at_once", [True, False])
def test_records_deleted_by_retention_during_the_check_are_not_missing(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower's log begins later by the time it is read: what it no longer has is not held against it."""
    monkeypatch.setattr(verify_routes, "FETCH_BYTES", 200)

    async def test(client: Client, cluster: ManagedCluster) -> None:
        replicated(cluster)
        follower = cluster.copies[3, "t", 0]
        reads = 0

        def read(offset: int, size: int) -> bytes:
            """Between two reads, or between the look at the offset and the reading."""
            nonlocal reads
            reads += 1
            found = Log.read(follower, offset, size)
            if reads == 2 and follower.start < 20:
                follower.start = 20
                del follower.batches[:20]
                found = Log.read(follower, 20, size) if at_once else found
            return found

        follower.read = read  # type: ignore[method-assign]
        result = (await verified(client))[1]
        third = result["replicas"][2]
        assert (third["start_offset"], third["end_offset"], third["missing"]) == (20, 40, 0) and result["sound"]

    with_managed(test)


def test_faults_are_only_counted_if_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_routes, "FAULTS_REPORTED_MAX", 3)

    async def test(client: Client, cluster: ManagedCluster) -> None:
        replicated(cluster)
        cluster.copies[1, "t", 0].batches[:30] = []
        found, result = await verified(client)
        assert sum(name == "fault" for name, _ in found) == 3 and result["replicas"][0]["missing"] == 30

    with_managed(test)
