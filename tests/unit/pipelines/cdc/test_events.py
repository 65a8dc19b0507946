"""Events: messages in, records out, by tables; no database and no Spark."""

import json
from collections.abc import Sequence

import pytest

from kvorum.pipelines.cdc.events import (
    Assembler,
    Batch,
    Origin,
    Record,
    StreamError,
    Table,
    TableDescription,
    topic_name,
)
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Relation, decode
from tests.unit.pipelines.cdc import messages

NEEDED = {"topic.prefix": "pre", "database.dbname": "shop", "database.user": "u"}


def options(**more: object) -> Options:
    return Options.model_validate({**NEEDED, "publication.autocreate.mode": "disabled", **more})


PLAIN = options()
ORDERS = messages.relation(1, "public", "orders", "d", [("id", 20, True), ("note", 25, False)])
FULL = messages.relation(1, "public", "orders", "f", [("id", 20, True), ("note", 25, True)])
KEYLESS = messages.relation(1, "public", "orders", "d", [("id", 20, False), ("note", 25, False)])
TOMBSTONE = "tombstone"


def describe(relation: Relation) -> TableDescription:
    """Describe a database that has one primary key and one domain."""
    key = ("id",) if relation.oid == 1 else ()
    return TableDescription(relation=relation, key=key, base_types={70000: 23})


def batch(options: Options) -> Batch:
    return Batch(options=options, version="1", ts_ms=5)


def records(*data: bytes, options: Options = PLAIN, start: int = 0, end: int = 1 << 40) -> list[Record]:
    assembler = Assembler(batch(options), describe, start=start, end=end)
    return [record for number, one in enumerate(data) for record in assembler.feed(1000 + number, decode(one))]


def transaction(*changes: bytes, at: int = 100) -> tuple[bytes, ...]:
    return (messages.begin(at), *changes, messages.commit(at, at + 8))


def short(found: Sequence[Record]) -> list[object]:
    """Return what matters of events: operation, key, before, after."""
    lines: list[object] = []
    for record in found:
        key = None if record.key is None else json.loads(record.key)
        if record.value is None:
            lines.append((TOMBSTONE, key))
        else:
            value = json.loads(record.value)
            lines.append((value["op"], key, value["before"], value["after"]))
    return lines


def test_an_insert_is_the_whole_envelope() -> None:
    (record,) = records(*transaction(ORDERS, messages.insert(1, messages.row("7", "x"))))
    assert record.topic == "pre.public.orders" and record.headers == ()
    assert record.timestamp_us == 1_700_000_000_000_000
    assert json.loads(record.key or b"") == {"id": 7}
    assert json.loads(record.value or b"") == {
        "before": None,
        "after": {"id": 7, "note": "x"},
        "source": {
            "version": "1",
            "connector": "postgresql",
            "name": "pre",
            "ts_ms": 1_700_000_000_000,
            "snapshot": "false",
            "db": "shop",
            "sequence": '["0","1002"]',
            "schema": "public",
            "table": "orders",
            "txId": 700,
            "lsn": 1002,
            "xmin": None,
        },
        "op": "c",
        "ts_ms": 5,
        "transaction": None,
    }


ROW_A, ROW_B, KEY = messages.row("7", "a"), messages.row("7", "b"), messages.row("7", None)
A, B, K = {"id": 7, "note": "a"}, {"id": 7, "note": "b"}, {"id": 7, "note": None}
KEY_7, KEY_8 = {"id": 7}, {"id": 8}
LARGE = messages.row("7", b"u")
UNKNOWN = {"id": 7, "note": "__debezium_unavailable_value"}
EIGHT = {"id": 8, "note": "a"}

CHANGES = [
    ("update, default identity", ORDERS, messages.update(1, ROW_B), [("u", KEY_7, None, B)]),
    ("update, full identity", FULL, messages.update(1, ROW_B, old=ROW_A), [("u", KEY_7, A, B)]),
    ("delete, default identity", ORDERS, messages.delete(1, key=KEY), [("d", KEY_7, K, None), (TOMBSTONE, KEY_7)]),
    ("delete, full identity", FULL, messages.delete(1, old=ROW_A), [("d", KEY_7, A, None), (TOMBSTONE, KEY_7)]),
    (
        "another key",
        ORDERS,
        messages.update(1, messages.row("8", "a"), key=KEY),
        [("d", KEY_7, K, None), (TOMBSTONE, KEY_7), ("c", KEY_8, None, EIGHT)],
    ),
    (
        "another key, full identity",
        FULL,
        messages.update(1, messages.row("8", b"u"), old=ROW_A),
        [("d", KEY_7, A, None), (TOMBSTONE, KEY_7), ("c", KEY_8, None, EIGHT)],
    ),
    ("unchanged TOAST", ORDERS, messages.update(1, LARGE), [("u", KEY_7, None, UNKNOWN)]),
    ("unchanged TOAST, full identity", FULL, messages.update(1, LARGE, old=ROW_A), [("u", KEY_7, A, A)]),
    ("no key", KEYLESS, messages.insert(1, ROW_A), [("c", None, None, A)]),
    ("truncate", ORDERS, messages.truncate(1), [("t", None, None, None)]),
]


