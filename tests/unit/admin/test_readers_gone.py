"""Who has gone is not worked for; and what was to be changed is changed all the same."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientSession

from kvorum.admin.http.app import LARGE_MAX
from kvorum.protocol.messages.fetch import FetchRequest
from kvorum.protocol.records import Record
from kvorum.runtime.clock import SystemClock
from tests.unit.admin.fake import Client, FakeCluster, Log, call, serve
from tests.unit.admin.test_app import MemoryCluster
from tests.unit.admin.test_app import serve as serve_memory

PATH = "/v1/topics/t/messages"
NOTHING = "filter=value==1"


class Endless(Log):
    """A log in which a batch is found at any offset: to look through all of it takes for ever."""

    def __init__(self) -> None:
        super().__init__()
        for _ in range(2):
            self.append(*(Record(value=b"{}", timestamp=1) for _ in range(1_000)))
        self.end = 1 << 40

    def read(self, offset: int, size: int) -> bytes:
        batch = bytearray(self.batches[0])
        batch[:8] = (offset - offset % 1_000).to_bytes(8, "big")
        return bytes(batch)

    def records(self) -> list[Record]:
        return []


@pytest.mark.parametrize("way", [f"export?{NOTHING}&time_ms=3600000", f"stream?from=earliest&{NOTHING}"])
def test_a_stream_that_has_nothing_to_write_ends_with_its_reader(way: str) -> None:
    async def main() -> None:
        cluster = FakeCluster()
        cluster.add("t")
        cluster.logs["t"] = [Endless()]
        async with serve(cluster, clock=SystemClock()) as client, ClientSession() as reader:
            async with reader.get(client.make_url(f"{PATH}/{way}")) as answer:
                assert answer.status == 200
                await cluster.until(lambda: sum(type(each) is FetchRequest for each in cluster.requested) > 3)
                answer.close()
            await cluster.until(lambda: cluster.closed == 1)

    asyncio.run(main())


def test_abandoned_page_requests_make_room_for_others() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        cluster.add("t")
        cluster.logs["t"] = [Endless()]
        (log,) = cluster.add("small")
        log.append(Record(value=b"{}", timestamp=1))
        async with serve(cluster, clock=SystemClock()) as client:
            path = f"{PATH}?{NOTHING}&time_ms=30000&scanned=1000000"
            async with ClientSession() as reader:
                gone = [asyncio.create_task(reader.get(client.make_url(path))) for _ in range(LARGE_MAX)]
                await cluster.until(lambda: sum(type(each) is FetchRequest for each in cluster.requested) > LARGE_MAX)
                for each in gone:
                    each.cancel()
                await asyncio.wait(gone)
            begun = asyncio.get_running_loop().time()
            assert (await call(client, "GET", "/v1/topics/small/messages"))[0] == 200
            assert asyncio.get_running_loop().time() - begun < 20, "before the others' time was over"

    asyncio.run(main())


class Holding(MemoryCluster):
    """Holds the first change that is made of a config."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.go_on, self.made = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def alter_configs(self, *arguments: Any, validate_only: bool = False) -> None:
        if validate_only:
            self.held.set()
            await self.go_on.wait()
        await super().alter_configs(*arguments, validate_only=validate_only)
        if not validate_only:
            self.made.set()


def test_a_change_is_made_to_its_end_when_its_reader_is_gone() -> None:
    """Of partitions and configs that are to change, only the partitions would have been."""

    async def main() -> None:
        cluster = Holding()
        cluster.set_topic("t", 1, 1)
        async with serve_memory(cluster) as client, asyncio.timeout(30):
            await gone_while_held(client, cluster)
            cluster.go_on.set()
            await cluster.made.wait()
            assert len(cluster.topics["t"].partitions) == 3 and cluster.configs["t"] == {"retention.ms": "1"}

    asyncio.run(main())


def test_a_server_that_ends_waits_for_a_change_whose_reader_is_gone() -> None:
    async def main() -> None:
        cluster = Holding()
        cluster.set_topic("t", 1, 1)
        async with asyncio.timeout(30):
            async with serve_memory(cluster) as client:
                await gone_while_held(client, cluster)
                asyncio.get_running_loop().call_later(0.2, cluster.go_on.set)
            assert cluster.made.is_set()

    asyncio.run(main())


async def gone_while_held(client: Client, cluster: Holding) -> None:
    """Ask for a change, and leave while it is made."""
    body = {"partitions": 3, "configs": {"retention.ms": "1"}}
    async with ClientSession() as reader:
        asking = asyncio.create_task(reader.put(client.make_url("/v1/topics/t"), json=body))
        await cluster.held.wait()
        asking.cancel()
        await asyncio.wait([asking])
    while len(client.server.handler.connections) > 1:  # type: ignore[attr-defined]  # aiohttp's: until it has noticed
        await call(client, "GET", "/health/live")
