"""Every request in every state of a connection, sessions, and re-authentication."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import encode_bytes, message_class
from kvorum.protocol.errors import ErrorCode, ProtocolError
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.security.credentials import ScramMechanism
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import TABLE, Action, Kind, Next, SaslServerAuthenticator, State, Step
from kvorum.security.sasl.authenticator import _illegal_state as illegal_state
from kvorum.security.sasl.scram import ScramClient
from tests.unit.security.sasl.sasl_kit import (
    OWNER,
    PASSWORD,
    TOKEN_ID,
    TOKEN_PASSWORD,
    USER,
    WALL_MS,
    Store,
    answer_of,
    authenticate,
    finish,
    handshake,
    plain_token,
    request_body,
    response_of,
    sasl_config,
)

ILLEGAL_SASL_STATE = ErrorCode.ILLEGAL_SASL_STATE
NOW_S = 1000.0
SOFTWARE: dict[str, Any] = {"client_software_name": "test", "client_software_version": "1"}


def with_version(frame: memoryview, version: int) -> memoryview:
    frame[2:4] = version.to_bytes(2, "big")
    return frame


REQUESTS: dict[str, Callable[[], memoryview]] = {
    "ApiVersions": lambda: request_body(ApiVersionsRequest(**SOFTWARE), 3),
    "ApiVersions v0": lambda: request_body(ApiVersionsRequest(), 0),
    "ApiVersions without software": lambda: request_body(ApiVersionsRequest(), 3),
    "ApiVersions v9": lambda: with_version(request_body(ApiVersionsRequest(**SOFTWARE), 3), 9),
    "SaslHandshake": lambda: handshake(),
    "SaslHandshake v0": lambda: handshake(version=0),
    "SaslHandshake v2": lambda: with_version(handshake(), 2),
    "SaslHandshake NONE": lambda: handshake("NONE"),
    "SaslAuthenticate": lambda: authenticate(plain_token()),
    "SaslAuthenticate v0": lambda: authenticate(plain_token(), 0),
    "SaslAuthenticate wrong": lambda: authenticate(plain_token(password="wrong")),
    "SaslAuthenticate v3": lambda: with_version(authenticate(plain_token()), 3),
    "Metadata": lambda: request_body(MetadataRequest(topics=None), 9),
    "Raft": lambda: memoryview(bytearray(b"\x27\x10" + bytes(20))),
    "GSSAPI": lambda: memoryview(bytearray(b"\x60\x82\x01\x02" + bytes(20))),
    "short": lambda: memoryview(bytearray(b"\0\x12\0")),
    "empty": lambda: memoryview(bytearray()),
}


def in_state(state: State, store: Store | None = None, **options: Any) -> SaslServerAuthenticator:
    """Return an authenticator that requests brought to this state; sessions last ten seconds."""
    authenticator = SaslServerAuthenticator(sasl_config(store, **{"max_reauth_ms": 10_000, **options}))
    before: dict[State, list[memoryview]] = {
        State.INITIAL: [],
        State.VERSIONS_SENT: [REQUESTS["ApiVersions"]()],
        State.AUTHENTICATE: [handshake()],
        State.TOKEN: [handshake(version=0)],
        State.COMPLETE: [handshake(), authenticate(plain_token())],
        State.OTHER_MECHANISM: [handshake(), authenticate(plain_token()), handshake("SCRAM-SHA-256")],
    }
    for frame in before[state]:
        receive(authenticator, frame)
    assert authenticator.state is state
    return authenticator


def receive(authenticator: SaslServerAuthenticator, frame: memoryview, now_s: float = NOW_S) -> Step:
    step = finish(authenticator.receive(frame, now_s, WALL_MS + int((now_s - NOW_S) * 1000)))
    assert isinstance(step, Step)
    return step


CLOSE = "close at once"
ILLEGAL = "34, delay, close"
OUTCOMES: dict[State, dict[str, Any]] = {
    State.INITIAL: {
        "ApiVersions": (Next.ROUTE, State.VERSIONS_SENT),
        "ApiVersions v0": (Next.ROUTE, State.VERSIONS_SENT),
        "ApiVersions without software": (Next.ROUTE, State.INITIAL),
        "ApiVersions v9": (Next.ROUTE, State.INITIAL),
        "SaslHandshake": (Next.REPLY, State.AUTHENTICATE),
        "SaslHandshake v0": (Next.REPLY, State.TOKEN),
        "SaslHandshake NONE": (Next.FAIL, State.FAILED),
    },
    State.VERSIONS_SENT: {
        "SaslHandshake": (Next.REPLY, State.AUTHENTICATE),
        "SaslHandshake v0": (Next.REPLY, State.TOKEN),
        "SaslHandshake NONE": (Next.FAIL, State.FAILED),
    },
    State.AUTHENTICATE: {
        "ApiVersions": ILLEGAL,
        "ApiVersions v0": ILLEGAL,
        "ApiVersions without software": ILLEGAL,
        "ApiVersions v9": ILLEGAL,
        "SaslHandshake": ILLEGAL,
        "SaslHandshake v0": ILLEGAL,
        "SaslHandshake NONE": ILLEGAL,
        "SaslAuthenticate": (Next.COMPLETE, State.COMPLETE),
        "SaslAuthenticate v0": (Next.COMPLETE, State.COMPLETE),
        "SaslAuthenticate wrong": (Next.FAIL, State.FAILED),
        "Metadata": (Next.FAIL, State.FAILED),
    },
    # All frames are tokens; none of these is one of PLAIN.
    State.TOKEN: dict.fromkeys(REQUESTS, (Next.FAIL, State.FAILED)),
    State.COMPLETE: {
        **dict.fromkeys(REQUESTS, (Next.ROUTE, State.COMPLETE)),
        "SaslHandshake": (Next.REPLY, State.AUTHENTICATE),
        "SaslHandshake v0": (Next.REPLY, State.TOKEN),
        "SaslHandshake NONE": (Next.FAIL, State.FAILED),
    },
    State.OTHER_MECHANISM: dict.fromkeys(REQUESTS, (Next.FAIL, State.FAILED)),
}


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", OUTCOMES)
def test_each_request_in_each_state(state: State, request_name: str) -> None:
    authenticator, frame = in_state(state), REQUESTS[request_name]()
    expected = OUTCOMES[state].get(request_name, CLOSE)
    if expected is CLOSE:
        with pytest.raises(ProtocolError):
            receive(authenticator, frame)
        return
    api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    step = receive(authenticator, frame)
    if expected is ILLEGAL:
        assert (step.next, authenticator.state) == (Next.FAIL, State.FAILED)
        answered = 0 if (api_key, version) == (ApiKey.API_VERSIONS, 9) else version
        assert response_of(api_key, answered, step.reply).error_code == ILLEGAL_SASL_STATE
    else:
        assert (step.next, authenticator.state) == expected
    assert bool(step.reason) == (step.next is Next.FAIL)
    assert authenticator.is_complete == (authenticator.state is State.COMPLETE)


def test_the_table_has_an_action_for_every_kind_in_every_state() -> None:
    assert set(TABLE) == set(State)
    assert all(set(row) == set(Kind) for row in TABLE.values())
    with pytest.raises(ProtocolError):
        authenticator = in_state(State.AUTHENTICATE)
        receive(authenticator, REQUESTS["SaslAuthenticate wrong"]())
        receive(authenticator, REQUESTS["SaslAuthenticate"]())
    unauthenticated = {State.INITIAL, State.VERSIONS_SENT, State.AUTHENTICATE, State.TOKEN, State.FAILED}
    for state in unauthenticated:
        assert TABLE[state][Kind.OTHER] not in {Action.ROUTE, Action.SERVE}


def test_the_handshake_lists_the_mechanisms() -> None:
    for mechanism, code in (("PLAIN", 0), ("plain", 33), ("", 33), ("SCRAM-SHA-512", 0)):
        reply = receive(in_state(State.INITIAL), handshake(mechanism)).reply
        response = response_of(ApiKey.SASL_HANDSHAKE, 1, reply)
        assert (response.error_code, response.mechanisms) == (code, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_completes_with_one_token(version: int) -> None:
    authenticator = in_state(State.AUTHENTICATE, max_reauth_ms=0)
    response = answer_of(receive(authenticator, authenticate(plain_token(), version)).reply, version)
    assert (response.error_code, response.error_message, response.auth_bytes) == (0, "", b"")
    assert response.session_lifetime == 0
    assert authenticator.session is not None
    assert authenticator.session.principal == Principal("User", USER)
    assert authenticator.session.expires_at_s is None
    assert authenticator.supports_sessions == (version > 0)


def test_bare_tokens_are_answered_by_bare_tokens() -> None:
    authenticator = in_state(State.TOKEN)
    step = receive(authenticator, memoryview(bytearray(plain_token())))
    assert (step.next, step.reply) == (Next.COMPLETE, b"\0\0\0\0")
    authenticator = SaslServerAuthenticator(sasl_config())
    receive(authenticator, handshake("SCRAM-SHA-256", 0))
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, USER, PASSWORD, "nonce")
    token = b""
    for expected in (Next.REPLY, Next.COMPLETE):
        step = receive(authenticator, memoryview(bytearray(client.evaluate(token))))
        assert step.next is expected
        token = step.reply[4:]
        assert int.from_bytes(step.reply[:4], "big") == len(token)
    client.evaluate(token)
    assert client.is_complete
    step = receive(in_state(State.TOKEN), memoryview(bytearray(plain_token(password="wrong"))))
    assert (step.next, step.reply) == (Next.FAIL, b"")


@pytest.mark.parametrize(
    ("mechanism", "token", "message"),
    [
        ("PLAIN", plain_token(password="wrong"), "Authentication failed: Invalid username or password"),
        (
            "PLAIN",
            b"no token",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
        ),
        (
            "SCRAM-SHA-512",
            b"no token",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
    ],
)
def test_a_failure_is_answered_with_the_message_of_the_mechanism(mechanism: str, token: bytes, message: str) -> None:
    authenticator = SaslServerAuthenticator(sasl_config())
    receive(authenticator, handshake(mechanism))
    response = answer_of(receive(authenticator, authenticate(token)).reply)
    assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def test_wrong_password_and_unknown_user_of_scram_have_the_same_answers() -> None:
    answers = set()
    for user in (USER, "mallory"):
        authenticator = SaslServerAuthenticator(sasl_config())
        receive(authenticator, handshake("SCRAM-SHA-256"))
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, user, "guess", "nonce")
        step = receive(authenticator, authenticate(client.evaluate(b"")))
        assert step.next is Next.REPLY
        last = receive(authenticator, authenticate(client.evaluate(answer_of(step.reply).auth_bytes)))
        answers.add((last.next, last.reply))
    assert len(answers) == 1


@pytest.mark.parametrize("size", [99, 100, 101])
def test_frames_before_authentication_have_a_limit(size: int) -> None:
    token = plain_token() + bytes(size - len(plain_token()))
    authenticator = in_state(State.TOKEN, receive_bytes_max=100)
    step = receive(authenticator, memoryview(bytearray(token)))
    assert step.next is Next.FAIL
    assert ("exceeds 100" in step.reason) == (size > 100)


def test_metadata_instead_of_a_token_names_the_error_at_each_topic() -> None:
    topics = [MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")]
    step = receive(in_state(State.AUTHENTICATE), request_body(MetadataRequest(topics=topics), 9))
    response = response_of(ApiKey.METADATA, 9, step.reply)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", 34), ("b", 34)]


@pytest.mark.parametrize("api_key", ApiKey)
def test_any_request_instead_of_a_token_can_be_answered(api_key: ApiKey) -> None:
    cls = message_class(api_key, "Request")
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        response = illegal_state(cls(), version)
        assert response is None or encode_bytes(response, version)


def test_an_unreadable_request_instead_of_a_token_closes() -> None:
    for frame in (request_body(MetadataRequest(), 9)[:-3], with_version(request_body(MetadataRequest(), 9), 99)):
        with pytest.raises(ProtocolError):
            receive(in_state(State.AUTHENTICATE), frame)


# Sessions


def test_a_session_ends_with_the_configured_time() -> None:
    authenticator = in_state(State.AUTHENTICATE)
    assert answer_of(receive(authenticator, authenticate(plain_token())).reply).session_lifetime == 10_000
    metadata = REQUESTS["Metadata"]()
    assert authenticator.passes(metadata, NOW_S + 9.999)
    assert not authenticator.passes(metadata, NOW_S + 10)
    assert receive(authenticator, metadata, NOW_S + 9.999).next is Next.ROUTE
    assert receive(authenticator, metadata, NOW_S + 10).next is Next.EXPIRE
    assert receive(authenticator, REQUESTS["SaslAuthenticate"](), NOW_S + 10).next is Next.EXPIRE


def test_an_unauthenticated_connection_passes_nothing() -> None:
    for state in OUTCOMES:
        for make in REQUESTS.values():
            frame = make()
            is_passed = in_state(state).passes(frame, NOW_S)
            assert is_passed == (state is State.COMPLETE and frame[:2] != b"\0\x11")


@pytest.mark.parametrize(
    ("max_reauth_ms", "left_ms", "lifetime_ms"),
    [(0, 5000, 5000), (3000, 5000, 3000), (8000, 5000, 5000), (0, 0, 0), (8000, -1, 0)],
)
def test_a_session_ends_with_the_token(max_reauth_ms: int, left_ms: int, lifetime_ms: int) -> None:
    authenticator = SaslServerAuthenticator(sasl_config(Store(WALL_MS + left_ms), max_reauth_ms=max_reauth_ms))
    receive(authenticator, handshake("SCRAM-SHA-256"))
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, TOKEN_ID, TOKEN_PASSWORD, "nonce", is_token=True)
    challenge = answer_of(receive(authenticator, authenticate(client.evaluate(b""))).reply)
    assert challenge.session_lifetime == 0
    step = receive(authenticator, authenticate(client.evaluate(challenge.auth_bytes)))
    assert step.next is Next.COMPLETE
    assert answer_of(step.reply).session_lifetime == lifetime_ms
    assert authenticator.session is not None
    assert authenticator.session.principal == OWNER
    end_s = NOW_S + lifetime_ms / 1000
    assert receive(authenticator, REQUESTS["Metadata"](), end_s).next is Next.EXPIRE
    assert lifetime_ms == 0 or authenticator.passes(REQUESTS["Metadata"](), end_s - 0.001)


# Re-authentication


def reauthenticate(
    authenticator: SaslServerAuthenticator, token: bytes, now_s: float, mechanism: str = "PLAIN"
) -> Step:
    assert receive(authenticator, handshake(mechanism), now_s).next is Next.REPLY
    return receive(authenticator, authenticate(token), now_s)


@pytest.mark.parametrize("after_s", [0.0, 5.0, 10.0, 3600.0])
def test_a_session_is_renewed_even_after_its_end(after_s: float) -> None:
    authenticator = in_state(State.COMPLETE)
    assert not authenticator.is_again
    step = reauthenticate(authenticator, plain_token(), NOW_S + after_s)
    assert step.next is Next.COMPLETE
    assert answer_of(step.reply).session_lifetime == 10_000
    assert authenticator.is_again
    assert authenticator.passes(REQUESTS["Metadata"](), NOW_S + after_s + 9.999)
    assert not authenticator.passes(REQUESTS["Metadata"](), NOW_S + after_s + 10)


def test_a_second_renewal_within_a_second_goes_to_the_router() -> None:
    authenticator = in_state(State.COMPLETE)
    assert reauthenticate(authenticator, plain_token(), NOW_S).next is Next.COMPLETE
    assert receive(authenticator, handshake(), NOW_S + 0.999).next is Next.ROUTE
    assert reauthenticate(authenticator, plain_token(), NOW_S + 1).next is Next.COMPLETE


def test_without_sessions_a_handshake_goes_to_the_router() -> None:
    authenticator = in_state(State.COMPLETE, max_reauth_ms=0)
    assert receive(authenticator, handshake()).next is Next.ROUTE


def test_other_requests_during_a_renewal_are_rejected() -> None:
    authenticator = in_state(State.COMPLETE)
    receive(authenticator, handshake())
    step = receive(authenticator, REQUESTS["ApiVersions"]())
    assert step.next is Next.FAIL
    assert response_of(ApiKey.API_VERSIONS, 3, step.reply).error_code == ILLEGAL_SASL_STATE


def test_a_renewal_must_not_change_the_principal() -> None:
    authenticator = in_state(State.COMPLETE)
    step = reauthenticate(authenticator, plain_token("bob", "bobs-secret"), NOW_S + 1)
    assert step.next is Next.FAIL
    message = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert answer_of(step.reply).error_message == message
    assert authenticator.session is not None
    assert authenticator.session.principal == Principal("User", USER)


def test_a_renewal_must_not_change_the_mechanism() -> None:
    authenticator = in_state(State.COMPLETE)
    reply = receive(authenticator, handshake("SCRAM-SHA-256")).reply
    assert response_of(ApiKey.SASL_HANDSHAKE, 1, reply).error_code == 0
    step = receive(authenticator, authenticate(b"n,,n=alice,r=x"))
    assert (step.next, step.reply) == (Next.FAIL, b"")
    assert "'SCRAM-SHA-256'" in step.reason
    assert "mechanism 'PLAIN'" in step.reason
    assert authenticator.is_again


def test_a_failed_renewal_has_its_own_message() -> None:
    store = Store()
    authenticator = SaslServerAuthenticator(sasl_config(store, max_reauth_ms=10_000))
    for mechanism_store in (store, None):
        if mechanism_store is None:
            store.users.clear()
        receive(authenticator, handshake("SCRAM-SHA-256"), NOW_S)
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, USER, PASSWORD, "nonce")
        challenge = answer_of(receive(authenticator, authenticate(client.evaluate(b"")), NOW_S).reply)
        step = receive(authenticator, authenticate(client.evaluate(challenge.auth_bytes)), NOW_S)
    assert step.next is Next.FAIL
    assert answer_of(step.reply).error_message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


@given(st.lists(st.sampled_from(sorted(REQUESTS)), max_size=8), st.floats(0, 30))
def test_no_sequence_of_requests_passes_the_router_without_a_session(requests: list[str], pause_s: float) -> None:
    authenticator, now_s = SaslServerAuthenticator(sasl_config(max_reauth_ms=10_000)), NOW_S
    for name in requests:
        frame, now_s = REQUESTS[name](), now_s + pause_s
        is_open = authenticator.session is not None and now_s < (authenticator.session.expires_at_s or 0)
        assert not authenticator.passes(frame, now_s) or (is_open and authenticator.is_complete)
        try:
            step = receive(authenticator, frame, now_s)
        except ProtocolError:
            return
        if step.next is Next.ROUTE:
            assert is_open or (name.startswith("ApiVersions") and authenticator.session is None)
        if step.next in (Next.FAIL, Next.EXPIRE):
            return


def test_tokens_are_not_shown() -> None:
    step = receive(in_state(State.AUTHENTICATE), authenticate(plain_token()))
    assert "auth" not in repr(step)
    assert PASSWORD not in repr(step)
