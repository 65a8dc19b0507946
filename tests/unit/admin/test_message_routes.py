"""Records over HTTP, in front of a fake cluster with real batches."""

import asyncio
import base64
import contextlib
import csv
import io
import json
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientPayloadError, ClientSession

from kvorum.admin.http import app, streaming
from kvorum.admin.http.streaming import STREAMS_MAX
from kvorum.admin.v1.records import message_routes
from kvorum.admin.v1.records.message_models import Message
from kvorum.client.records import record_browser, record_reader
from kvorum.client.records.expression import Expression
from kvorum.protocol.compression import Codec
from kvorum.protocol.control import marker
from kvorum.protocol.messages.fetch import AbortedTransaction, FetchRequest
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.messages.produce import ProduceRequest
from kvorum.protocol.records import Record
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, call, serve, with_fake

PATH = "/v1/topics/t/messages"


def fill(cluster: FakeCluster, count: int = 10) -> None:
    """Records of two partitions, in turn by their timestamps: even numbers in 0, odd ones in 1."""
    logs = cluster.add("t", 2)
    for number in range(count):
        record = Record(
            key=b"k%d" % number,
            value=json.dumps({"number": number}).encode(),
            timestamp=NOW_MS + number,
            headers=(("source", b"web" if number % 3 else b"app"),),
        )
        logs[number % 2].append(record, codec=Codec.ZSTD)


def numbers(page: dict[str, Any]) -> list[int]:
    return [each["value"]["number"] for each in page["messages"]]


def test_records_of_several_partitions_come_by_time_and_in_pages() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, page = await call(client, "GET", f"{PATH}?limit=4")
        assert (status, numbers(page), page["stopped_by"]) == (200, [0, 1, 2, 3], "limit")
        assert page["next"] == "0:2,1:2"
        page = (await call(client, "GET", f"{PATH}?limit=100&offsets={page['next']}"))[1]
        assert (numbers(page), page["stopped_by"], page["scanned"]) == ([4, 5, 6, 7, 8, 9], "end", 6)
        assert page["next"] == "0:5,1:5" and page["bytes"] > 0
        first = page["messages"][0]
        assert (first["partition"], first["offset"], first["timestamp_ms"]) == (0, 2, NOW_MS + 4)
        assert (first["key"], first["key_format"], first["value_format"]) == ("k4", "string", "json")
        assert first["headers"] == [{"key": "source", "value": "web", "format": "string"}]
        page = (await call(client, "GET", f"{PATH}?offsets={page['next']}"))[1]
        assert (page["messages"], page["stopped_by"], page["next"]) == ([], "end", "0:5,1:5")

    with_fake(test)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("partitions=1", [1, 3, 5, 7, 9]),
        ("offset=3", [6, 7, 8, 9]),
        ("offset=99", []),
        ("offsets=0:4", [8]),
        (f"timestamp_ms={NOW_MS + 7}", [7, 8, 9]),
        (f"timestamp_ms={NOW_MS + 70}", []),
        ("tail=1", [8, 9]),
        ("tail=9&partitions=0", [0, 2, 4, 6, 8]),
        ("from=latest", []),
        ("from=earliest&limit=2", [0, 1]),
        ("filter=value.number>7", [8, 9]),
        ("filter=headers.source==%22app%22", [0, 3, 6, 9]),
        ("filter=partition==1%26%26offset<2", [1, 3]),
    ],
)
def test_start_positions_and_filters(query: str, found: list[int]) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, page = await call(client, "GET", f"{PATH}?{query}")
        assert (status, numbers(page)) == (200, found)

    with_fake(test)


