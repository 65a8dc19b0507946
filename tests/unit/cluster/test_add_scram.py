"""--add-scram: kafka-storage's syntax and errors, and no part of a password in them."""

import base64

import pytest

from kvorum.cluster.local import add_scram
from kvorum.cluster.local.add_scram import ScramOptionError, ScramUser, parse_scram_option, parse_scram_options
from kvorum.quorum.records import UserScramCredential
from kvorum.security.credentials import ScramMechanism
from kvorum.security.scram_keys import derive_credential, salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"\xfe\xff salt"
SALT_TEXT = base64.b64encode(SALT).decode()


def no_file(path: str) -> str:
    raise AssertionError(f"{path} is not read")


def record_of(text: str) -> UserScramCredential:
    return parse_scram_option(text).to_record(lambda size: b"r" * size)


def test_a_password_is_salted_at_random() -> None:
    record = record_of('SCRAM-SHA-256=[name=ann,password="a secret"]')
    expected = derive_credential(SHA_256, b"a secret", b"r" * 20, 4096)
    assert (record.name, record.mechanism, record.iterations) == ("ann", 1, 4096)
    assert (record.salt, record.stored_key, record.server_key) == (
        expected.salt,
        expected.stored_key,
        expected.server_key,
    )


@pytest.mark.parametrize("salt", [SALT_TEXT, f'"{SALT_TEXT}"', SALT_TEXT.rstrip("=")])
def test_a_salted_password_is_taken_as_it_is(salt: str) -> None:
    salted = base64.b64encode(salted_password(SHA_512, b"secret", SALT, 8192)).decode()
    record = record_of(f" SCRAM-SHA-512=[iterations=8192,salt={salt},saltedpassword={salted},name=ann,] ")
    expected = derive_credential(SHA_512, b"secret", SALT, 8192)
    assert (record.mechanism, record.salt, record.stored_key) == (2, SALT, expected.stored_key)
    assert record_of(f"SCRAM-SHA-512=[name=ann,salt={salt},iterations=8192,password=secret]") == record


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument 'SCRAM-SHA-256'"),
        ("SCRAM-SHA-1=[name=a]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("scram-sha-256=[name=a]", "The add-scram mechanism scram-sha-256 is not supported."),
        ("SCRAM-SHA-256=name=a]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[]", "No equals sign found in SCRAM component: "),
        ("SCRAM-SHA-256=[password=x]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=,password=x]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AA==]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=x,salt=?]", "Failed to decode given salt: ?"),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=1.5]", "Failed to parse iterations count: 1.5"),
        ("SCRAM-SHA-256=[name=a,password=x,colour=red,size=1]", "Unknown SCRAM configurations: colour, size"),
        (
            "SCRAM-SHA-256=[name=a,password=x,saltedpassword=AA==]",
            None,
        ),
        (
            "SCRAM-SHA-256=[name=a,password=x,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=x,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
    ],
)
def test_errors_are_kafkas(text: str, problem: str | None) -> None:
    if problem is None:
        assert parse_scram_option(text).password == "x", "the password counts, as in Kafka"
        return
    with pytest.raises(ScramOptionError) as caught:
        parse_scram_option(text)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256=[name=a,password=x,hunter2]",
        "SCRAM-SHA-256=[name=a,salt=AA==,saltedpassword=hunter2!]",
        "SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]",
        "SCRAM-SHA-256=[password=hunter2]",
    ],
)
def test_no_error_shows_a_part_of_a_password(text: str) -> None:
    with pytest.raises(ScramOptionError) as caught:
        parse_scram_option(text)
    assert "hunter2" not in str(caught.value)


def test_the_text_of_a_user_has_no_password() -> None:
    shown = repr(parse_scram_option("SCRAM-SHA-256=[name=a,password=hunter2]"))
    assert "hunter2" not in shown and "name='a'" in shown


def test_a_file_has_an_option_per_line() -> None:
    text = "# users\n\n SCRAM-SHA-256=[name=a,password=x] \nSCRAM-SHA-512=[name=a,password=y]\n"
    found: list[ScramUser] = parse_scram_options(["@a file", "SCRAM-SHA-256=[name=b,password=z]"], lambda path: text)
    assert [(each.name, each.mechanism, each.password) for each in found] == [
        ("a", SHA_256, "x"),
        ("a", SHA_512, "y"),
        ("b", SHA_256, "z"),
    ]


def test_the_number_of_users_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_scram, "USERS_MAX", 1)
    option = "SCRAM-SHA-256=[name=b,password=z]"
    assert len(parse_scram_options([option], no_file)) == 1
    with pytest.raises(ScramOptionError, match="at most 1 credentials"):
        parse_scram_options([option, option], no_file)
