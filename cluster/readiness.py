"""How a process tells its parent that it is ready: one line on a pipe, so nobody has to ask again and again.

The parent makes the pipe, passes its writing end to the child and names it in KVORUM_READY_FD. The child writes `ready`
(a broker: once it is unfenced) and closes it; an end of file without that line means the child died first.
"""

import os
import selectors
import time
from collections.abc import Iterable

VARIABLE = "KVORUM_READY_FD"
READY = b"ready\n"


def announce() -> None:
    """Tell the parent, if it asked to be told, that this process is ready. Once; later calls do nothing."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        return
    fd = int(text)
    try:
        os.write(fd, READY)
    except BrokenPipeError:
        pass  # The parent no longer waits: it gave up, or is gone, and then this process soon is too.
    finally:
        os.close(fd)


def wait_all(pipes: Iterable[tuple[str, int]], timeout_seconds: float, interrupt: int | None = None) -> dict[str, str]:
    """Wait until every (name, reading end) has spoken; close the pipes; return {name: "ready" | "died" | "late"}.

    No longer, either, than until `interrupt` can be read (which is left to the caller).
    """
    told: dict[str, str] = {}
    deadline = time.monotonic() + timeout_seconds
    with selectors.DefaultSelector() as selector:
        for name, fd in pipes:
            selector.register(fd, selectors.EVENT_READ, name)
            told[name] = "late"
        waiting = len(told)
        if interrupt is not None:
            selector.register(interrupt, selectors.EVENT_READ)
        while waiting:
            events = selector.select(max(0.0, deadline - time.monotonic()))
            if not events and time.monotonic() >= deadline:
                break
            if any(key.fd == interrupt for key, _ in events):
                break
            for key, _ in events:
                waiting -= 1
                told[key.data] = "ready" if os.read(key.fd, len(READY)) == READY else "died"
                selector.unregister(key.fd)
                os.close(key.fd)
        for key in list(selector.get_map().values()):
            if key.fd != interrupt:
                os.close(key.fd)
    return told
