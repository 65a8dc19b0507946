"""The parts of the API that decide, without a server: parameters, resets, bytes as JSON, partitions of keys, tokens."""

import asyncio
import struct
from typing import Any

import pytest

from kvorum.admin.http.access import Access, BadTokens, HttpError, tokens_of
from kvorum.admin.http.operations import Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import BadInput, count, optional_number, words
from kvorum.admin.http.users import Login
from kvorum.client.groups.offset_reset import LogEnds, plan_reset
from kvorum.client.records.partitioner import murmur2, partition_of
from kvorum.client.records.record_views import JSON_DEPTH_MAX, Format, NoJson, format_bytes, header_name, json_of
from kvorum.client.records.visible_records import visible
from kvorum.client.values.offset_reset import ResetError, ResetTarget
from kvorum.protocol.consumer_protocol import read_assignment, subscribed_topics
from kvorum.protocol.control import marker
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.messages.fetch import AbortedTransaction
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ENDS = {A: LogEnds(10, 20, at_time=17), B: LogEnds(0, 5)}


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (ResetTarget(to="earliest"), [10, 0]),
        (ResetTarget(to="latest"), [20, 5]),
        (ResetTarget(to="current"), [15, 5]),
        (ResetTarget(offset=3), [10, 3]),
        (ResetTarget(offsets={A: 12, B: 99}), [12, 5]),
        (ResetTarget(timestamp_ms=1), [17, 5]),
    ],
)
def test_targets_of_a_reset(target: ResetTarget, after: list[int]) -> None:
    moves = plan_reset(target, ENDS, {A: 15})
    assert [(move.topic_partition, move.before, move.after) for move in moves] == [
        (A, 15, after[0]),
        (B, None, after[1]),
    ]


@pytest.mark.parametrize(("by", "after"), [(-2, 13), (2, 17), (-100, 10), (100, 20)])
def test_a_shift_is_limited_to_the_log_with_a_message(by: int, after: int) -> None:
    (move,) = plan_reset(ResetTarget(shift_by=by), {A: ENDS[A]}, {A: 15})
    assert (move.after, move.target, move.is_above, move.is_below) == (after, 15 + by, by == 100, by == -100)


def test_a_missing_offset_cannot_be_shifted() -> None:
    with pytest.raises(ResetError, match="partition t-1 since there is no current committed offset"):
        plan_reset(ResetTarget(shift_by=1), ENDS, {A: 15})


def test_an_offset_out_of_range_is_moved_into_the_log() -> None:
    (move,) = plan_reset(ResetTarget(to="current"), {A: ENDS[A]}, {A: 2})
    assert (move.target, move.after, move.is_below) == (2, 10, True)


@pytest.mark.parametrize(
    ("data", "form", "value", "message"),
    [
        (b'{"a": 1}', Format.AUTO, {"a": 1}, Format.JSON),
        (b"12", Format.AUTO, "12", Format.STRING),
        (b"{broken", Format.AUTO, "{broken", Format.STRING),
        (b"\xff\x00", Format.AUTO, "/wA=", Format.BASE64),
        (b"\xff", Format.STRING, "\ufffd", Format.STRING),
        (b"12", Format.JSON, 12, Format.JSON),
        (b"no json", Format.JSON, "no json", Format.STRING),
        (b"\xff", Format.HEX, "ff", Format.HEX),
        (b"abc", Format.BASE64, "YWJj", Format.BASE64),
        (b"abc", Format.SIZE, None, Format.SIZE),
        (None, Format.HEX, None, Format.HEX),
        (b"", Format.AUTO, "", Format.STRING),
    ],
)
def test_bytes_as_json(data: bytes | None, form: Format, value: object, message: Format) -> None:
    assert format_bytes(data, form) == (value, message)


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b"NaN", b"[" * 5000 + b"]" * 5000, b"1 2"])
def test_invalid_json_is_refused(data: bytes) -> None:
    with pytest.raises(NoJson):
        json_of(data)


def test_json_may_be_as_deep_as_it_may() -> None:
    json_of(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX)
    with pytest.raises(NoJson, match="deeper"):
        json_of(b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1))


def test_a_header_key_that_is_no_utf8_can_be_shown() -> None:
    assert header_name(b"a\xff".decode(errors="surrogateescape")) == "a\ufffd"


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_go_where_javas_clients_put_them(key: bytes, hashed: int) -> None:
    """The numbers are those of Kafka's own test (UtilsTest.testMurmur2)."""
    assert murmur2(key) == hashed % 2**32
    assert partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


HASH = "a" * 64


def test_a_file_of_tokens() -> None:
    text = f"# who\n\nread {HASH} grafana\nadmin {'B' * 64}\n"
    assert tokens_of(text) == {HASH: Role.READ, "b" * 64: Role.ADMIN}


@pytest.mark.parametrize("text", ["", "# none", "root " + HASH, "read short", f"read {HASH}\nadmin {HASH}", HASH])
def test_a_file_of_tokens_that_cannot_be_read(text: str) -> None:
    with pytest.raises(BadTokens):
        tokens_of(text)


def test_without_tokens_it_is_for_this_machine() -> None:
    Access().check_page("localhost:1", "http://localhost:1")
    assert asyncio.run(Access().authorize(Login(), Role.ADMIN)).name == "this machine"
    for host, origin in (("evil.example", None), ("localhost", "http://evil.example")):
        with pytest.raises(HttpError) as refused:
            Access().check_page(host, origin)
        assert refused.value.status == 403


