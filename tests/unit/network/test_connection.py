"""One connection: order, pipelining, back-pressure, files, throttling, errors, hand-over."""

import asyncio
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from kvorum.network.authorizer import NoQuotas
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits
from kvorum.network.memory import ROOMY_SHARE, ConnectionMemory
from kvorum.network.outbox import DIRECT_BYTES_MIN, GATHERED_BYTES_MAX, PROBE_BYTES, Outbox
from kvorum.network.router import Handler
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_response
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.parts import FileSlice
from kvorum.runtime.disk import OsDisk
from kvorum.security.principal import ANONYMOUS
from tests.unit.network.network_kit import (
    channel_to,
    listener_of,
    metadata_handler,
    read_frame,
    request_frame,
    run,
    until,
)


class Parked:
    """A handler of InitProducerId whose answers the test gives; notes in which order it was called."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.futures: list[asyncio.Future[InitProducerIdResponse]] = []

    def handle(self, ctx: RequestContext, request: InitProducerIdRequest) -> asyncio.Future[InitProducerIdResponse]:
        self.calls.append(ctx.correlation_id)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def handler(self, *, abandon: bool = False, in_order: bool = True) -> Handler:
        return Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), self.handle, abandon, in_order)


class MemoryFile:
    """A file of the given bytes that counts what is read."""

    path = "memory"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read = 0

    def pread(self, size: int, position: int) -> bytes:
        self.read += size
        return self.data[position : position + size]


def fetch_handler(file: MemoryFile, size: int | None = None) -> Handler:
    def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
        part = FileSlice(file, 0, len(file.data) if size is None else size)  # type: ignore[arg-type]
        partition = PartitionData(partition_index=3, records=(b"head", part, b"tail"))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

    return Handler(ApiKey.FETCH, (4, 18), handle)


def init(correlation_id: int) -> bytes:
    return request_frame(InitProducerIdRequest(), 4, correlation_id)


def correlation_id(frame: bytes) -> int:
    return int.from_bytes(frame[:4], "big")


def test_answers_leave_in_request_order_whichever_is_ready_first() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler(), metadata_handler())
        port = await listener.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            init(1) + request_frame(MetadataRequest(), 12, 2) + init(3) + request_frame(MetadataRequest(), 0, 4)
        )
        await until(lambda: len(parked.futures) == 2)
        assert parked.calls == [1, 3]
        parked.futures[1].set_result(InitProducerIdResponse(producer_id=33))
        await asyncio.sleep(0)
        parked.futures[0].set_result(InitProducerIdResponse(producer_id=11))
        frames = [await read_frame(reader) for _ in range(4)]
        assert [correlation_id(frame) for frame in frames] == [1, 2, 3, 4]
        assert decode_response(ApiKey.INIT_PRODUCER_ID, 4, frames[0][5:]).producer_id == 11  # type: ignore[attr-defined]
        assert decode_response(ApiKey.INIT_PRODUCER_ID, 4, frames[2][5:]).producer_id == 33  # type: ignore[attr-defined]
        writer.close()
        await listener.close()

    run(main)


def test_an_answer_without_an_order_waits_for_no_other() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler(in_order=False), metadata_handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1) + init(2) + request_frame(MetadataRequest(), 12, 3) + init(4))
        frames = [await read_frame(reader)]
        assert parked.calls == [1, 2, 4]
        for index in (2, 0, 1):
            parked.futures[index].set_result(InitProducerIdResponse(producer_id=index))
            frames.append(await read_frame(reader))
        assert [correlation_id(frame) for frame in frames] == [3, 4, 1, 2]
        writer.close()
        await listener.close()

    run(main)


@pytest.mark.patches
def test_responses_completed_together_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    flush = Outbox.flush

    def counted(outbox: Outbox) -> None:
        before = outbox.sent
        flush(outbox)
        if outbox.sent > before:
            flushed.append(outbox.sent - before)

    monkeypatch.setattr(Outbox, "flush", counted)

    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(b"".join(init(number) for number in range(1, 11)))
        await until(lambda: len(parked.futures) == 10)
        for future in parked.futures:
            future.set_result(InitProducerIdResponse())
        assert [correlation_id(await read_frame(reader)) for _ in range(10)] == list(range(1, 11))
        assert len(flushed) == 1
        writer.close()
        await listener.close()

    run(main)


def test_completed_responses_are_sent_before_a_failed_one_closes_the_connection() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1) + init(2) + init(3))
        await until(lambda: len(parked.futures) == 3)
        parked.futures[0].set_result(InitProducerIdResponse())
        parked.futures[1].cancel()
        parked.futures[2].set_result(InitProducerIdResponse())
        assert correlation_id(await read_frame(reader)) == 1
        assert await reader.read() == b""
        writer.close()
        await listener.close()

    run(main)


def test_a_coroutine_handler_takes_its_first_step_before_the_next_request_is_handled() -> None:
    async def main() -> None:
        steps: list[str] = []
        release = asyncio.get_running_loop().create_future()

        async def slow(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
            steps.append(f"begun {ctx.correlation_id}")
            await release
            return ListGroupsResponse()

        def fast(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            steps.append(f"handled {ctx.correlation_id}")
            return InitProducerIdResponse()

        listener = listener_of(
            Handler(ApiKey.LIST_GROUPS, (0, 5), slow), Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), fast)
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(
            request_frame(ListGroupsRequest(), 0, 1) + init(2) + request_frame(ListGroupsRequest(), 0, 3) + init(4)
        )
        await until(lambda: len(steps) == 4)
        assert steps == ["begun 1", "handled 2", "begun 3", "handled 4"]
        release.set_result(None)
        assert [correlation_id(await read_frame(reader)) for _ in range(4)] == [1, 2, 3, 4]
        writer.close()
        await listener.close()

    run(main)


def test_no_more_requests_are_in_hand_than_the_limit_and_the_rest_are_not_lost() -> None:
    async def main() -> None:
        parked = Parked()
        listener = listener_of(parked.handler(), limits=ConnectionLimits(in_flight_max=5))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        for number in range(40):
            writer.write(init(number))
        await until(lambda: len(parked.calls) == 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert parked.calls == list(range(5))
        for number in range(40):
            await until(lambda number=number: len(parked.futures) > number)
            assert len(parked.futures) <= number + 5
            parked.futures[number].set_result(InitProducerIdResponse())
            assert correlation_id(await read_frame(reader)) == number
        writer.close()
        await listener.close()

    run(main)


def test_a_request_without_answer_is_followed_by_the_next_answer() -> None:
    async def main() -> None:
        seen: list[int] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> None:
            seen.append(ctx.correlation_id)

        async def later(ctx: RequestContext, request: ListGroupsRequest) -> None:
            seen.append(ctx.correlation_id)

        listener = listener_of(
            Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle),
            Handler(ApiKey.LIST_GROUPS, (0, 5), later),
            metadata_handler(),
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1) + request_frame(ListGroupsRequest(), 0, 2) + request_frame(MetadataRequest(), 0, 3))
        assert correlation_id(await read_frame(reader)) == 3
        assert seen == [1, 2]
        writer.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize("size", [0, 10, GATHERED_BYTES_MAX, 3 * GATHERED_BYTES_MAX + 17])
def test_parts_of_an_answer_arrive_as_one_frame_with_the_file_s_bytes_in_their_place(size: int) -> None:
    async def main() -> None:
        data = bytes(range(256)) * (size // 256 + 1)
        file = MemoryFile(data[:size])
        listener = listener_of(fetch_handler(file), metadata_handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(FetchRequest(), 11, 1) + request_frame(MetadataRequest(), 0, 2))
        answer = decode_response(ApiKey.FETCH, 11, (await read_frame(reader))[4:])
        records = answer.responses[0].partitions[0].records  # type: ignore[attr-defined]
        assert bytes(records) == b"head" + data[:size] + b"tail"
        assert correlation_id(await read_frame(reader)) == 2
        writer.close()
        await listener.close()

    run(main)


def test_a_client_that_does_not_read_holds_a_bounded_number_of_bytes_and_gets_all_of_them_later() -> None:
    async def main() -> None:
        size = 8 * 1024 * 1024
        file = MemoryFile(bytes(size))
        listener = listener_of(fetch_handler(file))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start(), limit=1024)
        for number in range(10):
            writer.write(request_frame(FetchRequest(), 11, number))
        read = -1
        while read != file.read or file.read == 0:  # until the server has stopped reading the file
            read = file.read
            await asyncio.sleep(0.05)
        # What the kernel's buffers and the reader took is beyond our limit; ten answers would be 80 MiB.
        assert 0 < file.read < 4 * size
        total = 0
        for number in range(10):
            frame = await read_frame(reader)
            assert correlation_id(frame) == number
            total += len(frame)
        assert total > 10 * size
        assert 10 * size <= file.read < 11 * size  # what the socket did not take is read again
        writer.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("sizes", [(8_000_000,), (1, 8_000_000), (60_000,) * 100, (20_000, 3_000_000) * 3])
def test_a_client_that_does_not_read_keeps_next_to_nothing_of_a_file_in_memory(
    sizes: tuple[int, ...], cached: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        file = OsDisk().open(str(tmp_path / "log"), create=True)
        data = random.Random(1).randbytes(max(sizes))
        file.pwrite(data, 0)

        def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
            copies = [memoryview(data)[:size] if cached else None for size in sizes]
            slices = [FileSlice(file, 0, size, copy) for size, copy in zip(sizes, copies, strict=True)]
            rows = [PartitionData(records=(b"head", each, b"tail")) for each in slices]
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])

        memory = ConnectionMemory()
        memory.response_bytes = memory.response_bytes_max // ROOMY_SHARE  # what others hold
        listener = listener_of(Handler(ApiKey.FETCH, (4, 18), handle), memory=memory)
        port = await listener.start()
        loop = asyncio.get_running_loop()
        client = socket.create_connection(("127.0.0.1", port))
        client.setblocking(False)
        with client:
            await loop.sock_sendall(client, request_frame(FetchRequest(), 11, 1) + request_frame(FetchRequest(), 11, 2))
            (connection,) = await settled(listener)
            transport = connection._transport
            assert 0 < transport.get_write_buffer_size() <= DIRECT_BYTES_MIN + PROBE_BYTES
            waiting = [part for slot in connection._outbox._slots for part in slot.parts]
            assert not [part for part in waiting if isinstance(part, FileSlice) and part.data is not None]
            for _ in range(2):
                frame = await received(loop, client, int.from_bytes(await received(loop, client, 4), "big"))
                answer: Any = decode_response(ApiKey.FETCH, 11, bytes(frame)[4:])
                rows = answer.responses[0].partitions
                assert [bytes(row.records) for row in rows] == [b"head" + data[:size] + b"tail" for size in sizes]
        await listener.close()
        file.close()

    run(main)


async def settled(listener: Listener) -> list[Any]:
    """Return the connections once each has more to send than its socket takes."""

    def found() -> list[Any]:
        return list(listener.connections())

    await until(lambda: found() and all(each._outbox.paused for each in found()))
    return found()


async def received(loop: asyncio.AbstractEventLoop, client: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        data += await loop.sock_recv(client, size - len(data))
    return data


def test_a_file_shorter_than_promised_cuts_the_connection(log_lines: list[str]) -> None:
    async def main() -> None:
        listener = listener_of(fetch_handler(MemoryFile(bytes(100)), size=200))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(FetchRequest(), 11, 1))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await read_frame(reader)
        writer.close()
        await listener.close()

    run(main)
    assert len([line for line in log_lines if "response truncated" in line]) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.unexpected("ZeroDivisionError")
def test_an_error_of_a_handler_becomes_the_answer_s_error_code(asynchronous: bool, log_lines: list[str]) -> None:
    async def main() -> None:
        errors: list[Exception] = [KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere"), ZeroDivisionError("ours")]

        def now(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            raise errors[ctx.correlation_id - 1]

        async def later(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            raise errors[ctx.correlation_id - 1]

        handle: Any = later if asynchronous else now
        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1) + init(2))
        codes = [decode_response(ApiKey.INIT_PRODUCER_ID, 4, (await read_frame(reader))[5:]) for _ in range(2)]
        assert [answer.error_code for answer in codes] == [  # type: ignore[attr-defined]
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ]
        writer.close()
        await listener.close()

    run(main)
    faults = [line for line in log_lines if "unexpected exception where=request" in line]
    assert len(faults) == 1
    assert "ZeroDivisionError" in faults[0]
    assert "test_connection.py" in faults[0]


@pytest.mark.unexpected("ValueError: ours")
def test_an_error_that_no_answer_can_carry_closes_the_connection_and_spares_the_others(log_lines: list[str]) -> None:
    async def main() -> None:
        def handle(ctx: RequestContext, request: MetadataRequest) -> None:
            raise ValueError("ours")

        def refuse(ctx: RequestContext, request: InitProducerIdRequest) -> None:
            raise ProtocolError("not like this")

        listener = listener_of(
            Handler(ApiKey.METADATA, (0, 13), handle), Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), refuse)
        )
        port = await listener.start()
        other = channel_to(port)
        await other.connect()
        for frame in (request_frame(MetadataRequest(), 9, 1), init(1)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame)
            assert await reader.read() == b""
            writer.close()
        assert (await other.request(ApiVersionsRequest())).error_code == 0  # type: ignore[attr-defined]
        await other.close()
        await listener.close()

    run(main)
    assert len([line for line in log_lines if "not like this" in line]) == 1


def test_a_parked_request_is_abandoned_with_its_connection_only_if_its_handler_reports_it() -> None:
    async def main(abandon: bool) -> None:
        parked = Parked()
        listener = listener_of(parked.handler(abandon=abandon))
        _, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1))
        await until(lambda: parked.futures)
        writer.close()
        await until(lambda: listener.connection_count == 0)
        assert parked.futures[0].cancelled() == abandon
        if not abandon:
            parked.futures[0].set_result(InitProducerIdResponse())  # nobody waits for it, nobody minds
        await listener.close()

    run(lambda: main(True))
    run(lambda: main(False))


def test_a_throttled_client_is_answered_at_once_and_not_handled_again_before_its_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        times: list[float] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            times.append(loop.time())
            ctx.throttle_ms = 100 if ctx.correlation_id == 1 else 0
            return InitProducerIdResponse(throttle_time=ctx.throttle_ms)

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1) + init(2) + init(3))
        await read_frame(reader)
        assert len(times) == 1
        await read_frame(reader)
        assert times[1] - times[0] > 0.09
        await read_frame(reader)
        writer.close()
        await listener.close()

    run(main)


def test_of_several_throttle_times_at_once_the_longest_is_kept() -> None:
    """Three requests in hand: their answers come together, the middle one with the longest time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        times: list[float] = []
        parked: list[tuple[RequestContext, asyncio.Future[InitProducerIdResponse]]] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> Any:
            if ctx.correlation_id > 3:
                times.append(loop.time())
                return InitProducerIdResponse()
            parked.append((ctx, loop.create_future()))
            if len(parked) == 3:
                loop.call_soon(answer)
            return parked[-1][1]

        def answer() -> None:
            times.append(loop.time())
            for (ctx, future), throttle_ms in zip(parked, (30, 300, 60), strict=True):
                ctx.throttle_ms = throttle_ms
                future.set_result(InitProducerIdResponse(throttle_time=throttle_ms))

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1) + init(2) + init(3))
        for _ in range(3):
            await read_frame(reader)
        writer.write(init(4))
        await read_frame(reader)
        answered, handled = times
        assert handled - answered > 0.29
        writer.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize("timed", [False, True])