@pytest.mark.parametrize(
    ("query", "stopped", "scanned"),
    [
        ("scanned=3&filter=false", "scanned", 3),
        ("bytes=1", "bytes", 9),
        ("limit=1", "limit", 1),
        ("filter=false", "end", 10),
    ],
)
def test_each_limit_has_its_name(query: str, stopped: str, scanned: int) -> None:
    """Of `bytes=1`: what was fetched is looked at until a partition has nothing left."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        for log in cluster.logs["t"]:
            whole = log.read
            log.read = lambda offset, size, whole=whole: whole(offset, 1)[:]  # type: ignore[method-assign]  # a batch at a time
        page = (await call(client, "GET", f"{PATH}?{query}"))[1]
        assert page["stopped_by"] == stopped
        if stopped == "bytes":
            assert 1 <= page["scanned"] < scanned
            rest = (await call(client, "GET", f"{PATH}?offsets={page['next']}"))[1]
            assert numbers(page) + numbers(rest) == list(range(10)), "no record is lost between pages"
        else:
            assert page["scanned"] == scanned

    with_fake(test)


def test_time_is_a_limit_too() -> None:
    class Racing:
        """Each look at the clock takes a second."""

        now_ms = 0

        def wall_ms(self) -> int:
            return self.now_ms

        def monotonic_ms(self) -> int:
            self.now_ms += 1_000
            return self.now_ms

    async def test() -> None:
        cluster = FakeCluster()
        async with serve(cluster, clock=Racing()) as client:
            fill(cluster)
            page = (await call(client, "GET", f"{PATH}?time_ms=4000"))[1]
            assert page["stopped_by"] == "time" and 0 < len(page["messages"]) < 10

    asyncio.run(test())


def test_bytes_are_shown_as_requested() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("b")
        log.append(Record(key=None, value=b"\xff\x01", headers=(("n", None), ("b", b"\xfe"), ("b", b"x"))))
        log.append(Record(key=b"", value=None))
        shapes = {"auto": "/wE=", "hex": "ff01", "base64": "/wE=", "size": None, "string": "\ufffd\x01", "json": "/wE="}
        for form, value in shapes.items():
            page = (await call(client, "GET", f"/v1/topics/b/messages?value_format={form}"))[1]
            first, second = page["messages"]
            assert (first["value"], first["value_bytes"]) == (value, 2), form
            assert first["value_format"] == ("base64" if form in ("auto", "json") else form)
            assert (second["value"], second["value_bytes"], second["key"], second["key_bytes"]) == (None, None, "", 0)
        assert first["key"] is None and first["key_bytes"] is None
        assert [(h["key"], h["value"]) for h in first["headers"]] == [("n", None), ("b", "/g=="), ("b", "x")]

    with_fake(test)


def test_compressed_records_count_with_their_uncompressed_size() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("z")
        for _ in range(3):
            log.append(Record(value=bytes(1_000_000)), codec=Codec.ZSTD)
        assert sum(map(len, log.batches)) < 10_000
        log.read = lambda offset, size, whole=log.read: whole(offset, 1)  # type: ignore[method-assign]  # one batch at a time
        page = (await call(client, "GET", "/v1/topics/z/messages?bytes=1500000&value_format=size"))[1]
        assert (len(page["messages"]), page["bytes"], page["stopped_by"]) == (2, 2_000_000, "bytes")

    with_fake(test)


def test_read_committed_ends_where_a_transaction_is_open_and_leaves_out_what_was_aborted() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("x")
        options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        log.append(Record(value=b"aborted"), **options)
        log.append_batch(marker(7, 0, is_commit=False, coordinator_epoch=0, timestamp=0))
        log.append(Record(value=b"kept"))
        log.append(Record(value=b"open"), **options)
        log.aborted, log.stable = [AbortedTransaction(producer_id=7, first_offset=0)], 3

        async def values(isolation: str) -> tuple[list[str], str]:
            page = (await call(client, "GET", f"/v1/topics/x/messages?isolation={isolation}"))[1]
            return [each["value"] for each in page["messages"]], page["stopped_by"]

        assert await values("read_committed") == (["kept"], "end")
        assert await values("read_uncommitted") == (["aborted", "kept", "open"], "end")

    with_fake(test)


def test_the_next_page_begins_where_this_one_ended_though_more_was_fetched() -> None:
    """The log goes on behind what may be read committed; in what was read nothing is visible."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("x")
        options = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        log.append(Record(value=b"aborted"), producer_id=7, **options)
        log.append_batch(marker(7, 0, is_commit=False, coordinator_epoch=0, timestamp=0))
        log.append(Record(value=b"open"), producer_id=8, **options)
        log.aborted, log.stable = [AbortedTransaction(producer_id=7, first_offset=0)], 2
        path = "/v1/topics/x/messages?isolation=read_committed"
        page = (await call(client, "GET", path))[1]
        assert (page["messages"], page["stopped_by"], page["next"]) == ([], "end", "0:2")
        log.stable = None
        page = (await call(client, "GET", f"{path}&offsets={page['next']}"))[1]
        assert [each["value"] for each in page["messages"]] == ["open"]

    with_fake(test)


