"""What is told of open connections: the other end, its latest request, what it asked and got."""

import asyncio

from kvorum.network.connection_list import TEXT_CHARS_MAX, describe, newest_first
from kvorum.network.context import Peer, RequestContext
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.outbox import GATHERED_BYTES_MAX
from kvorum.network.router import PRIVATE_KEY_MIN, Handler
from kvorum.network.server import Listener
from kvorum.network.upgrade import UpgradeLink
from kvorum.protocol.api import ApiKey
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics
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

NOW_MS = 1_772_360_130_000


class Idle:
    """A connection that was active then."""

    def __init__(self, active_at: float) -> None:
        self.peer = Peer(f"P-{active_at}", "127.0.0.1", since_s=1.0)
        self.address = "127.0.0.1:4711"
        self.active_at = active_at


def listed(listener: Listener) -> list[Peer]:
    return [connection.peer for connection in listener.connections()]


def test_the_most_recently_active_connections_of_all_listeners_are_first() -> None:
    first, second = [Idle(9.0), Idle(5.0), Idle(1.0)], [Idle(7.0), Idle(3.0)]
    newest = newest_first((reversed(first[::-1]), iter(second), iter(())), 4)
    assert [each.active_at for each in newest] == [9.0, 7.0, 5.0, 3.0]


def test_times_are_wall_clock_and_unnamed_callers_anonymous() -> None:
    found = describe(Idle(5.0), now_s=6.5, now_ms=NOW_MS)
    assert (found.since_ms, found.idle_ms) == (NOW_MS - 5_500, 1_500)
    assert (found.client_id, found.software_name, found.software_version) == (None, None, None)
    assert (found.principal, found.address, found.id) == (str(ANONYMOUS), "127.0.0.1:4711", "P-5.0")
    assert describe(Idle(7.0), now_s=6.5, now_ms=NOW_MS).idle_ms == 0, "active since the moment was read"


def test_a_clients_software_name_is_truncated() -> None:
    one = Idle(1.0)
    one.peer.client_id = one.peer.software_name = one.peer.software_version = "x" * 30_000
    found = describe(one, now_s=2.0, now_ms=NOW_MS)
    assert found.client_id == found.software_name == found.software_version == "x" * TEXT_CHARS_MAX


def test_a_connection_reports_its_client_its_requests_and_its_bytes() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        hello = request_frame(
            ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0"), 3, 1, "first"
        )
        requested = [hello, request_frame(MetadataRequest(), 9, 2, "second")]
        got = 0
        for request in requested:
            writer.write(request)
            got += 4 + len(await read_frame(reader))
        (connection,) = listener.connections()
        found = describe(connection, now_s=asyncio.get_running_loop().time(), now_ms=NOW_MS)
        assert (found.client_id, found.software_name, found.software_version) == ("second", "librdkafka", "2.3.0")
        assert (found.requests, found.bytes_in, found.bytes_out) == (2, sum(map(len, requested)), got)
        assert found.listener == "PLAINTEXT" and found.id.startswith(f"PLAINTEXT-{found.address}-")
        assert found.address == "{}:{}".format(*writer.get_extra_info("sockname"))
        assert 0 <= NOW_MS - found.since_ms < 30_000
        writer.close()
        await until(lambda: not listed(listener))
        await listener.close()

    run(main)


def test_bytes_that_leave_before_their_answer_is_whole_count_in_the_list_and_in_the_metrics() -> None:
    """An answer of more than is gathered goes piece by piece, the first before the connection looks what has gone."""
    name = "x" * (3 * GATHERED_BYTES_MAX)

    async def main() -> None:
        metrics = Metrics()

        def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
            return MetadataResponse(cluster_id=name)

        listener = listener_of(
            Handler(ApiKey.METADATA, (9, 13), handle),
            metrics=RegistryMetrics(metrics, asyncio.get_running_loop().time),
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(MetadataRequest(), 9))
        size = 4 + len(await read_frame(reader))
        assert size > len(name)
        assert [peer.bytes_out for peer in listed(listener)] == [size]
        assert f'{names.OUTGOING_BYTES}{{listener="PLAINTEXT"}} {size:.1f}' in metrics.render().decode()
        writer.close()
        await listener.close()

    run(main)


def test_a_connection_that_was_taken_over_does_not_report_what_it_sends() -> None:
    class Sink:
        frames = 0

        def on_frame(self, frame: memoryview) -> None:
            self.frames += 1

        def on_closed(self) -> None:
            return

    sink = Sink()

    def upgrade(link: UpgradeLink, ctx: RequestContext, hello: memoryview) -> Sink:
        link.send(b"welcome")
        return sink

    async def main() -> None:
        listener = listener_of(upgrades={PRIVATE_KEY_MIN: upgrade})
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        hello = encode_request_header(RequestHeader(PRIVATE_KEY_MIN, 0, 1, "node-2"), 1)
        frame = (3).to_bytes(4, "big") + b"abc"
        writer.write(len(hello).to_bytes(4, "big") + hello + frame)
        assert await read_frame(reader) == b"welcome"
        await until(lambda: sink.frames)
        (connection,) = listener.connections()
        found = describe(connection, now_s=0.0, now_ms=NOW_MS)
        assert (found.client_id, found.requests, found.bytes_out) == ("node-2", 1, None)
        assert found.bytes_in == 4 + len(hello) + len(frame)
        writer.close()
        await listener.close()

    run(main)


def test_a_listener_lists_the_latest_first_and_none_before_it_starts() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        assert listed(listener) == []
        port = await listener.start()
        one, other = channel_to(port), channel_to(port, 2)
        await one.request(MetadataRequest())
        await other.request(MetadataRequest())
        ids = [peer.connection_id for peer in listed(listener)]
        await one.request(MetadataRequest())
        assert [peer.connection_id for peer in listed(listener)] == ids[::-1]
        await one.close()
        await other.close()
        await listener.close()

    run(main)
