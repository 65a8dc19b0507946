"""A trace of single requests: whose, how many, and what each line says."""

import asyncio
import re
from typing import Any

import pytest

from kvorum.network.context import RequestContext
from kvorum.network.lane import LaneCaller
from kvorum.network.router import Handler
from kvorum.network.tracing import ROWS_MAX, Tracing, error_codes
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kvorum.runtime.config_defs import BROKER
from kvorum.runtime.config_types import InvalidValue
from kvorum.runtime.trace_wish import COUNT_DEFAULT, TraceWish, parse_trace
from tests.unit.network.network_kit import listener_of, metadata_handler, read_frame, request_frame, run, until

STAGES = ("queue_ms", "decode_ms", "handle_ms", "wait_ms", "encode_ms")


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("", None),
        ("client-id=orders-app", TraceWish(False, "orders-app", COUNT_DEFAULT)),
        ("client-id=a,b,count=7", TraceWish(False, "a,b", 7)),
        ("address=10.0.0.5:41822,count=1000", TraceWish(True, "10.0.0.5:41822", 1000)),
        ("correlation-id=7", TraceWish(False, "*", COUNT_DEFAULT, 7)),
        ("correlation-id=-1,count=2", TraceWish(False, "*", 2, -1)),
        ("client-id=a,b,correlation-id=7", TraceWish(False, "a,b", COUNT_DEFAULT, 7)),
        ("address=10.0.0.5,correlation-id=0,count=3", TraceWish(True, "10.0.0.5", 3, 0)),
    ],
)
def test_a_trace_config_is_parsed(text: str, wish: TraceWish | None) -> None:
    assert parse_trace(text) == wish
    assert BROKER["kvorum.request.trace"].parse(text) == text


@pytest.mark.parametrize(
    "text", ["orders-app", "client-id=", "client-id=a,count=0", "address=a,count=1001", "user=a", "correlation-id=x"]
)
def test_an_invalid_trace_config_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="client-id=NAME or address"):
        BROKER["kvorum.request.trace"].parse(text)


def test_a_trace_matches_by_client_id_or_address() -> None:
    assert TraceWish(False, "a", 1).fits("a", "10.0.0.5:1", 7)
    assert not TraceWish(False, "a", 1).fits("b", "10.0.0.5:1", 7)
    assert TraceWish(False, "*", 1).fits(None, "10.0.0.5:1", 7) and not TraceWish(False, "a", 1).fits(None, "a:1", 7)
    assert TraceWish(True, "10.0.0.5", 1).fits(None, "10.0.0.5:1", 7)
    assert TraceWish(True, "10.0.0.5:1", 1).fits(None, "10.0.0.5:1", 7)
    assert not TraceWish(True, "10.0.0.5:1", 1).fits("10.0.0.5:1", "10.0.0.5:2", 7)


def test_a_trace_matches_one_correlation_id_if_given() -> None:
    assert TraceWish(False, "*", 1, 7).fits("a", "10.0.0.5:1", 7)
    assert not TraceWish(False, "*", 1, 7).fits("a", "10.0.0.5:1", 8)
    assert not TraceWish(False, "b", 1, 7).fits("a", "10.0.0.5:1", 7)
    assert TraceWish(False, "*", 1, 0).fits("a", "10.0.0.5:1", 0) and not TraceWish(False, "*", 1, 0).fits(
        "a", "b:1", 1
    )


def facts(line: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))


def traced(lines: list[str]) -> list[dict[str, str]]:
    return [facts(line) for line in lines if "request traced" in line]


