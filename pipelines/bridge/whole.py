"""Whether a task's input has come to its end, or was cut off in the middle: Arrow takes the one for the other.

When a step before this one fails, or its process or the executor dies, Spark closes the connection to the worker. If it
has sent whole batches until then, that looks like the end of the stream. The task has failed, and is run again; but
the worker goes through with the rows that it got. If it notes at the end of its input that the task is done, the next
attempt leaves out the rest, which are lost. So whoever does that takes its input through here.

Behind the last batch Spark writes END_OF_STREAM, and behind a cut there is nothing. The worker keeps its end of the
connection to itself (`infile` of pyspark.worker.main, a private name; tests/unit/pipelines/bridge/test_whole.py
compares it with pyspark), and reads what follows when the task is done; so this looks at it and leaves it there.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

Item = TypeVar("Item")
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class InputCut(RuntimeError):
    """The input ended in the middle."""


def whole_input(task: Task) -> Task:
    """Return the task, for mapInArrow, with its input taken through `whole`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from task(whole(batches, connection()))

    return run


def whole(items: Iterator[Item], stream: Any) -> Iterator[Item]:
    """Iterate over what was read from a worker's connection (a buffered reader). Waits for what follows the last.

    Raises: InputCut in place of an end behind which the connection ends, too.
    """
    yield from items
    try:
        following = stream.peek(1)
    except OSError as error:
        raise cut() from error
    if not following:
        raise cut()


def cut() -> InputCut:
    """Return the error."""
    return InputCut("the task's input ended in the middle: a step before it, or the executor, has failed or is gone")


def connection() -> Any:
    """Return the reading end of what connects this worker with its executor. Called in a task only.

    Raises: RuntimeError with a pyspark that keeps it elsewhere: nobody could tell then whether rows are missing.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and hasattr(stream := frame.f_locals.get("infile"), "peek"):
            return stream
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    raise RuntimeError("this pyspark does not show a task where its input comes from (pyspark.worker.main: infile)")
