"""The database's side: sessions, publication, slot, catalog. Everything here is a statement and its answer.

Sessions write values as values.py reads them. A slot is read by pg_logical_slot_peek_binary_changes, which changes
nothing, and moved by pg_replication_slot_advance, so that a stretch of the log can be read again until the checkpoint
has it (docs/decisions/0015).
"""

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from kvorum.pipelines.cdc import values
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import format_lsn, parse_lsn

Connection: TypeAlias = psycopg.Connection[TupleRow]

CONNECT_TIMEOUT_S = 15
FETCH_ROWS = 5_000  # of a cursor: the memory a batch needs on this side
SLOT_POLL_S = 0.2
_SETTINGS = values.SESSION | {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


class CaptureError(Exception):
    """The database, the slot or the folder is not as it has to be; the message says what to do."""


def connect(options: Options, *, replication: bool = False) -> Connection:
    """Return a new session, each statement its own transaction. Raises psycopg.OperationalError."""
    arguments: dict[str, str | int] = {
        "host": options.hostname,
        "port": options.port,
        "user": options.user,
        "dbname": options.dbname,
        "sslmode": options.sslmode,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": f"kvorum {options.slot_name}",
        "client_encoding": "utf8",
        "options": " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
    }
    if options.password is not None:
        arguments["password"] = options.password.get_secret_value()
    if options.sslrootcert is not None:
        arguments["sslrootcert"] = options.sslrootcert
    if replication:
        arguments["replication"] = "database"
    return psycopg.connect(**arguments, autocommit=True)  # type: ignore[arg-type]  # one dict of both kinds


def ask(connection: Connection, statement: LiteralString, *values: object) -> list[TupleRow]:
    """Return all rows of a statement."""
    return connection.execute(statement, values or None).fetchall()


@contextmanager
def slot_in_use(options: Options) -> Iterator[None]:
    """Say what to do about an error that a slot's state is the reason for."""
    try:
        yield
    except psycopg.errors.ObjectInUse as error:
        raise CaptureError(f"slot {options.slot_name} is in use by another client: {error}") from error
    except psycopg.errors.UndefinedObject as error:
        raise CaptureError(f"slot or publication was dropped, the position in the log is lost: {error}") from error


def patiently(options: Options, action: Callable[[], None]) -> None:
    """Retry an operation on the slot while another client uses it, within slot.wait.ms."""
    deadline = time.monotonic() + options.slot_wait_ms / 1000
    while True:
        try:
            return action()
        except psycopg.errors.ObjectInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(SLOT_POLL_S)


# -- The owner: one query a slot -----------------------------------------------------------------------------------


def own(connection: Connection, options: Options) -> None:
    """Take the lock that says who works with the slot, for as long as the session lives.

    Raises: CaptureError if another session has it and keeps it for slot.wait.ms.
    """
    key = zlib.crc32(f"kvorum-postgresql {options.slot_name}".encode())
    deadline = time.monotonic() + options.slot_wait_ms / 1000
    while not ask(connection, "SELECT pg_try_advisory_lock(%s)", key)[0][0]:
        if time.monotonic() >= deadline:
            raise CaptureError(
                f"slot {options.slot_name} belongs to a pipeline that runs: one pipeline has one slot (slot.name). Its "
                f"session holds the advisory lock {key} of database {options.dbname}: pg_locks names its process"
            )
        time.sleep(SLOT_POLL_S)


# -- Publication and slot ------------------------------------------------------------------------------------------


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
    if create and options.publication_autocreate == "all_tables":
        connection.execute(command + sql.SQL("ALL TABLES"))
    elif create and options.publication_autocreate == "filtered" and options.table_include_list:
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
    active_pid: int | None


def find_slot(connection: Connection, name: str) -> Slot | None:
    """Return the slot of that name, if there is one."""
    rows = ask(
        connection,
        "SELECT plugin, database, confirmed_flush_lsn::text, to_jsonb(s) ->> 'wal_status', active_pid "
        "FROM pg_replication_slots s WHERE slot_name = %s",
        name,
    )
    if not rows:
        return None
    plugin, database, confirmed, status, active_pid = rows[0]
    return Slot(
        plugin=plugin,
        database=database,
        confirmed_lsn=parse_lsn(confirmed or "0/0"),
        lost=status == "lost",
        active_pid=active_pid,
    )


def drop_slot(connection: Connection, options: Options) -> None:
    """Drop the slot, if it is there; a session that still reads it is waited for."""

    def drop() -> None:
        if find_slot(connection, options.slot_name) is not None:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [options.slot_name])

    with slot_in_use(options):
        patiently(options, drop)


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

    with slot_in_use(options):
        patiently(options, advance)


def flushed_lsn(connection: Connection) -> int:
    """Return the end of the log."""
    return parse_lsn(ask(connection, "SELECT pg_current_wal_flush_lsn()::text")[0][0])


_PEEK: LiteralString = (
    "SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes("
    "%s, %s, {}, 'proto_version', '1', 'publication_names', %s) {}"
)


def peek(connection: Connection, options: Options, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (position, message) of all unconfirmed transactions that commit before `end`.

    Some more may come, before and behind. Server: all of it in its memory or temporary files; here: FETCH_ROWS.
    """
    values = (options.slot_name, format_lsn(end), _quoted(options.publication_name))
    deadline = time.monotonic() + options.slot_wait_ms / 1000
    begun = False
    with slot_in_use(options):
        while True:
            try:
                with connection.transaction(), connection.cursor("changes") as cursor:
                    cursor.itersize = FETCH_ROWS
                    cursor.execute(sql.SQL(_PEEK).format(sql.SQL("NULL"), sql.SQL("")), values, binary=True)
                    for lsn, data in cursor:
                        begun = True
                        yield parse_lsn(lsn), data
                return
            except psycopg.errors.ObjectInUse:  # the function runs, and takes the slot, with the first row asked for
                if begun or time.monotonic() >= deadline:
                    raise
                time.sleep(SLOT_POLL_S)


def first_change(connection: Connection, options: Options, end: int) -> bytes | None:
    """Return the first unconfirmed message, a Begin, if there is one before `end`."""
    rows: list[TupleRow] = []
    values = (options.slot_name, format_lsn(end), _quoted(options.publication_name))
    statement = sql.SQL(_PEEK).format(sql.SQL("1"), sql.SQL("LIMIT 1"))

    def look() -> None:
        rows[:] = connection.execute(statement, values, binary=True).fetchall()

    with slot_in_use(options):
        patiently(options, look)
    return rows[0][1] if rows else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
