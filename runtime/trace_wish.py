"""Requests to trace: the config `kvorum.request.trace`.

    client-id=orders-app                       the next 100 requests of clients with this client id
    client-id=orders-app,count=20              the next 20
    address=10.0.0.5:41822                     of one connection; address=10.0.0.5: of one machine
    correlation-id=7                           those with this correlation id, of any client
    client-id=orders-app,correlation-id=7      those of this client
    client-id=*                                of any client
    (empty)                                    none

Sans-IO.
"""

import re
from typing import Final, NamedTuple

KEY: Final = "kvorum.request.trace"
COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 1_000
"""Each is a line of the log: a trace that was left on ends after its count."""
FORM: Final = re.compile(
    r"(?:(client-id|address)=(.+?)(?:,correlation-id=(-?\d{1,10}))?|correlation-id=(-?\d{1,10}))(?:,count=(\d{1,6}))?"
)
ANYBODY: Final = "*"
MEANING: Final = (
    "empty, or client-id=NAME or address=HOST[:PORT] and ,correlation-id=N, or correlation-id=N alone,"
    f" and ,count=N of 1 to {COUNT_MAX}"
)


class TraceWish(NamedTuple):
    """A number of requests to trace, selected by client id or address (`whose`)."""

    by_address: bool
    whose: str
    requests: int
    correlation_id: int | None = None
    """Only these; None: all."""

    def fits(self, client_id: str | None, address: str, correlation_id: int) -> bool:
        """Return whether a request of this client, at HOST:PORT, is traced."""
        if self.correlation_id not in (None, correlation_id):
            return False
        if self.by_address:
            return self.whose in (address, address.rpartition(":")[0])
        return self.whose in (ANYBODY, client_id)


def parse_trace(text: str) -> TraceWish | None:
    """Parse the config; None for no trace. Raises ValueError."""
    if not text.strip():
        return None
    match = FORM.fullmatch(text.strip())
    count = COUNT_DEFAULT if match is None or match[5] is None else int(match[5])
    if match is None or not 1 <= count <= COUNT_MAX:
        raise ValueError(MEANING)
    number = match[3] or match[4]
    correlation_id = None if number is None else int(number)
    return TraceWish(match[1] == "address", match[2] or ANYBODY, count, correlation_id)


def trace_problem(value: object) -> str | None:
    """Return the fault of a value of the config, None without one."""
    try:
        parse_trace(str(value))
    except ValueError as error:
        return f"it must be {error}"
    return None
