"""The sink to topics: at least once as Spark's own, or exactly once.

Exactly once is atomic per task, not per micro-batch: a reader at read_committed may see the rows of one task before
those of another, but each row once (docs/decisions/0013).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kvorum.pipelines.bridge import client, options
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.columns import check_written
from kvorum.pipelines.bridge.exactly_once import ExactlyOnce, written_columns
from kvorum.pipelines.bridge.ledger import FOLDER
from kvorum.pipelines.bridge.options import WriteOptions
from kvorum.pipelines.bridge.transaction import Writer, write_at_least_once
from kvorum.pipelines.plugins import Delivery

rows_written: Counter[str] = Counter()
"""Rows that each query of this process has written for good: Spark does not count what foreachBatch writes."""


def stream_writer(
    frame: DataFrame,
    sink_options: Mapping[str, str],
    *,
    delivery: Delivery,
    query: str,
    checkpoint: str,
    arrange: Callable[[DataFrame], DataFrame] | None = None,
) -> DataStreamWriter:
    """Return a writer of a stream to topics. The caller may add a trigger, and starts it.

    `query` is the query's name. With exactly once it also names the transactions and the group of the marks, so it must
    be unique on the cluster and never change. `arrange` puts the rows of a micro-batch into the order in which they are
    written.
    Raises: OptionError; with exactly once MarkError if the marks are not those of this checkpoint.
    """
    write = batch_writer(frame, sink_options, delivery=delivery, query=query, checkpoint=checkpoint, arrange=arrange)
    return frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).queryName(query)


def batch_writer(
    frame: DataFrame,
    sink_options: Mapping[str, str],
    *,
    delivery: Delivery,
    query: str,
    checkpoint: str,
    folder: str = FOLDER,
    arrange: Callable[[DataFrame], DataFrame] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function that writes the micro-batches of a stream; arguments and errors as of stream_writer.

    A stream may write several frames by calling such functions from its own foreachBatch, with the stream's checkpoint:
    each has its own query name and its own folder in the checkpoint.
    """
    write_options = options.writing(sink_options)
    check_written(frame.schema, write_options.topic)
    Writer(client.for_producer(write_options.settings))  # checks the settings
    sink = None
    if delivery == "exactly_once":
        sink = ExactlyOnce(write_options, query=query, checkpoint=checkpoint, folder=folder)
        sink.check(frame.sparkSession)

    def write(rows: DataFrame, batch_id: int) -> None:
        rows = rows if arrange is None else arrange(rows)
        rows_written[query] += _write(rows, write_options) if sink is None else sink.write(rows, batch_id)

    return write


def write_batch(
    frame: DataFrame,
    sink_options: Mapping[str, str],
    *,
    delivery: Delivery,
    query: str,
    batch_id: int,
    checkpoint: str | None = None,
) -> None:
    """Write a frame to topics: a batch, or one micro-batch of a stream from within foreachBatch.

    With exactly once, a repeated call with the same query, batch id and rows writes only what the first did not.
    It needs a checkpoint, a folder of its own.
    Raises: OptionError; with exactly once MarkError if the marks have another layout or a later batch.
    """
    if delivery == "exactly_once" and checkpoint is None:
        raise OptionError("exactly once needs a checkpoint")
    batch_writer(frame, sink_options, delivery=delivery, query=query, checkpoint=checkpoint or "")(frame, batch_id)


def _write(frame: DataFrame, write_options: WriteOptions) -> int:
    """Write a frame at least once, one task per partition; return the number of rows."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = write_at_least_once(write_options, batches)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["rows"])

    return sum(row.rows for row in written_columns(frame, write_options).mapInArrow(task, "rows LONG").collect())
