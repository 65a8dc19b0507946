"""What a client that is held back is counted for, and what it must not take from others meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kvorum.network.authorizer import NoQuotas
from kvorum.network.connection import ServerConnection
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.muting import UNCOUNTED_MAX, Muting
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import REQUEST_PERCENTAGE, BrokerQuotas
from kvorum.network.router import Handler
from kvorum.network.shared import Shared
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_response
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kvorum.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kvorum.runtime.listeners import SecurityProtocol
from tests.unit.network.network_kit import listener_of, metadata_handler, read_frame, request_frame, run, until

HELD_MS = 120
LONG_MS = 600_000


class Held(NoQuotas):
    """Everybody is over the quota."""

    enabled = True

    def __init__(self) -> None:
        self.counted: list[RequestContext] = []

    def throttle_ms(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        if exempt:
            return 0
        self.counted.append(ctx)
        return HELD_MS


def init(correlation_id: int) -> bytes:
    return request_frame(InitProducerIdRequest(), 4, correlation_id)


def produce(size: int, correlation_id: int = 1) -> bytes:
    data = PartitionProduceData(index=0, records=bytes(size))
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    return request_frame(request, 9, correlation_id)


# Refused requests.


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_refused_request_counts_as_any_other(asynchronous: bool) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        times: list[float] = []

        def now(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            times.append(loop.time())
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere")

        async def later(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            return now(ctx, request)

        quotas, handle = Held(), later if asynchronous else now
        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle), quotas=quotas)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1))
        answer: Any = decode_response(ApiKey.INIT_PRODUCER_ID, 4, (await read_frame(reader))[5:])
        assert (answer.error_code, answer.throttle_time) == (ErrorCode.NOT_COORDINATOR, HELD_MS)
        writer.write(init(2))
        await read_frame(reader)
        assert times[1] - times[0] > HELD_MS / 1000 * 0.9
        assert [ctx.correlation_id for ctx in quotas.counted] == [1, 2]
        writer.close()
        await listener.close()

    run(main)


def test_without_quotas_a_refused_request_is_not_checked() -> None:
    async def main() -> None:
        quotas = Held()
        quotas.enabled = False

        def refuse(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), refuse), quotas=quotas)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(init(1))
        answer: Any = decode_response(ApiKey.INIT_PRODUCER_ID, 4, (await read_frame(reader))[5:])
        assert answer.throttle_time == 0 and quotas.counted == []
        writer.close()
        await listener.close()

    run(main)


@pytest.mark.patches
@pytest.mark.parametrize(
    ("code", "counts"), [(ErrorCode.UNKNOWN_SERVER_ERROR, False), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True)]
)
def test_throttles_of_requests_between_brokers_count_only_without_permission(
    code: ErrorCode, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvorum.network import router

    # Its answer has no place for an error as a whole: here it has one.
    monkeypatch.setattr(router, "error_response", lambda *_: WriteTxnMarkersResponse())

    async def main() -> None:
        quotas = Held()

        def refuse(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
            raise KafkaError(code)

        listener = listener_of(Handler(ApiKey.WRITE_TXN_MARKERS, (1, 2), refuse), quotas=quotas)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(WriteTxnMarkersRequest(), 1))
        await read_frame(reader)
        assert len(quotas.counted) == counts
        writer.close()
        await listener.close()

    run(main)


# Requests in hand.


def test_a_client_with_a_time_quota_has_one_request_in_progress() -> None:
    """Each takes 10 ms and waits for its answer: a hundred at once would take a whole second of the loop."""
    spent_s, count, percent = 0.01, 15, 10.0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        quotas = BrokerQuotas(loop.time, Windows(2, 200))
        quotas.update([((("client-id", "test"),), {REQUEST_PERCENTAGE: percent})])
        in_hand: list[int] = []
        waiting: list[asyncio.Future[InitProducerIdResponse]] = []

        def handle(ctx: RequestContext, request: InitProducerIdRequest) -> Any:
            until_s = loop.time() + spent_s
            while loop.time() < until_s:
                pass  # the loop is busy with it
            future = loop.create_future()
            waiting.append(future)
            in_hand.append(len(waiting))
            loop.call_later(0.001, answer, ctx, future)
            return future

        def answer(ctx: RequestContext, future: asyncio.Future[InitProducerIdResponse]) -> None:
            waiting.remove(future)
            ctx.throttle_ms = quotas.throttle_ms(ctx)
            future.set_result(InitProducerIdResponse(throttle_time=ctx.throttle_ms))

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), handle), quotas=quotas)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        began = loop.time()
        writer.write(b"".join(init(number) for number in range(count)))
        for _ in range(count):
            await read_frame(reader)
        assert set(in_hand) == {1}
        # Two windows may be used up at once; from then on it is a tenth of the time.
        assert loop.time() - began > count * spent_s / (percent / 100) - 0.5
        quotas.update([])
        writer.write(b"".join(init(number) for number in range(count)))
        for _ in range(count):
            await read_frame(reader)
        assert max(in_hand) == count, "and without the quota as many as come"
        writer.close()
        await listener.close()

    run(main)


def test_a_client_over_its_quota_has_one_request_in_progress_and_others_a_few() -> None:
    """What is in hand is counted when it is answered: it should not be much more than what the quota lets through."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        quotas = Held()
        parked: list[tuple[RequestContext, asyncio.Future[InitProducerIdResponse]]] = []

        def park(ctx: RequestContext, request: InitProducerIdRequest) -> asyncio.Future[InitProducerIdResponse]:
            parked.append((ctx, loop.create_future()))
            return parked[-1][1]

        def answer(throttle_ms: int) -> None:
            ctx, future = parked.pop(0)
            ctx.throttle_ms = throttle_ms
            future.set_result(InitProducerIdResponse(throttle_time=throttle_ms))

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), park), quotas=quotas)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(b"".join(init(number) for number in range(20)))
        await until(lambda: parked)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(parked) == UNCOUNTED_MAX
        answer(0)
        await read_frame(reader)
        await until(lambda: len(parked) == UNCOUNTED_MAX)
        for _ in range(UNCOUNTED_MAX):
            answer(20)
        for _ in range(UNCOUNTED_MAX):
            await read_frame(reader)
        for throttle_ms in (20, 0):
            await until(lambda: parked)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(parked) == 1
            answer(throttle_ms)
            await read_frame(reader)
        await until(lambda: len(parked) == UNCOUNTED_MAX)
        quotas.enabled = False
        answer(0)
        await until(lambda: len(parked) == 20 - UNCOUNTED_MAX - 4)
        while parked:
            answer(0)
        writer.close()
        await listener.close()

    run(main)