def test_a_traced_request_reports_its_stages_and_the_others_report_nothing(log_lines: list[str]) -> None:
    """The first answer is given by the test: what comes after it on the connection does not wait for it."""

    async def main() -> None:
        future: asyncio.Future[InitProducerIdResponse] = asyncio.get_running_loop().create_future()
        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), lambda ctx, request: future)
        tracing = Tracing()
        tracing.configure("client-id=app,count=2")
        listener = listener_of(handler, metadata_handler(), tracing=tracing)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        frames = [
            request_frame(MetadataRequest(), 13, 1, "another"),
            request_frame(InitProducerIdRequest(), 4, 2, "app"),
            request_frame(MetadataRequest(), 13, 3, "app"),
            request_frame(MetadataRequest(), 13, 4, "app"),
        ]
        writer.write(b"".join(frames))
        await until(lambda: len(traced(log_lines)) == 1)
        future.set_result(InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR))
        answers = [await read_frame(reader) for _ in frames]
        first, second = traced(log_lines)
        assert (first["api"], first["correlation_id"], first["errors"], first["left"]) == (
            "Metadata",
            "3",
            "NONE:1",
            "0",
        )
        assert (second["api"], second["correlation_id"], second["left"]) == ("InitProducerId", "2", "1")
        assert second["errors"] == "NOT_COORDINATOR:1"
        for reported, index in ((first, 2), (second, 1)):
            assert reported["bytes_in"] == str(len(frames[index]) - 4)
            assert reported["bytes_out"] == str(len(answers[index]) + 4)
            assert reported["client_id"] == "app"
            assert all(float(reported[stage]) >= 0 for stage in STAGES if stage in reported)
        assert "wait_ms" in second and "wait_ms" not in first
        assert all(float(first[stage]) > 0 for stage in STAGES if stage != "wait_ms")
        assert tracing.armed is None
        assert [line for line in log_lines if "request trace ended" in line]
        writer.close()
        await listener.close()

    run(main)


def test_a_request_without_a_response_is_also_traced(log_lines: list[str]) -> None:
    async def main() -> None:
        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), lambda ctx, request: None)
        tracing = Tracing()
        tracing.configure("address=127.0.0.1,count=1")
        listener = listener_of(handler, tracing=tracing)
        _, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(InitProducerIdRequest(), 4, 9))
        await until(lambda: traced(log_lines))
        (reported,) = traced(log_lines)
        assert (reported["correlation_id"], reported["errors"], reported["bytes_out"]) == ("9", "-", "0")
        writer.close()
        await listener.close()

    run(main)


def test_a_request_whose_client_left_before_the_response_is_also_traced(log_lines: list[str]) -> None:
    async def main() -> None:
        future: asyncio.Future[InitProducerIdResponse] = asyncio.get_running_loop().create_future()
        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), lambda ctx, request: future, abandon=True)
        tracing = Tracing()
        tracing.configure("address=127.0.0.1,count=1")
        listener = listener_of(handler, tracing=tracing)
        _, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(InitProducerIdRequest(), 4, 9))
        await until(lambda: tracing.armed is None)
        assert traced(log_lines) == []
        writer.close()
        await until(lambda: traced(log_lines))
        (reported,) = traced(log_lines)
        assert (reported["correlation_id"], reported["errors"], reported["bytes_out"]) == ("9", "-", "0")
        assert "wait_ms" in reported and "encode_ms" not in reported
        await listener.close()

    run(main)


def test_one_correlation_id_is_traced_for_all_clients(log_lines: list[str]) -> None:
    async def main() -> None:
        tracing = Tracing()
        tracing.configure("correlation-id=7,count=5")
        listener = listener_of(metadata_handler(), tracing=tracing)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        for correlation_id, client_id in ((6, "a"), (7, "a"), (8, "b"), (7, "b")):
            writer.write(request_frame(MetadataRequest(), 13, correlation_id, client_id))
            await read_frame(reader)
        assert [(reported["correlation_id"], reported["client_id"]) for reported in traced(log_lines)] == [
            ("7", "a"),
            ("7", "b"),
        ]
        writer.close()
        await listener.close()

    run(main)


def envelope(inside: bytes, host: int = 9) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=inside, client_host_address=bytes([10, 0, 0, host]))


