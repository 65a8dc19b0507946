"""Records as lines of one file, as Kafka Connect's FileStreamSink, each once.

A value with fields is written as JSON; Kafka Connect prints Java's `Struct{...}`. A record without a value is the line
`null`. The driver writes the file, so its checkpoint is on the same machine.
"""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines import formats
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sinks.appended_file import AppendedFile, locked
from kvorum.pipelines.sources.options import ConnectOptions


class FileStreamSinkOptions(ConnectOptions):
    """`sink: {type: file-stream, ...}`."""

    file: str = Field(min_length=1)
    """The file, created if it does not exist. Kafka Connect writes to standard output without it."""


class FileStreamSink:
    """Sink into the lines of a file."""

    Options: ClassVar[type[BaseModel]] = FileStreamSinkOptions

    def write(self, frame: DataFrame, options: Any, context: Context) -> StreamingQuery | None:
        """Start to write. Raises OSError if the file cannot be opened, ValueError for a checkpoint elsewhere."""
        path = Path(options.file).absolute()
        rows = formats.converter("string", {}).encode(frame, "value").select("value")
        with locked(path):
            pass
        checkpoint = None
        if context.delivery == "exactly_once" and frame.isStreaming:
            if "://" in context.checkpoint.removeprefix("file://"):
                raise ValueError(
                    f"file-stream: the checkpoint {context.checkpoint} is not on this machine; set checkpoint to a "
                    f"local folder, or delivery to at_least_once"
                )
            checkpoint = Path(context.checkpoint.removeprefix("file://"))
        file = AppendedFile(path, checkpoint)

        def append(batch: DataFrame, batch_id: int) -> None:
            file.append(batch_id, (line(row.value) for row in batch.toLocalIterator()))

        if not frame.isStreaming:
            append(rows, 0)
            return None
        writer = rows.writeStream.foreachBatch(append).queryName(context.name)
        return context.trigger.apply(writer.option("checkpointLocation", context.checkpoint)).start()


def line(value: bytes | None) -> bytes:
    """Return a value as a line."""
    return b"null\n" if value is None else bytes(value) + b"\n"
