"""Records as lines of one file, as Kafka Connect's FileStreamSink, each once.

A value with fields is written as JSON; Kafka Connect prints Java's `Struct{...}`. A record without a value is the line
`null`. The driver writes the file, so its checkpoint is on the same machine:

    <checkpoint>/file-stream/lines     the lines of a micro-batch, complete before any of them is appended
                            /pending   JSON: which micro-batch, which file, its inode and its size before
                            /done      JSON: the last micro-batch that is in the file

A process that is killed while it appends leaves a part of the lines. The next attempt compares what follows the file's
old size with the stored lines and appends the rest. If something else is there, another program changed the file:
neither its bytes nor ours are removed, and the error names both files.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame

from kvorum.pipelines import durable, formats
from kvorum.pipelines.plugins import Context, WriteBatch
from kvorum.pipelines.sinks.writing import BatchSink
from kvorum.pipelines.sources.options import ConnectOptions

CHUNK_BYTES: Final = 1 << 20
FOLDER: Final = "file-stream"


class FileStreamSinkOptions(ConnectOptions):
    """`sink: {type: file-stream, ...}`."""

    file: str = Field(min_length=1)
    """The file, created if it does not exist. Kafka Connect writes to standard output without it."""


class FileStreamSink(BatchSink):
    """Sink into the lines of a file."""

    Options: ClassVar[type[BaseModel]] = FileStreamSinkOptions

    def used(self, options: Any) -> Collection[str]:
        """Return the columns of a record that are written."""
        return ("value",)

    def writer(self, frame: DataFrame, options: Any, context: Context) -> WriteBatch:
        """Return the function that appends. Raises OSError if the file cannot be opened, ValueError for a checkpoint
        that is not on this machine.
        """
        path = Path(options.file).absolute()
        checkpoint = context.checkpoint.removeprefix("file://")
        if "://" in checkpoint:
            raise ValueError(
                f"file-stream: the checkpoint {checkpoint} is not on this machine; set checkpoint to a local folder"
            )
        with locked(path):
            pass
        file = AppendedFile(path, Path(checkpoint) / FOLDER)

        def append(batch: DataFrame, batch_id: int) -> None:
            rows = formats.converter("string", {}).encode(batch, "value").select("value")
            values = (row.value for row in rows.toLocalIterator())
            file.append(batch_id, (b"null\n" if value is None else bytes(value) + b"\n" for value in values))

        return append


class OutputChanged(ValueError):
    """Another program changed the file while a micro-batch was appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A micro-batch that may be in the file in part."""

    batch_id: int
    file: str
    inode: int
    size: int
    """Of the file before."""


class AppendedFile:
    """A file and the micro-batches that were appended to it."""

    def __init__(self, path: Path, folder: Path) -> None:
        """Take the file and the folder in the checkpoint."""
        self.path = path
        self.folder = folder
        self._lines = folder / "lines"

    def append(self, batch_id: int, lines: Iterable[bytes]) -> None:
        """Append a micro-batch unless it is in the file. Raises OSError, OutputChanged."""
        if self._read("done") == batch_id:
            return
        pending = self._read("pending")
        if isinstance(pending, dict) and pending["batch_id"] == batch_id:
            self._complete(Pending(**pending))
        elif self._store(lines):
            with locked(self.path) as descriptor:
                found = os.fstat(descriptor)
                pending = Pending(batch_id=batch_id, file=str(self.path), inode=found.st_ino, size=found.st_size)
                self._write("pending", asdict(pending))
                with self._lines.open("rb") as stored:
                    write_all(descriptor, chunks(stored.fileno()))
                os.fsync(descriptor)
        self._write("done", batch_id)
        self._lines.unlink(missing_ok=True)

    def _store(self, lines: Iterable[bytes]) -> bool:
        """Store the lines; return whether there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lines.open("wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
            return file.tell() > 0

    def _complete(self, pending: Pending) -> None:
        """Append what is missing of a micro-batch."""
        path = Path(pending.file)
        with locked(path) as descriptor, self._lines.open("rb") as stored:
            found = os.fstat(descriptor)
            if found.st_ino != pending.inode or found.st_size < pending.size:
                raise self._changed(pending)
            present = 0
            for chunk in chunks(stored.fileno()):
                there = os.pread(descriptor, len(chunk), pending.size + present)
                if there != chunk[: len(there)]:
                    raise self._changed(pending)
                present += len(there)
                if len(there) < len(chunk):
                    break
            os.lseek(stored.fileno(), present, os.SEEK_SET)
            write_all(descriptor, chunks(stored.fileno()))
            os.fsync(descriptor)

    def _changed(self, pending: Pending) -> OutputChanged:
        return OutputChanged(
            f"file {pending.file} was changed by another program while micro-batch {pending.batch_id} was appended at "
            f"byte {pending.size}. Its lines are in {self._lines}: complete the file by hand, then write "
            f"{pending.batch_id} to {self._lines.with_name('done')}; or remove {self._lines.with_name('pending')} to "
            f"append all of them again"
        )

    def _write(self, name: str, data: object) -> None:
        durable.replace(self.folder / name, json.dumps(data).encode())

    def _read(self, name: str) -> object:
        """Return a file of the checkpoint as data; None if it does not exist."""
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open a file for appending, created if it does not exist, and locked against other pipelines."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_new:
            durable.sync_folder(path.parent)
        yield descriptor
    finally:
        os.close(descriptor)


def chunks(descriptor: int) -> Iterator[bytes]:
    """Yield what is left of a file."""
    while data := os.read(descriptor, CHUNK_BYTES):
        yield data


def write_all(descriptor: int, parts: Iterable[bytes]) -> None:
    """Write byte strings completely."""
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]