def test_a_client_without_a_time_quota_is_not_limited_to_one_request() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        quotas = BrokerQuotas(loop.time, Windows())
        quotas.update([((("client-id", "other"),), {REQUEST_PERCENTAGE: 1.0})])
        futures: list[asyncio.Future[InitProducerIdResponse]] = []

        def park(ctx: RequestContext, request: InitProducerIdRequest) -> asyncio.Future[InitProducerIdResponse]:
            futures.append(loop.create_future())
            return futures[-1]

        listener = listener_of(Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), park), quotas=quotas)
        _, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(b"".join(init(number) for number in range(5)))
        await until(lambda: len(futures) == 5)
        for future in futures:
            future.set_result(InitProducerIdResponse())
        writer.close()
        await listener.close()

    run(main)


# What others wait for.


def test_a_throttled_connection_does_not_use_the_shared_request_queue() -> None:
    async def main() -> None:
        budget = RequestBudget(200_000)
        throttle_ms = [LONG_MS]

        def handle(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse:
            if ctx.client_id == "held":
                ctx.throttle_ms = throttle_ms.pop() if throttle_ms else 0
            return ProduceResponse(throttle_time=ctx.throttle_ms)

        listener = listener_of(Handler(ApiKey.PRODUCE, (3, 13), handle), budget=budget)
        port = await listener.start()
        first = request_frame(ProduceRequest(acks=1), 9, 1, "held")
        reader, held = await asyncio.open_connection("127.0.0.1", port)
        held.write(first + produce(50_000) + produce(1_000_000)[:40_000])
        await read_frame(reader)
        await until(lambda: budget.taken == 0)
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(produce(300_000))
        await read_frame(other_reader)
        held.close()
        other.close()
        await listener.close()
        assert budget.taken == 0

    run(main)


def test_requests_of_a_throttled_connection_count_again_when_it_continues() -> None:
    async def main() -> None:
        budget = RequestBudget(200_000)
        throttle_ms = [100]

        def handle(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse:
            ctx.throttle_ms = throttle_ms.pop() if throttle_ms else 0
            return ProduceResponse(throttle_time=ctx.throttle_ms)

        listener = listener_of(Handler(ApiKey.PRODUCE, (3, 13), handle), budget=budget)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        large = produce(1_000_000)
        writer.write(request_frame(ProduceRequest(acks=1), 9) + produce(50_000) + large[:40_000])
        await read_frame(reader)
        assert budget.taken == 0
        await read_frame(reader)
        assert budget.taken == len(large) - 4, "the one that is coming in"
        writer.write(large[40_000:])
        await read_frame(reader)
        assert budget.taken == 0
        writer.close()
        await listener.close()

    run(main)


def test_a_client_that_does_not_take_its_answers_holds_nothing_of_it_either() -> None:
    async def main() -> None:
        budget = RequestBudget(200_000)
        names = "x" * 50_000

        def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
            return MetadataResponse(cluster_id=names[:32_000])

        produced = Handler(ApiKey.PRODUCE, (3, 13), lambda ctx, request: ProduceResponse())
        listener = listener_of(
            Handler(ApiKey.METADATA, (0, 13), handle), produced, budget=budget, limits=ConnectionLimits()
        )
        port = await listener.start()
        reader, stalled = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        count = 600
        requested = b"".join(request_frame(MetadataRequest(), 9, number) for number in range(count))
        stalled.write(requested + produce(1_000_000)[:40_000])
        shared = listener._shared
        assert shared is not None
        await until(lambda: [each for each in shared.by_activity if is_stalled(each)])
        assert budget.taken == 0
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(produce(300_000))
        await read_frame(other_reader)
        for _ in range(count):
            await read_frame(reader)
        await until(lambda: budget.taken == len(produce(1_000_000)) - 4)
        stalled.close()
        other.close()
        await listener.close()

    run(main)


def is_stalled(connection: Any) -> bool:
    return bool(connection._outbox.paused and not connection.is_reading)


def test_a_throttled_client_is_not_read_and_continues_where_it_was() -> None:
    async def main() -> None:
        throttle_ms = [100]

        def handle(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse:
            ctx.throttle_ms = throttle_ms.pop() if throttle_ms else 0
            return ProduceResponse(throttle_time=ctx.throttle_ms)

        listener = listener_of(Handler(ApiKey.PRODUCE, (3, 13), handle))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(ProduceRequest(acks=1), 9))
        await read_frame(reader)
        shared = listener._shared
        assert shared is not None
        (connection,) = shared.by_activity
        assert isinstance(connection, ServerConnection) and not connection.is_reading
        writer.write(produce(1_000_000))
        await read_frame(reader)
        assert connection.is_reading
        writer.close()
        await listener.close()

    run(main)


# Turns and times.


class Callbacks:
    """A loop whose callbacks are run by hand, in any order."""

    class Timer:
        def __init__(self, at_s: float) -> None:
            self.at_s = at_s

        def when(self) -> float:
            return self.at_s

        def cancel(self) -> None:
            raise AssertionError("nobody is muted for longer here")

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.timed: list[Callable[[], None]] = []

    def time(self) -> float:
        return 5.0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_at(self, at_s: float, callback: Callable[[], None]) -> Timer:
        self.timed.append(callback)
        return self.Timer(at_s)


def test_a_throttle_that_ends_does_not_let_a_request_overtake_a_handlers_first_step() -> None:
    loop, reported = Callbacks(), list[bool]()
    muting = Muting(loop, lambda: reported.append(muting.is_on))  # type: ignore[arg-type]
    muting.hold(0.1)
    muting.yield_turn()
    loop.timed.pop()()  # timers first, as uvloop has it
    assert muting.is_on and not muting.is_muted
    loop.soon.pop()()
    assert not muting.is_on
    assert reported == [True, False]
    muting.hold(0.1)
    muting.yield_turn()
    loop.soon.pop()()
    assert muting.is_on and muting.is_muted, "the other way round it is muted still"
    loop.timed.pop()()
    assert not muting.is_on


class Wire(asyncio.Transport):
    """A transport whose socket takes no option."""

    aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5) if name == "peername" else self

    def fileno(self) -> int:
        return -1

    def setsockopt(self, level: int, optname: int, value: int) -> None:
        raise OSError("gone already")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


def test_a_connection_whose_buffers_cannot_be_set_is_refused_and_counts_nowhere(log_lines: list[str]) -> None:
    async def main() -> None:
        counts = ConnectionCounts(connections_max=1)
        shared = Shared(
            loop=asyncio.get_running_loop(),
            router=listener_of(metadata_handler())._router,
            listener="PLAINTEXT",
            security_protocol=SecurityProtocol.PLAINTEXT,
            limits=ConnectionLimits(send_buffer_bytes=100_000),
            counts=counts,
            budget=RequestBudget(),
        )
        connection, wire = ServerConnection(shared), Wire()
        connection.connection_made(wire)
        connection.connection_lost(None)
        assert wire.aborted and counts.total == 0 and not shared.by_activity
        assert counts.open("10.0.0.1", protected=False) is None

    run(main)
    assert [line for line in log_lines if "connection rejected" in line and "gone already" in line]
