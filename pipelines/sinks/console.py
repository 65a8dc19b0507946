"""Records on the terminal: a line of JSON each."""

from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, DataType

from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.options import Options

SHOWN = ("topic", "partition", "offset", "timestamp", "key", "value")


class ConsoleOptions(Options):
    """`sink: {type: console, ...}`."""

    rows: int = Field(default=100, ge=1, le=100_000)
    """Of each micro-batch at most; how many there were more is said."""


class ConsoleSink:
    """Sink that prints records."""

    Options: ClassVar[type[BaseModel]] = ConsoleOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery | None:
        """Start to print."""
        lines = frame.select(F.to_json(F.struct(*(shown(frame, name) for name in SHOWN))).alias("line"))

        def show(batch: DataFrame, batch_id: int) -> None:
            found = batch.limit(options.rows + 1).collect()
            for row in found[: options.rows]:
                print(row.line, flush=True)
            if len(found) > options.rows:
                print(f"... batch {batch_id} has more than {options.rows} records", flush=True)

        if not frame.isStreaming:
            show(lines, 0)
            return None
        writer = lines.writeStream.foreachBatch(show).queryName(context.name)
        return context.trigger.apply(writer.option("checkpointLocation", context.checkpoint)).start()


def shown(frame: DataFrame, name: str) -> Column:
    """Return a column as it is printed: bytes as text, as consoles show them."""
    kind: DataType = frame.schema[name].dataType
    return (F.col(name).cast("string") if isinstance(kind, BinaryType) else F.col(name)).alias(name)
