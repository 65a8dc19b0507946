"""pgoutput's messages: by the documented layout, by PostgreSQL's own bytes, by cut and scrambled input."""

import base64
import contextlib
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.pipelines.cdc.pgoutput import (
    Begin,
    Change,
    Column,
    Commit,
    DecodeError,
    Message,
    Missing,
    Other,
    Relation,
    Truncate,
    decode,
    format_lsn,
    parse_lsn,
)
from tests.unit.pipelines.cdc import messages

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())

TABLE: list[tuple[bytes, Message]] = [
    (
        messages.begin(0x16_B374_D848, xid=4_000_000_000 - 2**32, commit_us=1_700_000_000_123_456),
        Begin(commit_lsn=0x16_B374_D848, commit_us=1_700_000_000_123_456, xid=4_000_000_000),
    ),
    (
        messages.commit(7, 9, commit_us=1_700_000_000_123_456),
        Commit(commit_lsn=7, end_lsn=9, commit_us=1_700_000_000_123_456),
    ),
    (
        messages.relation(16384, "public", "täble", "d", [("id", 23, True), ("näme", 25, False)]),
        Relation(
            oid=16384,
            schema="public",
            table="täble",
            replica_identity="d",
            columns=(
                Column(name="id", type_oid=23, type_modifier=-1, identity=True),
                Column(name="näme", type_oid=25, type_modifier=-1, identity=False),
            ),
        ),
    ),
    (
        messages.relation(1259, "", "pg_class", "n", []),
        Relation(oid=1259, schema="pg_catalog", table="pg_class", replica_identity="n", columns=()),
    ),
    (
        messages.insert(5, messages.row("1", None, "", b"u")),
        Change(operation="c", relation_oid=5, new=(b"1", None, b"", Missing.UNCHANGED)),
    ),
    (
        messages.update(5, messages.row("1", "b")),
        Change(operation="u", relation_oid=5, old=None, old_is_whole=False, new=(b"1", b"b")),
    ),
    (
        messages.update(5, messages.row("2", "b"), key=messages.row("1", None)),
        Change(operation="u", relation_oid=5, old=(b"1", None), old_is_whole=False, new=(b"2", b"b")),
    ),
    (
        messages.update(5, messages.row("2", "b"), old=messages.row("2", "a")),
        Change(operation="u", relation_oid=5, old=(b"2", b"a"), old_is_whole=True, new=(b"2", b"b")),
    ),
    (
        messages.delete(5, key=messages.row("2", None)),
        Change(operation="d", relation_oid=5, old=(b"2", None), old_is_whole=False),
    ),
    (
        messages.delete(5, old=messages.row("2", "a")),
        Change(operation="d", relation_oid=5, old=(b"2", b"a"), old_is_whole=True),
    ),
    (messages.truncate(5, 6), Truncate(relation_oids=(5, 6))),
    (b"O" + struct.pack("!q", 9) + b"other\0", Other(kind="O")),
    (b"Y" + struct.pack("!i", 16385) + b"public\0mood\0", Other(kind="Y")),
    (b"M" + struct.pack("!bq", 1, 9) + b"prefix\0" + struct.pack("!i", 3) + b"abc", Other(kind="M")),
]


@pytest.mark.parametrize(("data", "message"), TABLE, ids=[type(message).__name__ for _, message in TABLE])
def test_a_message_is_what_the_documented_layout_says(data: bytes, message: Message) -> None:
    assert decode(data) == message


@pytest.mark.parametrize("entry", RECORDED["messages"], ids=lambda entry: entry["repr"][:40])
def test_what_a_server_wrote_is_read_as_it_was_when_it_was_recorded(entry: dict[str, str]) -> None:
    assert repr(decode(base64.b64decode(entry["data"]))) == entry["repr"]


@pytest.mark.parametrize("data", [data for data, message in TABLE if not isinstance(message, Other)])
def test_a_message_cut_anywhere_or_with_more_behind_is_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:end])
    with pytest.raises(DecodeError):
        decode(data + b"\0")


@pytest.mark.parametrize("data", [b"", b"S" + bytes(9), b"Z", b"I" + struct.pack("!i", 1) + b"K" + messages.row("1")])
def test_what_proto_version_1_does_not_have_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@given(st.sampled_from(TABLE), st.data())
def test_scrambled_bytes_are_a_message_or_an_error_and_nothing_else(
    entry: tuple[bytes, Message], data: st.DataObject
) -> None:
    scrambled = bytearray(entry[0])
    for _ in range(data.draw(st.integers(1, 3))):
        scrambled[data.draw(st.integers(0, len(scrambled) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        decode(bytes(scrambled))


@given(st.integers(0, 2**64 - 1))
def test_a_position_is_read_as_it_is_written(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


def test_a_position_is_written_as_postgresql_does() -> None:
    assert format_lsn(0x16_B374_D848) == "16/B374D848"
