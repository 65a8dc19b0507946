"""Errors of requests: Connect's {"error_code", "message"} and its HTTP status."""

from typing import Final

REBALANCING: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class ConnectError(Exception):
    """A failed request. The message is for the client."""

    def __init__(self, status: int, message: str) -> None:
        """Store the HTTP status, which is also Connect's error_code."""
        super().__init__(message)
        self.status = status
        self.message = message

    def body(self) -> dict[str, object]:
        """Return the answer."""
        return {"error_code": self.status, "message": self.message}


def bad_request(message: str) -> ConnectError:
    """Return what answers a request that is not right in itself."""
    return ConnectError(400, message)


def unknown_connector(name: str) -> ConnectError:
    """Return what answers a request for a connector that is not there."""
    return ConnectError(404, f"Connector {name} not found")


def conflict(message: str = REBALANCING) -> ConnectError:
    """Return the error for a temporary conflict: the client should retry."""
    return ConnectError(409, message)


class Fenced(Exception):
    """Another manager leads: what was to be written was not."""


class Unavailable(Exception):
    """The cluster did not take it in time: it may be tried again."""


class RunnerError(Exception):
    """A worker process could not be started or did not answer, and why."""
