"""Queries that fail because a Python worker started too late.

Spark waits ten seconds for the worker of a Python source, and no setting changes that: a busy machine may need more. It
is the first step of a query, so the query is started again, from its checkpoint.
"""

from typing import Final

MESSAGE: Final = "Python worker failed to connect back"
ATTEMPTS_MAX: Final = 5


def may_restart(error: BaseException | None, attempts: int) -> bool:
    """Return whether a query that failed is started again; `attempts` counts its starts so far."""
    return error is not None and MESSAGE in str(error) and attempts < ATTEMPTS_MAX
