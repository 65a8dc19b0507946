"""The newest records of a topic: by timestamps over partitions, backwards, page by page, within limits."""

import json
from typing import Any

import pytest

from kvorum.client.records.newest_search import PartitionSearch, newest_of, places_before
from kvorum.protocol.control import marker
from kvorum.protocol.messages.fetch import AbortedTransaction, FetchRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, Log, call, with_fake

PATH = "/v1/topics/t/messages/newest"


def write(cluster: FakeCluster, *partitions: list[int], name: str = "t") -> None:
    """Write a record for each number to the partition it is listed in; the number is its time, too."""
    for log, numbers in zip(cluster.add(name, len(partitions)), partitions, strict=True):
        for number in numbers:
            log.append(Record(value=json.dumps({"number": number}).encode(), timestamp=NOW_MS + number))


def numbers(page: dict[str, Any]) -> list[int]:
    return [each["value"]["number"] for each in page["messages"]]


async def look(client: Client, query: str = "") -> dict[str, Any]:
    status, page = await call(client, "GET", f"{PATH}?{query}")
    assert status == 200, page
    return dict(page)


def test_the_newest_of_all_partitions_are_shown_and_not_the_oldest_of_each_ones_newest() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, list(range(0, 300, 3)), list(range(1, 300, 3)), list(range(2, 300, 3)))
        page = await look(client, "limit=50")
        assert numbers(page) == list(range(250, 300))
        assert page["stopped_by"] == "limit" and page["next"] == "0:100,1:100,2:100"

    with_fake(test)


def test_pages_of_older_ones_have_each_record_once() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, [1, 2, 3, 50, 51], [4, 40, 41, 42], [], [60])
        page = await look(client, "limit=4")
        found = [numbers(page)]
        while page["stopped_by"] == "limit":
            page = await look(client, f"limit=4&before={page['before']}")
            found.append(numbers(page))
        assert found == [[42, 50, 51, 60], [3, 4, 40, 41], [1, 2]]
        assert page["stopped_by"] == "end" and page["before"] == "0:0,1:0,2:0,3:0"

    with_fake(test)


def test_one_partition_with_all_the_newest_is_looked_through_as_far_as_needed_and_the_others_are_not() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, list(range(1000, 1200)), list(range(200)))
        page = await look(client, "limit=100")
        assert numbers(page) == list(range(1100, 1200))
        assert page["scanned"] < 300 and page["before"] == "0:100,1:200"

    with_fake(test)


def test_with_a_filter_it_goes_back_to_where_they_are() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, list(range(0, 2000, 2)), list(range(1, 2000, 2)))
        page = await look(client, "limit=3&filter=value.number<100 %26%26 value.number>=10")
        assert numbers(page) == [97, 98, 99]
        page = await look(client, f"limit=100&filter=value.number<100&before={page['before']}")
        assert numbers(page) == list(range(97)) and page["stopped_by"] == "end"

    with_fake(test)


@pytest.mark.parametrize(("limit", "reason"), [("scanned=64", "scanned"), ("bytes=4000", "bytes")])
def test_a_limit_is_reported_and_the_rest_can_be_requested(limit: str, reason: str) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, list(range(0, 1000, 2)), list(range(1, 1000, 2)))
        page = await look(client, f"limit=10&filter=value.number<500&{limit}")
        assert page["stopped_by"] == reason and page["messages"] == [] and page["scanned"] < 200
        rest = await look(client, f"limit=10&filter=value.number<500&before={page['before']}")
        assert numbers(rest) == list(range(490, 500))

    with_fake(test)


def test_large_records_are_shown_though_not_all_that_were_requested_fit() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        for number in range(20):
            log.append(Record(value=json.dumps({"number": number, "pad": "x" * 100_000}).encode(), timestamp=number))
        page = await look(client, "limit=20&bytes=1000000")
        assert page["stopped_by"] == "bytes"
        assert numbers(page) and numbers(page)[-1] == 19, "the newest are among those that fitted"
        older = await look(client, f"limit=20&before={page['before']}")
        assert numbers(older) + numbers(page) == list(range(20))

    with_fake(test)


