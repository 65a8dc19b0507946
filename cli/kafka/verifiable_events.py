"""Events of Kafka's verifiable clients: one line of JSON each. A stop signal ends a client as Ctrl-C does."""

import time
from typing import NoReturn

from kvorum.cli.output import echo_json_line


def wall_ms() -> int:
    """Return the wall clock's time."""
    return time.time_ns() // 1_000_000


def print_event(name: str, **fields: object) -> None:
    """Print an event."""
    echo_json_line({"timestamp": wall_ms(), "name": name, **fields})


def raise_interrupt(*_: object) -> NoReturn:
    """Handle a stop signal; the client waits for records in flight."""
    raise KeyboardInterrupt
