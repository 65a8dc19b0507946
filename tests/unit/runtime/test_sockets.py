"""Buffer sizes: set where somebody wrote one, left to the kernel everywhere else."""

import socket

import pytest

from kvorum.runtime.config import Settings
from kvorum.runtime.sockets import KERNELS_CHOICE, buffer_bytes, set_buffers

KEYS = ("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "replica.socket.receive.buffer.bytes")


@pytest.mark.parametrize("key", KEYS)
def test_a_size_counts_only_if_it_was_recorded(key: str) -> None:
    assert Settings.of({}).int(key) > 0
    assert buffer_bytes(Settings.of({}), key) == KERNELS_CHOICE
    assert buffer_bytes(Settings.of({key: 4096}), key) == 4096
    assert buffer_bytes(Settings.of({key: Settings.of({}).int(key)}), key) == Settings.of({}).int(key)
    assert buffer_bytes(Settings.of({key: -1}), key) == KERNELS_CHOICE
    assert buffer_bytes(Settings.of({key: 0}), key) == KERNELS_CHOICE


def test_each_buffer_is_set_or_left_by_itself() -> None:
    with socket.socket() as sock:
        untouched = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        set_buffers(sock, receive_bytes=20_000)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 40_000  # the kernel doubles what it is told
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == untouched
        set_buffers(sock, send_bytes=30_000)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 60_000


def test_a_transport_without_a_socket_is_left_alone() -> None:
    set_buffers(None, send_bytes=1, receive_bytes=1)
