"""Texts of `sasl.jaas.config` are read as Kafka reads them, and their values never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.security.jaas import DISALLOWED_MODULES, JAAS_CHARS_MAX, PLAIN_MODULE, ControlFlag, JaasError, parse_jaas


def test_a_module_has_its_flag_and_options() -> None:
    text = f'{PLAIN_MODULE} required username="admin" password="admin-secret" user_admin="admin-secret";'
    module = parse_jaas(text)
    assert (module.name, module.flag) == (PLAIN_MODULE, ControlFlag.REQUIRED)
    assert module.options == {"username": "admin", "password": "admin-secret", "user_admin": "admin-secret"}
    assert "secret" not in repr(module)


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b\n\tc='d e'", {"a": "b", "c": "d e"}),
        ('useKeyTab=true keyTab="/etc/k.keytab"', {"useKeyTab": "true", "keyTab": "/etc/k.keytab"}),
        ("user_a-b.c_d=x$1", {"user_a-b.c_d": "x$1"}),
        ('a="1\\t2\\"3\\\\4\\x"', {"a": '1\t2"3\\4x'}),
        ('a="\\101\\0\\12\\477"', {"a": "A\0\n'7"}),
        ('a="b" // the rest = "is comment"\nc=d', {"a": "b", "c": "d"}),
        ('/* a="b" \n */ c=d /*', {"c": "d"}),
        ('a="// no /* comment"', {"a": "// no /* comment"}),
        ('a="b" / a comment too\nc=d', {"a": "b", "c": "d"}),
        ("größe=é", {"größe": "é"}),
        ('a="1" a="2"', {"a": "2"}),
        ('a="ends with the line\nb=c', {"a": "ends with the line", "b": "c"}),
    ],
    ids=str,
)
def test_options_are_words_or_quoted_strings(options: str, read: dict[str, str]) -> None:
    end = "*/;" if options.endswith("/*") else "\n;"
    assert parse_jaas(f"org.Module OPTIONAL {options}{end}").options == read


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "Requisite", "sufficient", "oPTIONAL"])
def test_flags_have_any_case(flag: str) -> None:
    assert parse_jaas(f"a.B {flag};").flag.value == flag.lower()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified in JAAS config"),
        ("  // nothing", "Login module not specified in JAAS config"),
        (";", "Login module not specified in JAAS config"),
        ("a.B", "Login module control flag not specified in JAAS config"),
        ("a.B;", "Login module control flag is not available in the JAAS config"),
        ("a.B sometimes;", "Invalid login module control flag 'sometimes' in JAAS config"),
        ('a.B "hunter2";', "Invalid login module control flag in JAAS config"),
        ('a.B required password="x"; "hun" ter;', "Invalid login module control flag in JAAS config"),
        ("a.B required", "JAAS config entry not terminated by semi-colon"),
        ('a.B required a="b"', "JAAS config entry not terminated by semi-colon"),
        ("a.B required username;", "Value not specified for key 'username' in JAAS config"),
        ("a.B required user_ann=;", "Value not specified for key 'user_ann' in JAAS config"),
        ("a.B required username ann;", "Value not specified for key 'username' in JAAS config"),
        ("a.B required password=123;", "Value not specified for key 'password' in JAAS config"),
        ("a.B required password=-x;", "Value not specified for key 'password' in JAAS config"),
        ('a.B required password="hun"ter2";', "Value not specified for key number 2 in JAAS config"),
        ('a.B required password=x"ter2";', "Value not specified for key number 2 in JAAS config"),
        ("a.B required 1=2;", "Value not specified for key number 1 in JAAS config"),
        ("a.B required; c.D required;", "JAAS config property contains 2 login modules, should be 1 module"),
        (f"{DISALLOWED_MODULES[0]} required;", f"{DISALLOWED_MODULES[0]} is not allowed"),
        ("x" * (JAAS_CHARS_MAX + 1), f"JAAS config has {JAAS_CHARS_MAX + 1} characters, more than {JAAS_CHARS_MAX}"),
    ],
)
def test_an_invalid_text_is_rejected_without_its_values(text: str, message: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert str(caught.value) == message
    assert not {"hun", "ter2", "hunter2"} & {*str(caught.value).split("'")}


@given(st.text(max_size=60))
def test_any_text_is_a_module_or_an_error(text: str) -> None:
    for whole in (text, f"a.B required {text};", f'a.B required username="{text}";'):
        try:
            assert parse_jaas(whole).name
        except JaasError as error:
            assert str(error)


@given(st.text())
def test_a_quoted_value_is_read_back(value: str) -> None:
    quoted = "".join(f"\\{ord(char):03o}" if char in '"\\\n\r' else char for char in value)
    assert parse_jaas(f'a.B required password="{quoted}";').options == {"password": value}
