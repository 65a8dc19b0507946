"""How a process reports to its parent that it is ready: lines on a pipe, so that the parent need not poll.

The parent creates the pipe, passes its writing end to the child and its number in KVORUM_READY_FD. The child writes
`ready` (a broker: once it is unfenced) and closes it; an end of file without that line means that the child died first.
Before that it may write why it is not ready yet, `waiting REASON`, or why it never will be, `refused REASON`.
"""

import os
import selectors
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

VARIABLE = "KVORUM_READY_FD"
READY = b"ready\n"
WAITING = b"waiting "
REFUSED = b"refused "
REASON_CHARACTERS_MAX: Final = 500
"""A line must fit into PIPE_BUF (4096 bytes), so that it is written whole."""
PIPE_BYTES: Final = 65_536
"""Capacity of a pipe: one read returns complete lines only."""


def announce() -> None:
    """Report to the parent, if it gave a pipe, that this process is ready. Once; later calls do nothing."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        return
    fd = int(text)
    try:
        os.write(fd, READY)
    except BrokenPipeError:
        pass  # The parent no longer waits: it gave up, or has ended, and then this process ends soon too.
    finally:
        os.close(fd)


class Reports(NamedTuple):
    """Messages of a child: `ready` is None while it is not ready, False if it died."""

    ready: bool | None
    waiting: list[str]
    """Why it is not ready yet."""
    refused: list[str]
    """Why it does not start."""


def report(reason: str) -> None:
    """Report to the parent, if it gave a pipe and still reads, why this process is not ready yet."""
    _write(WAITING, reason)


def report_refusal(reason: str) -> None:
    """Report to the parent, if it gave a pipe and still reads, why this process does not start."""
    _write(REFUSED, reason)


def _write(kind: bytes, reason: str) -> None:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return
    line = reason.replace("\n", " ")[:REASON_CHARACTERS_MAX]
    os.set_blocking(int(text), False)
    with suppress(BrokenPipeError, BlockingIOError):
        os.write(int(text), kind + line.encode() + b"\n")


def read_lines(fd: int) -> Reports:
    """Read the lines of a child."""
    data = os.read(fd, PIPE_BYTES)
    lines = data.splitlines(keepends=True)
    waiting, refused = (
        [line[len(kind) :].decode().rstrip() for line in lines if line.startswith(kind)] for kind in (WAITING, REFUSED)
    )
    return Reports(True if READY in lines else None if data else False, waiting, refused)


def wait_all(
    pipes: Iterable[tuple[str, int]],
    timeout_seconds: float,
    interrupt: int | None = None,
    on_waiting: Callable[[str, str], None] = lambda name, reason: None,
    on_refused: Callable[[str, str], None] = lambda name, reason: None,
) -> dict[str, str]:
    """Wait until every (name, reading end) is ready; close the pipes; return {name: "ready" | "died" | "late"}.

    No longer, either, than until `interrupt` can be read (which is left to the caller). `on_waiting` is called with a
    name and why it is not ready yet, `on_refused` with a name and why it does not start.
    """
    outcome: dict[str, str] = {}
    deadline = time.monotonic() + timeout_seconds
    with selectors.DefaultSelector() as selector:
        for name, fd in pipes:
            selector.register(fd, selectors.EVENT_READ, name)
            outcome[name] = "late"
        waiting = len(outcome)
        if interrupt is not None:
            selector.register(interrupt, selectors.EVENT_READ)
        while waiting:
            events = selector.select(max(0.0, deadline - time.monotonic()))
            if not events and time.monotonic() >= deadline:
                break
            if any(key.fd == interrupt for key, _ in events):
                break
            for key, _ in events:
                reports = read_lines(key.fd)
                for reason in reports.waiting:
                    on_waiting(key.data, reason)
                for reason in reports.refused:
                    on_refused(key.data, reason)
                if reports.ready is None:
                    continue
                waiting -= 1
                outcome[key.data] = "ready" if reports.ready else "died"
                selector.unregister(key.fd)
                os.close(key.fd)
        for key in list(selector.get_map().values()):
            if key.fd != interrupt:
                os.close(key.fd)
    return outcome