@pytest.mark.parametrize(("relation", "change", "events"), [case[1:] for case in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_is_its_events(relation: bytes, change: bytes, events: list[object]) -> None:
    assert short(records(*transaction(relation, change))) == events


def test_the_records_of_a_changed_key_name_each_other() -> None:
    gone, tombstone, made = records(*transaction(ORDERS, messages.update(1, messages.row("8", "a"), key=KEY)))
    assert gone.headers == (("__debezium.newkey", b'{"id":8}'),)
    assert tombstone.headers == ()
    assert made.headers == (("__debezium.oldkey", b'{"id":7}'),)


def test_an_unchanged_toasted_value_of_the_key_comes_from_the_old_key() -> None:
    relation = messages.relation(1, "s", "t", "d", [("k", 25, True), ("v", 23, False)])
    found = records(*transaction(relation, messages.update(1, messages.row(b"u", "1"), key=messages.row("K", None))))
    assert short(found) == [("u", {"k": "K"}, None, {"k": "K", "v": 1})]


def test_a_relation_described_anew_is_followed() -> None:
    wider = messages.relation(1, "public", "orders", "d", [("id", 20, True), ("note", 25, False), ("n", 70000, False)])
    renamed = messages.relation(1, "public", "sales", "d", [("id", 20, True)])
    found = records(
        *transaction(ORDERS, messages.insert(1, ROW_A)),
        *transaction(wider, messages.insert(1, messages.row("7", "a", "3"))),
        *transaction(renamed, messages.insert(1, messages.row("7"))),
    )
    assert [json.loads(record.value or b"")["after"] for record in found] == [A, {**A, "n": 3}, {"id": 7}]
    assert [record.topic for record in found] == ["pre.public.orders", "pre.public.orders", "pre.public.sales"]


@pytest.mark.parametrize(
    ("start", "end", "seen"), [(0, 100, []), (0, 101, [1]), (100, 200, [1]), (101, 201, [2]), (100, 201, [1, 2])]
)
def test_a_window_has_the_transactions_whose_commit_starts_in_it(start: int, end: int, seen: list[int]) -> None:
    found = records(
        *transaction(ORDERS, messages.insert(1, messages.row("1", None)), at=100),
        *transaction(messages.insert(1, messages.row("2", None)), at=200),
        start=start,
        end=end,
    )
    assert [json.loads(record.key or b"")["id"] for record in found] == seen


def test_a_relation_described_before_the_window_is_known_in_it() -> None:
    found = records(
        *transaction(ORDERS, messages.insert(1, ROW_A), at=100),
        *transaction(messages.insert(1, ROW_B), at=200),
        start=200,
    )
    assert short(found) == [("c", KEY_7, None, B)]


@pytest.mark.parametrize("skipped", ["c", "u", "d", "t"])
def test_a_skipped_operation_has_no_events(skipped: str) -> None:
    change = {
        "c": messages.insert(1, ROW_A),
        "u": messages.update(1, ROW_A),
        "d": messages.delete(1, key=KEY),
        "t": messages.truncate(1),
    }
    found = records(*transaction(ORDERS, *change.values()), options=options(skipped_operations=skipped))
    assert {line[0] for line in short(found)} - {TOMBSTONE} == set(change) - {skipped}  # type: ignore[index]


def test_tombstones_and_tables_can_be_left_out() -> None:
    change = transaction(ORDERS, messages.delete(1, key=KEY))
    assert short(records(*change, options=options(tombstones_on_delete=False))) == [("d", KEY_7, K, None)]
    assert records(*change, options=options(table_exclude_list=r"\w+\.orders")) == []


def test_the_key_of_a_full_identity_is_the_primary_key_or_what_was_chosen() -> None:
    unknown = messages.relation(2, "public", "other", "f", [("id", 20, True), ("note", 25, True)])
    assert records(*transaction(unknown, messages.insert(2, ROW_A)))[0].key is None
    chosen = options(message_key_columns="public.other:note")
    assert records(*transaction(unknown, messages.insert(2, ROW_A)), options=chosen)[0].key == b'{"note":"a"}'


def test_a_row_of_the_snapshot_has_the_key_that_its_changes_will_have() -> None:
    relation = decode(ORDERS)
    assert isinstance(relation, Relation)
    origin = Origin(snapshot="true", committed_us=9000, lsn=3, xid=None)
    record = Table(relation, batch(PLAIN), describe).read((b"7", b"a"), origin)
    assert record.key == records(*transaction(ORDERS, messages.insert(1, ROW_A)))[0].key
    value = json.loads(record.value or b"")
    assert (value["op"], value["after"], value["source"]["snapshot"]) == ("r", A, "true")


def test_read_again_a_stretch_of_the_log_is_the_same_to_the_byte() -> None:
    stretch = transaction(ORDERS, messages.insert(1, ROW_A), messages.update(1, ROW_B), messages.delete(1, key=KEY))
    assert records(*stretch) == records(*stretch)


@pytest.mark.parametrize(
    "stretch",
    [
        (messages.begin(1), messages.insert(1, ROW_A)),
        (ORDERS, messages.insert(1, ROW_A)),
        (messages.begin(1), messages.commit(2, 3)),
        (messages.begin(1), ORDERS, messages.insert(1, messages.row("1"))),
    ],
    ids=["a relation not described", "outside a transaction", "another commit", "another number of columns"],
)
def test_a_stream_that_does_not_fit_together_is_refused(stretch: tuple[bytes, ...]) -> None:
    with pytest.raises(StreamError):
        records(*stretch)


def test_a_topic_s_name_holds_what_topics_may() -> None:
    assert topic_name("pre", "My Schema", "täble-1.x") == "pre.My_Schema.t_ble-1.x"
