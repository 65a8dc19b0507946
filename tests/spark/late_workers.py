"""Another start for queries whose Python worker was late."""

import itertools
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import StreamingQueryException

from kvorum.pipelines.session.late_workers import may_restart

R = TypeVar("R")


def retry_late_worker(run: Callable[[], R]) -> R:
    """Run a query, again as long as no worker of its source started in time."""
    for attempts in itertools.count(1):
        try:
            return run()
        except StreamingQueryException as error:
            if not may_restart(error, attempts):
                raise
    raise AssertionError("the last attempt returns or raises")