def test_a_log_whose_begin_moved_is_read_from_there() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        cluster.logs["t"][0].start = 3
        page = (await call(client, "GET", f"{PATH}?offset=1&partitions=0"))[1]
        assert numbers(page) == [6, 8]

    with_fake(test)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("bytes=99999999999", "bytes"),
        ("partitions=a", "partitions"),
        ("offset=-1", "offset"),
        ("offset=1&tail=1", "tail"),
        ("offsets=1", "offsets"),
        ("offsets=0:1&partitions=0", "partitions"),
        ("isolation=none", "isolation"),
        ("value_format=xml", "value_format"),
        ("from=middle", "from"),
        ("filter=value.", "filter"),
        ("filter=__import__('os')", "filter"),
    ],
)
@pytest.mark.parametrize("suffix", ["", "/stream", "/export"])
def test_an_unreadable_topic_is_reported_before_reading(suffix: str, query: str, field: str) -> None:
    if suffix and query in ("limit=10001", "bytes=99999999999"):
        return  # an export, and what follows, may be longer

    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        status, problem = await call(client, "GET", f"{PATH}{suffix}?{query}")
        assert (status, problem["error"], problem["field"]) == (400, "INVALID_REQUEST", field), problem
        assert not [each for each in cluster.requested if isinstance(each, FetchRequest)]

    with_fake(test)


def test_missing_topics_and_partitions() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        for path in ("/v1/topics/none/messages", f"{PATH}?partitions=5", f"{PATH}/stream?partitions=5"):
            status, problem = await call(client, "GET", path)
            assert (status, problem["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION"), path
        cluster.logs["t"][0].leader = -1
        status, problem = await call(client, "GET", PATH)
        assert (status, problem["error"]) == (503, "LEADER_NOT_AVAILABLE")

    with_fake(test)


async def events_of(content: Any, count: int) -> list[tuple[str, Any]]:
    """Return the next server-sent events; comments are passed over. Fails where they do not come."""
    found: list[tuple[str, Any]] = []
    name = ""
    async with asyncio.timeout(10):
        while len(found) < count:
            line = (await content.readline()).decode()
            assert line, f"the stream ended after {found}"
            if line.startswith("event: "):
                name = line.removeprefix("event: ").rstrip()
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found


def test_new_records_are_streamed_up_to_the_limit() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        async with client.get(f"{PATH}/stream?limit=3&filter=value.number!=11") as answer:
            assert answer.content_type == "text/event-stream"
            assert await answer.content.readline() == b": following\n"
            for number in (10, 11, 12, 13, 14):
                value = json.dumps({"number": number}).encode()
                cluster.logs["t"][number % 2].append(Record(value=value, timestamp=NOW_MS + number))
            cluster.wake()
            found = await events_of(answer.content, 4)
        assert [(name, data["value"]["number"]) for name, data in found[:3]] == [
            ("message", 10),
            ("message", 12),
            ("message", 13),
        ]
        assert found[3] == ("end", {"stopped_by": "limit", "scanned": 4, "next": "0:7,1:7"})
        assert cluster.closed == 1, "its connections are its own"

    with_fake(test)


def test_a_leader_that_moves_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "RETRY_PAUSE_SECONDS", 0.0)

    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        async with client.get(f"{PATH}/stream?limit=1") as answer:
            await answer.content.readline()
            log.append(Record(value=b"late"))
            log.leader = 2
            requested = len(cluster.requested)
            await cluster.until(
                lambda: sum(isinstance(each, MetadataRequest) for each in cluster.requested[requested:]) >= 3
            )
            log.leader = 1
            ((name, data),) = await events_of(answer.content, 1)
        assert (name, data["value"]) == ("message", "late")

    with_fake(test)


