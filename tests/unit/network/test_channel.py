"""The client's side: versions, pipelining, what a failed request may have done, reconnecting."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kvorum.network.addresses import AddressBook
from kvorum.network.channel import Channel, connect
from kvorum.network.context import RequestContext
from kvorum.network.dial import Backoff, ConnectionLost, RequestTimedOut, is_refusal, is_refusing
from kvorum.network.router import Handler, Router
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, read_frame, run, until

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Parked:
    def __init__(self) -> None:
        self.futures: list[asyncio.Future[InitProducerIdResponse]] = []

    def handle(self, ctx: RequestContext, request: InitProducerIdRequest) -> asyncio.Future[InitProducerIdResponse]:
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def handler(self) -> Handler:
        return Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), self.handle)


def test_requests_are_pipelined_and_each_gets_its_own_answer() -> None:
    async def main() -> None:
        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            return InitProducerIdResponse(producer_id=request.transaction_timeout * 2)

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle))
        channel = channel_to(await listener.start())
        answers = await asyncio.gather(
            *(
                channel.ask(InitProducerIdRequest(transaction_timeout=number), InitProducerIdResponse)
                for number in range(300)
            )
        )
        assert [answer.producer_id for answer in answers] == [2 * number for number in range(300)]
        assert listener.connection_count == 1
        await channel.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize(("served", "used"), [((0, 5), 5), ((0, 3), 3), ((2, 2), 2)])
def test_the_newest_version_both_sides_know_is_used(served: tuple[int, int], used: int) -> None:
    async def main() -> None:
        versions: list[int] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            versions.append(ctx.api_version)
            return InitProducerIdResponse()

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, served, handle))
        channel = channel_to(await listener.start())
        await channel.request(InitProducerIdRequest())
        assert versions == [used]
        with pytest.raises(KafkaError) as refused:
            await channel.request(MetadataRequest())
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        await channel.close()
        await listener.close()

    run(main)


def test_a_peer_that_knows_only_older_api_versions_gets_a_retry() -> None:
    async def main() -> None:
        seen: list[int] = []

        def old(ctx: RequestContext, request: object) -> object:
            from kvorum.network.router import supported_apis
            from kvorum.protocol.messages.api_versions import ApiVersionsResponse

            seen.append(ctx.api_version)
            return ApiVersionsResponse(api_keys=supported_apis({ApiKey.METADATA: (0, 1), ApiKey.API_VERSIONS: (0, 2)}))

        router = Router([Handler(ApiKey.API_VERSIONS, (0, 2), old), metadata_handler()])  # type: ignore[arg-type]
        listener = Listener("OLD", "127.0.0.1", 0, router)
        channel = channel_to(await listener.start())
        answer = await channel.ask(MetadataRequest(), MetadataResponse)
        assert seen == [2]
        assert answer.cluster_id is None  # v1 has none
        await channel.close()
        await listener.close()

    run(main)


def test_records_of_a_response_are_views_of_its_frame() -> None:
    async def main() -> None:
        def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
            partition = PartitionData(partition_index=0, records=bytes(1_000_000))
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

        listener = listener_of(Handler(ApiKey.FETCH, (4, 11), handle))
        channel = channel_to(await listener.start())
        answer = await channel.ask(FetchRequest(), FetchResponse)
        records = answer.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert len(records) == 1_000_000
        assert isinstance(records.obj, bytearray)
        assert len(records.obj) > 1_000_000
        await channel.close()
        await listener.close()

    run(main)


def test_a_refused_attempt_reports_it_and_that_nothing_was_sent() -> None:
    async def main() -> None:
        listener = listener_of()
        port = await listener.start()
        await listener.close()
        refusals: list[int] = []
        channel = channel_to(port, backoff_ms=1, backoff_max_ms=1, on_refused=lambda: refusals.append(1))
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="refused") as lost:
                await channel.request(MetadataRequest())
            assert lost.value.refused
            assert not lost.value.maybe_sent
        assert len(refusals) == 2
        assert await is_refusing("127.0.0.1", port)
        await channel.close()

    run(main)


def test_a_connection_lost_under_a_request_may_have_done_it_and_the_next_request_connects_again() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler(), metadata_handler())
        port = await listener.start()
        lost_calls: list[int] = []
        channel = channel_to(port, on_lost=lambda: lost_calls.append(1))
        asking = asyncio.create_task(channel.request(InitProducerIdRequest()))
        await until(lambda: parked.futures)
        await listener.close(grace_ms=1)
        with pytest.raises(ConnectionLost) as lost:
            await asking
        assert lost.value.maybe_sent
        assert not lost.value.refused
        assert lost_calls == [1]
        assert not channel.connected
        again = Listener("AGAIN", "127.0.0.1", port, listener._router)
        await again.start()
        assert (await channel.ask(MetadataRequest(), MetadataResponse)).cluster_id == "test-cluster"
        await channel.close()
        await again.close()

    run(main)


def test_a_request_that_times_out_closes_the_connection() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler(), metadata_handler())
        channel = channel_to(await listener.start())
        await channel.connect()
        other = asyncio.create_task(channel.request(InitProducerIdRequest()))
        await until(lambda: parked.futures)
        with pytest.raises(RequestTimedOut) as late:
            await channel.request(InitProducerIdRequest(), timeout_ms=30)
        assert late.value.maybe_sent
        with pytest.raises(ConnectionLost):
            await other
        await channel.request(MetadataRequest())
        await channel.close()
        await listener.close(grace_ms=1)

    run(main)


def test_a_cancelled_request_leaves_the_connection_to_the_others() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler(), metadata_handler())
        channel = channel_to(await listener.start())
        first = asyncio.create_task(channel.request(InitProducerIdRequest()))
        await until(lambda: parked.futures)
        second = asyncio.create_task(channel.request(InitProducerIdRequest()))
        await until(lambda: len(parked.futures) == 2)
        first.cancel()
        await asyncio.wait([first])
        for future in parked.futures:
            future.set_result(InitProducerIdResponse(producer_id=7))
        assert (await second).producer_id == 7  # type: ignore[attr-defined]
        assert listener.connection_count == 1
        await channel.close()
        await listener.close()

    run(main)


def test_closing_fails_waiters_even_while_connecting() -> None:
    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        channel = channel_to(server.sockets[0].getsockname()[1])
        asking = asyncio.create_task(channel.request(MetadataRequest()))
        await asyncio.sleep(0.02)
        await channel.close()
        with pytest.raises(ConnectionLost, match="closed") as lost:
            await asking
        assert not lost.value.maybe_sent
        with pytest.raises(ConnectionLost, match="closed"):
            await channel.request(MetadataRequest())
        server.close()
        await server.wait_closed()

    run(main)


@pytest.mark.parametrize("steps", range(8))
def test_a_request_that_is_cancelled_while_its_channel_closes_ends_as_cancelled(steps: int) -> None:
    """Whatever the turn of the loop. A loop around the request would go on after any other error, and never end."""

    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async def request_again_and_again() -> None:
            while True:
                try:
                    await channel.request(MetadataRequest())
                except ConnectionLost:
                    await asyncio.sleep(60)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        channel = channel_to(server.sockets[0].getsockname()[1])
        asking = asyncio.create_task(request_again_and_again())
        await asyncio.sleep(0.02)
        closing = asyncio.create_task(channel.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking], timeout=5)
        assert asking.cancelled()
        await closing
        server.close()
        await server.wait_closed()

    run(main)


@pytest.mark.parametrize(
    "answer",
    [
        bytes.fromhex("ffffffff"),  # negative length
        bytes.fromhex("00000004 00000063"),  # nobody asked for 99
        bytes.fromhex("00000004 00000001"),  # body cut
        bytes.fromhex("0000000a 00000001 0000 7fffffff"),  # a count beyond the bytes
        bytes.fromhex("00000000"),
        bytes.fromhex("7fffffff"),
    ],
)
def test_an_unreadable_answer_closes_the_connection(answer: bytes) -> None:
    async def main() -> None:
        async def confused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_frame(reader)
            writer.write(answer)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(confused, "127.0.0.1", 0)
        channel = channel_to(server.sockets[0].getsockname()[1])
        with pytest.raises(ConnectionLost):
            await channel.request(MetadataRequest())
        await channel.close()
        server.close()
        await server.wait_closed()

    run(main)


def test_an_address_may_be_looked_up_at_every_attempt_and_overridden() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        port = await listener.start()
        book = AddressBook(overrides={2: ("127.0.0.1", port)})
        assert book.get(1) is None
        chance = random.Random(1)
        unknown = Channel(lambda: book.get(1), client_id=None, chance=chance, backoff_ms=1, backoff_max_ms=1)
        with pytest.raises(ConnectionLost, match="unknown") as lost:
            await unknown.request(MetadataRequest())
        assert not lost.value.maybe_sent
        book.put(1, ("127.0.0.1", port))
        book.put(2, ("127.0.0.1", 1))
        await unknown.request(MetadataRequest())
        assert book.get(2) == ("127.0.0.1", port)
        assert book.direct(2) == ("127.0.0.1", 1)
        assert book.ids() == [1, 2]
        book.remove(1)
        assert book.get(1) is None
        await unknown.close()
        ready = await connect("127.0.0.1", port, client_id="c", chance=chance)
        assert ready.connected
        assert ready.versions[ApiKey.METADATA] == (0, 13)
        assert not await is_refusing("127.0.0.1", port)
        await ready.close()
        await listener.close()

    run(main)


def test_delays_double_up_to_the_last_with_chance_around_them() -> None:
    backoff = Backoff(50, 1000, random.Random(3))
    delays = [backoff.next_ms() for _ in range(40)]
    for number, delay in enumerate(delays):
        middle = min(1000, 50 * 2**number)
        assert 0.8 * middle <= delay <= 1.2 * middle
    assert len(set(delays)) == 40
    backoff.reset()
    assert backoff.next_ms() <= 60


def test_a_host_of_several_addresses_refuses_only_if_all_do() -> None:
    refused = "[Errno 111] Connect call failed ('::1', 1, 0, 0)"
    assert is_refusal(ConnectionRefusedError(111, "Connection refused"))
    assert is_refusal(OSError(f"Multiple exceptions: {refused}, {refused}"))
    assert not is_refusal(OSError(f"Multiple exceptions: {refused}, [Errno 113] No route to host"))
    assert not is_refusal(OSError(113, "No route to host"))
    assert not is_refusal(OSError("getaddrinfo failed"))
