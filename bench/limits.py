"""Limits of the machine: loopback copies, disk writes, fdatasync. They put the clusters' figures into context."""

import os
import socket
import tempfile
import time
from pathlib import Path

from bench.quantiles import quantile
from bench.scale import Scale

COPY_SECONDS, COPY_SIZE = 3.0, 256 * 1024
WRITE_SIZE, WRITTEN = 1024 * 1024, 2 * 1024**3
SYNCS, SYNC_SIZE = 500, 4096


def limits(scale: Scale) -> dict[str, float]:
    """Measure all of it."""
    write, p50, p99 = disk(scale)
    return {
        "loopback copy, one connection, MiB/s": loopback(scale.seconds(COPY_SECONDS)),
        "disk write (2 GiB, synced at the end), MiB/s": write,
        "fdatasync of 4 KiB appended, p50, ms": p50,
        "fdatasync of 4 KiB appended, p99, ms": p99,
    }


def loopback(seconds: float) -> float:
    """Return MiB per second from one process to another: sendall and recv_into, TCP, 256 KiB at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        pid = os.fork()
        if not pid:
            try:
                server.close()
                send_all(address)
            finally:
                os._exit(0)
        connection, _ = server.accept()
        buffer, size = bytearray(COPY_SIZE), 0
        with connection:
            began = time.perf_counter()
            while (elapsed := time.perf_counter() - began) < seconds:
                size += connection.recv_into(buffer)
        os.waitpid(pid, 0)
    return size / elapsed / 2**20


def send_all(address: tuple[str, int]) -> None:
    """Send until the receiver closes."""
    data = bytes(COPY_SIZE)
    with socket.create_connection(address) as connection:
        try:
            while True:
                connection.sendall(data)
        except OSError:
            return


def disk(scale: Scale) -> tuple[float, float, float]:
    """Return MiB/s of writes and p50, p99 ms of fdatasync, where the clusters have their data."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "file"
        fd = os.open(path, os.O_CREAT | os.O_WRONLY)
        try:
            block, count = os.urandom(WRITE_SIZE), scale.count(WRITTEN // WRITE_SIZE)
            began = time.perf_counter()
            for _ in range(count):
                os.write(fd, block)
            os.fdatasync(fd)
            rate = count * WRITE_SIZE / (time.perf_counter() - began) / 2**20
            times = []
            for _ in range(scale.count(SYNCS, 10)):
                os.write(fd, block[:SYNC_SIZE])
                began = time.perf_counter()
                os.fdatasync(fd)
                times.append((time.perf_counter() - began) * 1000)
        finally:
            os.close(fd)
    return rate, quantile(times, 0.5), quantile(times, 0.99)
