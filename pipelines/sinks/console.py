"""Records on the terminal: a line of JSON each."""

from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from kvorum.pipelines.plugins import Context, WriteBatch
from kvorum.pipelines.sinks.writing import BatchSink
from kvorum.pipelines.sources.options import Options

SHOWN = ("topic", "partition", "offset", "timestamp", "key", "value")


class ConsoleOptions(Options):
    """`sink: {type: console, ...}`."""

    rows: int = Field(default=100, ge=1, le=100_000)
    """Of each micro-batch at most; a line says if there were more."""


class ConsoleSink(BatchSink):
    """Sink that prints records."""

    Options: ClassVar[type[BaseModel]] = ConsoleOptions

    def writer(self, frame: DataFrame, options: Any, context: Context) -> WriteBatch:
        """Return the function that prints; bytes are printed as text."""
        is_bytes = {name for name in SHOWN if isinstance(frame.schema[name].dataType, BinaryType)}
        shown = [F.col(name).cast("string").alias(name) if name in is_bytes else F.col(name) for name in SHOWN]
        line = F.to_json(F.struct(*shown)).alias("line")

        def show(batch: DataFrame, batch_id: int) -> None:
            found = batch.select(line).limit(options.rows + 1).collect()
            for row in found[: options.rows]:
                print(row.line, flush=True)
            if len(found) > options.rows:
                print(f"... batch {batch_id} has more than {options.rows} records", flush=True)

        return show
