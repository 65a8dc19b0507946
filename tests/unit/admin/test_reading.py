"""Every record is read, however leaders divide them among answers: an answer without records is not an empty log."""

import asyncio
from typing import Any

import pytest

from kvorum.client.records import record_reader
from kvorum.client.records.record_browser import Browser, Limits, Progress, StopReason
from kvorum.client.records.record_reader import PARTITION_BYTES, IsolationLevel, Reader
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchRequest, FetchResponse
from kvorum.protocol.records import Record
from kvorum.runtime.clock import SystemClock
from tests.unit.admin.fake import FakeCluster

ENOUGH = Limits(records=10**6, scans_max=10**6, size=1 << 40, time_ms=60_000)


async def browsed(
    cluster: FakeCluster, isolation: int = IsolationLevel.READ_UNCOMMITTED
) -> tuple[list[tuple[int, int]], Progress]:
    """Return (partition, offset) of each record found in topic t up to its end, and how far it came."""
    reader = Reader(cluster, "t", isolation)
    begin, ends = await reader.ends(await reader.partitions(None))
    browser = Browser(reader=reader, progress=Progress(offsets=begin), limits=ENOUGH, clock=SystemClock(), ends=ends)
    async with asyncio.timeout(60):
        found = [(each.partition, each.record.offset) async for each in browser.records() if each is not None]
    return sorted(found), browser.progress


def written(cluster: FakeCluster, partitions: int, count: int, size: int) -> list[tuple[int, int]]:
    """Write a batch a record; return (partition, offset) of each."""
    for log in cluster.add("t", partitions):
        for _ in range(count):
            log.append(Record(value=bytes(size), timestamp=1))
    return [(partition, offset) for partition in range(partitions) for offset in range(count)]


@pytest.mark.parametrize(
    ("partitions", "count", "size"),
    [(24, 10, 60_000), (2, 5, PARTITION_BYTES + 1), (9, 3, PARTITION_BYTES // 2)],
    ids=["more partitions than an answer has room for", "batches too large to come second", "some of both"],
)
def test_partitions_missing_in_a_limited_response_are_requested_again(partitions: int, count: int, size: int) -> None:
    cluster = FakeCluster()
    expected = written(cluster, partitions, count, size)
    found, progress = asyncio.run(browsed(cluster))
    assert found == expected
    assert progress.stopped_by is StopReason.END and progress.offsets == dict.fromkeys(range(partitions), count)


def test_a_fetch_over_quota_gets_no_partitions_and_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    expected = written(cluster, 2, 3, 10)
    ask, throttled = cluster.ask, 2

    async def asking(request: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal throttled
        if isinstance(request, FetchRequest) and throttled:
            throttled -= 1
            return FetchResponse(throttle_time=1)
        return await ask(request, *arguments, **options)

    monkeypatch.setattr(cluster, "ask", asking)
    assert asyncio.run(browsed(cluster))[0] == expected and not throttled


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED])
def test_a_new_leader_without_a_known_high_watermark_is_waited_for(
    isolation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its high watermark is behind what its predecessor told; so long it gives out nothing, and refuses nothing."""
    monkeypatch.setattr(record_reader, "RETRY_PAUSE_SECONDS", 0)
    cluster = FakeCluster()
    expected = written(cluster, 1, 3, 10)
    ask, behind = cluster.ask, 2

    async def asking(request: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal behind
        answer = await ask(request, *arguments, **options)
        if isinstance(request, FetchRequest) and behind:
            behind -= 1
            (row,) = answer.responses[0].partitions
            row.records, row.high_watermark, row.last_stable_offset = memoryview(b""), 0, 0
        return answer

    monkeypatch.setattr(cluster, "ask", asking)
    assert asyncio.run(browsed(cluster, isolation))[0] == expected and not behind


def test_a_log_that_lost_its_end_is_reported_and_not_taken_for_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unclean leader may have fewer records for good."""
    monkeypatch.setattr(record_reader, "RETRY_PAUSE_SECONDS", 0)
    cluster = FakeCluster()
    written(cluster, 1, 3, 10)
    (log,) = cluster.logs["t"]

    async def main() -> None:
        reader = Reader(cluster, "t")
        begin, ends = await reader.ends([0])
        log.batches.pop()
        log.end -= 1
        progress = Progress(offsets=begin)
        browser = Browser(reader=reader, progress=progress, limits=ENOUGH, clock=SystemClock(), ends=ends)
        [found async for found in browser.records()]

    with pytest.raises(KafkaError) as raised:
        asyncio.run(main())
    assert raised.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_a_search_ends_if_all_records_up_to_the_end_were_cleaned() -> None:
    cluster = FakeCluster()
    expected = written(cluster, 3, 4, 10)
    cluster.logs["t"][1].batches.clear()
    found, progress = asyncio.run(browsed(cluster))
    assert found == [each for each in expected if each[0] != 1]
    assert progress.stopped_by is StopReason.END and progress.offsets == {0: 4, 1: 4, 2: 4}


def test_partitions_that_always_have_something_do_not_hide_one_behind_them() -> None:
    """Followed, all partitions are asked for each time: the last would never be read beside eight busy ones."""
    cluster = FakeCluster()
    written(cluster, 9, 20, PARTITION_BYTES)

    async def main() -> set[int]:
        reader = Reader(cluster, "t")
        begin, _ = await reader.ends(await reader.partitions(None))
        browser = Browser(reader=reader, progress=Progress(offsets=begin), limits=ENOUGH, clock=SystemClock())
        seen: set[int] = set()
        async with asyncio.timeout(60):
            async for found in browser.records():
                if found is not None:  # else it is the turn of others
                    seen.add(found.partition)
                if browser.progress.match_count >= 4 * 9:
                    return seen
        raise AssertionError("it ended")

    assert asyncio.run(main()) == set(range(9))
