"""What is told of a topic's records as a whole; and the sketches that it is told from."""

import asyncio
from random import Random
from typing import Any

import pytest

from kvorum.client.analysis import topic_analysis
from kvorum.client.analysis.sketches import EXACT_MAX, REGISTERS, DistinctCounter, SizeSummary
from kvorum.client.analysis.topic_analysis import HOUR_MS, progress_ratio
from kvorum.protocol.records import Record
from tests.unit.admin.fake import NOW_MS, Client, FakeClock, FakeCluster, call, serve, with_fake
from tests.unit.admin.test_message_routes import events_of

PATH = "/v1/topics/t/analysis"


@pytest.mark.parametrize("count", [0, 1, 1_000, EXACT_MAX, EXACT_MAX + 1, 20_000, 200_000])
def test_different_values_are_counted_within_a_few_percent(count: int) -> None:
    found = DistinctCounter()
    for _ in range(2):
        for number in range(count):
            found.add(b"key-%d" % number)
    assert abs(found.count() - count) <= (0 if count <= EXACT_MAX else 0.03 * count)
    assert REGISTERS == 16_384, "which is what the accuracy that is told comes from"


def test_percentiles_are_within_a_percent() -> None:
    chance, sizes, seen = Random(3), SizeSummary(), list[int]()
    for _ in range(20_000):
        seen.append(int(chance.lognormvariate(6, 2)))
        sizes.add(seen[-1])
    seen.sort()
    assert (sizes.count, sizes.total, sizes.least, sizes.most) == (20_000, sum(seen), seen[0], seen[-1])
    for share, found in zip((0.01, 0.5, 0.99, 1.0), sizes.percentiles((0.01, 0.5, 0.99, 1.0)), strict=True):
        right = seen[max(0, round(share * len(seen)) - 1)]
        assert abs(found - right) <= max(1, 0.0101 * right), share


def test_sizes_of_nothing_and_of_zeros() -> None:
    sizes = SizeSummary()
    assert sizes.percentiles((0.5, 0.99)) == [0, 0]
    sizes.add(0)
    sizes.add(0)
    sizes.add(9)
    assert (sizes.percentiles((0.5, 0.99)), sizes.least, sizes.most) == ([0, 9], 0, 9)


def test_how_much_has_been_passed() -> None:
    assert progress_ratio({0: 10, 1: 0}, {0: 15, 1: 5}, {0: 20, 1: 10}) == 0.5
    assert progress_ratio({0: 10}, {0: 10}, {0: 10}) == 1.0


def fill(cluster: FakeCluster) -> None:
    """Two partitions and an empty one; records of two hours, one of them older than the one before it."""
    logs = cluster.add("t", 3)
    for number in range(100):
        stamp = NOW_MS + number if number != 40 else NOW_MS - HOUR_MS
        logs[number % 2].append(Record(key=b"k%d" % (number % 10), value=bytes(number), timestamp=stamp))
    logs[0].append(Record(key=None, value=None, timestamp=NOW_MS + 200, headers=(("h", b"xyz"),)))


async def analysed(client: Client, query: str = "") -> tuple[list[str], dict[str, Any]]:
    """Return the names of all events, and the result."""
    async with client.get(PATH + query) as answer:
        assert answer.status == 200, await answer.text()
        text = (await answer.text()).split("\n\n")
    names = [each.split("\n")[0].removeprefix("event: ") for each in text if each]
    async with client.get(PATH + query) as answer:
        found = await events_of(answer.content, len(names))
    return names, dict(found)["result"]


def test_an_estimate_of_different_values_is_never_above_the_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DistinctCounter, "count", lambda self: 1_000_000)

    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        _, result = await analysed(client)
        assert (result["distinct_keys"], result["distinct_values"]) == (100, 100)

    with_fake(test)


def test_a_topic_is_analysed() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        names, result = await analysed(client)
        assert names == ["progress", "result", "end"]
        assert (result["records"], result["null_keys"], result["tombstones"], result["disordered"]) == (101, 1, 1, 1)
        assert (result["stopped_by"], result["next"]) == ("end", "0:51,1:50,2:0")
        assert (result["distinct_keys"], result["distinct_values"]) == (10, 100)
        keys, values = result["keys"], result["values"]
        assert (keys["count"], keys["min"], keys["max"], keys["mean"]) == (100, 2, 2, 2.0)
        assert (values["min"], values["max"], values["total_bytes"]) == (0, 99, sum(range(100)))
        assert abs(values["p50"] - 49) <= 1 and abs(values["p95"] - 94) <= 1
        assert result["bytes"] == sum(range(100)) + 200 + 4
        first, second, empty = result["partitions"]
        assert (first["records"], first["first_offset"], first["last_offset"]) == (51, 0, 50)
        assert (first["first_timestamp_ms"], first["last_timestamp_ms"]) == (NOW_MS - HOUR_MS, NOW_MS + 200)
        assert (second["records"], second["null_keys"], second["disordered"]) == (50, 0, 0)
        assert (empty["records"], empty["first_offset"], empty["last_timestamp_ms"]) == (0, None, None)
        hours = [(row["start_ms"] // HOUR_MS, row["records"]) for row in result["hours"]]
        assert hours == [(NOW_MS // HOUR_MS - 1, 1), (NOW_MS // HOUR_MS, 100)]
        only = (await analysed(client, "?partitions=1&filter=size(value)>50"))[1]
        assert only["records"] == 25 and [row["partition"] for row in only["partitions"]] == [1]
        part = (await analysed(client, "?scanned=10"))[1]
        assert (part["records"], part["stopped_by"]) == (10, "scanned")

    with_fake(test)


def test_the_progress_of_an_analysis_is_reported() -> None:
    """Each look at the clock takes 100 ms here: a word a second is one every ten records or so."""

    class Slow(FakeClock):
        def monotonic_ms(self) -> int:
            self.now_ms += 100
            return self.now_ms

    async def test() -> None:
        cluster = FakeCluster()
        async with serve(cluster, clock=Slow()) as client:
            fill(cluster)
            async with client.get(PATH) as answer:
                found = await events_of(answer.content, 4)
            shares = [data["share"] for name, data in found if name == "progress"]
            assert len(shares) == 4 and shares == sorted(shares) and 0 < shares[1] < shares[3] <= 1

    asyncio.run(test())


def test_of_very_many_hours_the_newest_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        for number in (5, 1, 9, 3, 7):
            log.append(Record(value=b"", timestamp=number * HOUR_MS))
        monkeypatch.setattr(topic_analysis, "HOURS_MAX", 3)
        result = (await analysed(client))[1]
        assert [row["start_ms"] // HOUR_MS for row in result["hours"]] == [5, 7, 9] and result["records"] == 5

    with_fake(test)


def test_an_unsupported_analysis_is_refused_before_it_starts() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        assert (await call(client, "GET", "/v1/topics/none/analysis"))[0] == 404
        for query in ("filter=(", "partitions=x", "offset=-1"):
            assert (await call(client, "GET", f"{PATH}?{query}"))[1]["field"] == query.partition("=")[0]

    with_fake(test)
