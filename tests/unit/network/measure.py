"""How much one core serves: `python -m tests.unit.network.measure [--loop asyncio]`. Not a test.

A server process with handlers that do nothing, a client process that writes prepared bytes and counts answers: the
figures are requests a second of the server's processor time (all its work: socket, frame, header, body, answer).
"""

import argparse
import asyncio
import multiprocessing
import os
import socket
import struct
import sys
import tempfile
import time
from multiprocessing.connection import Connection

import uvloop

from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import BROKER_APIS, ApiKey, request_header_version
from kvorum.protocol.codec import encode_bytes
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kvorum.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.schema import Message
from kvorum.runtime.disk import OsDisk

FETCH_BYTES = 1024 * 1024


def frame(message: Message, version: int, client_id: str = "producer-1") -> bytes:
    header_version = request_header_version(message.API_KEY, version, message.FLEXIBLE_FROM)
    body = encode_request_header(RequestHeader(message.API_KEY, version, 7, client_id), header_version)
    body += encode_bytes(message, version)
    return len(body).to_bytes(4, "big") + body


def serve(pipe: Connection, loop: str) -> None:
    apis = supported_apis(BROKER_APIS)
    path = os.path.join(tempfile.mkdtemp(), "log")
    disk = OsDisk()
    file = disk.open(path, create=True)
    file.pwrite(os.urandom(FETCH_BYTES), 0)

    def produce(ctx: object, request: ProduceRequest) -> ProduceResponse:
        answers = [
            TopicProduceResponse(
                name=t.name,
                partition_responses=[PartitionProduceResponse(index=p.index, base_offset=1) for p in t.partition_data],
            )
            for t in request.topic_data
        ]
        return ProduceResponse(responses=answers)

    def fetch(ctx: object, request: FetchRequest) -> FetchResponse:
        part = PartitionData(partition_index=0, high_watermark=1, records=(FileSlice(file, 0, FETCH_BYTES),))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    async def wait(ctx: object, request: ProduceRequest) -> ProduceResponse:
        return produce(ctx, request)

    async def main() -> None:
        router = Router(
            [
                Handler(ApiKey.API_VERSIONS, (0, 4), lambda ctx, request: ApiVersionsResponse()),
                Handler(ApiKey.METADATA, (0, 13), lambda ctx, request: ApiVersionsResponse(api_keys=apis)),
                Handler(ApiKey.PRODUCE, (3, 13), produce),
                Handler(ApiKey.FETCH, (4, 18), fetch),
            ]
        )
        listener = Listener("PLAINTEXT", "127.0.0.1", 0, router)
        pipe.send(await listener.start())
        loop_ = asyncio.get_running_loop()
        stop = loop_.create_future()

        def command() -> None:
            if pipe.recv() == "cpu":
                pipe.send(time.process_time())
            else:
                stop.set_result(None)

        loop_.add_reader(pipe.fileno(), command)
        await stop
        await listener.close(0)

    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    if "--profile" in sys.argv:
        import cProfile
        import pstats

        profile = cProfile.Profile()
        with asyncio.Runner(loop_factory=factory) as runner:
            profile.runcall(runner.run, main())
        pstats.Stats(profile).sort_stats("tottime").print_stats(28)
        return
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


def drive(port: int, data: bytes, depth: int, total: int) -> float:
    """Keep `depth` requests under way until `total` are answered; return the seconds it took."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        sock.sendall(data * depth)
        sent = depth
        answered = 0
        buffer = bytearray()
        chunk = bytearray(4 * 1024 * 1024)
        left = 0  # bytes of an answer still to come
        while answered < total:
            view = memoryview(chunk)[: sock.recv_into(chunk)]
            got = 0
            while view:
                if left:
                    take = min(left, len(view))
                    left -= take
                    view = view[take:]
                    got += left == 0
                    continue
                take = min(4 - len(buffer), len(view))
                buffer += view[:take]
                view = view[take:]
                if len(buffer) == 4:
                    left = struct.unpack(">i", buffer)[0]
                    buffer.clear()
            answered += got
            more = min(got, total - sent)
            if more > 0:
                sock.sendall(data * more)
                sent += more
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    pipe, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, options.loop))
    server.start()
    port = pipe.recv()
    small = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)

    def produce(size: int) -> bytes:
        partition = PartitionProduceData(index=0, records=bytes(size))
        return frame(
            ProduceRequest(acks=1, timeout=1000, topic_data=[TopicProduceData(name="t", partition_data=[partition])]), 9
        )

    fetch = frame(FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[FetchPartition()])]), 11)
    cases = {
        "ApiVersions, one at a time": (small, 1, 20_000),
        "ApiVersions, 100 pipelined": (small, 100, 100_000),
        "Produce 1 KB, 5 pipelined": (produce(1_000), 5, 40_000),
        "Produce 100 KB, 5 pipelined": (produce(100_000), 5, 10_000),
        "Produce 1 MB, 5 pipelined": (produce(1_000_000), 5, 1_000),
        "Fetch 1 MB of a file": (fetch, 2, 2_000),
    }
    for name, (data, depth, total) in cases.items():
        if options.only not in name:
            continue
        pipe.send("cpu")
        before = pipe.recv()
        seconds = drive(port, data, depth, total)
        pipe.send("cpu")
        cpu = pipe.recv() - before
        print(
            f"{name:30} {total / seconds:10,.0f}/s  {total / cpu:10,.0f}/s of cpu  {cpu / total * 1e6:8.1f} us each  "
            f"{total * max(len(data), FETCH_BYTES if 'Fetch' in name else 0) / seconds / 1e6:8,.0f} MB/s"
        )
    pipe.send("stop")
    server.join()


if __name__ == "__main__":
    main()
