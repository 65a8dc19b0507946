"""Objects cut apart as their bytes arrive."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.admin.v3.json_stream import MalformedStream, Splitter

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=6)


def cut(splitter: Splitter, pieces: list[bytes]) -> list[bytes]:
    """Return all objects of these pieces."""
    found = []
    for piece in pieces:
        splitter.feed(piece)
        while (text := splitter.next()) is not None:
            found.append(text)
    splitter.finish()
    return found


@given(OBJECTS, st.sampled_from([b"", b"\n", b" \r\n\t "]), st.booleans(), st.integers(1, 40))
def test_objects_are_parsed_for_any_division_into_chunks(
    objects: list[object], between: bytes, plain: bool, size: int
) -> None:
    data = between.join(json.dumps(each, ensure_ascii=plain).encode() for each in objects) + between
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [json.loads(text) for text in cut(Splitter(1 << 20), pieces)] == objects


@pytest.mark.parametrize("data", [b"[1]", b"1", b'"a"', b"}", b"x", b'{"a": 1}, {"b": 2}'])
def test_a_value_that_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(MalformedStream, match="a JSON object was expected"):
        cut(Splitter(100), [data])


def test_data_before_the_failure_is_available() -> None:
    splitter = Splitter(100)
    splitter.feed(b'{"a": 1} x')
    assert splitter.next() == b'{"a": 1}'
    with pytest.raises(MalformedStream):
        splitter.next()


@pytest.mark.parametrize("data", [b"{", b'{"a": "}', b'{"a": "\\', b'{"a": {}'])
def test_an_incomplete_object_at_the_end_is_reported(data: bytes) -> None:
    with pytest.raises(MalformedStream, match="in the middle"):
        cut(Splitter(100), [data])


def test_a_brace_and_a_quote_in_a_string_end_nothing() -> None:
    data = json.dumps({"a": '}"\\', "b}": "{{"}).encode()
    assert cut(Splitter(100), [bytes([each]) for each in data * 2]) == [data, data]


def test_an_object_may_not_grow_for_ever() -> None:
    whole = b'{"a": "' + b"x" * 100 + b'"}'
    assert cut(Splitter(len(whole)), [whole]) == [whole]
    with pytest.raises(MalformedStream, match="longer than"):
        cut(Splitter(len(whole) - 1), [whole])
    splitter = Splitter(10)
    splitter.feed(b'{"a": "')
    assert splitter.next() is None
    splitter.feed(b"xxxx")
    with pytest.raises(MalformedStream, match="longer than"):
        splitter.next()
