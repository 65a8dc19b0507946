"""Whose requests are to be traced: what `kvorum.request.trace` says.

    client-id=orders-app                 the next 100 requests of clients that call themselves so
    client-id=orders-app,count=20        the next 20
    address=10.0.0.5:41822               of one connection; address=10.0.0.5: of all from there
    client-id=*                          of anybody
    (empty)                              nobody's

Sans-IO.
"""

import re
from typing import Final, NamedTuple

COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 1_000
"""Each is a line of the log: a trace that was forgotten ends by itself."""
FORM: Final = re.compile(r"(client-id|address)=(.+?)(?:,count=(\d{1,6}))?")
ANYBODY: Final = "*"
MEANING: Final = f"empty, or client-id=NAME or address=HOST[:PORT], and ,count=N of 1 to {COUNT_MAX}"


class TraceWish(NamedTuple):
    """The next so many requests of whoever is called `whose`, by client id or by address."""

    by_address: bool
    whose: str
    requests: int

    def fits(self, client_id: str | None, address: str) -> bool:
        """Tell whether a request of this client, at HOST:PORT, is one of them."""
        if self.by_address:
            return self.whose in (address, address.rpartition(":")[0])
        return self.whose in (ANYBODY, client_id)


def parse_trace(text: str) -> TraceWish | None:
    """Read the config; None for nobody. Raises ValueError."""
    if not text.strip():
        return None
    match = FORM.fullmatch(text.strip())
    count = COUNT_DEFAULT if match is None or match[3] is None else int(match[3])
    if match is None or not 1 <= count <= COUNT_MAX:
        raise ValueError(MEANING)
    return TraceWish(match[1] == "address", match[2], count)


def trace_problem(value: object) -> str | None:
    """Say what is wrong with a value of the config, None if nothing is."""
    try:
        parse_trace(str(value))
    except ValueError as error:
        return f"it must be {error}"
    return None
