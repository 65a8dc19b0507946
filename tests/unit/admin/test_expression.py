"""The language records are chosen by: what it means, what it refuses, what it costs."""

import pytest

from kvorum.client.records.expression import DEPTH_MAX, EXPRESSION_CHARS_MAX, NODES_MAX, BadExpression, parse
from kvorum.client.records.record_views import RecordSubject
from kvorum.protocol.records import Record

VALUE = (
    b'{"amount": 150, "items": [{"sku": "ax-1"}, {"sku": "b2"}], "tags": [], "user-id": "u", "ok": true, "no": null}'
)
RECORD = Record(
    key=b"order-7",
    value=VALUE,
    timestamp=1_700_000_000_000,
    headers=(("source", b"mobile"), ("source", b"web"), ("x", None)),
    offset=42,
)


def matches(text: str, record: Record = RECORD, partition: int = 2) -> bool:
    return parse(text).matches(RecordSubject(partition, record))


@pytest.mark.parametrize(
    "text",
    [
        'value.amount > 100 && headers.source == "web"',
        "value.amount>=150 and not value.amount>150",
        'key ~ "^order-\\d+$"',
        'key == "nothing" || partition in [0, 2]',
        '!(value.items[0].sku contains "zz")',
        'value.items[-1].sku == "b2"',
        "value[\"user-id\"] == 'u'",
        'value.user-id == "u"',
        "size(value.items) == 2 && size(value.tags) == 0",
        "offset == 42 && offset < 43 && offset <= 42",
        "timestamp >= 1.7e12",
        'text(value) contains "\\"amount\\": 150"',
        'value contains "ok"',
        '"b2" in [value.items[0].sku, value.items[1].sku]',
        'lower(upper(key)) == "order-7"',
        'starts_with(key, "order") && ends_with(key, "7")',
        "value.ok && value.ok == true && value.ok != 1",
        "value.no == null && value.none.of.these == null && !exists(value.items[9])",
        "exists(value.amount)",
        "headers.x == null",
        "value.amount == 150.0",
        'value.amount != "150"',
        'value.items[0] contains "sku"',
        "partition == 2 || partition == 3 && partition == 4",
    ],
)
def test_conditions_on_a_record(text: str) -> None:
    assert matches(text)
    assert not matches(f"!({text})")


@pytest.mark.parametrize(
    "text",
    [
        'value.amount > "100"',
        "value.items > 1",
        "value.ok > 0",
        'value.amount ~ "150"',
        "value.tags",
        "null",
        'partition contains "2"',
        "value[0] == 1",
        'starts_with(partition, "2")',
    ],
)
def test_kinds_that_do_not_go_together_are_false(text: str) -> None:
    assert not matches(text)


def test_invalid_json_is_text_and_null_is_null() -> None:
    plain = Record(value=b"hello\xff", key=None)
    assert matches('value contains "hello" && key == null', plain)
    assert matches("value.x == null", plain)
    assert matches("value == null && text(value) == null", Record(value=None))
    assert matches("value == 7", Record(value=b"7"))


def test_equal_records_of_any_depth_end() -> None:
    deep = Record(value=b"[" * 50_000 + b"]" * 50_000)
    assert matches('value contains "[[["', deep), "JSON that is nested too deep is its text"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("value.amount >", "character 15"),
        ("value.amount = 1", "character 14: '=' is not an operator; use == to compare"),
        ("key & value", "character 5: '&' is not an operator; use &&"),
        ("(value", "character 7"),
        ("value value", "character 7"),
        ('key ~ "("', "character 7"),
        ("key ~ key", "character 7"),
        ("value.", "character 7"),
        ("value[x]", "character 7"),
        ("value[1.5]", "character 7"),
        ("valeu == 1", "character 1"),
        ("text(headers)", "character 6"),
        ("size(value", "character 11"),
        ("starts_with(key)", "character 16"),
        ("__import__('os')", "character 1"),
        ("[1 2]", "character 4"),
        ('"open', "character 1"),
        ("1" * 41, "character 1"),
        (" ", "character"),
    ],
)
def test_syntax_errors_are_reported_with_their_position(text: str, place: str) -> None:
    with pytest.raises(BadExpression, match=place):
        parse(text)


def test_limits() -> None:
    parse(" && ".join(["1"] * (NODES_MAX // 2)))
    for text in (
        " && ".join(["1"] * NODES_MAX),
        "(" * (DEPTH_MAX + 1) + "1" + ")" * (DEPTH_MAX + 1),
        "!" * (DEPTH_MAX + 2) + "1",
        "[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2),
        "key == " + '"' + "x" * EXPRESSION_CHARS_MAX + '"',
        'key ~ "(((a{1,100}){1,100}){1,100})"',
    ):
        with pytest.raises(BadExpression):
            parse(text)


def test_a_pattern_takes_linear_time() -> None:
    """Of the kind that takes a backtracking engine longer than there is time."""
    assert not matches('key ~ "^(a+)+$"', Record(key=b"a" * 50_000 + b"b"))
