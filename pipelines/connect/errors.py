"""Errors of requests, with Connect's HTTP status, and of the manager."""

from dataclasses import dataclass
from typing import Final

REBALANCING: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
"""Connect's message for a temporary conflict: clients retry."""


@dataclass(eq=False)
class ConnectError(Exception):
    """A failed request."""

    status: int
    """HTTP status, which is also Connect's error_code."""
    message: str


def bad_request(message: str) -> ConnectError:
    """Return the error for an invalid request."""
    return ConnectError(400, message)


def conflict(message: str = REBALANCING) -> ConnectError:
    """Return the error for a conflict with the present state."""
    return ConnectError(409, message)


class Fenced(Exception):
    """Another manager fenced this one; the records were not written."""


class Unavailable(Exception):
    """The cluster did not respond in time; the outcome of a write is not known."""


class Superseded(Exception):
    """Another manager took over: this one ends."""


class RunnerError(Exception):
    """A worker could not be started, stopped or reached."""
