"""Statements on the database: sessions, publication, slot, log, catalog.

Sessions write values as values.py reads them. A slot is read by pg_logical_slot_peek_binary_changes, which changes
nothing, and moved by pg_replication_slot_advance, so that a stretch of the log can be read again until the checkpoint
has it (docs/decisions/0015).
"""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from kvorum.pipelines.cdc import values
from kvorum.pipelines.cdc.events import TableDescription
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Column, Relation, format_lsn, parse_lsn

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[TupleRow]

CONNECT_TIMEOUT_S = 15
FETCH_ROWS = 5_000  # of a cursor: the memory a batch needs on this side
SLOT_POLL_S = 0.2
_SETTINGS = values.SESSION | {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}


class CaptureError(Exception):
    """The database, the slot or the folder is not as it has to be; the message says what to do."""


def connect(options: Options, *, replication: bool = False) -> Connection:
    """Return a new session, each statement its own transaction. Raises psycopg.OperationalError."""
    secret = options.database_password
    return psycopg.connect(
        host=options.database_hostname,
        port=options.database_port,
        user=options.database_user,
        password=None if secret is None else secret.get_secret_value(),
        dbname=options.database_dbname,
        sslmode=options.database_sslmode,
        sslrootcert=options.database_sslrootcert,
        replication="database" if replication else None,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name=f"kvorum {options.slot_name}",
        client_encoding="utf8",
        options=" ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
        autocommit=True,
    )


def ask(connection: Connection, statement: LiteralString, *values: object) -> list[TupleRow]:
    """Return all rows of a statement."""
    return connection.execute(statement, values or None).fetchall()


def on_slot(options: Options, action: Callable[[], T]) -> T:
    """Return an operation's result; wait while another client uses the slot, at most slot.wait.ms.

    Raises: CaptureError, which says what to do, for errors that the slot's state causes.
    """
    deadline = time.monotonic() + options.slot_wait_ms / 1000
    while True:
        try:
            return action()
        except psycopg.errors.ObjectInUse as error:
            if time.monotonic() >= deadline:
                raise CaptureError(f"slot {options.slot_name} is in use by another client: {error}") from error
            time.sleep(SLOT_POLL_S)
        except psycopg.errors.UndefinedObject as error:
            raise CaptureError(f"slot or publication was dropped, the position in the log is lost: {error}") from error


def own(connection: Connection, options: Options) -> None:
    """Take the lock of the slot's only reader, for as long as the session lives.

    Raises: CaptureError if another session keeps it for slot.wait.ms.
    """
    key = zlib.crc32(f"kvorum-postgresql {options.slot_name}".encode())
    deadline = time.monotonic() + options.slot_wait_ms / 1000
    while not ask(connection, "SELECT pg_try_advisory_lock(%s)", key)[0][0]:
        if time.monotonic() >= deadline:
            raise CaptureError(
                f"slot {options.slot_name} belongs to a pipeline that runs: one pipeline has one slot (slot.name). "
                f"Its session holds the advisory lock {key} of database {options.database_dbname}: pg_locks names its "
                f"process"
            )
        time.sleep(SLOT_POLL_S)


_MAY_REPLICATE: LiteralString = """
SELECT rolreplication OR rolsuper
    OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(r.oid, 'member'))
FROM pg_roles WHERE rolname = current_user
"""  # Amazon's PostgreSQL has a role for it


def check_server(connection: Connection) -> None:
    """Raise CaptureError unless the server supports the capture."""
    if ask(connection, "SHOW wal_level")[0][0] != "logical":
        raise CaptureError("wal_level is not logical: set it in postgresql.conf and restart PostgreSQL")
    if ask(connection, "SELECT pg_is_in_recovery()")[0][0]:
        raise CaptureError("this server is a standby: connect to the primary")
    if not ask(connection, _MAY_REPLICATE)[0][0]:
        raise CaptureError("the role has no replication privilege: ALTER ROLE ... REPLICATION")


