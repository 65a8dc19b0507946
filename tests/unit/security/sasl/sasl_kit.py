"""Users, mechanisms and frames for tests of SASL."""

from collections.abc import Coroutine
from functools import cache, partial
from typing import Any

from kvorum.protocol.api import request_header_version, response_header_version
from kvorum.protocol.codec import decode, encode_bytes, message_class
from kvorum.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kvorum.protocol.schema import Message
from kvorum.runtime.chance import new_nonce
from kvorum.security.credentials import ScramCredential, ScramMechanism, TokenCredential
from kvorum.security.oauth.tokens import TokenValidator
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import EnabledMechanism, SaslConfig
from kvorum.security.sasl.oauthbearer import OauthBearerServer
from kvorum.security.sasl.plain import PlainServer, PlainUsers
from kvorum.security.sasl.scram import ScramServer, ScramServers
from kvorum.security.scram_keys import derive_credential

USER, PASSWORD = "alice", "alice-secret"
TOKEN_ID, TOKEN_PASSWORD = "dG9rZW4", "dG9rZW4taG1hYw=="
OWNER = Principal("User", "owner")
WALL_MS = 1_700_000_000_000
SALT = b"salt-of-a-test"


@cache
def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    return derive_credential(mechanism, password.encode(), SALT, iterations)


class Store:
    """A CredentialStore with one user and one delegation token."""

    def __init__(self, token_expires_at_ms: int = WALL_MS + 60_000) -> None:
        self.users = {(mechanism, USER): credential(mechanism, PASSWORD) for mechanism in ScramMechanism}
        self.tokens = {
            (mechanism, TOKEN_ID): TokenCredential(OWNER, token_expires_at_ms, credential(mechanism, TOKEN_PASSWORD))
            for mechanism in ScramMechanism
        }

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.users.get((mechanism, user))

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        return self.tokens.get((mechanism, token_id))


def scram_servers(store: Store | None = None) -> ScramServers:
    return ScramServers(store=store or Store(), secret=b"secret of the cluster", new_nonce=new_nonce)


def sasl_config(
    store: Store | None = None, *, max_reauth_ms: int = 0, validator: TokenValidator | None = None, **options: Any
) -> SaslConfig:
    """Return PLAIN and both SCRAM mechanisms for the same user, and OAUTHBEARER with a validator."""
    shared, users = scram_servers(store), PlainUsers({f"user_{USER}": PASSWORD, "user_bob": "bobs-secret"})
    mechanisms = [EnabledMechanism("PLAIN", lambda: PlainServer(users), max_reauth_ms)]
    for mechanism in ScramMechanism:

        def new_server(mechanism: ScramMechanism = mechanism) -> ScramServer:
            return ScramServer(mechanism, shared)

        mechanisms.append(EnabledMechanism(mechanism.mechanism_name, new_server, max_reauth_ms))
    if validator is not None:
        mechanisms.append(EnabledMechanism("OAUTHBEARER", partial(OauthBearerServer, validator), max_reauth_ms))
    return SaslConfig(mechanisms=tuple(mechanisms), **({"wall_ms": lambda: WALL_MS} | options))


def request_body(message: Message, version: int, correlation_id: int = 1) -> memoryview:
    """Return a request without its length."""
    header = RequestHeader(message.API_KEY, version, correlation_id, "test")
    data = encode_request_header(header, request_header_version(message.API_KEY, version, message.FLEXIBLE_FROM))
    return memoryview(bytearray(data + encode_bytes(message, version)))


def handshake(mechanism: str = "PLAIN", version: int = 1) -> memoryview:
    return request_body(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: bytes, version: int = 2) -> memoryview:
    return request_body(SaslAuthenticateRequest(auth_bytes=token), version)


def response_of(api_key: int, version: int, frame: bytes) -> Any:
    """Read a whole response frame."""
    cls = message_class(api_key, "Response")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    view = memoryview(frame)[4:]
    correlation_id, position = decode_response_header(
        view, response_header_version(api_key, version, cls.FLEXIBLE_FROM)
    )
    assert correlation_id == 1
    return decode(cls, version, view[position:])


def answer_of(frame: bytes, version: int = 2) -> SaslAuthenticateResponse:
    response = response_of(SaslAuthenticateRequest.API_KEY, version, frame)
    assert isinstance(response, SaslAuthenticateResponse)
    return response


def finish(step: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that does not suspend."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("suspended")


def plain_token(user: str = USER, password: str = PASSWORD, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()