@pytest.mark.parametrize(
    "wish",
    ["client-id=app", "correlation-id=7", "client-id=app,correlation-id=7", "address=10.0.0.9", "client-id=broker-1"],
)
def test_a_forwarded_request_is_traced_for_the_client_behind_it(log_lines: list[str], wish: str) -> None:
    async def main() -> None:
        inside = request_frame(MetadataRequest(), 13, 7, "app")[4:]
        handler = Handler(ApiKey.ENVELOPE, (0, 0), lambda ctx, request: EnvelopeResponse(response_data=b""))
        tracing = Tracing()
        tracing.configure(wish)
        listener = listener_of(handler, metadata_handler(), tracing=tracing)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        another = request_frame(MetadataRequest(), 13, 1, "another")[4:]
        for number, broker, data, host in ((3, "broker-2", another, 8), (4, "broker-1", inside, 9)):
            writer.write(request_frame(envelope(data, host), 0, number, broker))
            await read_frame(reader)
        (reported,) = traced(log_lines)
        assert (reported["api"], reported["client_id"], reported["correlation_id"]) == ("Envelope", "broker-1", "4")
        assert (reported["inside"], reported["inside_client_id"], reported["inside_correlation_id"]) == (
            "Metadata",
            "app",
            "7",
        )
        assert reported["inside_client"] == "10.0.0.9"
        writer.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize("inside", [b"", b"\x00\x03", b"\x7f\xff\x00\x00\x00\x00\x00\x07\xff\xff"])
def test_an_envelope_that_cannot_be_read_is_left_to_the_ordinary_way(log_lines: list[str], inside: bytes) -> None:
    async def main() -> None:
        handler = Handler(ApiKey.ENVELOPE, (0, 0), lambda ctx, request: EnvelopeResponse(error_code=42))
        tracing = Tracing()
        tracing.configure("client-id=*")
        listener = listener_of(handler, tracing=tracing)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(envelope(inside), 0, 3, "broker-2"))
        await read_frame(reader)
        assert traced(log_lines) == []
        writer.close()
        await listener.close()

    run(main)


class CountingLane:
    """A lane that would take everything, and notes what it was asked."""

    api_key = int(ApiKey.INIT_PRODUCER_ID)

    def __init__(self) -> None:
        self.requested = self.settled = 0

    def take(self, caller: LaneCaller, frame: memoryview) -> bool:
        self.requested += 1
        return False

    def learn(self, caller: LaneCaller, frame: memoryview, ctx: RequestContext, request: Any) -> None:
        caller.lane_memory = "known"

    def settle(self) -> None:
        self.settled += 1


def test_a_traced_request_does_not_take_the_lane(log_lines: list[str]) -> None:
    async def main() -> None:
        lane = CountingLane()
        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), lambda ctx, request: InitProducerIdResponse())
        tracing = Tracing()
        listener = listener_of(handler, tracing=tracing)
        listener._router.lane = lane
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())

        async def ask() -> int:
            before = lane.requested
            writer.write(request_frame(InitProducerIdRequest(), 4, 1, "app"))
            await read_frame(reader)
            return lane.requested - before

        assert await ask() == 0, "it knows nothing of the connection yet"
        assert await ask() == 1
        tracing.configure("client-id=app,count=1")
        assert await ask() == 0
        assert len(traced(log_lines)) == 1
        assert await ask() == 1
        writer.close()
        await listener.close()

    run(main)


def test_an_equal_config_starts_no_new_trace_and_a_different_one_does(log_lines: list[str]) -> None:
    tracing = Tracing()
    tracing.configure("client-id=a,count=1")
    assert tracing.armed is not None
    tracing.armed.left = 0
    before = tracing.armed
    tracing.configure("client-id=a,count=1")
    assert tracing.armed is before
    tracing.configure("")
    assert tracing.armed is None
    tracing.configure("client-id=a,count=1")
    assert tracing.armed is not None and tracing.armed.left == 1


def test_error_codes_are_found_however_deep_they_lie_and_within_a_limit() -> None:
    codes = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    rows = [PartitionProduceResponse(index=index, error_code=code) for index, code in enumerate(codes)]
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])
    assert sorted(error_codes(answer, 9)) == sorted(codes)
    many = [PartitionProduceResponse(index=index) for index in range(2 * ROWS_MAX)]
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=many)])
    assert len(list(error_codes(answer, 9))) == ROWS_MAX - 2
