"""Two attempts at one micro-batch at the same time, as a task that outlives its executor and the one after it."""

import threading
from collections.abc import Iterator

import pyarrow as pa

from kvorum.pipelines.databases.dialect import Dialect
from kvorum.pipelines.sinks.jdbc import Table, write_rows

HELD_SECONDS = 1.0
"""In which an attempt that does not wait for the first would have begun to take its rows."""
END_SECONDS = 60.0


def insert_at_once(dialect: Dialect, table: Table, rows: pa.RecordBatch) -> list[int]:
    """Let a second attempt begin before the first has its rows; return how many each has written, sorted."""
    second_reads = threading.Event()
    written: list[int] = []

    def attempt(batches: Iterator[pa.RecordBatch]) -> None:
        (result,) = write_rows(dialect, table, ("q", 1))(batches)
        written.append(int(result.to_pylist()[0]["rows"]))

    def of_second() -> Iterator[pa.RecordBatch]:
        second_reads.set()
        yield rows

    second = threading.Thread(target=lambda: attempt(of_second()))

    def of_first() -> Iterator[pa.RecordBatch]:
        second.start()
        assert not second_reads.wait(HELD_SECONDS), "the second does not wait"
        yield rows

    list(write_rows(dialect, table, ("q", 0))(iter([])))  # the table of marks is there: an earlier micro-batch made it
    attempt(of_first())
    second.join(END_SECONDS)
    return sorted(written)
