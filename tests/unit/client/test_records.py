"""Records of the public API on a cluster in memory."""

import asyncio

import pytest

from kvorum.client import Cluster, ErrorCode, IsolationLevel, KafkaError, NewRecord, SyncCluster
from kvorum.client.namespaces.records import Records
from kvorum.client.records.partitioner import partition_of
from kvorum.protocol.messages.fetch import AbortedTransaction
from kvorum.protocol.messages.produce import ProduceRequest
from kvorum.protocol.records import Record, build_batch
from tests.unit.admin.fake import NOW_MS
from tests.unit.admin.managed import ManagedCluster
from tests.unit.client.kit import with_api


def fill(fake: ManagedCluster) -> None:
    """Four records in t-0 and two in t-1, with timestamps in turns."""
    logs = fake.add("t", 2)
    for number in range(6):
        partition = int(number in (1, 4))
        logs[partition].append(Record(value=b"%d" % number, timestamp=NOW_MS + number))


async def values(records: Records, **options: object) -> str:
    return b"".join([each.value or b"-" async for each in records.read("t", **options)]).decode()  # type: ignore[arg-type]


def test_records_are_read_between_offsets_and_times() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        records = cluster.records
        assert await values(records) == "012345"
        assert await values(records, limit=2) == "01" and await values(records, limit=0) == ""
        assert await values(records, partitions=[1]) == "14"
        assert await values(records, start={0: 2}) == "35"
        assert await values(records, start={0: 2, 1: -7}, end={0: 3, 1: 99}) == "134"
        assert await values(records, start="latest") == ""
        assert await values(records, start_ms=NOW_MS + 2) == "2345"
        assert await values(records, start_ms=NOW_MS + 1, end_ms=NOW_MS + 4) == "123"
        assert await values(records, start_ms=NOW_MS + 99) == "" and await values(records, end_ms=-1) == ""
        assert fake.closed, "a client of its own"
        (first,) = [each async for each in records.read("t", limit=1)]
        assert (first.topic, first.partition, first.offset, first.timestamp_ms) == ("t", 0, 0, NOW_MS)
        assert [each.value for each in await records.read_newest("t", 3)] == [b"3", b"4", b"5"]
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await values(records, partitions=[2])

    with_api(run)


@pytest.mark.parametrize(
    "options",
    [
        {"start": "latest", "start_ms": 1},
        {"end": {0: 1}, "end_ms": 1},
        {"follow": True, "end_ms": 1},
        {"start": "newest"},
        {"end": None},
        {"limit": -1},
    ],
)
def test_arguments_that_contradict_are_refused(options: dict[str, object]) -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        with pytest.raises(ValueError):
            await values(cluster.records, **options)

    with_api(run)


def test_a_followed_topic_yields_what_comes() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        found = cluster.records.read("t", start="latest", follow=True)
        coming = asyncio.ensure_future(anext(found))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert fake.waiting, "the leader waits for records"
        fake.logs["t"][1].append(Record(value=b"new"))
        fake.wake()
        assert (await coming).value == b"new"
        await found.aclose()  # type: ignore[attr-defined]  # an async generator
        assert fake.closed

    with_api(run)


def test_aborted_records_are_left_out_of_committed_ones() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        (log,) = fake.add("t")
        log.append_batch(
            build_batch([Record(value=b"a")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        log.append(Record(value=b"b"))
        log.aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
        assert await values(cluster.records) == "ab"
        assert await values(cluster.records, isolation=IsolationLevel.READ_COMMITTED) == "b"

    with_api(run)


def test_records_are_written_with_keys_headers_and_partitions() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.add("t", 3)
        written = await cluster.records.produce("t", "one", key="k", headers={"h": "x", "n": None}, timestamp_ms=5)
        expected = partition_of(b"k", 3)
        assert (written.partition, written.offset, written.timestamp_ms) == (expected, 0, 5)
        (record,) = [each async for each in cluster.records.read("t")]
        assert (record.key, record.value, record.headers) == (b"k", b"one", (("h", b"x"), ("n", None)))
        results = await cluster.records.produce_many(
            "t", [NewRecord(value=None, partition=2), NewRecord(value=b"\xff", partition=0)], acks=1, compression="gzip"
        )
        assert [each.partition for each in results] == [2, 0] and not any(each.error for each in results)
        requests = [each for each in fake.requested if isinstance(each, ProduceRequest)]
        assert [each.acks for each in requests] == [-1, 1, 1]
        for bad in (3, -1):
            with pytest.raises(KafkaError, match="partitions 0 to 2"):
                await cluster.records.produce("t", b"x", partition=bad)
            refused, accepted = await cluster.records.produce_many(
                "t", [NewRecord(value=b"x", partition=bad), NewRecord(value=b"x", partition=1)]
            )
            assert refused.error is not None and refused.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (refused.partition, accepted.partition, accepted.error) == (bad, 1, None)
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.records.produce("none", b"x")
        with pytest.raises(ValueError, match="negative"):
            NewRecord(value=b"x", timestamp_ms=-1)

    with_api(run)


def test_an_unacknowledged_record_has_the_error() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fake.place("t", [1])
        fake.leaders["t", 0] = -1
        (result,) = await cluster.records.produce_many("t", [NewRecord(value=b"x")])
        assert result.error is not None and result.error.code is ErrorCode.LEADER_NOT_AVAILABLE
        with pytest.raises(KafkaError, match="t-0 has no leader"):
            await cluster.records.produce("t", b"x")

    with_api(run)


def test_the_synchronous_iterator_ends_and_is_closed() -> None:
    fake = ManagedCluster()
    fill(fake)
    with SyncCluster(Cluster(fake)) as cluster:
        assert [each.value for each in cluster.records.read("t", limit=2)] == [b"0", b"1"]
        found = cluster.records.read("t")
        next(found)
        closed = fake.closed
        found.close()  # type: ignore[attr-defined]  # a generator
        assert fake.closed == closed + 1
