"""Values: PostgreSQL's texts and Debezium's forms of them, side by side; the calendar against Python's."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.pipelines.cdc.values import converter, days_of, parse_array

TABLE = [
    (16, "t", True),
    (16, "f", False),
    (20, "-9223372036854775808", -9223372036854775808),
    (21, "7", 7),
    (23, "-1", -1),
    (26, "4294967295", 4294967295),
    (25, "ünï\n", "ünï\n"),
    (1043, "", ""),
    (18, "x", "x"),
    (700, "0.1", 0.1),
    (701, "1e+100", 1e100),
    (701, "NaN", "NaN"),
    (701, "-Infinity", "-Infinity"),
    (1700, "12345678901234567890.1234567890", "12345678901234567890.1234567890"),
    (1700, "NaN", "NaN"),
    (17, r"\x00ff10", "AP8Q"),
    (17, r"\x", ""),
    (1082, "1970-01-01", 0),
    (1082, "1969-12-31", -1),
    (1082, "2024-02-29", 19782),
    (1082, "0001-12-31 BC", -719163),
    (1082, "infinity", "infinity"),
    (1083, "00:00:00", 0),
    (1083, "23:59:59.5", 86399500000),
    (1083, "24:00:00", 86400000000),
    (1114, "1970-01-01 00:00:01.000001", 1000001),
    (1114, "1969-12-31 23:59:59.999999", -1),
    (1114, "294276-12-31 23:59:59.999999", 9224318015999999999),
    (1114, "-infinity", "-infinity"),
    (1184, "2024-05-06 07:08:09.12+00", "2024-05-06T07:08:09.12Z"),
    (1184, "0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00Z"),
    (1184, "infinity", "infinity"),
    (1186, "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
    (1266, "07:08:09+02", "07:08:09+02"),
    (2950, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    (114, '{"a": 1}', '{"a": 1}'),
    (3802, "null", "null"),
    (869, "10.0.0.0/8", "10.0.0.0/8"),
    (99999, "happy", "happy"),
    (1007, "{}", []),
    (1007, "{1,NULL,-3}", [1, None, -3]),
    (1007, "[0:1]={1,2}", [1, 2]),
    (1007, "[0:0][-1:0]={{1,2}}", [[1, 2]]),
    (1009, r'{a,"b,c","d\"e\\","",NULL,"NULL","{"}', ["a", "b,c", 'd"e\\', "", None, "NULL", "{"]),
    (1000, "{{t,f},{f,t}}", [[True, False], [False, True]]),
    (1231, "{1.50,NaN}", ["1.50", "NaN"]),
    (1182, "{1970-01-02}", [1]),
    (1115, '{"1970-01-01 00:00:00.5"}', [500000]),
    (1001, r'{"\\x01"}', ["AQ=="]),
    (99998, "{a,b}", "{a,b}"),
]


@pytest.mark.parametrize(("type_oid", "text", "value"), TABLE)
def test_a_value_has_the_form_that_debezium_gives_it(type_oid: int, text: str, value: object) -> None:
    found = converter(type_oid)(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("modes", "type_oid", "text", "value"),
    [
        ({"decimal": "double"}, 1700, "1.50", 1.5),
        ({"decimal": "double"}, 1700, "NaN", "NaN"),
        ({"binary": "hex"}, 17, r"\x00ff10", "00ff10"),
        ({"time": "isostring"}, 1082, "2024-02-29", "2024-02-29"),
        ({"time": "isostring"}, 1083, "01:02:03.5", "01:02:03.5"),
        ({"time": "isostring"}, 1114, "2024-02-29 01:02:03", "2024-02-29T01:02:03"),
    ],
)
def test_modes_choose_another_form(modes: dict[str, str], type_oid: int, text: str, value: object) -> None:
    assert converter(type_oid, **modes)(text) == value


@given(st.dates())
def test_days_are_python_s_where_python_has_them(date: datetime.date) -> None:
    assert days_of(date.year, date.month, date.day) == (date - datetime.date(1970, 1, 1)).days


@settings(max_examples=50)
@given(
    st.recursive(st.lists(st.none() | st.text(), min_size=1), lambda inner: st.lists(inner, min_size=1), max_leaves=8)
)
def test_an_array_is_read_as_it_is_written(items: list[object]) -> None:
    def written(value: object) -> str:
        if isinstance(value, list):
            return "{" + ",".join(map(written, value)) + "}"
        if value is None:
            return "NULL"
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_array(written(items), str) == items


@pytest.mark.parametrize("text", ["", "1", "{1", "{{1}"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_array(text, str)