def ensure_publication(connection: Connection, options: Options, *, create: bool = True) -> None:
    """Make the publication unless it is there. Raises CaptureError if it is not there and not to be made."""
    name = options.publication_name
    if ask(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", name):
        return
    command = sql.SQL("CREATE PUBLICATION {} FOR ").format(sql.Identifier(name))
    if create and options.publication_autocreate_mode == "all_tables":
        connection.execute(command + sql.SQL("ALL TABLES"))
    elif create and options.publication_autocreate_mode == "filtered" and options.table_include_list:
        tables = [sql.Identifier(*table.split(".")) for table in options.table_include_list]
        connection.execute(command + sql.SQL("TABLE ") + sql.SQL(", ").join(tables))
    else:
        raise CaptureError(
            f"publication {name} does not exist: create it (CREATE PUBLICATION {name} FOR TABLE ...), or list the "
            f"tables in table.include.list"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replication slot as it stands."""

    plugin: str | None
    database: str | None
    confirmed_lsn: int
    lost: bool


def find_slot(connection: Connection, name: str) -> Slot | None:
    """Return the slot of that name, if there is one."""
    query: LiteralString = (
        "SELECT plugin, database, confirmed_flush_lsn::text, to_jsonb(s) ->> 'wal_status' "
        "FROM pg_replication_slots s WHERE slot_name = %s"
    )
    found = [
        Slot(plugin=plugin, database=database, confirmed_lsn=parse_lsn(confirmed or "0/0"), lost=status == "lost")
        for plugin, database, confirmed, status in ask(connection, query, name)
    ]
    return found[0] if found else None


def drop_slot(connection: Connection, options: Options) -> None:
    """Drop the slot if it exists; waits for a session that still reads it."""
    name = options.slot_name
    if find_slot(connection, name) is not None:
        on_slot(options, lambda: connection.execute("SELECT pg_drop_replication_slot(%s)", [name]))


def create_slot(connection: Connection, options: Options) -> tuple[int, str]:
    """Make the slot. Return where its changes begin, and the name of the snapshot of all before.

    On a replication session, which keeps the snapshot until its next statement. Waits for what runs now to end.
    """
    statement = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT").format(
        sql.Identifier(options.slot_name)
    )
    row = connection.execute(statement).fetchone()
    assert row is not None
    return parse_lsn(row[1]), row[2]


def advance_slot(connection: Connection, options: Options, lsn: int) -> None:
    """Confirm all changes before `lsn`. A slot that is ahead is unchanged."""

    def advance() -> None:
        slot = find_slot(connection, options.slot_name)
        if slot is not None and slot.confirmed_lsn < lsn:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s)", [options.slot_name, format_lsn(lsn)])

    on_slot(options, advance)


def flushed_lsn(connection: Connection) -> int:
    """Return the end of the log."""
    return parse_lsn(ask(connection, "SELECT pg_current_wal_flush_lsn()::text")[0][0])


_PEEK = """
SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes(
    %s, %s, %s::integer, 'proto_version', '1', 'publication_names', %s) LIMIT %s::integer
"""


def peek(connection: Connection, options: Options, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (position, message) of all unconfirmed transactions that commit before `end`.

    Some more may come, before and behind. Server: all of it in its memory or temporary files; here: FETCH_ROWS.
    """

    def rows() -> Iterator[TupleRow]:
        with connection.transaction(), connection.cursor("changes") as cursor:
            cursor.itersize = FETCH_ROWS
            cursor.execute(_PEEK, _peek_values(options, end, None), binary=True)
            yield from cursor

    def opened() -> Iterable[TupleRow]:
        found = rows()
        first = next(found, None)  # only now the function runs, and takes the slot
        return () if first is None else chain((first,), found)

    for lsn, data in on_slot(options, opened):
        yield parse_lsn(lsn), data


def first_change(connection: Connection, options: Options, end: int) -> bytes | None:
    """Return the first unconfirmed message, a Begin, if there is one before `end`."""
    values = _peek_values(options, end, 1)
    row = on_slot(options, lambda: connection.execute(_PEEK, values, binary=True).fetchone())
    return None if row is None else row[1]


def _peek_values(options: Options, end: int, limit: int | None) -> tuple[object, ...]:
    publication = options.publication_name.replace('"', '""')
    return options.slot_name, format_lsn(end), limit, f'"{publication}"', limit


FIRST_CUSTOM_OID = 16_384  # types below are PostgreSQL's own, and none of them that a table can have is a domain

_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
WHERE i.indrelid = %s::oid AND CASE WHEN %s = 'i' THEN i.indisreplident ELSE i.indisprimary END
AND EXISTS (SELECT FROM generate_series(0, i.indnkeyatts - 1) n WHERE i.indkey[n] = a.attnum)
"""
_TABLES = """
SELECT p.schemaname, p.tablename, to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter', c.oid, c.relreplident::text,
       c.relkind::text
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY 1, 2
"""
_BASE_TYPES = """
WITH RECURSIVE base(type_oid, oid) AS (
    SELECT oid, oid FROM pg_type WHERE oid = ANY(%s::oid[])
    UNION ALL SELECT type_oid, typbasetype FROM base JOIN pg_type USING (oid) WHERE typtype = 'd'
) SELECT type_oid, oid FROM base JOIN pg_type USING (oid) WHERE typtype <> 'd'
"""
_COLUMNS = """
SELECT attname, atttypid, atttypmod FROM pg_attribute
WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""


def describe(connection: Connection, relation: Relation) -> TableDescription:
    """Return a relation with what the catalog has on it: now, not when the log was written."""
    key = tuple(name for (name,) in ask(connection, _KEY, relation.oid, "d"))
    custom = [column.type_oid for column in relation.columns if column.type_oid >= FIRST_CUSTOM_OID]
    base_types: dict[int, int] = dict(ask(connection, _BASE_TYPES, custom)) if custom else {}
    return TableDescription(relation=relation, key=key, base_types=base_types)


def published_tables(connection: Connection, options: Options) -> list[tuple[TableDescription, sql.Composed]]:
    """Return the tables of the publication that the options select, by name, with the statements that copy them."""
    found = []
    for schema, table, names, row_filter, oid, identity, kind in ask(connection, _TABLES, options.publication_name):
        if not options.selects(schema, table):
            continue
        key = {name for (name,) in ask(connection, _KEY, oid, identity)} if identity in "di" else set()
        columns = tuple(
            Column(name=name, type_oid=type_oid, type_modifier=modifier, identity=identity == "f" or name in key)
            for name, type_oid, modifier in ask(connection, _COLUMNS, oid)
            if names is None or name in names
        )
        if columns:  # otherwise its rows have no values
            relation = Relation(oid=oid, schema=schema, table=table, replica_identity=identity, columns=columns)
            found.append((describe(connection, relation), _copy(relation, row_filter, only=kind != "p")))
    return found


def _copy(relation: Relation, row_filter: str | None, *, only: bool) -> sql.Composed:
    """Return the statement that writes a table as text, in the publication's columns and rows.

    A table's children are published on their own, unless it is partitioned and published by its root.
    """
    statement = sql.SQL("COPY (SELECT {} FROM {}{}").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in relation.columns),
        sql.SQL("ONLY " if only else ""),
        sql.Identifier(relation.schema, relation.table),
    )
    if row_filter is not None:
        statement += sql.SQL(" WHERE ") + sql.SQL(row_filter)  # the catalog's own SQL
    return statement + sql.SQL(") TO STDOUT")
