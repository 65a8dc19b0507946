"""Targets of the fuzzer of security: tokens, states, records and files of peers that have no credentials.

No input has a valid credential: the passwords and keys of the server are never among the bytes that are mutated. A
completed authentication is a broken promise.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12

from kvorum.network.connection_counts import UNLIMITED, ConnectionCounts
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kvorum.security.credentials import ScramMechanism
from kvorum.security.errors import SecurityConfigError
from kvorum.security.jaas import JaasError, parse_jaas
from kvorum.security.oauth.jwks import KeySet
from kvorum.security.oauth.signed import ClaimRules, SignedValidator
from kvorum.security.oauth.tokens import TokenRejected, decode_base64
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import EnabledMechanism, Next, SaslConfig, SaslServerAuthenticator, State
from kvorum.security.sasl.scram import ScramClient, ScramServer, ScramServers
from kvorum.security.tls.settings import PEM, KeyStoreSettings, TlsSettings, TrustStoreSettings
from kvorum.security.tls.stores import KEYSTORE, _open_pkcs12, load_stores
from tests.tls_certificates import chain_pem, client_tls, issued, pkcs8, server_tls
from tests.unit.fuzz.targets import Connections, empty_response, frames_of, kind_of
from tests.unit.network.test_tls_transport import Recorder, Side
from tests.unit.security.oauth.oauth_kit import key_set, signed, signing_key
from tests.unit.security.sasl.sasl_kit import (
    PASSWORD,
    USER,
    WALL_MS,
    Store,
    authenticate,
    finish,
    handshake,
    plain_token,
    sasl_config,
)

NOW_S = 1_000.0
REPLY_BYTES_MAX = 1 << 20
ALGORITHMS = ("ES256", "EdDSA", "RS256")
VALID_TOKENS = tuple(signed(algorithm=algorithm) for algorithm in ALGORITHMS)
FORGED_TOKEN = signed(key=signing_key("ES256", 1), kid="ES256-0")
"""Signed with another key."""


class IssuerKeys:
    """Keys of an issuer that never change."""

    issuer = None

    def __init__(self) -> None:
        self.present = KeySet.parse(key_set(*(signing_key(each) for each in ALGORITHMS)))

    def report_missing(self, key_id: str) -> None:
        """Nothing is fetched."""


VALIDATOR = SignedValidator(IssuerKeys(), ClaimRules(), lambda: WALL_MS)


SCRAM = ScramServers(store=Store(), secret=b"secret", new_nonce=lambda: "nonce-of-the-server")
"""With a constant nonce, so that proofs of inputs are made for it."""


def fuzz_config(**options: Any) -> SaslConfig:
    """Return PLAIN, SCRAM and OAUTHBEARER."""
    config = sasl_config(validator=VALIDATOR, max_reauth_ms=60_000, **options)
    servers = [
        EnabledMechanism(each.mechanism_name, partial(ScramServer, each, SCRAM), 60_000) for each in ScramMechanism
    ]
    others = [each for each in config.mechanisms if not each.name.startswith("SCRAM")]
    return replace(config, mechanisms=(*others, *servers))


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
BEGINNINGS = (
    (),
    *((handshake(mechanism, version),) for mechanism in MECHANISMS for version in (0, 1)),
)
"""Frames before the input: each state of the authenticator. `again`: the same on an authenticated connection."""


def authenticator_in(number: int) -> SaslServerAuthenticator:
    """Return an authenticator in one of its states; a third of them has a session, with its password."""
    made = SaslServerAuthenticator(fuzz_config())
    beginning = BEGINNINGS[number % len(BEGINNINGS)]
    if number % 3 == 0:
        for frame in (handshake("PLAIN"), authenticate(plain_token())):
            finish(made.receive(frame, 0.0, WALL_MS))
    for frame in beginning:
        finish(made.receive(frame, NOW_S, WALL_MS))
    return made


def sasl(data: bytes) -> str:
    """Give frames to an authenticator; the first byte chooses its state.

    Promise: only ProtocolError is raised; no session begins or changes; replies are small; a failure is final.
    """
    authenticator = authenticator_in(data[0] if data else 0)
    session, outcomes = authenticator.session, [authenticator.state.name]
    for frame in frames_of(data[1:]):
        has_failed = authenticator.state is State.FAILED
        try:
            step = finish(authenticator.receive(memoryview(bytearray(frame)), NOW_S, WALL_MS))
        except ProtocolError as error:
            outcomes.append(kind_of(error))
            break
        assert not has_failed, "a frame after a failure was processed"
        assert authenticator.session is session and step.next is not Next.COMPLETE, "authenticated without a credential"
        assert step.next is not Next.ROUTE or session or frame[:2] == b"\0\x12", "handled before authentication"
        assert len(step.reply) <= REPLY_BYTES_MAX
        outcomes.append(f"{step.next.name} {kind_of(Exception(step.reason))}")
    return " ".join(outcomes[:3])[:160]


def only_versions(ctx: Any, request: Any) -> Any:
    """Handle ApiVersions only. Raises AssertionError."""
    assert request.API_KEY == ApiKey.API_VERSIONS, f"{type(request).__name__} was handled without authentication"
    assert ctx.principal == Principal("User", "ANONYMOUS")
    return empty_response(ctx, request)


class SaslConnections(Connections):
    """Connections to a listener with SASL."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer failures at once."""
        super().__init__(loop, only_versions, sasl=fuzz_config(failure_delay_ms=0))
        counts = ConnectionCounts()
        counts.failures.per_second = UNLIMITED
        self.shared.counts = counts

    def _check(self, data: bytes, written: bytes) -> str:
        """Answers are whole; bare tokens have no correlation id."""
        answers = frames_of(written)
        assert sum(len(answer) + 4 for answer in answers) == len(written), "an answer was cut"
        assert len(answers) <= len(frames_of(data))
        return str(min(len(answers), 4))


