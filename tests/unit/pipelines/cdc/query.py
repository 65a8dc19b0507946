"""What Spark does with a streaming reader, without Spark: batches, a checkpoint, crashes, a sink of each batch once."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.source import PostgresqlStreamReader

Offset = dict[str, str | int]


class Crash(BaseException):
    """The process is gone, here and now."""


@dataclass(kw_only=True)
class Query:
    """A query's checkpoint (offsets planned, batches done) and its sink, both of which outlive a crash."""

    options: Mapping[str, str]
    limited: bool = True
    planned: list[Offset] = field(default_factory=list)
    done: int = 0
    sink: dict[int, list[Mapping[str, object]]] = field(default_factory=dict)
    reader: PostgresqlStreamReader | None = None
    starts: int = 0

    def run(self, step: Callable[[str], None] = lambda name: None, batches: int = 1_000) -> None:
        """Start, and run batches until there is nothing to read. `step` is told of each step, and may raise Crash."""
        self.reader = reader = PostgresqlStreamReader(Options.model_validate(self.options))
        self.starts += 1
        try:
            for _ in range(batches):
                if not self._batch(reader, step):
                    return
        finally:
            reader.stop()

    def _batch(self, reader: PostgresqlStreamReader, step: Callable[[str], None]) -> bool:
        start = self.planned[self.done - 1] if self.done else reader.initialOffset()
        step("started")
        if len(self.planned) == self.done:
            limit: ReadLimit = reader.getDefaultReadLimit() if self.limited else ReadAllAvailable()
            end = reader.latestOffset(start, limit)
            step("looked")
            if end == start:
                return False
            self.planned.append(end)
            step("planned")
            if self.done > 0:
                reader.commit(self.planned[self.done - 1])
                step("committed")
        rows = list(self.read(reader, start, self.planned[self.done]))
        step("read")
        self.sink.setdefault(self.done, rows)
        assert self.sink[self.done] == rows, "a batch that was read again is another"
        step("written")
        self.done += 1
        return True

    def read(self, reader: PostgresqlStreamReader, start: Offset, end: Offset) -> Iterator[Mapping[str, object]]:
        for partition in reader.partitions(start, end):
            for batch in PostgresqlStreamReader(Options.model_validate(self.options)).read(partition):
                yield from batch.to_pylist()

    def rows(self) -> list[Mapping[str, object]]:
        """Return what the sink has, in order."""
        return [row for number in sorted(self.sink) for row in self.sink[number]]

    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return keys and values of what the sink has."""
        return [(row["key"], row["value"]) for row in self.rows()]  # type: ignore[misc]


def crash_at_sync(number: int) -> Callable[[int], None]:
    """Return an os.fsync that crashes when it is called for the number-th time, before or after its work."""
    real, calls = os.fsync, iter(range(1 << 30))

    def fsync(descriptor: int) -> None:
        if next(calls) == number:
            raise Crash
        real(descriptor)

    return fsync
