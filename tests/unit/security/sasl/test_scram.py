"""SCRAM on both sides: the examples of the RFCs, wrong proofs and signatures, unknown users, delegation tokens."""

from base64 import b64decode, b64encode
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.security.credentials import ScramMechanism
from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import Principal
from kvorum.security.sasl.scram import ScramClient, ScramServer, ScramServers, exclusive_or, keyed_hash, plain_hash
from kvorum.security.scram_keys import SALT_BYTES, credential_from, salted_password
from tests.unit.security.sasl.sasl_kit import (
    OWNER,
    PASSWORD,
    TOKEN_ID,
    TOKEN_PASSWORD,
    USER,
    WALL_MS,
    Store,
    credential,
    finish,
    scram_servers,
)

SHA_256 = ScramMechanism.SCRAM_SHA_256


class Sha1(NamedTuple):
    """SCRAM-SHA-1, which Kafka does not have, for the example of RFC 5802."""

    mechanism_name: str = "SCRAM-SHA-1"
    hash_name: str = "sha1"


class Example(NamedTuple):
    mechanism: Any
    client_nonce: str
    server_nonce: str
    salt: str
    proof: str
    signature: str


RFC_5802 = Example(
    Sha1(),
    "fyko+d2lbbFgONRv9qkxdawL",
    "3rfcNHYJY1ZVvWVs7j",
    "QSXCR+Q6sek8bf92",
    "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = Example(
    SHA_256,
    "rOprNGfwEbeRWgbNEkqO",
    "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize("example", [RFC_5802, RFC_7677], ids=["RFC 5802", "RFC 7677"])
def test_the_examples_of_the_rfcs_on_both_sides(example: Example) -> None:
    mechanism, salt = cast(ScramMechanism, example.mechanism), b64decode(example.salt)
    store = Store()
    store.users = {
        (mechanism, "user"): credential_from(mechanism, salted_password(mechanism, b"pencil", salt, 4096), salt, 4096)
    }
    shared = ScramServers(store=store, secret=b"", new_nonce=lambda: example.server_nonce)
    client = ScramClient(mechanism, "user", "pencil", example.client_nonce)
    server = ScramServer(mechanism, shared)
    first = client.evaluate(b"")
    assert first == f"n,,n=user,r={example.client_nonce}".encode()
    challenge = finish(server.evaluate(first))
    nonce = example.client_nonce + example.server_nonce
    assert challenge == f"r={nonce},s={example.salt},i=4096".encode()
    last = client.evaluate(challenge)
    assert last == f"c=biws,r={nonce},p={example.proof}".encode()
    assert server.principal is None
    signature = finish(server.evaluate(last))
    assert signature == f"v={example.signature}".encode()
    assert server.principal == Principal("User", "user")
    assert not client.is_complete
    assert client.evaluate(signature) == b""
    assert client.is_complete


def exchange(server: ScramServer, client: ScramClient) -> None:
    """Run a whole exchange. Raises AuthenticationError."""
    client.evaluate(finish(server.evaluate(client.evaluate(finish(server.evaluate(client.evaluate(b"")))))))


def server_of(mechanism: ScramMechanism = SHA_256, store: Store | None = None) -> ScramServer:
    return ScramServer(mechanism, scram_servers(store))


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(ScramMechanism), NAMES, PASSWORDS, st.booleans())
def test_any_user_with_his_password_is_authenticated(
    mechanism: ScramMechanism, user: str, password: str, is_right: bool
) -> None:
    store = Store()
    store.users = {(mechanism, user): credential(mechanism, password)}
    server = server_of(mechanism, store)
    client = ScramClient(mechanism, user, password if is_right else password + ".", "nonce")
    if is_right:
        exchange(server, client)
        assert client.is_complete
        assert server.principal == Principal("User", user)
        return
    with pytest.raises(AuthenticationError) as caught:
        exchange(server, client)
    assert caught.value.response_message is None
    assert server.principal is None
    assert not client.is_complete


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 31), st.integers(1, 255))
def test_a_proof_with_any_other_byte_is_rejected(position: int, change: int) -> None:
    server, client = server_of(), ScramClient(SHA_256, USER, PASSWORD, "nonce")
    last = client.evaluate(finish(server.evaluate(client.evaluate(b""))))
    unproven, _, text = last.partition(b",p=")
    proof = bytearray(b64decode(text))
    proof[position] ^= change
    with pytest.raises(AuthenticationError, match="wrong password"):
        finish(server.evaluate(unproven + b",p=" + b64encode(proof)))
    assert server.principal is None


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 31), st.integers(1, 255))
def test_a_server_that_does_not_know_the_password_is_rejected(position: int, change: int) -> None:
    server, client = server_of(), ScramClient(SHA_256, USER, PASSWORD, "nonce")
    signature = finish(server.evaluate(client.evaluate(finish(server.evaluate(client.evaluate(b""))))))
    tampered = bytearray(b64decode(signature[2:]))
    tampered[position] ^= change
    with pytest.raises(AuthenticationError, match="does not know the password"):
        client.evaluate(b"v=" + b64encode(tampered))
    assert not client.is_complete


