"""The sink to topics: at least once as Spark's own, or exactly once.

Exactly once is atomic a task, not a micro-batch: a reader at read_committed may see the rows of one task before those
of another, but each row is there once. docs/decisions/0013-exactly-once-sink.md has the reasons.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kvorum.pipelines.bridge import counted, options, producer
from kvorum.pipelines.bridge.columns import check_written
from kvorum.pipelines.bridge.exactly_once import ExactlyOnce, written_columns
from kvorum.pipelines.bridge.options import WriteOptions


class Delivery(StrEnum):
    """Delivery guarantee of each row: at least once, or exactly once."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


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

    `arrange` puts the rows of a micro-batch into the order in which they are written.

    `query` is the query's name; with exactly once it also names the transactions and the group of the marks, so it
    must be the only one of this name on the cluster, and keep it.
    Raises: OptionError; with exactly once MarkError if the marks are not those of this checkpoint.
    """
    write_options = checked(frame, sink_options)
    if delivery is Delivery.AT_LEAST_ONCE:

        def write(rows: DataFrame, batch_id: int) -> None:
            counted.add(query, write_at_least_once(rows if arrange is None else arrange(rows), write_options))
    else:
        sink = ExactlyOnce(write_options, query=query, checkpoint=checkpoint)
        sink.check(frame.sparkSession)

        def write(rows: DataFrame, batch_id: int) -> None:
            sink.write(rows if arrange is None else arrange(rows), batch_id)

    writer = frame.writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", checkpoint).queryName(query)


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

    With exactly once, a call with the query, the batch id and the rows of one that was cut off writes what that one
    did not. Without a checkpoint there is no place to stage rows: a frame whose tasks may get other rows when it is
    computed again (layout) is then written by one task.
    Raises: OptionError; with exactly once MarkError if the marks tell of another layout, or a later batch.
    """
    write_options = checked(frame, sink_options)
    if delivery is Delivery.AT_LEAST_ONCE:
        write_at_least_once(frame, write_options)
    else:
        ExactlyOnce(write_options, query=query, checkpoint=checkpoint).write(frame, batch_id)


def write_at_least_once(frame: DataFrame, write_options: WriteOptions) -> int:
    """Write a frame, one task for each of its partitions; return how many rows it had.

    The data source's own writer does the same, but Spark plans its every micro-batch in three Python processes.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = producer.write(write_options, batches)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["rows"])

    return sum(row.rows for row in written_columns(frame, write_options).mapInArrow(task, "rows LONG").collect())


def checked(frame: DataFrame, sink_options: Mapping[str, str]) -> WriteOptions:
    """Return the options if the frame can be written with them."""
    write_options = options.writing(spoken(sink_options))
    check_written(frame.schema, write_options.topic)
    producer.check(write_options)
    return write_options


def spoken(sink_options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without the delivery, which is an argument here."""
    return {name: value for name, value in sink_options.items() if name.lower() != "delivery"}