def test_how_long_the_loop_was_busy_with_a_request_that_waits_is_noted_where_it_counts(timed: bool) -> None:
    async def main() -> None:
        seen: list[RequestContext] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> Any:
            seen.append(ctx)
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.05, future.set_result, InitProducerIdResponse())
            return future

        quotas = NoQuotas() if not timed else Timed()
        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle), quotas=quotas)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        frame = init(1)
        writer.write(frame)
        await read_frame(reader)
        (ctx,) = seen
        assert ctx.request_bytes == len(frame) - 4
        assert (ctx.spent_ms is not None) is timed
        assert ctx.spent_ms is None or 0 <= ctx.spent_ms < 50
        writer.close()
        await listener.close()

    run(main)


class Timed(NoQuotas):
    """Quotas of the loop's time."""

    timed = True


def test_a_handler_gets_the_callers_principal() -> None:
    async def main() -> None:
        contexts: list[RequestContext] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            contexts.append(ctx)
            return InitProducerIdResponse()

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        software = ApiVersionsRequest(client_software_name="my-client", client_software_version="1.2.3")
        writer.write(init(5) + request_frame(software, 3, 6) + init(7))
        for _ in range(3):
            await read_frame(reader)
        first, second = contexts
        assert (first.client_id, first.client_address, first.correlation_id) == ("test", "127.0.0.1", 5)
        assert (first.principal, str(first.principal)) == (ANONYMOUS, "User:ANONYMOUS")
        assert (first.api_key, first.api_version, first.listener) == (ApiKey.INIT_PRODUCER_ID, 4, "PLAINTEXT")
        assert (first.software_name, second.software_name) == ("unknown", "my-client")
        assert second.software_version == "1.2.3"
        assert first.connection_id == second.connection_id
        writer.close()
        await listener.close()

    run(main)
