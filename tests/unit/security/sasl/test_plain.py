"""PLAIN: one token, with Kafka's messages."""

import pytest

from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import Principal
from kvorum.security.sasl.plain import PlainClient, PlainServer, PlainUsers
from tests.unit.security.sasl.sasl_kit import PASSWORD, USER, finish, plain_token

USERS = PlainUsers(
    {"username": "admin", "password": "x", f"user_{USER}": PASSWORD, "user_": "of nobody", "user_é": "ü"}
)


def test_the_user_of_the_token_is_the_principal() -> None:
    for token in (plain_token(), plain_token(authorization_id=USER), PlainClient(USER, PASSWORD).evaluate(b"")):
        server = PlainServer(USERS)
        assert finish(server.evaluate(token)) == b""
        assert server.principal == Principal("User", USER)
        assert server.expires_at_ms is None
    server = PlainServer(USERS)
    finish(server.evaluate(PlainClient("é", "ü").evaluate(b"")))
    assert server.principal == Principal("User", "é")


def test_an_unknown_user_has_no_password() -> None:
    assert not finish(USERS("mallory", ""))
    assert finish(USERS(USER, PASSWORD))


@pytest.mark.parametrize(
    ("token", "response"),
    [
        (b"", None),
        (b"\0alice", None),
        (b"a\0b\0c\0d\0e", None),
        (plain_token(user=""), "username not specified"),
        (plain_token(password=""), "password not specified"),
        (plain_token(password="Alice-secret"), "Invalid username or password"),
        (plain_token(user="mallory"), "Invalid username or password"),
        (plain_token(user="admin", password="x"), "Invalid username or password"),
        (plain_token(authorization_id="bob"), "Client requested an authorization id that is different from username"),
        (b"\0alice\0\xff\xfe", "Invalid username or password"),
    ],
)
def test_another_token_is_rejected(token: bytes, response: str | None) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationError) as caught:
        finish(server.evaluate(token))
    expected = None if response is None else f"Authentication failed: {response}"
    assert caught.value.response_message == expected
    assert server.principal is None
    assert "secret" not in str(caught.value)


def test_a_malformed_token_is_counted_for_the_log() -> None:
    with pytest.raises(AuthenticationError, match="expected 3 tokens, got 4"):
        finish(PlainServer(USERS).evaluate(b"a\0b\0c\0d\0e"))
