"""Java's properties syntax, by tables and by round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.runtime.properties import PropertiesError, Property, format_properties, parse_properties

# Each row as java.util.Properties reads it.
CASES = [
    ("a=b", {"a": "b"}),
    ("a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("a = b ", {"a": "b "}),
    ("  a\t:\t b", {"a": "b"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("a==b", {"a": "=b"}),
    ("a = = b", {"a": "= b"}),
    ("a b=c", {"a": "b=c"}),
    ("=b", {"": "b"}),
    ("# a=b\n! c=d\n\n   \n   # e=f", {}),
    ("a=b # not a comment", {"a": "b # not a comment"}),
    ("a=b\\\n   c", {"a": "bc"}),
    ("a=b\\\n   # goes on", {"a": "b# goes on"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
    ("a=b\\", {"a": "b"}),
    ("a=b\\\n", {"a": "b"}),
    ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    ("\\\n\na=b", {"a": "b"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\ b\\:c=d", {"a b:c": "d"}),
    ("\\#a=b", {"#a": "b"}),
    ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
    ("a=\\u00e9\\u20AC", {"a": "é€"}),
    ("a=\\ud83d\\ude00", {"a": "😀"}),
    ("a=é€😀", {"a": "é€😀"}),
    ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
    ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert {item.key: item.text for item in parse_properties(text)} == expected


def test_each_property_knows_the_line_it_begins_on() -> None:
    text = "# head\n\na=1\nb=2\\\n  3\\\n  4\n! c\nd=5\n"
    assert parse_properties(text) == [Property("a", "1", 3), Property("b", "234", 4), Property("d", "5", 8)]


def test_a_key_that_exists_twice_is_given_twice() -> None:
    assert parse_properties("a=1\na=2") == [Property("a", "1", 1), Property("a", "2", 2)]


@pytest.mark.parametrize("text", ["x=1\na=\\u12", "x=1\na=\\uzzzz", "x=1\n\\u=1", "x=1\na=\\u 123"])
def test_a_broken_unicode_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(PropertiesError, match="four hexadecimal digits") as error:
        parse_properties(text)
    assert error.value.line == 2


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(texts.filter(bool), texts, max_size=8))
def test_written_properties_are_read_back(mapping: dict[str, str]) -> None:
    assert {item.key: item.text for item in parse_properties(format_properties(mapping))} == mapping


@given(st.text(alphabet="ab=: \t\\\n\r#!u0", max_size=60))
def test_any_text_is_read_or_refused_but_never_breaks_the_reader(text: str) -> None:
    try:
        found = parse_properties(text)
    except PropertiesError as error:
        assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
    else:
        assert [item.line for item in found] == sorted(item.line for item in found)
