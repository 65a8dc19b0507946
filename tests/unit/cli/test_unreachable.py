"""Errors of a client in one line: what is wrong at an address, and which topic may have been meant."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvorum.cli.connection.missing_topics import no_topic
from kvorum.cli.connection.unreachable import HINT, no_address_works, unreachable


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Serve one connection that gets this answer to whatever it sends; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def refusing() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_refusing_addresses_are_named_with_a_remedy() -> None:
    first, second = refusing(), refusing()
    assert unreachable(f"{first},{second}", "x").startswith(f"nothing listens on {first}, {second}; start the cluster")


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"<!DOCTYPE HTML>", b"SSH-2.0-OpenSSH_9.2\r\n"]
)
def test_another_protocol_is_recognized(answer: bytes) -> None:
    with answering(answer) as address:
        assert unreachable(address, "x") == f"{address} does not speak Kafka's protocol (an HTTP port?); {HINT}"


@pytest.mark.parametrize("answer", [b"\0\0\0\x0a\0\0\0\x01", b""])
def test_an_unclear_failure_has_the_address_once_and_the_reason_of_the_client(answer: bytes) -> None:
    with answering(answer) as address:
        assert unreachable(address, "timed out") == f"no broker could be reached at {address}: timed out"
        assert unreachable(address, f"{address}: late") == f"no broker could be reached: {address}: late"


def test_a_long_command_is_refused_only_where_no_address_can_be_a_brokers() -> None:
    gone = refusing()
    assert str(no_address_works(gone)).startswith(f"nothing listens on {gone}; ")
    with answering(b"\0\0\0\x0a\0\0\0\x01") as address:
        assert no_address_works(f"{gone},{address}") is None


def test_a_host_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    assert unreachable("kafka.invalid:9092", "x") == f"the host of kafka.invalid:9092 is not known; {HINT}"


@pytest.mark.parametrize(
    ("name", "text"),
    [("ordres", "no topic ordres; did you mean orders?"), ("zzz", "no topic zzz"), ("__consumer_offset", None)],
)
def test_a_topic_that_may_have_been_meant_is_named(name: str, text: str | None) -> None:
    assert no_topic(name, ["payments", "orders", "__consumer_offsets"]) == (text or f"no topic {name}")
