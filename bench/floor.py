"""Cost of the operating system alone for a record's path: without broker, protocol, index and event loop.

    client --TCP--> leader: receive, CRC-32C, write to the page cache
                    leader --sendfile--> two followers, each: receive, CRC-32C, write
                    leader --sendfile--> consumer, after all records

Streamed: without requests and responses; available data is passed on. Asked: with the requests and responses that the
protocol needs: a follower requests the next data, which informs the leader of its position; the leader then responds to
the client, which has IN_FLIGHT requests in flight. No broker with one process per node can cost less than the first,
and none with Kafka's protocol less than the second. Only leader and followers are counted. The system calls are made
from Python, which adds a microsecond per call; they are the cheapest ones available.
"""

import os
import select
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from kvorum.runtime.process import die_with_parent

FOLLOWERS = 2
IN_FLIGHT = 5
"""max.in.flight.requests.per.connection."""
REQUEST_BATCHES = 2
"""Six partitions on three brokers: a request has a batch for each of two."""
MESSAGE_SIZE = 64
"""Size of a response without records, and of a request for records."""
CONSUMED_SIZE = 1024 * 1024
"""max.partition.fetch.bytes: the size of one fetch of a consumer."""
READ_SIZE = 1024 * 1024


class Floor(NamedTuple):
    """CPU seconds a GB of records, user and system."""

    leader: float
    followers: float
    """All of them together."""

    @property
    def total(self) -> float:
        """State of the processes that replace a broker."""
        return self.leader + self.followers


class Store:
    """The minimal work of a log: CRC-32C of each batch, and an append."""

    def __init__(self, path: Path, batch_size: int) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o644)
        self._batch_size = batch_size
        self._buffer = memoryview(bytearray(READ_SIZE + batch_size))
        self._pending = 0
        self.size = 0

    def receive(self, connection: socket.socket, size_max: int = READ_SIZE) -> int:
        """Receive once; check and write the batches that are whole now. Return how many bytes came."""
        count = connection.recv_into(self._buffer[self._pending : self._pending + size_max])
        assert count, "no sender ends before all is received"
        there = self._pending + count
        whole = there - there % self._batch_size
        for place in range(0, whole, self._batch_size):
            crc32c(self._buffer[place : place + self._batch_size])
        if whole:
            os.pwrite(self._fd, self._buffer[:whole], self.size)
            self.size += whole
            self._buffer[: there - whole] = self._buffer[whole:there]
        self._pending = there - whole
        return count

    def send(self, connection: socket.socket, position: int, size: int) -> None:
        """Send from the file, without a copy into this process."""
        while size:
            count = os.sendfile(connection.fileno(), self._fd, position, size)
            position, size = position + count, size - count


def floor(
    total: int, batch_size: int, *, by_requests: bool, followers: int = FOLLOWERS, is_consumed: bool = True
) -> Floor:
    """Run so many bytes through a leader and its followers."""
    request_size = batch_size * REQUEST_BATCHES
    total -= total % request_size
    consumed = total if is_consumed else 0
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        client, client_of_leader = pair()
        links = [pair() for _ in range(followers)]
        consumer, consumer_of_leader = pair()

        def lead() -> None:
            store = Store(Path(folder) / "leader", batch_size)
            ends = [theirs for _, theirs in links]
            (lead_by_requests if by_requests else lead_streamed)(store, client_of_leader, ends, total, request_size)
            serve(store, consumer_of_leader, consumed)

        def follow(number: int) -> None:
            store = Store(Path(folder) / f"follower-{number}", batch_size)
            (follow_by_requests if by_requests else follow_streamed)(store, links[number][0], total)

        helpers = [
            start(lambda: produce(client, total, request_size, by_requests)),
            start(lambda: consume(consumer, consumed)),
        ]
        leader = start(lead)
        following = [start(lambda number=number: follow(number)) for number in range(followers)]  # type: ignore[misc]
        gigabytes = total / 1e9
        found = Floor(ended(leader) / gigabytes, sum(map(ended, following)) / gigabytes)
        for pid in helpers:
            ended(pid)
        for end in (client, client_of_leader, consumer, consumer_of_leader, *(end for link in links for end in link)):
            end.close()
    return found


def pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection over the loopback device."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def start(work: Callable[[], None]) -> int:
    """Run this in its own process; return its pid."""
    parent, pid = os.getpid(), os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with_parent(parent)
        work()
        code = 0
    finally:
        os._exit(code)


def ended(pid: int) -> float:
    """Wait for a process; return the CPU seconds it has used."""
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"a process of the floor ended with {status}"
    return usage.ru_utime + usage.ru_stime


def produce(connection: socket.socket, total: int, request_size: int, by_requests: bool) -> None:
    """Be the client."""
    request = os.urandom(request_size)
    sent = answered = 0
    while sent < total or (by_requests and answered < total):
        while sent < total and (not by_requests or sent - answered < IN_FLIGHT * request_size):
            connection.sendall(request)
            sent += request_size
        if by_requests:
            answered += len(connection.recv(IN_FLIGHT * MESSAGE_SIZE)) * request_size // MESSAGE_SIZE


def consume(connection: socket.socket, total: int) -> None:
    """Act as the consumer: request and receive."""
    buffer, size = bytearray(CONSUMED_SIZE), 0
    while size < total:
        if size % CONSUMED_SIZE == 0:
            connection.sendall(bytes(MESSAGE_SIZE))
        left = min(total, size - size % CONSUMED_SIZE + CONSUMED_SIZE) - size
        size += connection.recv_into(buffer, left)


def serve(store: Store, consumer: socket.socket, total: int) -> None:
    """Serve the consumer's requests."""
    for position in range(0, total, CONSUMED_SIZE):
        consumer.recv(MESSAGE_SIZE, socket.MSG_WAITALL)
        store.send(consumer, position, min(CONSUMED_SIZE, total - position))


def lead_streamed(
    store: Store, client: socket.socket, followers: Sequence[socket.socket], total: int, request_size: int
) -> None:
    """Receive all data, and pass it on."""
    while store.size < total:
        before = store.size
        store.receive(client)
        for follower in followers:
            store.send(follower, before, store.size - before)


def follow_streamed(store: Store, leader: socket.socket, total: int) -> None:
    """Receive all data."""
    while store.size < total:
        store.receive(leader)


def lead_by_requests(
    store: Store, client: socket.socket, followers: Sequence[socket.socket], total: int, request_size: int
) -> None:
    """Respond to all requests: a follower's as soon as there is data, the client's when all followers have it."""
    poll = select.epoll()
    by_fd = {end.fileno(): end for end in (client, *followers)}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    asking: dict[int, int] = {}
    have = dict.fromkeys((follower.fileno() for follower in followers), 0)
    answered = 0
    while answered < total:
        for fd, _ in poll.poll():
            if fd == client.fileno():
                store.receive(client)
            else:
                request = by_fd[fd].recv(MESSAGE_SIZE, socket.MSG_WAITALL)
                have[fd] = asking[fd] = int.from_bytes(request[:8], "big")
        committed = min(have.values(), default=store.size)
        if (count := (committed - answered) // request_size) > 0:
            client.sendall(bytes(count * MESSAGE_SIZE))
            answered += count * request_size
        for fd, position in [*asking.items()]:
            if size := store.size - position:
                del asking[fd]
                by_fd[fd].send(size.to_bytes(MESSAGE_SIZE, "big"), socket.MSG_MORE)
                store.send(by_fd[fd], position, size)


def follow_by_requests(store: Store, leader: socket.socket, total: int) -> None:
    """Request the next data."""
    while True:
        leader.sendall(store.size.to_bytes(8, "big").ljust(MESSAGE_SIZE, b"\0"))
        if store.size == total:
            return
        left = int.from_bytes(leader.recv(MESSAGE_SIZE, socket.MSG_WAITALL), "big")
        while left:
            left -= store.receive(leader, min(left, READ_SIZE))
