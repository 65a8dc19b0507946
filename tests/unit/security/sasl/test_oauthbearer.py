"""OAUTHBEARER on both sides: messages, rejected tokens, authorization ids, extensions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.tokens import BearerToken, TokenRejected
from kvorum.security.principal import Principal
from kvorum.security.sasl.oauthbearer import ATTEMPTS_MAX, OauthBearerClient, OauthBearerServer
from tests.unit.security.sasl.sasl_kit import WALL_MS, finish

REFUSED: dict[str, TokenRejected] = {
    "bad": TokenRejected("expired"),
    "scope": TokenRejected("a required scope is missing", "[a, b]"),
}


async def validate(token: str) -> BearerToken:
    if token in REFUSED:
        raise REFUSED[token]
    return BearerToken(token, WALL_MS + 1000)


def message(token: str = "alice", authorization_id: str = "", extra: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01{extra}\x01".encode()


def evaluate(*messages: bytes) -> tuple[OauthBearerServer, bytes]:
    server, answer = OauthBearerServer(validate), b""
    for each in messages:
        answer = finish(server.evaluate(each))
    return server, answer


@pytest.mark.parametrize(
    "first",
    [
        message(),
        message(authorization_id="alice"),
        message(extra="logicalCluster=lkc-1\x01extra=a b=\t\x01"),
        message().replace(b"Bearer", b"bEARER"),
        message().replace(b"Bearer ", b"Bearer   "),
        OauthBearerClient("alice", {"traceId": "123"}).evaluate(b""),
    ],
)
def test_the_principal_of_the_token_is_authenticated(first: bytes) -> None:
    server, answer = evaluate(first)
    assert answer == b""
    assert server.principal == Principal("User", "alice")
    assert server.expires_at_ms == WALL_MS + 1000


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic eDp5\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01other=x\x01\x01",
        message()[:-1],
        message().replace(b"n,", b"y,"),
        message(extra="a1=x\x01"),
        message(extra="a=\x01"),
        message(extra="a=\xe9\x01"),
        message(authorization_id="a=b"),
    ],
)
def test_a_malformed_message_has_the_general_answer(first: bytes) -> None:
    server = OauthBearerServer(validate)
    with pytest.raises(AuthenticationError) as caught:
        finish(server.evaluate(first))
    assert caught.value.response_message is None
    assert server.principal is None


@pytest.mark.parametrize(
    ("token", "answer"),
    [
        ("bad", '{"status":"invalid_token"}'),
        ("scope", '{"status":"insufficient_scope", "scope":"[a, b]"}'),
    ],
)
def test_a_rejected_token_is_answered_and_fails_when_it_is_confirmed(
    token: str, answer: str, log_lines: list[str]
) -> None:
    server, found = evaluate(message(token))
    assert found == answer.encode()
    assert server.principal is None
    with pytest.raises(AuthenticationError) as caught:
        finish(server.evaluate(b"\x01"))
    assert caught.value.response_message == answer
    assert str(REFUSED[token]) in str(caught.value)
    assert any("token rejected" in line for line in log_lines)
    assert not any("Bearer" in line for line in log_lines)


def test_another_token_in_place_of_the_confirmation_is_tried_a_few_times() -> None:
    server, answer = evaluate(message("bad"), message("alice"))
    assert answer == b""
    assert server.principal == Principal("User", "alice")
    server, _ = evaluate(*[message("bad")] * ATTEMPTS_MAX)
    with pytest.raises(AuthenticationError):
        finish(server.evaluate(message("alice")))
    assert server.principal is None


def test_another_authorization_id_is_rejected() -> None:
    with pytest.raises(AuthenticationError) as caught:
        evaluate(message("alice", "bob"))
    assert caught.value.response_message == (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )


def test_a_client_confirms_an_error_and_is_complete_after_an_empty_answer() -> None:
    client = OauthBearerClient("alice")
    assert client.evaluate(b"") == message()
    assert client.evaluate(b'{"status":"invalid_token"}') == b"\x01"
    assert not client.is_complete
    client = OauthBearerClient("alice")
    client.evaluate(b"")
    assert client.evaluate(b"") == b""
    assert client.is_complete


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}, {"a": "é"}])
def test_invalid_extensions_are_refused(extensions: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OauthBearerClient("alice", extensions)


@given(st.binary(max_size=200))
def test_any_message_is_processed_or_rejected(data: bytes) -> None:
    for first in (data, message(extra=data.decode("latin-1")), b"n,,\x01auth=" + data + b"\x01\x01"):
        try:
            finish(OauthBearerServer(validate).evaluate(first))
        except AuthenticationError as error:
            assert str(error)
