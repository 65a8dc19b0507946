"""The reader against a real PostgreSQL, run as Spark runs it but without Spark."""

import json
import os
import random
from pathlib import Path

import psycopg
import pytest
from pyspark.sql.types import StringType

from kvorum.pipelines.cdc.database import CaptureError
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.snapshot import INTENT, MANIFEST
from kvorum.pipelines.cdc.source import PostgresqlStreamReader
from tests.unit.pipelines.cdc.conftest import Database
from tests.unit.pipelines.cdc.model import CREATE, Ledger
from tests.unit.pipelines.cdc.query import Crash, Query, crash_at_sync
from tests.unit.pipelines.databases.test_postgresql_values import TABLE

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))


def events(query: Query) -> list[dict[str, object]]:
    return [json.loads(value) for _, value in query.records() if value is not None]


def afters(query: Query, op: str) -> list[object]:
    return [event["after"] for event in events(query) if event["op"] == op]


def test_a_snapshot_comes_first_and_changes_after_it(database: Database) -> None:
    database.execute(CREATE, "INSERT INTO item SELECT n, 'r' || n FROM generate_series(1, 300) n")
    query = Query(options=database.options(snapshot_chunk_bytes="1024"))
    query.run()
    assert len(query.planned) == 1 and query.planned[0]["chunks"] > 1  # type: ignore[operator]
    read = events(query)
    assert [event["op"] for event in read] == ["r"] * 300
    assert {event["source"]["snapshot"] for event in read[:-1]} == {"true"}  # type: ignore[index]
    assert read[-1]["source"]["snapshot"] == "last"  # type: ignore[index]
    database.execute("UPDATE item SET value = 'u' WHERE id = 1", "DELETE FROM item WHERE id = 2", "TRUNCATE item")
    query.run()
    assert [event["op"] for event in events(query)[300:]] == ["u", "d", "t"]
    topics = {row["topic"] for row in query.rows()}
    assert topics == {"pre.public.item"}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_step_it_crashes_at_each_change_comes_once(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crash at steps of the query and at writes of the snapshot by chance, with changes in between."""
    chance = random.Random(seed)
    database.execute(CREATE)
    ledger = Ledger(database=database, chance=chance)
    ledger.change(30)
    more = {"snapshot_chunk_bytes": "1024", "max_wal_bytes_per_trigger": chance.choice(["700", "20000", "1000000"])}
    query = Query(options=database.options(**more), limited=chance.random() < 0.8)

    def step(name: str) -> None:
        if chance.random() < 0.5:
            ledger.change()
        if chance.random() < 0.1:
            raise Crash

    for _ in range(25):
        with monkeypatch.context() as patch:
            if chance.random() < 0.5:
                patch.setattr(os, "fsync", crash_at_sync(chance.randrange(8)))
            try:
                query.run(step, batches=20)
            except Crash:
                continue
    query.run()
    ledger.check(query.records())


def test_a_transaction_is_one_batch_and_open_ones_are_waited_for(database: Database) -> None:
    database.execute(CREATE)
    query = Query(options=database.options(max_wal_bytes_per_trigger="100000"))
    query.run()
    with database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO item SELECT n, 'v' FROM generate_series(1, 5000) n")
        database.execute("INSERT INTO item VALUES (9001, 'first')")
        query.run()
        assert [after["id"] for after in afters(query, "c")] == [9001]  # type: ignore[index]
        connection.execute("COMMIT")
    query.run()
    assert len(afters(query, "c")) == 5001
    assert [len(rows) for rows in query.sink.values() if rows] == [1, 5000]


def test_types_have_the_same_form_in_the_snapshot_and_in_the_log(database: Database) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TABLE kinds (id bigint PRIMARY KEY, a smallint, b numeric(10,2), c text, d boolean, e bytea, "
        "f timestamp, g timestamptz, h date, i uuid, j json, k jsonb, l int[], m text[], n mood, o positive, "
        "p float8, q time, r interval, s varchar(10), t int GENERATED ALWAYS AS (a * 2) STORED, u inet, v char(4))",
    )
    row = (
        "1, -5, 12.50, E'tab\\tline\\nback\\\\slash ünï', true, '\\x00ff5c', '2024-05-06 07:08:09.123456', "
        "'2024-05-06 07:08:09+02', '2024-05-06', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": [1]}', '{\"b\":2}', "
        "'{1,NULL}', E'{\"x,\\\\\"y\\\\\\\\\",z}', 'happy', 7, 'NaN', '01:02:03', '1 day 2 hours', 'short', DEFAULT, "
        "'10.0.0.1', 'ab'"
    )
    nulls = "2" + ", NULL" * 19 + ", DEFAULT, NULL, NULL"
    database.execute(f"INSERT INTO kinds VALUES ({row})", f"INSERT INTO kinds VALUES ({nulls})")
    query = Query(options=database.options())
    query.run()
    database.execute("DELETE FROM kinds", f"INSERT INTO kinds VALUES ({row})", f"INSERT INTO kinds VALUES ({nulls})")
    query.run()
    assert afters(query, "c") == afters(query, "r")
    first, second = afters(query, "c")
    assert first == {
        "id": 1,
        "a": -5,
        "b": "12.50",
        "c": "tab\tline\nback\\slash ünï",
        "d": True,
        "e": "AP9c",
        "f": 1714979289123456,
        "g": "2024-05-06T05:08:09Z",
        "h": 19849,
        "i": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": [1]}',
        "k": '{"b": 2}',
        "l": [1, None],
        "m": ['x,"y\\', "z"],
        "n": "happy",
        "o": 7,
        "p": "NaN",
        "q": 3723000000,
        "r": "P1DT2H",
        "s": "short",
        "u": "10.0.0.1",
        "v": "ab  ",
    }
    assert set(second.values()) == {2, None}  # type: ignore[attr-defined]


def test_values_at_the_edges_of_their_types_are_exact(database: Database) -> None:
    """Those of the JDBC source's table that are text there and here, and edges of the types that are numbers here."""
    texts: list[tuple[str, str, object]] = [
        (declared, literal, value)
        for declared, literal, kind, value in TABLE
        if kind == StringType() and declared != "time" and not (declared.endswith("[]") and declared != "mood[]")
    ]
    columns: list[tuple[str, str, object]] = [
        *texts,
        ("numeric(10, 2)", "'NaN'", "NaN"),
        ("numeric(5, -3)", "12345678", "12346000"),
        ("bigint", "9223372036854775807", 9223372036854775807),
        ("real", "'0.1'", 0.1),
        ("float8", "'5e-324'", 5e-324),
        ("date", "'0044-03-15 BC'", -735160),
        ("date", "'10000-01-01'", 2932897),
        ("date", "'infinity'", "infinity"),
        ("time", "'24:00:00'", 86_400_000_000),
        ("timestamp", "'10000-01-01'", 253_402_300_800_000_000),
        ("timestamptz", "'0044-03-15 12:00+00 BC'", "-0043-03-15T12:00:00Z"),
        ("numeric[]", "'{1.10,NaN,1e30}'", ["1.10", "NaN", "1" + "0" * 30]),
        ("date[]", "'{infinity,1970-01-02}'", ["infinity", 1]),
    ]
    declared = ", ".join(f'"c.{number} %" {kind}' for number, (kind, _, _) in enumerate(columns))
    values = ", ".join(literal for _, literal, _ in columns)
    with database.connect() as connection:
        for setting in ("datestyle = 'SQL, DMY'", "intervalstyle = 'postgres'", "extra_float_digits = -15"):
            connection.execute(f"ALTER DATABASE {database.name} SET {setting}".encode())
    database.execute(
        "CREATE TYPE mood AS ENUM ('ok', 'so so')",
        "CREATE TYPE pair AS (a numeric, b text)",
        f"CREATE TABLE edges ({declared})",
        f"INSERT INTO edges VALUES ({values})",
    )
    query = Query(options=database.options())
    query.run()
    database.execute(f"INSERT INTO edges VALUES ({values})")
    query.run()
    expected = {f"c.{number} %": value for number, (_, _, value) in enumerate(columns)}
    assert afters(query, "r") == [expected]
    assert afters(query, "c") == [expected]


def test_tables_changed_in_shape_are_followed(database: Database) -> None:
    database.execute(CREATE, "INSERT INTO item VALUES (1, 'a')")
    query = Query(options=database.options())
    query.run()
    database.execute(
        "UPDATE item SET value = 'b'",
        "ALTER TABLE item ADD COLUMN extra int DEFAULT 5",
        "UPDATE item SET value = 'c'",
        "ALTER TABLE item DROP COLUMN ballast",
        "ALTER TABLE item RENAME COLUMN value TO content",
        "UPDATE item SET content = 'd'",
        "CREATE TABLE late (id int PRIMARY KEY)",
        "INSERT INTO late VALUES (1)",
    )
    query.run()
    assert afters(query, "u") == [
        {"id": 1, "value": "b", "ballast": None},
        {"id": 1, "value": "c", "ballast": None, "extra": 5},
        {"id": 1, "content": "d", "extra": 5},
    ]
    assert afters(query, "c") == [{"id": 1}]


def test_identities_of_tables_decide_key_and_before(database: Database) -> None:
    database.execute(
        "CREATE TABLE whole (id int PRIMARY KEY, big text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "ALTER TABLE whole ALTER COLUMN big SET STORAGE EXTERNAL",
        "CREATE TABLE plain (id int PRIMARY KEY, big text)",
        "ALTER TABLE plain ALTER COLUMN big SET STORAGE EXTERNAL",
        "CREATE TABLE indexed (a int NOT NULL, b int NOT NULL, c int)",
        "CREATE UNIQUE INDEX indexed_b ON indexed (b)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_b",
        "CREATE TABLE keyless (a int)",
        "INSERT INTO indexed VALUES (1, 2, 3)",
    )
    query = Query(options=database.options())
    query.run()
    big = "y" * 9000
    database.execute(
        f"INSERT INTO whole VALUES (1, '{big}')",
        "UPDATE whole SET id = 2",
        f"INSERT INTO plain VALUES (1, '{big}')",
        "UPDATE plain SET id = id",
        "UPDATE indexed SET c = 4",
        "UPDATE indexed SET b = 5",
        "INSERT INTO keyless VALUES (1)",
    )
    query.run()
    found = [
        (None if key is None else json.loads(key), None if value is None else json.loads(value))
        for key, value in query.records()
    ]
    assert [(key, value and (value["op"], value["before"], value["after"])) for key, value in found] == [
        ({"b": 2}, ("r", None, {"a": 1, "b": 2, "c": 3})),
        ({"id": 1}, ("c", None, {"id": 1, "big": big})),
        ({"id": 1}, ("d", {"id": 1, "big": big}, None)),
        ({"id": 1}, None),
        ({"id": 2}, ("c", None, {"id": 2, "big": big})),
        ({"id": 1}, ("c", None, {"id": 1, "big": big})),
        ({"id": 1}, ("u", None, {"id": 1, "big": "__debezium_unavailable_value"})),
        ({"b": 2}, ("u", None, {"a": 1, "b": 2, "c": 4})),
        ({"b": 2}, ("d", {"a": None, "b": 2, "c": None}, None)),
        ({"b": 2}, None),
        ({"b": 5}, ("c", None, {"a": 1, "b": 5, "c": 4})),
        (None, ("c", None, {"a": 1})),
    ]


def test_a_publication_s_rows_and_columns_and_the_tables_chosen_are_all_that_comes(database: Database) -> None:
    database.execute(
        "CREATE TABLE chosen (id int PRIMARY KEY, shown int, hidden int)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "INSERT INTO chosen VALUES (1, 2, 3), (-1, 2, 3)",
        "INSERT INTO parts VALUES (1)",
        "CREATE PUBLICATION mine FOR TABLE chosen (id, shown) WHERE (id > 0), other, parts "
        "WITH (publish_via_partition_root = true)",
    )
    more = {"publication_name": "mine", "publication_autocreate_mode": "disabled", "table_exclude_list": "public.other"}
    query = Query(options=database.options(**more))
    query.run()
    database.execute(
        "INSERT INTO chosen VALUES (4, 5, 6), (-4, 5, 6)",
        "INSERT INTO other VALUES (1)",
        "INSERT INTO parts VALUES (2)",
    )
    query.run()
    assert afters(query, "r") == [{"id": 1, "shown": 2}, {"id": 1}]
    assert afters(query, "c") == [{"id": 4, "shown": 5}, {"id": 2}]
    assert {row["topic"] for row in query.rows()} == {"pre.public.chosen", "pre.public.parts"}


def test_the_slot_follows_the_checkpoint_even_when_only_others_write(database: Database) -> None:
    database.execute(CREATE, "CREATE TABLE other (id int)", "INSERT INTO item VALUES (1, 'a')")
    more = {"table_include_list": "public.item", "publication_autocreate_mode": "filtered"}
    query = Query(options=database.options(**more, heartbeat_interval_ms="0"))
    query.run()
    stood = database.slot_state()
    for _ in range(3):
        database.execute("INSERT INTO other SELECT generate_series(1, 1000)")
        query.run()
    moved = database.slot_state()
    assert stood and moved and moved.confirmed_lsn > stood.confirmed_lsn
    assert len(query.rows()) == 1

    quiet = Query(
        options=database.options(**more, heartbeat_interval_ms="1000000"), planned=query.planned, done=query.done
    )
    quiet.run()
    before = len(quiet.planned)
    for _ in range(3):
        database.execute("INSERT INTO other SELECT generate_series(1, 1000)")
        quiet.run()
    assert len(quiet.planned) <= before + 3


def test_a_run_that_takes_what_is_there_now_ends(database: Database) -> None:
    database.execute(CREATE, "INSERT INTO item VALUES (1, 'a')")
    query = Query(options=database.options(max_wal_bytes_per_trigger="1000"))
    query.run()
    database.execute("INSERT INTO item SELECT n, 'b' FROM generate_series(2, 200) n")
    reader = PostgresqlStreamReader(Options.model_validate(query.options))
    reader.prepareForTriggerAvailableNow()
    database.execute("INSERT INTO item VALUES (1000, 'late')")
    offset = query.planned[-1]
    while (following := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        rows = list(query.read(reader, offset, following))
        assert not any(b"late" in row["value"] for row in rows)  # type: ignore[operator]
        offset = following
    reader.stop()


def test_a_snapshot_that_was_killed_before_its_end_is_made_anew(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(CREATE, "INSERT INTO item SELECT n, 'a' FROM generate_series(1, 50) n")
    query = Query(options=database.options(snapshot_chunk_bytes="1024"))
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(os, "fsync", crash_at_sync(4))
        query.run()
    assert (database.folder / INTENT).exists() and not (database.folder / MANIFEST).exists()
    first = database.slot_state()
    database.execute("DELETE FROM item WHERE id = 1")
    query.run()
    second = database.slot_state()
    assert first and second and second.confirmed_lsn > first.confirmed_lsn
    assert [after["id"] for after in afters(query, "r")] == list(range(2, 51))  # type: ignore[index]


def test_a_server_that_crashed_gives_each_change_once(database: Database) -> None:
    """What the slot was told is not on disk then: the server sends again what the checkpoint has."""
    database.execute(CREATE)
    ledger = Ledger(database=database, chance=random.Random(1))
    ledger.change(5)
    query = Query(options=database.options(max_wal_bytes_per_trigger="2000"))
    for _ in range(3):
        query.run()
        ledger.change(10)
        with pytest.raises(psycopg.OperationalError):
            query.run(lambda name: database.server.crash() if name == "planned" else None)
    query.run()
    ledger.check(query.records())


def started(database: Database) -> Query:
    database.execute(CREATE, "INSERT INTO item VALUES (1, 'a')")
    query = Query(options=database.options(slot_wait_ms="300"))
    query.run()
    database.execute("INSERT INTO item VALUES (2, 'b')")
    return query


def test_a_slot_that_is_gone_or_ahead_is_said_and_not_stepped_over(database: Database) -> None:
    query = started(database)
    database.execute(f"SELECT pg_replication_slot_advance('{database.slot}', pg_current_wal_flush_lsn())")
    with pytest.raises(CaptureError, match="another client moved it"):
        query.run()
    database.execute(f"SELECT pg_drop_replication_slot('{database.slot}')")
    with pytest.raises(CaptureError, match="does not exist"):
        query.run()


def test_a_slot_has_one_query_at_a_time(database: Database) -> None:
    query = started(database)
    reader = PostgresqlStreamReader(Options.model_validate(query.options))
    reader.latestOffset(query.planned[-1], reader.getDefaultReadLimit())
    with pytest.raises(CaptureError, match="belongs to a pipeline that runs"):
        query.run()
    reader.stop()
    query.run()
    assert len(query.rows()) == 2


def test_a_slot_that_somebody_else_made_is_left_alone(database: Database, tmp_path: Path) -> None:
    query = started(database)
    other = Query(options=dict(query.options) | {"snapshot.location": str(tmp_path / "other")})
    with pytest.raises(CaptureError, match="it belongs to another client"):
        other.run()
    anew = Query(options=query.options)
    query.run()
    with pytest.raises(CaptureError, match="used up"):
        anew.run()


def test_without_a_snapshot_changes_come_from_the_slot_s_beginning(database: Database) -> None:
    database.execute(CREATE, "INSERT INTO item VALUES (1, 'before')", "CREATE PUBLICATION kvorum FOR ALL TABLES")
    database.execute(f"SELECT pg_create_logical_replication_slot('{database.slot}', 'pgoutput')")
    database.execute("INSERT INTO item VALUES (2, 'after')")
    query = Query(options=database.options(snapshot_mode="no_data"))
    query.run()
    assert [event["op"] for event in events(query)] == ["c"]


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (["CREATE ROLE plain LOGIN"], "REPLICATION"),
        (["CREATE ROLE plain LOGIN REPLICATION"], "publication .* does not exist"),
    ],
)
def test_what_is_missing_is_said(database: Database, setup: list[str], message: str) -> None:
    database.execute(*setup)
    more = {"database_user": "plain", "publication_autocreate_mode": "disabled"}
    try:
        with pytest.raises(CaptureError, match=message):
            Query(options=database.options(**more)).run()
    finally:
        database.execute("DROP ROLE plain")


def test_a_database_that_cannot_be_reached_is_an_error_of_the_driver(database: Database) -> None:
    with pytest.raises(psycopg.OperationalError):
        Query(options=database.options(database_port="1")).run()
