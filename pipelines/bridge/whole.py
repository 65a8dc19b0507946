"""Check that a task's input is complete: Arrow takes a closed connection between two batches for the end of the stream.

When a step before this one, its process or the executor ends, Spark closes the connection to the worker. The task is
repeated, but the worker processes the rows it has received. A worker that records at the end of its input that the task
is done would lose the rest, so such a task reads its input through `whole_input`.

Spark writes END_OF_STREAM after the last batch; after an interrupted stream there is nothing. The worker reads those
bytes later, so they are only peeked at, in `infile` of pyspark.worker.main (a private name: test_whole.py checks it).
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

Item = TypeVar("Item")
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


CUT = "the task's input ended in the middle: a step before it, or the executor, has failed or is gone"


class InputCut(RuntimeError):
    """The input ended before its last batch."""


def whole_input(task: Task) -> Task:
    """Return the task, for mapInArrow, with its input checked."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from task(whole(batches, connection()))

    return run


def whole(items: Iterator[Item], stream: Any) -> Iterator[Item]:
    """Iterate over items read from a worker's connection (a buffered reader). Raises InputCut if it ends after them."""
    yield from items
    try:
        following = stream.peek(1)
    except OSError as error:
        raise InputCut(CUT) from error
    if not following:
        raise InputCut(CUT)


def connection() -> Any:
    """Return the reading end of the worker's connection to its executor. Called in a task only.

    Raises: RuntimeError with a pyspark that keeps it elsewhere: missing rows could not be detected then.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and hasattr(stream := frame.f_locals.get("infile"), "peek"):
            return stream
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    raise RuntimeError("this pyspark does not show a task where its input comes from (pyspark.worker.main: infile)")