def test_a_partition_without_a_leader_ends_its_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "RETRY_PAUSE_SECONDS", 0.0)

    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        async with client.get(f"{PATH}/stream") as answer:
            await answer.content.readline()
            log.leader = 2
            cluster.wake()
            ((name, data),) = await events_of(answer.content, 1)
        assert name == "error" and "LEADER_NOT_AVAILABLE" in data["message"]

    with_fake(test)


def test_an_export_that_fails_is_broken_off() -> None:
    """Who reads it must not take it for whole: what came before is not followed by an orderly end."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        cluster.logs["t"][0].batches[3] = cluster.logs["t"][0].batches[3][:-1] + b"!"
        async with client.get(f"{PATH}/export") as answer:
            with pytest.raises(ClientPayloadError):
                await answer.read()

    with_fake(test)


def test_a_stream_ends_with_its_reader_and_their_number_is_limited() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.add("t")
        streams = [await client.get(f"{PATH}/stream") for _ in range(STREAMS_MAX)]
        async with client.get(f"{PATH}/stream") as answer:
            assert answer.status == 429 and (await answer.json())["error"] == "TOO_MANY_STREAMS"
        for stream in streams:
            stream.close()
        await cluster.until(lambda: cluster.closed >= STREAMS_MAX)
        async with client.get(f"{PATH}/stream?time_ms=1") as answer:
            assert answer.status == 200

    with_fake(test)


def test_a_batch_is_decompressed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of a few megabytes may be gigabytes of records: no more of them are held than a limit and a piece."""
    monkeypatch.setattr(record_reader, "ANSWER_BYTES", 1_000)
    held: list[int] = []
    decoded = record_reader.decode_piece

    async def decoding(*arguments: Any) -> record_reader.FetchPiece:
        piece = await decoded(*arguments)
        held[-1] += piece.size
        return piece

    monkeypatch.setattr(record_reader, "decode_piece", decoding)

    async def test(client: Client, cluster: FakeCluster) -> None:
        for number, log in enumerate(cluster.add("t", 8)):
            log.append(Record(value=b"x" * 600, timestamp=NOW_MS + number), codec=Codec.ZSTD)
        ask = cluster.ask

        async def asking(request: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(request, FetchRequest):
                held.append(0)
            return await ask(request, *arguments, **options)

        monkeypatch.setattr(cluster, "ask", asking)
        status, page = await call(client, "GET", PATH)
        assert (status, page["stopped_by"]) == (200, "end")
        assert [each["partition"] for each in page["messages"]] == list(range(8))
        assert len(held) >= 4 and max(held) <= 1_000 + 600

    with_fake(test)


def test_of_pages_that_are_large_a_few_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        ask, held, go_on = cluster.ask, 0, asyncio.Event()
        enough = asyncio.Event()

        async def asking(request: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal held
            if isinstance(request, FetchRequest) and not go_on.is_set():
                held += 1
                if held >= app.LARGE_MAX:
                    enough.set()
                await go_on.wait()
            return await ask(request, *arguments, **options)

        monkeypatch.setattr(cluster, "ask", asking)
        requested = [asyncio.create_task(call(client, "GET", PATH)) for _ in range(3 * app.LARGE_MAX)]
        async with asyncio.timeout(30):
            await enough.wait()
        for _ in range(20):  # each comes behind those pages, and is answered while they wait
            assert (await call(client, "GET", "/v1/topics"))[0] == 200
        assert held == app.LARGE_MAX
        go_on.set()
        pages = [(await each)[1] for each in requested]
        assert [numbers(page) for page in pages] == [list(range(10))] * len(pages), "whoever waited has all of it"

    with_fake(test)


def test_a_stream_whose_reader_stalls_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that keeps the connection and never reads would have one of the streams for ever."""
    monkeypatch.setattr(streaming, "STALLED_SECONDS", 0.2)

    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t", 1)
        for _ in range(24):  # more than the kernel keeps for both ends
            log.append(Record(value=b"x" * 1_000_000, timestamp=NOW_MS), codec=Codec.ZSTD)
        with socket.create_connection(("127.0.0.1", client.port or 0)) as reader:
            reader.sendall(f"GET {PATH}/export HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            await cluster.until(lambda: cluster.closed >= 1)
            reader.settimeout(30)
            got = 0
            with contextlib.suppress(ConnectionResetError):
                while piece := await asyncio.to_thread(reader.recv, 1 << 20):
                    got += len(piece)
            assert got < 24_000_000, "broken off, so that nobody takes it for the whole"

    with_fake(test)


def test_a_server_that_ends_ends_its_streams() -> None:
    async def test() -> None:
        cluster = FakeCluster()
        cluster.add("t")
        async with ClientSession() as reader, asyncio.timeout(10):
            async with serve(cluster) as client:
                answer = await reader.get(client.make_url(f"{PATH}/stream"))
                assert await answer.content.readline()
            assert cluster.closed >= 1

    asyncio.run(test())


def test_a_failure_in_the_middle_ends_the_stream_with_an_error() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.add("t")
        async with client.get(f"{PATH}/stream") as answer:
            await answer.content.readline()
            del cluster.logs["t"]
            cluster.wake()
            ((name, data),) = await events_of(answer.content, 1)
        assert name == "error" and "UNKNOWN_TOPIC_OR_PARTITION" in data["message"]

    with_fake(test)


def test_a_topic_is_exported_as_lines() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        async with client.get(f"{PATH}/export?partitions=0&limit=3") as answer:
            assert answer.content_type == "application/x-ndjson"
            *rows, end = [json.loads(line) for line in (await answer.text()).splitlines()]
        assert [row["value"]["number"] for row in rows] == [0, 2, 4]
        assert end == {"stopped_by": "limit", "scanned": 3, "next": "0:3"}
        cluster.logs["t"][0].append(Record(key=b"", value=b'a "b",\nc', timestamp=NOW_MS + 99))
        async with client.get(f"{PATH}/export?format=csv&partitions=0&offset=4") as answer:
            assert answer.content_type == "text/csv"
            body = await answer.text()
        *lines, end_line = list(csv.reader(io.StringIO(body)))
        assert lines[0] == ["partition", "offset", "timestamp_ms", "key", "value", "headers"]
        assert lines[1] == ["0", "4", str(NOW_MS + 8), "k8", '{"number":8}', '[["source","web"]]']
        assert lines[2][3:5] == ["", 'a "b",\nc']
        assert end_line[0].startswith('# {"stopped_by":"end"')

    with_fake(test)


def test_records_are_written_and_reported_one_by_one() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        logs = cluster.add("t", 3)
        records = [
            {"key": "21", "value": {"a": [1, None]}, "headers": [{"key": "h", "value": "v"}, {"key": "n"}]},
            {"key": "21", "value": None, "timestamp_ms": 5},
            {"partition": 2, "value": base64.b64encode(b"\xff").decode(), "value_format": "base64"},
            {"partition": 2, "value": "ff00", "value_format": "hex"},
            {"partition": 2, "value": "text", "value_format": "json"},
        ]
        status, result = await call(client, "POST", PATH, {"records": records, "compression": "gzip"})
        assert (status, result["written"]) == (200, 5)
        home = ((-973932308) & 0x7FFFFFFF) % 3
        assert [(row["partition"], row["offset"], row["error"]) for row in result["records"]] == [
            (home, 0, None),
            (home, 1, None),
            *((2, offset + (2 if home == 2 else 0), None) for offset in range(3)),
        ]
        first, tombstone = logs[home].records()[:2]
        assert (first.key, first.value, first.headers) == (b"21", b'{"a":[1,null]}', (("h", b"v"), ("n", None)))
        assert (tombstone.value, tombstone.timestamp) == (None, 5)
        assert [each.value for each in logs[2].records()][-3:] == [b"\xff", b"\xff\x00", b'"text"']
        page = (await call(client, "GET", f"{PATH}?partitions={home}"))[1]
        assert page["messages"][0]["value"] == {"a": [1, None]}

    with_fake(test)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"partition": 9}, "records.0.partition"),
        ({"value": "zz", "value_format": "hex"}, "records.0.value"),
        ({"key": "!", "key_format": "base64"}, "records.0.key"),
        ({"value": 5, "value_format": "string"}, "records.0.value"),
        ({"headers": [{"key": "a", "value": "z", "format": "hex"}]}, "records.0.headers.0.value"),
        ({"vaule": 1}, "records.0.vaule"),
        ({"value": {"n": float("nan")}}, "records.0.value"),
        ({"value": float("inf")}, "records.0.value"),
    ],
)
def test_a_record_that_cannot_be_written_is_named_and_none_is(record: dict[str, Any], field: str) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        status, problem = await call(client, "POST", PATH, {"records": [record, {"value": "fine"}]})
        assert (status, problem["field"], log.end) == (400, field, 0)

    with_fake(test)


def test_a_body_that_is_too_large_is_refused() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        body = io.BytesIO(json.dumps({"records": [{"value": "x" * (1 << 20)}]}).encode())
        async with client.post(PATH, data=body, headers={"Content-Type": "application/json"}) as answer:
            problem = await answer.json()
        assert (answer.status, problem["error"], log.end) == (413, "REQUEST_ENTITY_TOO_LARGE", 0)

    with_fake(test)


def test_a_partition_that_waits_for_its_followers_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        logs = cluster.add("t", 3)
        ask, go_on = cluster.ask, asyncio.Event()

        async def asking(request: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(request, ProduceRequest) and request.topic_data[0].partition_data[0].index == 0:
                await go_on.wait()
            found = await ask(request, *arguments, **options)
            if isinstance(request, ProduceRequest) and logs[1].end and logs[2].end:
                go_on.set()
            return found

        monkeypatch.setattr(cluster, "ask", asking)
        records = [{"partition": each, "value": str(each)} for each in (0, 1, 2)]
        async with asyncio.timeout(20):
            written = (await call(client, "POST", PATH, {"records": records}))[1]
        assert [each["partition"] for each in written["records"]] == [0, 1, 2] and written["written"] == 3

    with_fake(test)


def test_a_partition_without_leader_is_reported_with_its_records() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.add("t", 2)[1].leader = -1
        body = {"records": [{"partition": 0, "value": "a"}, {"partition": 1, "value": "b"}]}
        result = (await call(client, "POST", PATH, body))[1]
        assert [row["error"] for row in result["records"]] == [None, "LEADER_NOT_AVAILABLE"]
        assert result["written"] == 1

    with_fake(test)


@pytest.mark.parametrize("way", ["", "/export", "/stream"])
def test_a_large_record_is_looked_at_off_the_loop(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of JSON of a megabyte, a filter and what is shown take tens of milliseconds each: others are served meanwhile."""
    places: dict[str, set[bool]] = {"matches": set(), "message_of": set()}
    matches, message_of = Expression.matches, message_routes.message_of

    def on_loop(name: str) -> None:
        places[name].add(threading.current_thread() is threading.main_thread())

    def matching(expression: Expression, subject: Any) -> bool:
        on_loop("matches")
        return matches(expression, subject)

    def shown(*arguments: Any) -> Message:
        on_loop("message_of")
        return message_of(*arguments)

    monkeypatch.setattr(Expression, "matches", matching)
    monkeypatch.setattr(message_routes, "message_of", shown)

    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t", 1)
        log.append(Record(value=json.dumps({"items": ["x" * 1000] * 100}).encode(), timestamp=NOW_MS))
        answer = await client.get(f"{PATH}{way}?from=earliest&limit=1&filter=size(value.items)==100")
        assert (answer.status, (await answer.text()).count('"offset":0')) == (200, 1)
        assert places == {"matches": {False}, "message_of": {False}}

    with_fake(test)


def test_large_records_are_looked_at_a_few_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t", 1)
        size = record_browser.LARGE_BYTES - 1000
        log.append(*(Record(value=b"x" * size, timestamp=NOW_MS) for _ in range(100)))
        turns = 0

        async def pause(seconds: float) -> None:
            nonlocal turns
            turns += 1

        monkeypatch.setattr(record_browser, "asyncio", SimpleNamespace(sleep=pause))
        status, page = await call(client, "GET", f"{PATH}?limit=100&value_format=size")
        assert (status, len(page["messages"])) == (200, 100)
        in_a_turn = -(-record_browser.TURN_BYTES // size)
        assert turns == 100 // in_a_turn

    with_fake(test)
