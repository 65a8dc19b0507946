"""Lines of one file that grows, as Kafka Connect's FileStreamSource: the offset is a position in the file.

The file is read by the driver's machine and by the machines of the tasks: the same one with `local[...]`, else a shared
file system. A line that is not UTF-8 is a failed record; Kafka Connect replaces its bytes by U+FFFD.
"""

import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from kvorum.pipelines import frames
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.file_lines import LINE_BYTES_MAX, FilePosition, end_of_lines, lines_of, tail_of
from kvorum.pipelines.sources.options import ConnectOptions

NAME = "kvorum-file-stream"
BATCH_BYTES = 32 << 20
"""Of a micro-batch: about a second of work. A longer line is a micro-batch of its own."""
CHUNK_BYTES = 4 << 20
"""Of an Arrow batch."""
SCHEMA = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])

logger = logging.getLogger(__name__)


class FileChanged(ValueError):
    """The lines of a planned micro-batch no longer exist."""


class FileStreamSourceOptions(ConnectOptions):
    """`source: {type: file-stream, ...}`."""

    file: str = Field(min_length=1)
    """The file. It may be created later. Kafka Connect reads standard input without it; a pipeline has none."""
    position: int = Field(default=0, ge=0)
    """Where a new pipeline starts to read, in bytes; where a checkpoint exists, it decides."""
    batch_size: int = Field(default=2000, ge=1)
    """Accepted for Kafka Connect's configurations: a micro-batch is limited in bytes."""


class FileStreamSource:
    """Source of a file's lines."""

    Options: ClassVar[type[BaseModel]] = FileStreamSourceOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the lines; key is null, offset the line's position. Raises ValueError, OSError."""
        path = Path(options.file).absolute()
        with ExitStack() as files:
            open_named(path, files)
        spark.dataSource.register(FileStream)
        stream = spark.readStream.format(NAME).option("file", str(path)).option("position", options.position)
        lines = frames.record_frame(stream.load())
        where = F.concat(F.lit(" at byte "), F.col("offset").cast("string"), F.lit(f" of {path}"))
        value, is_text = F.col("value"), F.is_valid_utf8(F.col("value").cast("string"))
        why = F.when(value.isNull(), f" is longer than {LINE_BYTES_MAX} bytes").otherwise(" is not UTF-8")
        checked = frames.with_failure(
            lines,
            value.isNull() | ~is_text,
            stage=frames.TASK_POLL,
            message=F.concat(F.lit("value: the line"), where, why),
        )
        return checked.withColumn("value", F.when(is_text, value.cast("string")))


class FileStream(DataSource):
    """The registration with Spark; options: file, position."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> "FileStreamReader":
        """Return the reader."""
        return FileStreamReader(self.options["file"], int(self.options["position"]))


@dataclass(frozen=True, slots=True)
class LineRange(InputPartition):
    """The lines of a micro-batch: the file's bytes from `start` to `end`."""

    filename: str
    inode: int | None
    start: int
    end: int
    tail: int | None
    is_determined: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file, opened for reading."""

    path: Path
    descriptor: int
    inode: int
    size: int

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions. Raises FileChanged if the file is shorter now."""
        data = b""
        while len(data) < end - start:
            more = os.pread(self.descriptor, end - start - len(data), start + len(data))
            if not more:
                size = end - start
                raise FileChanged(f"{self.path} was truncated while it was read: it has no {size} bytes at {start}")
            data += more
        return data

    def is_same(self, position: int, tail: int | None) -> bool:
        """Return whether the bytes before a position have a checksum; without one, they do."""
        return tail is None or (position <= self.size and tail_of(self.read, position) == tail)


