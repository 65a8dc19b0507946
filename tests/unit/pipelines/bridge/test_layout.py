"""Which sources' rows go to the exactly-once sink as they come, and which are staged first. Spark is stood in for."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kvorum.pipelines.bridge.layout import Undetermined, source_range
from kvorum.pipelines.bridge.offsets import OffsetRange
from kvorum.pipelines.cdc import database, snapshot
from kvorum.pipelines.cdc.events import TableDescription
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Column, Relation
from kvorum.pipelines.cdc.snapshot import Chunk, Manifest
from kvorum.pipelines.cdc.source import Position, PostgresqlStreamReader
from kvorum.pipelines.sources.jdbc import JdbcSourceOptions, JdbcStreamReader


class Planned:
    """A partition as Spark's plan has it: Python's own, pickled, inside one of Java's."""

    def __init__(self, partition: InputPartition, kind: str = "PythonStreamingInputPartition") -> None:
        self.partition, self.kind = partition, kind

    def inputPartition(self) -> "Planned":
        return self

    get = getClass = inputPartition

    def getSimpleName(self) -> str:
        return self.kind

    def toString(self) -> str:
        return f"{self.kind}({self.partition!r})"

    def pickedPartition(self) -> bytes:
        return pickle.dumps(self.partition)


def passes_unstaged(*partitions: Any) -> bool:
    """Return whether all partitions are ranges that every run reads alike, each another one."""
    try:
        ranges = [source_range(Planned(each)) for each in partitions]
    except Undetermined:
        return False
    assert len(set(ranges)) == len(ranges) > 0
    assert ranges == [source_range(Planned(each)) for each in partitions]
    return True


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PostgresqlStreamReader:
    """Return the reader of a captured database of two chunks; the database itself is not asked."""
    columns = (Column(name="id", type_oid=20, type_modifier=-1, identity=True),)
    relation = Relation(oid=1, schema="public", table="orders", replica_identity="d", columns=columns)
    table = TableDescription(relation=relation, key=("id",), base_types={})
    chunks = [Chunk(file=f"{number}.copy", table=table, rows=3, size=30) for number in range(2)]
    manifest = Manifest(slot="kvorum", generation="g", lsn=100, taken_us=5, chunks=chunks)
    monkeypatch.setattr(snapshot, "load", lambda folder: manifest)
    slot = database.Slot(plugin="pgoutput", database="d", confirmed_lsn=0, lost=False)
    monkeypatch.setattr(database, "find_slot", lambda session, name: slot)
    monkeypatch.setattr(PostgresqlStreamReader, "_session", lambda self: None)
    needed = {"database.user": "u", "database.dbname": "d", "topic.prefix": "p", "snapshot.location": str(tmp_path)}
    return PostgresqlStreamReader(Options.model_validate(needed))


def test_changes_of_a_database_are_not_staged(capture: PostgresqlStreamReader) -> None:
    """Neither the snapshot's chunks, which are files, nor a stretch of the log: both are read again as they were."""
    start = Position(generation="g", chunk=0, chunks=2, lsn=100, ts_ms=1)
    copied = start.after_chunks(2, ts_ms=2)
    chunks = capture.partitions(start.to_json(), copied.to_json())
    assert len(chunks) == 2 and passes_unstaged(*chunks)
    log = capture.partitions(copied.to_json(), copied.at(200, ts_ms=3).to_json())
    further = capture.partitions(copied.at(200, ts_ms=3).to_json(), copied.at(300, ts_ms=4).to_json())
    assert len(log) == 1 and passes_unstaged(*log, *further)


@pytest.mark.parametrize(
    ("mode", "start", "end", "unstaged"),
    [
        ("timestamp", {"timestamp": "2024-01-01"}, {"timestamp": "2024-01-02"}, True),
        (
            "timestamp+incrementing",
            {"timestamp": "2024-01-01", "incrementing": 1},
            {"timestamp": "2024-01-02", "incrementing": 7},
            True,
        ),
        ("incrementing", {"incrementing": 1}, {"incrementing": 7}, False),
        ("bulk", {"polls": 0}, {"polls": 1}, False),
    ],
)
def test_rows_of_a_table_are_staged_unless_they_are_read_by_time(
    mode: Any, start: Any, end: Any, unstaged: bool
) -> None:
    """A row that is changed keeps its id and stays in the range; by time it has left it, and comes later."""
    columns = {"incrementing": "id", "timestamp": "at"}
    settings = JdbcSourceOptions.model_validate({"url": "sqlite:/none", "table": "t", "mode": mode, **columns})
    schema = StructType([StructField("id", LongType()), StructField("at", StringType())])
    partitions = JdbcStreamReader(settings, schema).partitions(start, end)
    assert len(partitions) == 1 and passes_unstaged(*partitions) is unstaged


def test_ranges_of_offsets_are_not_staged_and_what_is_unknown_is() -> None:
    assert passes_unstaged(OffsetRange(topic="t", partition=0, start=0, end=5))
    assert not passes_unstaged(InputPartition(0))
    kafkas = Planned(InputPartition(0), kind="KafkaBatchInputPartition")
    assert source_range(kafkas) == kafkas.toString()
    with pytest.raises(Undetermined, match=r"not ranges of offsets \(FilePartition\)"):
        source_range(Planned(InputPartition(0), kind="FilePartition"))
