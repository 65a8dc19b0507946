"""The snapshot: all tables as they were when the slot was made, copied to files before the first event is emitted.

A folder holds what outlives the process, each file replaced at once and synced:

    intent.json              the slot is being created, or tables are being copied: both belong to this snapshot
    manifest.json            slot and copies are complete and never created again
    <generation>/*.copy      chunks: rows of a table as COPY writes them

After kill -9 before the manifest exists, nothing was emitted: the next start drops slot and copies and creates them
again. Later, rows are read from the files in each attempt of a batch, never from the tables.
"""

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
from psycopg import sql

from kvorum.pipelines import durable
from kvorum.pipelines.cdc import database
from kvorum.pipelines.cdc.database import CaptureError, Connection
from kvorum.pipelines.cdc.events import TableDescription
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import format_lsn

INTENT, MANIFEST = "intent.json", "manifest.json"
_WRITE_BUFFER = 1 << 20


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """Written before the slot is made."""

    slot: str
    generation: str


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A file of rows, of one table."""

    file: str
    table: TableDescription
    rows: int
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a snapshot: the log is read from `lsn` on, earlier rows are in the chunks."""

    slot: str
    generation: str
    lsn: int
    taken_us: int
    chunks: list[Chunk]


def load(folder: Path) -> Manifest | None:
    """Return the manifest, if it is there."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None


def prepare(connection: Connection, options: Options, folder: Path) -> Manifest:
    """Return the manifest: as it is there, or made now with the slot and the copies. The caller owns the slot.

    Raises: CaptureError if the slot is there and not ours, or gone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database.check_server(connection)
    manifest = load(folder)
    slot = database.find_slot(connection, options.slot_name)
    if manifest is not None:
        _check_unused(manifest, slot, options, folder)
        return manifest
    intent = folder / INTENT
    if intent.exists():
        _discard(connection, options, folder)
    elif slot is not None:
        if options.snapshot_mode == "no_data":
            database.ensure_publication(connection, options, create=False)
            return _adopt(slot, options, folder)
        raise CaptureError(
            f"slot {options.slot_name} exists but is unknown in {folder}: it belongs to another client or to a "
            f"pipeline whose checkpoint was removed. Choose another slot.name, or drop it: "
            f"SELECT pg_drop_replication_slot('{options.slot_name}')"
        )
    database.ensure_publication(connection, options)
    generation = uuid.uuid4().hex
    durable.replace(intent, msgspec.json.encode(Intent(slot=options.slot_name, generation=generation)))
    return _make(connection, options, folder, generation)


def _make(connection: Connection, options: Options, folder: Path, generation: str) -> Manifest:
    """Make the slot, copy the tables as they were then, and write the manifest."""
    (folder / generation).mkdir()
    parent = os.getppid()
    try:
        with database.connect(options, replication=True) as replication:
            lsn, name = database.create_slot(replication, options)
            taken_us = time.time_ns() // 1000
            chunks: list[Chunk] = []
            if options.snapshot_mode == "initial":
                with database.connect(options) as session, session.transaction():
                    session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                    session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(name)))
                    for chunk in _copy_tables(session, options, folder, generation):
                        chunks.append(chunk)
                        _check_wanted(parent)
        _check_wanted(parent)
    except Exception:
        _discard(connection, options, folder)  # an unread slot would keep PostgreSQL from removing its log
        raise
    durable.sync_folder(folder / generation)
    manifest = _written(folder, options, generation, lsn, taken_us, chunks)
    (folder / INTENT).unlink()
    return manifest


def _check_wanted(parent: int) -> None:
    """Raise CaptureError if the parent process was killed: another one starts again."""
    if os.getppid() != parent:
        raise CaptureError("the query of this snapshot has ended")


def _copy_tables(session: Connection, options: Options, folder: Path, generation: str) -> Iterator[Chunk]:
    tables = database.published_tables(session, options)
    for table, _ in tables:  # so that no ALTER TABLE rewrites it under the snapshot
        name = sql.Identifier(table.relation.schema, table.relation.table)
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
    for table, statement in tables:
        yield from _copy_table(session, statement, table, folder, f"{generation}/{table.relation.oid}", options)


def _copy_table(
    session: Connection, statement: sql.Composed, table: TableDescription, folder: Path, prefix: str, options: Options
) -> Iterator[Chunk]:
    """Copy a table, and yield its chunks, each synced."""
    with session.cursor() as cursor, cursor.copy(statement) as copy:
        rows = iter(copy)
        line = next(rows, None)
        number = 0
        while line is not None:
            name = f"{prefix}-{number}.copy"
            count = size = 0
            with (folder / name).open("wb", buffering=_WRITE_BUFFER) as file:
                while line is not None and size < options.snapshot_chunk_bytes:
                    count, size = count + 1, size + len(line)
                    file.write(line)
                    line = next(rows, None)
                file.flush()
                os.fsync(file.fileno())
            yield Chunk(file=name, table=table, rows=count, size=size)
            number += 1


def _check_unused(manifest: Manifest, slot: database.Slot | None, options: Options, folder: Path) -> None:
    """Raise CaptureError unless a query that begins can begin with what is there."""
    if slot is None or manifest.slot != options.slot_name:
        raise CaptureError(
            f"{folder} is of slot {manifest.slot}, which is gone or not slot.name ({options.slot_name}): what changed "
            f"since {format_lsn(manifest.lsn)} cannot be had any more. Remove {folder} and the checkpoint to begin "
            f"with a new snapshot"
        )
    used = slot.confirmed_lsn > manifest.lsn or not all((folder / chunk.file).exists() for chunk in manifest.chunks)
    if used:
        raise CaptureError(
            f"{folder} was used up by a query whose checkpoint is gone. Drop slot {options.slot_name} and remove "
            f"{folder} to begin with a new snapshot"
        )


def _discard(connection: Connection, options: Options, folder: Path) -> None:
    """Undo what a start left that did not come to the manifest: the slot, then the copies, then the intent."""
    intent = msgspec.json.decode((folder / INTENT).read_bytes(), type=Intent)
    if intent.slot != options.slot_name:
        raise CaptureError(
            f"{folder} was begun with slot {intent.slot}, not {options.slot_name}: drop that slot if it exists, and "
            f"remove the folder"
        )
    database.drop_slot(connection, options)
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
    (folder / INTENT).unlink()


def _adopt(slot: database.Slot, options: Options, folder: Path) -> Manifest:
    """Begin at the position of an existing slot."""
    if slot.plugin != "pgoutput" or slot.database != options.database_dbname or slot.lost:
        raise CaptureError(
            f"slot {options.slot_name} is not of pgoutput and {options.database_dbname}, or lost its log: {slot}"
        )
    return _written(folder, options, uuid.uuid4().hex, slot.confirmed_lsn, time.time_ns() // 1000, [])


def _written(folder: Path, options: Options, generation: str, lsn: int, taken_us: int, chunks: list[Chunk]) -> Manifest:
    manifest = Manifest(slot=options.slot_name, generation=generation, lsn=lsn, taken_us=taken_us, chunks=chunks)
    durable.replace(folder / MANIFEST, msgspec.json.encode(manifest))
    return manifest