def test_with_tokens_a_proxy_may_stand_in_front() -> None:
    access = Access({HASH: Role.READ})
    for origin in (None, "http://kvorum.example", "https://kvorum.example"):
        access.check_page("kvorum.example", origin)
    for origin in ("https://evil.example", "null", "https://kvorum.example.evil"):
        with pytest.raises(HttpError):
            access.check_page("kvorum.example", origin)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_consumers_metadata_is_decoded() -> None:
    message = struct.pack(">hi", 1, 2) + text("t") + text("u") + struct.pack(">i", -1)
    given = struct.pack(">hi", 0, 1) + text("t") + struct.pack(">iii", 2, 5, 3) + struct.pack(">i", -1)
    assert subscribed_topics(message) == ["t", "u"]
    assert read_assignment(given).topic_partitions == [TopicPartition("t", 5), TopicPartition("t", 3)]
    for cut in range(1, len(given)):
        with pytest.raises(ProtocolError):
            read_assignment(given[:cut])
        assert subscribed_topics(message[:cut]) in (None, ["t", "u"])
    for invalid in (b"\0\0\x7f\xff\xff\xff", b"\xff\xff\0\0\0\0\xff\xff\xff\xff", b"\0"):
        with pytest.raises(ProtocolError):
            read_assignment(invalid)
        assert subscribed_topics(invalid) is None
    assert read_assignment(b"").topic_partitions == []


def log_of(*batches: bytearray) -> bytes:
    """Return batches as they lie one after another, offsets counted on."""
    found, offset = b"", 0
    for batch in batches:
        batch[0:8] = offset.to_bytes(8, "big")
        offset += int.from_bytes(batch[23:27], "big") + 1
        found += bytes(batch)
    return found


def transactional(producer_id: int, *values: bytes) -> bytearray:
    records = [Record(value=value) for value in values]
    return build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def ended(producer_id: int, is_commit: bool) -> bytearray:
    return marker(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp=0)


def test_read_committed_omits_aborted_records_up_to_the_marker() -> None:
    piece = log_of(
        transactional(1, b"a0", b"a1"),
        transactional(2, b"c0"),
        build_batch([Record(value=b"plain")]),
        ended(1, False),
        ended(2, True),
        transactional(1, b"kept"),
        ended(1, True),
    )
    everything = visible(piece, 0, None)
    assert [record.value for record in everything.records] == [b"a0", b"a1", b"c0", b"plain", b"kept"]
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    committed = visible(piece, 0, aborted)
    assert [(record.offset, record.value) for record in committed.records] == [(2, b"c0"), (3, b"plain"), (6, b"kept")]
    assert committed.next_offset == everything.next_offset == 8


def test_a_piece_is_read_from_an_offset_in_the_middle_of_a_batch() -> None:
    piece = log_of(build_batch([Record(value=b"%d" % number) for number in range(4)]))
    assert [record.offset for record in visible(piece, 2, None).records] == [2, 3]
    assert visible(b"", 7, None) == ([], 7, 0)


def test_a_damaged_batch_is_refused() -> None:
    piece = bytearray(log_of(build_batch([Record(value=b"x" * 20)])))
    piece[-3] ^= 1
    with pytest.raises(KafkaError) as raised:
        visible(bytes(piece), 0, None)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def requested(**query: str) -> Call[NoBody]:
    """Return a request with these query parameters, of no cluster."""
    nowhere: Any = None
    return Call(cluster=nowhere, path={}, query=query, body=NoBody())


def test_a_count_has_its_limits_in_description_schema_and_parser() -> None:
    names = count("names of a page", name="names", default=5, most=20)
    assert (names.name, names.doc) == ("names", "names of a page, 1 to 20 (default 5)")
    assert names.schema == {"type": "integer", "minimum": 1, "maximum": 20}
    assert [names.of(requested()), names.of(requested(names="1")), names.of(requested(names="20"))] == [5, 1, 20]
    for wrong in ("0", "21", "-1", "many"):
        with pytest.raises(BadInput, match="is not a number from 1 to 20") as raised:
            names.of(requested(names=wrong))
        assert raised.value.field == "names"
    assert count(default=2, most=3).doc == "1 to 3 (default 2)"


def test_a_number_that_may_be_left_out_is_held_to_its_limits_when_it_exists() -> None:
    broker = optional_number("broker", "a broker", 1, 9)
    assert broker.of(requested()) is None
    assert broker.of(requested(broker="9")) == 9
    with pytest.raises(BadInput):
        broker.of(requested(broker="0"))


def test_words_are_of_those_known_and_never_none_of_them() -> None:
    kinds = words("kinds", "the kinds", ("a", "b"))
    assert (kinds.of(requested()), kinds.of(requested(kinds="b, a"))) == ([], ["b", "a"])
    for wrong in ("", ",", "c"):
        with pytest.raises(BadInput):
            kinds.of(requested(kinds=wrong))


def test_each_parameter_of_a_path_is_declared() -> None:
    async def show(call: Call[NoBody]) -> NoBody:
        return call.body

    with pytest.raises(AssertionError, match="topic"):
        Operation.get("/v1/things/{topic}", "Things", show, NoBody)


def test_a_patch_applies_to_the_fields_of_its_get() -> None:
    async def show(call: Call[NoBody]) -> NoBody:
        return call.body

    async def change(call: Call[NoBody]) -> None:
        return None

    shown = Operation.get("/v1/things", "Things", show, NoBody, state=repr)
    assert (shown.method, shown.needs, shown.status, shown.media) == ("GET", Role.READ, 200, ("application/json",))
    patch = shown.patch("Change things", change, NoBody, role=Role.OPERATE)
    assert (patch.method, patch.path, patch.status, patch.needs) == ("PATCH", "/v1/things", 204, Role.OPERATE)
    assert patch.guard is shown and patch.answer is None
    assert shown.patch("Change things", change, NoBody).needs is Role.ADMIN
