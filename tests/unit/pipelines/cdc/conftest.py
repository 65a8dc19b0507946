"""A PostgreSQL of the tests' own, and a database in it for each test."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import TupleRow

from kvorum.cluster.local.ports import free_ports
from kvorum.pipelines.cdc import database as statements

SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "50",
    "fsync": "off",
    "shared_buffers": "32MB",
    "listen_addresses": "127.0.0.1",
}


class Server:
    """A PostgreSQL. It does not run as root, so root starts it as somebody else."""

    def __init__(self, initdb: Path, postgres: Path) -> None:
        users = {entry.pw_name for entry in pwd.getpwall()}
        user = next(name for name in ("postgres", "nobody") if name in users)
        is_root = os.getuid() == 0
        self.user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if is_root else {}
        self.folder = Path(
            tempfile.mkdtemp(prefix="kvorum-pg-")
        )  # not pytest's: another user has to come through to it
        if is_root:
            shutil.chown(self.folder, user)
        (self.port,) = free_ports(["127.0.0.1"])
        data = str(self.folder / "data")
        command = [str(initdb), "-D", data, "-U", "kvorum", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self.user)  # type: ignore[call-overload]
        settings = SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        self.command = [str(postgres), "-D", data, *(f"--{name}={value}" for name, value in settings.items())]
        self.start()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(  # type: ignore[call-overload]
                self.command, stdout=log, stderr=log, cwd=self.folder, **self.user
            )
        until(self.is_ready)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def crash(self) -> None:
        """End all its processes at once, with nothing written that was not; and start again."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)
        self.start()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str = "postgres") -> "psycopg.Connection[TupleRow]":
        return psycopg.connect(host="127.0.0.1", port=self.port, user="kvorum", dbname=database, autocommit=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database, and the options of a source that captures it."""

    server: Server
    name: str
    slot: str
    folder: Path

    def connect(self) -> "psycopg.Connection[TupleRow]":
        return self.server.connect(self.name)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str) -> list[TupleRow]:
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()

    def slot_state(self) -> statements.Slot | None:
        with self.connect() as connection:
            return statements.find_slot(connection, self.slot)

    def options(self, **more: str) -> dict[str, str]:
        """Return a source's options; `slot_name="x"` sets slot.name."""
        options = {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": "kvorum",
            "database.dbname": self.name,
            "topic.prefix": "pre",
            "slot.name": self.slot,
            "publication.autocreate.mode": "all_tables",
            "snapshot.location": str(self.folder),
            "poll.interval.ms": "20",
            "slot.wait.ms": "20000",
        }
        return options | {key.replace("_", "."): value for key, value in more.items()}


def tool(name: str) -> Path | None:
    """Return a program of PostgreSQL's, of the newest version there is."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which(name)
    return found[-1] if found else Path(on_path) if on_path else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """Return a server that may decode its log."""
    initdb, postgres = tool("initdb"), tool("postgres")
    if initdb is None or postgres is None:
        pytest.skip("missing tool: postgresql")
    server = Server(initdb, postgres)
    yield server
    server.stop()


@pytest.fixture
def database(postgresql: Server, tmp_path: Path) -> Iterator[Database]:
    """Return an empty database; its slots go with it."""
    name = f"db_{uuid.uuid4().hex[:8]}"
    with postgresql.connect() as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield Database(server=postgresql, name=name, slot=f"slot_{name}", folder=tmp_path / "capture")
    with postgresql.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [name],
        )
        until(lambda: not connection.execute("SELECT 1 FROM pg_stat_activity WHERE datname = %s", [name]).fetchall())
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition, within a limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
