"""Another start for queries whose Python worker was late."""

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import StreamingQueryException

from kvorum.pipelines.streams.run import WORKER_ATTEMPTS_MAX, WORKER_LATE

R = TypeVar("R")


def retry_late_worker(run: Callable[[], R]) -> R:
    """Run a query, again as long as no worker of its source started in time.

    A stream of a source in Python has a worker of its own, a process that imports PySpark and PyArrow (0.8 s of CPU).
    Spark waits ten seconds for it (PythonWorkerFactory.createSimpleWorker), and no setting changes that. This is the
    first step of a query: nothing else of it has run.
    """
    for _ in range(WORKER_ATTEMPTS_MAX - 1):
        try:
            return run()
        except StreamingQueryException as error:
            if WORKER_LATE not in str(error):
                raise
    return run()