def test_signatures_of_two_exchanges_differ() -> None:
    signatures = set()
    for _ in range(2):
        server, client = server_of(), ScramClient(SHA_256, USER, PASSWORD, "nonce")
        signatures.add(finish(server.evaluate(client.evaluate(finish(server.evaluate(client.evaluate(b"")))))))
    assert len(signatures) == 2


def test_an_unknown_user_gets_a_salt_and_fails_at_the_proof() -> None:
    answers = []
    for user in ("mallory", "mallory", "trent", USER):
        client, server = ScramClient(SHA_256, user, "guess", "nonce"), server_of()
        challenge = finish(server.evaluate(client.evaluate(b"")))
        with pytest.raises(AuthenticationError) as caught:
            finish(server.evaluate(client.evaluate(challenge)))
        assert caught.value.response_message is None
        answers.append(challenge.split(b",", 1)[1])
    assert answers[0] == answers[1] != answers[2]
    assert {answer.rpartition(b",")[2] for answer in answers} == {b"i=4096"}
    salt = b64decode(answers[0].split(b",")[0].removeprefix(b"s="))
    assert len(salt) == SALT_BYTES


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("y,,n=alice,r=x", "malformed"),
        ("p=tls-unique,,n=alice,r=x", "malformed"),
        ("n,,m=ext,n=alice,r=x", "malformed"),
        ("n,,n=al=ice,r=x", "malformed"),
        ("n,,n=,r=x", "malformed"),
        ("n,,n=alice,r=", "malformed"),
        ("n,,n=alice,r=with blank", "malformed"),
        ("n,,n=alice", "malformed"),
        ("n,a=bob,n=alice,r=x", "authorization id"),
        ("n,,n=al\0ice,r=x", "malformed"),
        ("", "malformed"),
    ],
)
def test_a_first_message_that_is_not_permitted(first: str, reason: str) -> None:
    with pytest.raises(AuthenticationError, match=reason):
        finish(server_of().evaluate(first.encode()))


def test_a_first_message_with_extensions_and_authorization_id() -> None:
    assert finish(server_of().evaluate(b"n,a=alice,n=alice,r=x,ext=1,other=a=b")).startswith(b"r=x")
    with pytest.raises(AuthenticationError):
        finish(server_of().evaluate(b"n,,n=\xff,r=x"))


@pytest.mark.parametrize("binding", ["eSws", "biw=", ""])
def test_another_channel_binding_than_the_first_message_s_is_rejected(binding: str) -> None:
    server, client = server_of(), ScramClient(SHA_256, USER, PASSWORD, "nonce")
    last = client.evaluate(finish(server.evaluate(client.evaluate(b""))))
    with pytest.raises(AuthenticationError, match=r"channel binding|malformed"):
        finish(server.evaluate(last.replace(b"c=biws", f"c={binding}".encode())))


def last_message_of_old_librdkafka(nonce: str, challenge: bytes) -> bytes:
    """Return the last message of a client that repeats its nonce."""
    fields = dict(each.split("=", 1) for each in challenge.decode().split(","))
    unproven = f"c=biws,r={nonce}{fields['r']}"
    auth_message = f"n={USER},r={nonce},{challenge.decode()},{unproven}".encode()
    salted = salted_password(SHA_256, PASSWORD.encode(), b64decode(fields["s"]), int(fields["i"]))
    key = keyed_hash(SHA_256, salted, b"Client Key")
    proof = exclusive_or(key, keyed_hash(SHA_256, plain_hash(SHA_256, key), auth_message))
    return f"{unproven},p={b64encode(proof).decode()}".encode()


