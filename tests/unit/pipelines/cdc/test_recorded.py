"""What a server writes for a fixed script. KVORUM_RECORD=1 keeps it, for test_pgoutput.py to read again."""

import base64
import json
import os
from pathlib import Path

from kvorum.pipelines.cdc import database as statements
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Begin, Commit, decode
from tests.unit.pipelines.cdc.conftest import Database

RECORDED = Path(__file__).parent / "recorded.json"
SCRIPT = [
    "CREATE TYPE mood AS ENUM ('happy')",
    "CREATE TABLE kinds (id bigint PRIMARY KEY, note text, price numeric(10,2), m mood, l int[])",
    "ALTER TABLE kinds ALTER COLUMN note SET STORAGE EXTERNAL",
    "INSERT INTO kinds VALUES (1, 'ünï', 12.50, 'happy', '{1,NULL}'), (2, NULL, NULL, NULL, NULL)",
    "INSERT INTO kinds VALUES (3, repeat('x', 3000), 1, 'happy', '{}')",
    "UPDATE kinds SET price = 2 WHERE id = 3",
    "UPDATE kinds SET id = 4 WHERE id = 2",
    "DELETE FROM kinds WHERE id = 4",
    "ALTER TABLE kinds REPLICA IDENTITY FULL",
    "UPDATE kinds SET price = 3 WHERE id = 1",
    "DELETE FROM kinds WHERE id = 1",
    "ALTER TABLE kinds DROP COLUMN l",
    "INSERT INTO kinds VALUES (5, 'a', 1, 'happy')",
    "CREATE TABLE other (a int)",
    "TRUNCATE kinds, other RESTART IDENTITY CASCADE",
    "SELECT pg_replication_origin_create('elsewhere')",
    "SELECT pg_replication_origin_session_setup('elsewhere')",
    "INSERT INTO kinds VALUES (6, 'b', 1, 'happy')",
    "SELECT pg_replication_origin_session_reset()",
    "SELECT pg_replication_origin_drop('elsewhere')",
]


def test_each_kind_of_message_that_a_server_writes_is_understood(database: Database) -> None:
    database.execute("CREATE PUBLICATION kvorum FOR ALL TABLES")
    database.execute(f"SELECT pg_create_logical_replication_slot('{database.slot}', 'pgoutput')")
    database.execute(*SCRIPT)
    options = Options.model_validate(database.options())
    with statements.connect(options) as connection:
        data = [one for _, one in statements.peek(connection, options, statements.flushed_lsn(connection))]
    messages = [decode(one) for one in data]
    begins = sum(isinstance(message, Begin) for message in messages)
    assert begins and begins == sum(isinstance(message, Commit) for message in messages)
    assert {one[:1] for one in data} == {b"B", b"C", b"R", b"Y", b"I", b"U", b"D", b"T", b"O"}
    if os.environ.get("KVORUM_RECORD"):
        with database.connect() as connection:
            (version,) = connection.execute("SHOW server_version").fetchone() or ("?",)
        entries = [
            {"data": base64.b64encode(one).decode(), "repr": repr(message)}
            for one, message in zip(data, messages, strict=True)
        ]
        RECORDED.write_text(json.dumps({"server": version, "messages": entries}, indent=1, ensure_ascii=False) + "\n")