CLIENT = client_tls()
SERVER = server_tls()


async def tls(data: bytes) -> str:
    """Send bytes to a server's TLS layer, in place of a client; an odd first byte: after the handshake.

    Promise: nothing is raised; the protocol gets no byte; a failure ends the connection.
    """
    server = Side(SERVER.context, Recorder())
    if data and data[0] % 2:
        client = Side(CLIENT.context, Recorder(), "localhost")
        for _ in range(4):
            server.receive(taken(client))
            client.receive(taken(server))
        assert server.events == ["completed"]
    for start in range(1, len(data), 700):
        server.receive(data[start : start + 700])
    received, events = bytes(server.protocol.received), server.events
    assert received == b"", "forged bytes were delivered"
    assert len(server.socket.sent) <= REPLY_BYTES_MAX
    failed = [event for event in events if event.startswith("failed")]
    assert len(failed) <= 1 and (not failed or server.socket.closed), "a failed connection stays open"
    is_open = "completed" in events
    server.transport.connection_lost(None)
    return f"tls {is_open} {kind_of(Exception(*failed))} {server.socket.closed}"


def taken(side: Side) -> bytes:
    """Take what a side has sent."""
    data = bytes(side.socket.sent)
    side.socket.sent.clear()
    return data


def jwt(data: bytes) -> str:
    """Validate a token. Promise: only TokenRejected is raised; only what the issuer signed is valid."""
    token = data.decode("latin-1")
    try:
        finish(VALIDATOR(token))
    except TokenRejected as error:
        return kind_of(error)
    content, _, signature = token.rpartition(".")
    originals = {each.rpartition(".")[0]: each.rpartition(".")[2] for each in VALID_TOKENS}
    assert content in originals, "the content of a valid token was changed"
    assert decode_base64(signature) == decode_base64(originals[content]), "the signature of a valid token was changed"
    return "valid"


JAAS_TEXTS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="planted" user_bob=x;',
    "org.apache.kafka.common.security.scram.ScramLoginModule REQUIRED // comment\n username='a\\u0041\\101' /* c */;",
    'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="kafka/h@R";',
)


def jaas(data: bytes) -> str:
    """Read a JAAS text. Promise: only JaasError is raised, in one line and without the planted password."""
    text = data.decode("utf-8", "replace")
    try:
        module = parse_jaas(text)
    except JaasError as error:
        assert "\n" not in str(error) and "planted" not in str(error)
        return kind_of(error)
    return f"jaas {module.flag.name} {min(len(module.options), 3)}"


LEAF = issued("localhost")
PEM_TEXT = pkcs8(LEAF) + chain_pem(LEAF)


def pem(data: bytes) -> str:
    """Load a key store and a trust store in PEM. Promise: only SecurityConfigError is raised, in one line."""
    text = data.decode("latin-1")
    keys = KeyStoreSettings(type=PEM, key=text, certificate_chain=text)
    try:
        load_stores(TlsSettings(key_store=keys, trust_store=TrustStoreSettings(type=PEM, certificates=text)))
    except SecurityConfigError as error:
        assert "\n" not in str(error)
        return kind_of(error)
    return "pem read"


def make_pkcs12() -> bytes:
    """Return a store without encryption: damaged numbers of iterations would take minutes."""
    key = load_pem_private_key(pkcs8(LEAF).encode(), None)
    certificate = x509.load_pem_x509_certificate(LEAF.cert_chain_pems[0].bytes())
    return pkcs12.serialize_key_and_certificates(b"node", key, certificate, None, NoEncryption())  # type: ignore[arg-type]


def pkcs12_store(data: bytes) -> str:
    """Open a store in PKCS12. Promise: only SecurityConfigError is raised, in one line."""
    try:
        found = _open_pkcs12(data, None, "store.p12", KEYSTORE)
    except SecurityConfigError as error:
        assert "\n" not in str(error)
        return kind_of(error)
    return f"pkcs12 {found.key is not None} {found.cert is not None}"


def scram_frames(mechanism: ScramMechanism, first_nonce: str) -> list[memoryview]:
    """Return the frames of an exchange whose proof is of another password."""
    client = ScramClient(mechanism, USER, PASSWORD + "?", first_nonce)
    server = SaslServerAuthenticator(fuzz_config())
    finish(server.receive(handshake(mechanism.mechanism_name), NOW_S, WALL_MS))
    first = authenticate(client.evaluate(b""), 0)
    step = finish(server.receive(first, NOW_S, WALL_MS))
    answer = decode(SaslAuthenticateResponse, 0, memoryview(step.reply)[8:])
    assert isinstance(answer, SaslAuthenticateResponse)
    return [first, authenticate(client.evaluate(answer.auth_bytes), 0)]