def open_named(path: Path, files: ExitStack) -> OpenFile | None:
    """Open a file; None if it does not exist. Raises OSError, and ValueError for a folder or a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    files.callback(os.close, descriptor)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"file {path} is not a regular file; FilesSource (type files) reads the files of a folder")
    return OpenFile(path=path, descriptor=descriptor, inode=found.st_ino, size=found.st_size)


def open_rotated(path: Path, inode: int | None, files: ExitStack) -> OpenFile | None:
    """Open the file of the same folder that has an inode and another name."""
    if inode is not None:
        with suppress(FileNotFoundError), os.scandir(path.parent) as entries:
            for entry in entries:
                if entry.inode() == inode and entry.name != path.name and entry.is_file(follow_symlinks=False):
                    return open_named(Path(entry.path), files)
    return None


class FileStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions (in the driver's Python process) and lines (in a task)."""

    def __init__(self, filename: str, position: int = 0) -> None:
        """Open nothing yet."""
        self._path = Path(filename)
        self._first_position = position
        self._final: tuple[int, int] | None = None  # with available-now: inode and size at the start of the run
        self._is_missing = False

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new pipeline starts."""
        position = self._first_position
        return asdict(FilePosition(filename=str(self._path), position=position, tail=None if position else 0))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit: BATCH_BYTES is applied here."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Set the end of the run: lines that are appended later are read by the next run."""
        with ExitStack() as files:
            named = open_named(self._path, files)
            self._final = (0, 0) if named is None else (named.inode, named.size)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends; the start if no line is complete."""
        last = FilePosition(**start)
        if last.filename != str(self._path):  # the configuration names another file now
            last = FilePosition(filename=str(self._path))
        with ExitStack() as files:
            named = open_named(self._path, files)
            if named is None and not self._is_missing:
                logger.warning("file %s does not exist; waiting for it", self._path)
            self._is_missing = named is None
            if named is not None and self._final is not None and named.inode != self._final[0]:
                named = None  # created after the start of this run
            if named is None or last.inode not in (None, named.inode):
                found = self._after_rotation(last, named, open_rotated(self._path, last.inode, files))
            elif named.is_same(last.position, last.tail):
                found = self._lines_after(last, named)
            else:
                found = self._from_beginning(last, named, "truncated")
        return dict(start) if found is None else asdict(found)

    def _after_rotation(
        self, last: FilePosition, named: OpenFile | None, rotated: OpenFile | None
    ) -> FilePosition | None:
        """Return the end of the next micro-batch, or None; the named file is not the one that was read so far."""
        is_rotated = rotated is not None and rotated.is_same(last.position, last.tail)
        found = self._lines_after(last, rotated) if rotated is not None and is_rotated else None
        if found is not None:
            return found
        if named is None or named.size == 0:
            return None
        # An editor or a restore writes the old content to a new file; a rotated file exists beside the new one.
        if last.position and not is_rotated and named.is_same(last.position, last.tail):
            return self._lines_after(last, named)
        return self._from_beginning(last, named, "replaced")

    def _from_beginning(self, last: FilePosition, file: OpenFile, reason: str) -> FilePosition:
        """Return a micro-batch without lines, so that the checkpoint has the new position before the file grows."""
        text = "file %s was %s: %d bytes were read before, lines after them that were not read are lost; "
        logger.warning(text + "reading from its beginning", self._path, reason, last.position)
        return replace(last, position=0, inode=file.inode, tail=0, start=0)

    def _lines_after(self, last: FilePosition, file: OpenFile) -> FilePosition | None:
        """Return the end of the complete lines after a position, of a micro-batch at most; None without one."""
        size, start = file.size, last.position
        if self._final is not None and file.inode == self._final[0]:
            size = min(size, self._final[1])
        end = end_of_lines(file.read, start, size, BATCH_BYTES)
        if end == start:
            return None
        return replace(last, position=end, inode=file.inode, tail=tail_of(file.read, end), start=start)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the one task of a micro-batch."""
        last = FilePosition(**end)
        if last.start == last.position or dict(start) == dict(end):
            return []
        return [LineRange(last.filename, last.inode, last.start, last.position, last.tail)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a micro-batch. Raises FileChanged if they are not those that were planned."""
        assert isinstance(partition, LineRange)
        with ExitStack() as files:
            file = _planned_file(partition, files)
            starts = range(partition.start, partition.end, CHUNK_BYTES)
            chunks = (file.read(at, min(at + CHUNK_BYTES, partition.end)) for at in starts)
            for positions, values in lines_of(chunks, partition.start):
                columns = [pa.array(values, type=pa.binary()), pa.array(positions, type=pa.int64())]
                yield pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)


def _planned_file(wanted: LineRange, files: ExitStack) -> OpenFile:
    path = Path(wanted.filename)
    for file in (open_named(path, files), open_rotated(path, wanted.inode, files)):
        if file is not None and file.is_same(wanted.end, wanted.tail):
            return file
    raise FileChanged(
        f"file {path} was replaced or truncated: bytes {wanted.start} to {wanted.end} of a micro-batch that began no "
        f"longer exist. Restore them, or reset the offsets to read the present file from its beginning"
    )
