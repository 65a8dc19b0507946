"""COPY's text format: lines as the documentation escapes them, and whatever bytes by round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.pipelines.cdc.pgoutput import parse_line

ESCAPES = {b"\\": rb"\\", b"\b": rb"\b", b"\f": rb"\f", b"\n": rb"\n", b"\r": rb"\r", b"\t": rb"\t", b"\v": rb"\v"}


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"1\ta b\t\n", (b"1", b"a b", b"")),
        (b"\\N\t\\\\N\tN\n", (None, b"\\N", b"N")),
        (b"a\\tb\\nc\\\\\\\\\n", (b"a\tb\nc\\\\",)),
        (b"\\\\t\n", (b"\\t",)),
        (b"\n", (b"",)),
    ],
)
def test_a_line_is_its_row(line: bytes, row: tuple[bytes | None, ...]) -> None:
    assert parse_line(line) == row


@given(st.lists(st.none() | st.binary(), min_size=1))
def test_a_row_is_read_as_it_is_written(row: list[bytes | None]) -> None:
    def written(field: bytes | None) -> bytes:
        if field is None:
            return rb"\N"
        return b"".join(ESCAPES.get(field[i : i + 1], field[i : i + 1]) for i in range(len(field)))

    assert parse_line(b"\t".join(map(written, row)) + b"\n") == tuple(row)
