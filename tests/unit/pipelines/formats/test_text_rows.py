"""Text in encodings other than UTF-8: what is not of the encoding fails, in both directions."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from kvorum.pipelines.formats.plain import StringFormat, text_decoded, text_encoded


@pytest.mark.parametrize(
    ("encoding", "text", "data"),
    [
        ("ISO-8859-1", "zw\u00f6lf", b"zw\xf6lf"),
        ("US-ASCII", "a", b"a"),
        ("UTF-16", "a", b"\xfe\xff\x00a"),
        ("UTF-16LE", "a", b"a\x00"),
        ("UTF-32", "a", b"\x00\x00\x00a"),
    ],
)
def test_text_is_the_same_in_both_directions(encoding: str, text: str, data: bytes) -> None:
    assert text_encoded(encoding, pa.array([text, None])).to_pylist() == [
        {"value": data, "error": None},
        {"value": None, "error": None},
    ]
    assert text_decoded(encoding, pa.array([data]))[0]["value"].as_py() == text


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (text_decoded("US-ASCII", pa.array([b"\xff"])), "UnicodeDecodeError: 'ascii' codec can't decode byte 0xff"),
        (text_decoded("UTF-16", pa.array([b"\x00"])), "UnicodeDecodeError: "),
        (text_encoded("ISO-8859-1", pa.array(["\u20ac"])), "UnicodeEncodeError: 'latin-1' codec can't encode"),
    ],
)
def test_what_is_not_of_the_encoding_fails(found: Any, reason: str) -> None:
    assert found[0]["value"].as_py() is None and found[0]["error"].as_py().startswith(reason)


def test_an_unknown_encoding_is_rejected() -> None:
    with pytest.raises(ValidationError, match="'UTF-99' is not an encoding"):
        StringFormat(encoding="UTF-99")
