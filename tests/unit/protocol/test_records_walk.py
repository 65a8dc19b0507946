"""The walk finds exactly what decoding finds, on every path it takes, and refuses what decoding refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.protocol.record_walk import Walk, walk
from kvorum.protocol.records import Record, build_batch, decode_records, encode_records
from kvorum.protocol.varints import append_varint

maybe_bytes = st.none() | st.binary(max_size=5) | st.integers(60, 200).map(bytes) | st.integers(8190, 8195).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=3), maybe_bytes), max_size=3).map(tuple)
shapes = st.builds(Record, value=maybe_bytes, key=maybe_bytes, headers=headers)


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Records in runs of one shape, as producers of like records send them; the runs cross where varints widen."""
    found: list[Record] = []
    timestamp = 0
    for _ in range(draw(st.integers(1, 4))):
        shape = draw(shapes)
        step = draw(st.sampled_from([0, 0, 1, 40, -1, 100_000]))
        for _ in range(draw(st.sampled_from([1, 2, 3, 7, 8, 9, 63, 64, 65, 130]))):
            found.append(Record(shape.value, shape.key, timestamp, shape.headers))
            timestamp += step
    return found


def expected(records: list[Record]) -> Walk:
    deltas = [record.timestamp for record in records]
    return Walk(min(deltas), max(deltas), any(record.key is None for record in records), True)


@settings(max_examples=200, deadline=None)
@given(runs())
def test_a_walk_finds_all_files(records: list[Record]) -> None:
    assert walk(encode_records(records, 0), len(records)) == expected(records)


def test_offset_deltas_of_three_bytes_are_walked() -> None:
    records = [Record(b"v", b"k", index) for index in range(8300)]
    assert walk(encode_records(records, 0), len(records)) == expected(records)


@pytest.mark.parametrize("place", [0, 3, 20, 64, 99])
def test_a_delta_out_of_order_is_noticed_within_a_run(place: int) -> None:
    records = [Record(b"v", b"k", 0, (), index + (index >= place)) for index in range(1, 101)]
    data = encode_records(records, 0, base_offset=0)
    assert not walk(data, 100).is_sequential


@pytest.mark.parametrize("place", [0, 1, 30, 99])
def test_one_null_key_is_noticed_among_many(place: int) -> None:
    records = [Record(b"vv", b"", 0)] * 100
    records[place] = Record(b"vv", None, 0)
    assert walk(encode_records(records, 0), 100).has_null_key


@pytest.mark.parametrize(("place", "timestamp"), [(0, 63), (50, 63), (98, -64), (99, 60)])
def test_one_extreme_timestamp_is_noticed_among_many(place: int, timestamp: int) -> None:
    records = [Record(b"v", b"k", 5)] * 100
    records[place] = Record(b"v", b"k", timestamp)
    assert walk(encode_records(records, 0), 100) == expected(records)


@settings(max_examples=300, deadline=None)
@given(runs(), st.data())
def test_the_walk_refuses_the_same_records_as_decoding(records: list[Record], data: st.DataObject) -> None:
    """A batch's payload is scrambled or cut; the walk must agree with the decoder on whether it adds up.

    The walk may be stricter: Kafka limits an int's varint to five bytes, the decoder does not look.
    """
    payload = bytearray(encode_records(records, 0))
    kind = data.draw(st.sampled_from(["byte", "cut", "grow", "count"]))
    count = len(records)
    if kind == "byte":
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    elif kind == "cut":
        del payload[data.draw(st.integers(0, len(payload) - 1)) :]
    elif kind == "grow":
        payload += b"\0"
    else:
        count += data.draw(st.sampled_from([-1, 1]))
    head = build_batch(records)[:57] + count.to_bytes(4, "big", signed=True)
    head[8:12] = (len(payload) + 49).to_bytes(4, "big")
    try:
        decoded = decode_records(memoryview(head + payload))
    except Exception:
        with pytest.raises(ValueError):
            walk(bytes(payload), count)
        return
    base = parse_base(head)
    try:
        found = walk(bytes(payload), count)
    except ValueError as error:
        assert "too long" in str(error)
        return
    if decoded:
        deltas = [record.timestamp - base for record in decoded]
        assert (found.timestamp_delta_min, found.timestamp_delta_max) == (min(deltas), max(deltas))
        assert found.has_null_key == any(record.key is None for record in decoded)
        assert found.is_sequential == ([record.offset for record in decoded] == list(range(count)))


def parse_base(head: bytearray) -> int:
    return int.from_bytes(head[27:35], "big", signed=True)


def test_a_varint_longer_than_its_type_is_refused() -> None:
    """Java's clients could not read such a record."""
    body = bytearray(b"\0\0\0\1")
    body += b"\x82\x80\x80\x80\x80\0v\0"
    data = bytearray()
    append_varint(data, len(body))
    with pytest.raises(ValueError, match="too long"):
        walk(bytes(data + body), 1)


def test_nothing_to_walk_is_refused() -> None:
    with pytest.raises(ValueError):
        walk(b"", 1)