def test_the_request_is_checked() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, [1], [2])
        assert numbers(await look(client, "partitions=1")) == [2]
        assert numbers(await look(client, "before=0:99")) == [1]
        for query, field in (("tail=3", "tail"), ("before=0", "before"), ("before=0:1&partitions=0", "partitions")):
            status, problem = await call(client, "GET", f"{PATH}?{query}")
            assert (status, problem["field"]) == (400, field)
        status, problem = await call(client, "GET", f"{PATH}?before=7:1")
        assert (status, problem["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")

    with_fake(test)


def test_an_empty_topic_has_none_and_nothing_is_read() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, [], [])
        page = await look(client)
        assert (page["messages"], page["stopped_by"], page["before"]) == ([], "end", "0:0,1:0")
        assert not [each for each in cluster.requested if isinstance(each, FetchRequest)]

    with_fake(test)


def end_transaction(log: Log, producer_id: int, is_commit: bool = True) -> None:
    log.append_batch(marker(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp=NOW_MS))


def test_offsets_without_records_at_the_end_of_a_partition_are_passed() -> None:
    """Two producers' commit markers follow the newest record."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, [1, 2])
        (log,) = cluster.logs["t"]
        end_transaction(log, 7)
        end_transaction(log, 8)
        page = await look(client, "limit=1&scanned=100")
        assert (numbers(page), page["stopped_by"], page["scanned"]) == ([2], "limit", 2)
        page = await look(client, f"limit=3&before={page['before']}")
        assert (numbers(page), page["stopped_by"], page["before"]) == ([1], "end", "0:0")

    with_fake(test)


def test_an_aborted_transaction_before_the_end_is_passed() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        write(cluster, [1])
        (log,) = cluster.logs["t"]
        records = [Record(value=b'{"number": 9}', timestamp=NOW_MS + 9)] * 20
        gone = log.append(*records, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.aborted.append(AbortedTransaction(producer_id=7, first_offset=gone))
        end_transaction(log, 7, is_commit=False)
        page = await look(client, "limit=3&isolation=read_committed&scanned=100")
        assert (numbers(page), page["stopped_by"], page["scanned"]) == ([1], "end", 1)
        assert numbers(await look(client, "limit=2")) == [9, 9]

    with_fake(test)


def test_pages_over_gaps_have_each_record_once() -> None:
    """A compacted log: batches lost records at their ends, the largest gap is 300,000 offsets."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        kept = []
        for number, gap in enumerate([0, 1, 5, 0, 300_000, 0, 70, 3]):
            kept += [number * 2, number * 2 + 1]
            log.append(*(Record(value=b'{"number": %d}' % each, timestamp=NOW_MS + each) for each in kept[-2:]))
            log.end += gap
        page = await look(client, "limit=3&scanned=10000")
        found = numbers(page)
        while page["stopped_by"] != "end":
            page = await look(client, f"limit=3&scanned=10000&before={page['before']}")
            found = numbers(page) + found
        assert found == kept
        assert sum(isinstance(each, FetchRequest) for each in cluster.requested) < 100

    with_fake(test)


def row(offset: int, timestamp: int) -> Record:
    return Record(offset=offset, timestamp=timestamp)


def test_a_partition_stays_open_while_older_offsets_may_have_newer_timestamps() -> None:
    looked = {
        0: PartitionSearch(first=0, low=5, rows=[row(5, 100), row(6, 101)], horizon_ms=100),
        1: PartitionSearch(first=0, low=5, rows=[row(5, 50)], horizon_ms=40),
        2: PartitionSearch(first=0, low=9),
    }
    taken, open_partitions = newest_of(looked, 2)
    assert [(each.partition, each.record.offset) for each in taken] == [(0, 5), (0, 6)]
    assert open_partitions == [2], "0 gave all it has, and what it has further back is older than those"
    taken, open_partitions = newest_of(looked, 3)
    assert [each.partition for each in taken] == [1, 0, 0] and open_partitions == [0, 2]
    assert places_before(looked, taken) == {0: 5, 1: 5, 2: 9}
    assert places_before(looked, taken[1:]) == {0: 5, 1: 6, 2: 9}
