"""A line of JSON each way to a pipeline's process: {"command": "pause"} -> {"state": "PAUSED", ...}.

Commands: status, pause, resume, stop, offsets. The socket is in the pipeline's folder, and is opened through the
folder's descriptor: a socket's address holds 108 bytes, and paths are longer.
"""

import json
import os
import queue
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvorum.pipelines.run.state import Folder, StateError

SOCKET = "control.sock"
COMMANDS = ("status", "pause", "resume", "stop", "offsets")
LINE_BYTES_MAX = 4 * 1024 * 1024
"""Offsets of 10,000 partitions fit many times."""
REQUEST_SECONDS = 5.0
WAITING_MAX = 16
"""Commands that wait for the worker's next look; further ones are rejected."""

Respond = Callable[[bytes], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Request:
    """A command that waits for its answer."""

    command: str
    name: str
    """Of the pipeline to start (host.py)."""
    answer: "queue.Queue[dict[str, Any]]" = field(default_factory=lambda: queue.Queue(1))


def ask(
    state_dir: str | os.PathLike[str], name: str, command: str, timeout: float = 60.0, *, other: str = ""
) -> dict[str, Any]:
    """Return a pipeline's answer. Raises StateError if its process does not run, or refuses.

    `other` names the pipeline that a command to a host is about.
    """
    folder = Folder(Path(state_dir), name)
    if not folder.alive():
        raise StateError(f"pipeline {name!r} is not running")
    try:
        with socket.socket(socket.AF_UNIX) as connection, address(folder.path) as where:
            connection.settimeout(timeout)
            connection.connect(where)
            connection.sendall(json.dumps({"command": command, "name": other}).encode() + b"\n")
            line = connection.makefile("rb").readline(LINE_BYTES_MAX)
    except TimeoutError as error:
        raise StateError(f"pipeline {name!r} did not respond to {command} within {timeout:g} s") from error
    except OSError as error:
        raise StateError(f"pipeline {name!r} does not accept commands (starting or stopping): {error}") from error
    if not line:
        raise StateError(f"pipeline {name!r} ended before it responded to {command}")
    found: dict[str, Any] = json.loads(line)
    if "error" in found:
        raise StateError(f"pipeline {name!r}: {found['error']}")
    return found


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """Give a short path of the folder's socket; where there is no /proc, the path as it is."""
    if not os.path.isdir("/proc/self/fd"):
        yield str(folder / SOCKET)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


@contextmanager
def listening(
    folder: Folder, status: Callable[[], Mapping[str, Any]], commands: Collection[str] = COMMANDS
) -> Iterator["queue.Queue[Request]"]:
    """Listen in a thread and give the queue of requests; `status` is answered at once, by the thread."""
    requests: queue.Queue[Request] = queue.Queue(WAITING_MAX)

    def respond(line: bytes) -> Mapping[str, Any]:
        try:
            given = json.loads(line)
            command = given.get("command")
            if command == "status":
                return status()
            if command not in commands:
                return {"error": f"there is no command {command!r}; there are {', '.join(commands)}"}
            request = Request(command, str(given.get("name", "")))
            requests.put_nowait(request)
            return request.answer.get()
        except queue.Full:
            return {"error": "too many commands wait"}
        except (ValueError, AttributeError) as error:
            return {"error": f"not a line of JSON with a command: {error}"}

    (folder.path / SOCKET).unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    with address(folder.path) as where:
        server.bind(where)
    server.listen(WAITING_MAX)
    os.chmod(folder.path / SOCKET, 0o600)
    threading.Thread(target=serve, args=(server, respond), name="control", daemon=True).start()
    try:
        yield requests
    finally:
        (folder.path / SOCKET).unlink(missing_ok=True)
        server.close()
        with suppress(queue.Empty):
            while True:
                requests.get_nowait().answer.put({"error": "it has ended"})


def serve(server: socket.socket, respond: Respond) -> None:
    """Respond until the socket is closed. Each connection has a thread: a slow `stop` must not delay `status`."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=serve_one, args=(connection, respond), daemon=True).start()


def serve_one(connection: socket.socket, respond: Respond) -> None:
    """Read one command and respond to it."""
    with connection, suppress(OSError):  # the client may have gone
        connection.settimeout(REQUEST_SECONDS)
        found = respond(connection.makefile("rb").readline(LINE_BYTES_MAX))
        connection.sendall(json.dumps(found, default=str).encode() + b"\n")
