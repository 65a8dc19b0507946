"""How far a query is: the offset that Spark's checkpoint keeps. Pure."""

from dataclasses import asdict, dataclass, replace

from kvorum.pipelines.cdc.pgoutput import format_lsn, parse_lsn


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Chunks of the snapshot that are read, then the place in the log: what commits before `lsn` is read.

    The log begins when all chunks are read; until then `lsn` stays where the snapshot ends. `ts_ms` is the wall clock
    when the position was chosen: the events of the batch that ends here say so, each time the batch is tried.
    """

    generation: str
    chunk: int
    chunks: int
    lsn: int
    ts_ms: int

    def to_json(self) -> dict[str, str | int]:
        """Return what Spark keeps."""
        return {**asdict(self), "lsn": format_lsn(self.lsn)}

    @classmethod
    def of_json(cls, offset: dict[str, str | int]) -> "Position":
        """Return what Spark kept."""
        return cls(
            generation=str(offset["generation"]),
            chunk=int(offset["chunk"]),
            chunks=int(offset["chunks"]),
            lsn=parse_lsn(str(offset["lsn"])),
            ts_ms=int(offset["ts_ms"]),
        )

    def in_snapshot(self) -> bool:
        """Return whether there are chunks left to read."""
        return self.chunk < self.chunks

    def after_chunks(self, count: int, ts_ms: int) -> "Position":
        """Return the position some chunks on."""
        assert count > 0
        return replace(self, chunk=min(self.chunk + count, self.chunks), ts_ms=ts_ms)

    def at(self, lsn: int, ts_ms: int) -> "Position":
        """Return the position at another place in the log."""
        assert not self.in_snapshot() and lsn > self.lsn
        return replace(self, lsn=lsn, ts_ms=ts_ms)
