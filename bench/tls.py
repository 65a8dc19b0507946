"""CPU of a listener and of a channel per GB, in plaintext and with TLS: `python -m bench.tls`.

One process has the measured side, the other one the opposite side; both sides of a comparison run alternately, and the
least of all rounds counts. Requests and responses are Kafka's frames:

    listener, Produce    a socket sends requests of 1 MB (5 in flight) to a Listener
    listener, Fetch      a Listener answers with 1 MB of a file
    channel, Fetch       a Channel receives these responses
    small requests       ApiVersions, one at a time
"""

import asyncio
import itertools
import multiprocessing
import os
import random
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import uvloop

from kvorum.network.channel import Channel
from kvorum.network.router import Handler, Router
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
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
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.process import die_with_parent
from kvorum.security.client import PLAINTEXT, ClientSecurity
from kvorum.security.tls.server import TlsServer
from tests.cluster.wire.raw import request as framed
from tests.tls_certificates import client_tls, server_tls
from tests.unit.network.network_kit import api_versions_handler
from tests.unit.network.tls_kit import python_context

SIZE: Final = 1024 * 1024
IN_FLIGHT: Final = 5
APIS: Final = {int(ApiKey.API_VERSIONS): (0, 4), int(ApiKey.PRODUCE): (3, 13), int(ApiKey.FETCH): (4, 18)}
FETCH: Final = FetchRequest(max_bytes=SIZE, topics=[FetchTopic(topic="t", partitions=[FetchPartition()])])
SMALL: Final = ApiVersionsRequest(client_software_name="bench", client_software_version="1")


def produce_request() -> ProduceRequest:
    data = PartitionProduceData(index=0, records=os.urandom(SIZE))
    return ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def router(file_path: str) -> Router:
    """Return handlers that do next to nothing."""
    file = OsDisk().open(file_path, create=True)
    file.pwrite(os.urandom(SIZE), 0)

    def produce(ctx: object, request: ProduceRequest) -> ProduceResponse:
        row = PartitionProduceResponse(index=0, base_offset=1)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])

    def fetch(ctx: object, request: FetchRequest) -> FetchResponse:
        part = PartitionData(partition_index=0, high_watermark=1, records=(FileSlice(file, 0, SIZE),))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    return Router(
        [
            api_versions_handler(APIS),
            Handler(ApiKey.PRODUCE, (3, 13), produce),
            Handler(ApiKey.FETCH, (4, 18), fetch),
        ]
    )


def serve(pipe: Connection, tls: TlsServer | None, parent: int) -> None:
    """Run a listener; answer each line of the pipe with the process's CPU seconds."""
    die_with_parent(parent)

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            listener = Listener("BENCH", "127.0.0.1", 0, router(str(Path(folder) / "log")), tls=tls)
            pipe.send(await listener.start())
            loop = asyncio.get_running_loop()
            stopped = loop.create_future()

            def answer() -> None:
                if pipe.recv():
                    pipe.send(time.process_time())
                else:
                    stopped.set_result(None)

            loop.add_reader(pipe.fileno(), answer)
            await stopped
            await listener.close(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Server:
    """A listener in a process of its own."""

    def __init__(self, tls: TlsServer | None) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, tls, os.getpid()))
        self._process.start()
        self.port: int = self._pipe.recv()

    def cpu(self) -> float:
        self._pipe.send(True)
        return self._pipe.recv()

    def close(self) -> None:
        self._pipe.send(False)
        self._process.join()


@contextmanager
def servers() -> Iterator[tuple[Server, Server]]:
    """A plaintext listener and one with TLS."""
    both = Server(None), Server(server_tls())
    try:
        yield both
    finally:
        for server in both:
            server.close()


def drive(port: int, context: ssl.SSLContext | None, request: bytes, depth: int, total: int) -> None:
    """Keep requests in flight over one connection until all are answered."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname="localhost")
    buffer = memoryview(bytearray(SIZE))
    with sock:
        sock.sendall(request * depth)
        for sent in itertools.count(depth):
            size = int.from_bytes(sock.recv(4), "big")
            while size:
                size -= sock.recv_into(buffer, min(size, len(buffer)))
            if sent == total + depth - 1:
                return
            if sent < total:
                sock.sendall(request)


def fetch_by_channel(port: int, security: ClientSecurity, total: int) -> float:
    """Fetch over a channel; return this process's CPU seconds."""

    async def main() -> float:
        channel = Channel("127.0.0.1", port, client_id="bench", chance=random.Random(1), security=security)
        await channel.connect()
        began = time.process_time()
        for _ in range(0, total, 2):
            await asyncio.gather(channel.request(FETCH, version=11), channel.request(FETCH, version=11))
        used = time.process_time() - began
        await channel.close()
        return used

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def measured(rounds: int, total: int) -> dict[str, tuple[float, float]]:
    """Return {case: least cost in plaintext, with TLS}: CPU s/GB; small requests in microseconds."""
    contexts, securities = (None, python_context()), (PLAINTEXT, ClientSecurity(tls=client_tls()))
    cases = {
        "listener, Produce of 1 MB": (framed(produce_request(), 9), IN_FLIGHT, total, total * SIZE / 1e9),
        "listener, Fetch of 1 MB": (framed(FETCH, 11), 2, total, total * SIZE / 1e9),
        "small requests, one at a time": (framed(SMALL, 3), 1, 10 * total, 10 * total / 1e6),
    }
    least: dict[str, tuple[float, float]] = {}
    with servers() as both:
        for _ in range(rounds):
            for case, (request, depth, count, amount) in cases.items():
                costs = []
                for server, context in zip(both, contexts, strict=True):
                    before = server.cpu()
                    drive(server.port, context, request, depth, count)
                    costs.append((server.cpu() - before) / amount)
                keep_least(least, case, costs)
            pairs = zip(both, securities, strict=True)
            costs = [fetch_by_channel(server.port, security, total) for server, security in pairs]
            keep_least(least, "channel, Fetch of 1 MB", [cost / (total * SIZE / 1e9) for cost in costs])
    return least


def keep_least(least: dict[str, tuple[float, float]], case: str, costs: list[float]) -> None:
    plain, tls = least.get(case, (float("inf"), float("inf")))
    least[case] = min(plain, costs[0]), min(tls, costs[1])


def main() -> None:
    """Print the figures."""
    for case, (plain, tls) in measured(rounds=5, total=400).items():
        print(f"{case:32} plaintext {plain:7.3f}  TLS {tls:7.3f}  ratio {tls / plain:5.2f}")


if __name__ == "__main__":
    main()