def test_a_client_that_repeats_its_nonce_is_accepted_and_logged_once(log_lines: list[str]) -> None:
    shared = scram_servers()
    for _ in range(2):
        server = ScramServer(SHA_256, shared)
        challenge = finish(server.evaluate(f"n,,n={USER},r=abc".encode()))
        assert finish(server.evaluate(last_message_of_old_librdkafka("abc", challenge))).startswith(b"v=")
        assert server.principal == Principal("User", USER)
    assert len([line for line in log_lines if "repeats its SCRAM nonce" in line]) == 1


def test_another_nonce_than_the_server_s_is_rejected() -> None:
    for change in (b"x", b"abcabc"):
        server, client = server_of(), ScramClient(SHA_256, USER, PASSWORD, "abc")
        last = client.evaluate(finish(server.evaluate(client.evaluate(b""))))
        with pytest.raises(AuthenticationError, match="nonce differs"):
            finish(server.evaluate(last.replace(b"r=", b"r=" + change, 1)))


def test_a_credential_with_too_few_iterations_is_rejected() -> None:
    store = Store()
    store.users = {(SHA_256, USER): credential(SHA_256, PASSWORD, 4095)}
    with pytest.raises(AuthenticationError, match="4095 iterations"):
        finish(server_of(store=store).evaluate(b"n,,n=alice,r=x"))


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "does not extend"),
        (b"r=nonce,s=c2FsdA==,i=4096", "does not extend"),
        (b"r=nonce1,s=c2FsdA==,i=4095", "4095 SCRAM iterations"),
        (b"r=nonce1,s=c2FsdA==,i=999999999", "999999999 SCRAM iterations"),
        (b"r=nonce1,s=c2FsdA==,i=99999999999", "malformed"),
        (b"m=x,r=nonce1,s=c2FsdA==,i=4096", "malformed"),
        (b"r=nonce1,s=!,i=4096", "malformed"),
    ],
)
def test_a_client_rejects_a_wrong_challenge(challenge: bytes, reason: str) -> None:
    client = ScramClient(SHA_256, USER, PASSWORD, "nonce")
    client.evaluate(b"")
    with pytest.raises(AuthenticationError, match=reason):
        client.evaluate(challenge)


def test_a_client_reports_the_error_of_the_server() -> None:
    client = ScramClient(SHA_256, USER, PASSWORD, "nonce")
    client.evaluate(finish(server_of().evaluate(client.evaluate(b""))))
    with pytest.raises(AuthenticationError, match="invalid-proof"):
        client.evaluate(b"e=invalid-proof")
    assert not client.is_complete


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_delegation_token_authenticates_its_owner(mechanism: ScramMechanism) -> None:
    server = server_of(mechanism)
    exchange(server, ScramClient(mechanism, TOKEN_ID, TOKEN_PASSWORD, "nonce", is_token=True))
    assert server.principal == OWNER
    assert server.principal is not None
    assert server.principal.token_authenticated
    assert server.expires_at_ms == WALL_MS + 60_000


@pytest.mark.parametrize(
    ("name", "password", "is_token"),
    [
        (TOKEN_ID, TOKEN_PASSWORD, False),
        (TOKEN_ID, PASSWORD, True),
        (USER, PASSWORD, True),
        ("no-token", TOKEN_PASSWORD, True),
    ],
)
def test_a_token_is_no_user_and_a_user_no_token(name: str, password: str, is_token: bool) -> None:
    server = server_of()
    with pytest.raises(AuthenticationError):
        exchange(server, ScramClient(SHA_256, name, password, "nonce", is_token=is_token))
    assert server.principal is None


def test_a_message_after_the_last_one_is_rejected() -> None:
    server, client = server_of(), ScramClient(SHA_256, USER, PASSWORD, "nonce")
    exchange(server, client)
    with pytest.raises(AuthenticationError):
        finish(server.evaluate(b"n,,n=alice,r=x"))


def test_secrets_are_not_shown() -> None:
    shared = scram_servers()
    assert "secret" not in repr(shared)
    shown = repr(credential(SHA_256, PASSWORD))
    assert "salt" not in shown
    assert "key" not in shown
