"""Connections an address and a process, the budget of request bytes, idle connections."""

import asyncio

import pytest

from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.frame import SCRATCH_BYTES
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.router import Handler
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kvorum.runtime.config_types import parse_counts_per_host
from tests.unit.network.network_kit import (
    channel_to,
    listener_of,
    metadata_handler,
    read_frame,
    request_frame,
    run,
    until,
)


def produce_frame(size: int, correlation_id: int = 1) -> bytes:
    partition = PartitionProduceData(index=0, records=bytes(size))
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    return request_frame(request, 9, correlation_id)


def produce_handler() -> Handler:
    return Handler(ApiKey.PRODUCE, (3, 13), lambda ctx, request: ProduceResponse())


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (ConnectionCounts(connections_max=2), "max.connections:"),
        (ConnectionCounts(per_address_max=2), "max.connections.per.ip:"),
        (ConnectionCounts(per_address_max=99, overrides={"127.0.0.1": 2}), "max.connections.per.ip:"),
    ],
)
def test_a_connection_beyond_the_limit_is_closed_with_one_line_and_the_place_is_free_again_later(
    counts: ConnectionCounts, reason: str, log_lines: list[str]
) -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler(), counts=counts)
        port = await listener.start()
        there = [channel_to(port) for _ in range(2)]
        for channel in there:
            await channel.connect()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        writer.close()
        await there[0].request(MetadataRequest())
        await there[0].close()
        await until(lambda: counts.total == 1)
        another = channel_to(port)
        await another.request(MetadataRequest())
        await another.close()
        await there[1].close()
        await listener.close()
        assert counts.total == 0

    run(main)
    refused = [line for line in log_lines if "connection rejected" in line]
    assert len(refused) == 1
    assert reason in refused[0]
    assert "client=127.0.0.1:" in refused[0]


def test_the_listener_of_brokers_is_not_held_to_max_connections() -> None:
    counts = ConnectionCounts(connections_max=1)
    assert counts.open("10.0.0.1", protected=False) is None
    assert counts.open("10.0.0.2", protected=False) is not None
    assert counts.open("10.0.0.2", protected=True) is None
    counts.close("10.0.0.1")
    counts.close("10.0.0.2")
    assert counts.total == 0


def test_overrides_are_read_by_host() -> None:
    assert parse_counts_per_host("") == {}
    assert parse_counts_per_host("10.0.0.1:5, ::1:7,host-a:0") == {"10.0.0.1": 5, "::1": 7, "host-a": 0}
    for bad in ("10.0.0.1", "[::1]:5", "a:b", "a:5x", "a:99999999999"):
        with pytest.raises(ValueError, match=r"HOST:COUNT|is not a count"):
            parse_counts_per_host(bad)


def test_a_large_request_waits_for_its_bytes_until_the_process_has_room() -> None:
    """A client announces a request that uses the budget up; another's waits, a third's small one does not."""

    async def main() -> None:
        budget = RequestBudget(400_000)
        listener = listener_of(produce_handler(), metadata_handler(), budget=budget)
        port = await listener.start()
        large = produce_frame(500_000)
        assert len(large) > 2 * SCRATCH_BYTES
        stalled_reader, stalled = await asyncio.open_connection("127.0.0.1", port)
        stalled.write(large[:100_000])
        await until(lambda: budget.exhausted)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(large)
        small = channel_to(port)
        await small.request(MetadataRequest())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.readexactly(4)
        stalled.write(large[100_000:])
        await read_frame(stalled_reader)
        await reader.readexactly(4)
        assert budget.taken == 0
        for each in (stalled, writer):
            each.close()
        await small.close()
        await listener.close()

    run(main)


def test_a_lost_connection_gives_its_share_of_the_budget_back() -> None:
    async def main() -> None:
        budget = RequestBudget(100_000)
        futures: list[asyncio.Future[InitProducerIdResponse]] = []

        def park(ctx: object, request: object) -> asyncio.Future[InitProducerIdResponse]:
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        listener = listener_of(
            produce_handler(),
            Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), park),
            budget=budget,
            limits=ConnectionLimits(in_flight_max=1),
        )
        port = await listener.start()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(10):  # nine wait behind the first
            writer.write(request_frame(InitProducerIdRequest(), 4, number))
        await until(lambda: budget.taken > 0 and futures)
        _, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(produce_frame(300_000)[:50_000])
        await until(lambda: budget.exhausted)
        writer.transport.abort()
        other.transport.abort()

        async def answer() -> None:
            """A connection that is not read is seen to be gone when it is written to."""
            for future in futures:
                if not future.done():
                    future.set_result(InitProducerIdResponse())
            await asyncio.sleep(0)

        await until(lambda: listener.connection_count == 0, answer)
        assert budget.taken == 0
        await listener.close()

    run(main)


def test_an_idle_connection_is_closed_and_one_with_a_request_in_hand_is_not(log_lines: list[str]) -> None:
    async def main() -> None:
        parked: list[asyncio.Future[InitProducerIdResponse]] = []

        def park(ctx: object, request: object) -> asyncio.Future[InitProducerIdResponse]:
            parked.append(asyncio.get_running_loop().create_future())
            return parked[-1]

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), park), limits=ConnectionLimits(idle_ms=300))
        port = await listener.start()
        loop = asyncio.get_running_loop()
        began = loop.time()
        idle_reader, idle = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_frame(InitProducerIdRequest(), 4))
        assert await idle_reader.read() == b""
        assert loop.time() - began > 0.27
        await until(lambda: loop.time() - began > 0.75, lambda: asyncio.sleep(0.01))
        assert listener.connection_count == 1
        parked[0].set_result(InitProducerIdResponse())
        await read_frame(reader)
        assert await reader.read() == b""
        idle.close()
        writer.close()
        await listener.close()

    run(main)
    assert len([line for line in log_lines if "idle connection closed" in line]) == 2
