"""Values are read, and refused, as Kafka's ConfigDef does."""

import pytest

from kvorum.runtime.config_types import ConfigType, InvalidValue, Value, format_value, parse, parse_roles, rule_of

T = ConfigType


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (T.BOOLEAN, "true", True),
        (T.BOOLEAN, " FALSE ", False),
        (T.INT, "42", 42),
        (T.INT, " -1 ", -1),
        (T.INT, "+7", 7),
        (T.INT, "2147483647", 2**31 - 1),
        (T.INT, "-2147483648", -(2**31)),
        (T.SHORT, "32767", 32767),
        (T.LONG, "9223372036854775807", 2**63 - 1),
        (T.DOUBLE, "0.5", 0.5),
        (T.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (T.LIST, "", ()),
        (T.LIST, "  ", ()),
        (T.LIST, "a", ("a",)),
        (T.LIST, " a , b,c ", ("a", "b", "c")),
        (T.STRING, " a b ", "a b"),
        (T.STRING, "", ""),
        (T.CLASS, "org.Example", "org.Example"),
        (T.PASSWORD, "secret", "secret"),
    ],
)
def test_a_text_of_its_type_is_read(kind: ConfigType, text: str, value: Value) -> None:
    assert parse("some.key", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (T.BOOLEAN, "yes", "Expected value to be either true or false"),
        (T.BOOLEAN, "", "Expected value to be either true or false"),
        (T.INT, "", "Not a number of type INT"),
        (T.INT, "1.5", "Not a number of type INT"),
        (T.INT, "1_000", "Not a number of type INT"),
        (T.INT, "0x10", "Not a number of type INT"),
        (T.INT, "٣", "Not a number of type INT"),
        (T.INT, "2147483648", "Not a number of type INT"),
        (T.SHORT, "32768", "Not a number of type SHORT"),
        (T.LONG, "9223372036854775808", "Not a number of type LONG"),
        (T.LONG, "9" * 5000, "Not a number of type LONG"),
        (T.DOUBLE, "half", "Not a number of type DOUBLE"),
    ],
)
def test_a_text_not_of_its_type_is_refused(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidValue) as error:
        parse("some.key", kind, text)
    assert error.value.reason.startswith(reason)
    assert str(error.value).startswith(f"Invalid value {text} for configuration some.key: {reason}")


@pytest.mark.parametrize(
    ("notation", "good", "bad"),
    [
        (">=1", [1, 2**62], [0, -1]),
        ("0..1", [0, 0.5, 1.0], [-0.01, 1.01]),
        ("-1,1..9", [-1, 1, 9], [0, -2, 10]),
        ("-131072..22", [-131072, 22], [23]),
        ("in:a|b", ["a", "b"], ["A", "", "c"]),
        ("in-any:a|b", ["a", "B"], ["", "c"]),
        ("list:a|b", [(), ("a",), ("b", "a")], [("a", "a"), ("c",), ("",)]),
        ("list", [(), ("x", "y")], [("x", "x"), ("",)]),
        ("nonempty", ["a", ("a",)], ["", ()]),
        (
            "voters",
            [(), ("1@h:1", "2@[::1]:65535", "3@10.0.0.1:0")],
            [("1",), ("a@h:1",), ("1@h",), ("1@h:65536",), ("1@:1",), ("@h:1",)],
        ),
        ("host-ports", [(), ("h:1",)], [("h",), (":1",), ("h:x",), ("1@h:1",)]),
        ("throttled", [(), ("*",), ("0:1", "1:101")], [("*", "0:1"), ("0",), ("0:",), ("a:b",)]),
        ("", [1, "x"], []),
    ],
)
def test_rules_accept_exactly_their_values(notation: str, good: list[Value], bad: list[Value]) -> None:
    rule = rule_of(notation)
    if rule is None:
        assert notation == "" and not bad
        return
    assert [value for value in good if rule.problem(value) is not None] == []
    assert [value for value in bad if rule.problem(value) is None] == []
    assert rule.meaning


def test_a_range_error_names_the_violated_bound() -> None:
    rule = rule_of("2..10")
    assert rule is not None
    assert rule.problem(1) == "Value must be at least 2"
    assert rule.problem(11) == "Value must be no more than 10"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (False, "false"), (5, "5"), (0.5, "0.5"), (("a", "b"), "a,b"), ((), ""), ("x", "x")],
)
def test_values_are_shown_as_describe_configs_shows_them(value: Value, text: str | None) -> None:
    assert format_value(value) == text


def test_roles_are_read_with_names_that_have_commas_and_equals_signs() -> None:
    text = "User:alice=admin; User:CN=a,O=b=read ;User:*=operate;"
    assert parse_roles(text) == {"User:alice": "admin", "User:CN=a,O=b": "read", "User:*": "operate"}
    for wrong in ("", ";", "alice=admin", "User:=admin", "User:alice", "User:a=root", "User:a=read;User:a=admin"):
        with pytest.raises(ValueError, match=r"is not TYPE:NAME=ROLE|two roles|must not be empty"):
            parse_roles(wrong)
