"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) without channel binding, and delegation tokens (KIP-48).

An unknown user gets a salt as every user has one, the same at each attempt, and fails at the proof: names cannot be
probed. The messages of the exchange are hashed as they were sent. Clients with librdkafka before 2.6.1 repeat their
nonce in the last message; that is accepted, with a log line: the proof covers it.

Source: Kafka's ScramSaslServer, ScramMessages. Unlike there, `c=` is checked and names may be other than ASCII.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from kvorum.runtime.logs import get_logger
from kvorum.security.credentials import ITERATIONS_MIN, CredentialStore, ScramCredential, ScramMechanism
from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import USER, Principal
from kvorum.security.scram_keys import SALT_BYTES, salted_password

CLIENT_ITERATIONS_MAX: Final = 65_536
"""A server cannot make its client compute for longer. Kafka's servers have at most 16384."""
TOKEN_EXTENSION: Final = "tokenauth"
GS2_HEADER: Final = "n,,"

_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\0,]+)*"
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^\0=,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")

log = get_logger("security")


@dataclass(slots=True, kw_only=True)
class ScramServers:
    """Shared state of the exchanges of a listener."""

    store: CredentialStore
    secret: bytes = field(repr=False)
    """Determines the salts of unknown users; the same on all nodes of the cluster, and after a restart."""
    new_nonce: Callable[[], str]
    """Random and printable, without a comma: chance.new_nonce."""
    is_doubled_nonce_logged: bool = False

    def fake_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return the credential of an unknown user: no proof fits it."""
        data = hmac.digest(self.secret, f"{mechanism.mechanism_name},{user}".encode(), mechanism.hash_name)
        return ScramCredential(data[:SALT_BYTES], data, data, ITERATIONS_MIN)


class ScramServer:
    """The server's side."""

    __slots__ = (
        *("_auth_message", "_credential", "_header", "_is_known", "_mechanism", "_nonces", "_owner", "_shared"),
        *("expires_at_ms", "principal"),
    )

    def __init__(self, mechanism: ScramMechanism, shared: ScramServers) -> None:
        """Wait for the client's first message."""
        self._mechanism = mechanism
        self._shared = shared
        self._credential: ScramCredential | None = None
        self._is_known = False
        self._header = ""
        self._nonces: tuple[str, str] = ("", "")
        self._auth_message = ""
        self._owner: Principal
        self.principal: Principal | None = None
        self.expires_at_ms: int | None = None

    async def evaluate(self, token: bytes) -> bytes:
        """Process the client's first or last message."""
        if self.principal is not None:
            raise AuthenticationError("SCRAM message after the last one")
        if self._credential is None:
            return self._first(token)
        return self._final(token, self._credential)

    def _first(self, token: bytes) -> bytes:
        message = _parse(CLIENT_FIRST, token, "client's first message")
        user = message["user"].replace("=2C", ",").replace("=3D", "=")
        authorization_id = (message["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization_id not in ("", user):
            text = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationError(text, text)
        self._owner = Principal(USER, user)
        extensions = dict(each.split("=", 1) for each in message["extensions"].split(",")[1:])
        credential = self._find(user, by_token=extensions.get(TOKEN_EXTENSION, "").lower() == "true")
        self._is_known = credential is not None
        self._credential = credential = credential or self._shared.fake_credential(self._mechanism, user)
        if credential.iterations < ITERATIONS_MIN:
            raise AuthenticationError(
                f"{credential.iterations} iterations of user {user!r}: fewer than {ITERATIONS_MIN}"
            )
        self._header = message["header"]
        nonce = message["nonce"] + self._shared.new_nonce()
        self._nonces = nonce, message["nonce"] + nonce
        answer = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._auth_message = f"{message['bare']},{answer}"
        return answer.encode()

    def _find(self, name: str, *, by_token: bool) -> ScramCredential | None:
        if not by_token:
            return self._shared.store.scram_credential(self._mechanism, name)
        found = self._shared.store.token_credential(self._mechanism, name)
        if found is None:
            return None
        self._owner = replace(found.owner, token_authenticated=True)
        self.expires_at_ms = found.expires_at_ms
        return found.credential

    def _final(self, token: bytes, credential: ScramCredential) -> bytes:
        message = _parse(CLIENT_FINAL, token, "client's last message")
        if b64decode(message["binding"]) != self._header.encode():
            raise AuthenticationError("SCRAM channel binding differs from the first message")
        nonce, doubled_nonce = self._nonces
        if message["nonce"] not in (nonce, doubled_nonce):
            raise AuthenticationError("SCRAM nonce differs from the server's")
        auth_message = f"{self._auth_message},{message['unproven']}".encode()
        if not self._is_proven(credential, auth_message, b64decode(message["proof"])):
            reason = "wrong password of user" if self._is_known else "unknown user"
            raise AuthenticationError(f"{reason} {self._owner.name!r}")
        if message["nonce"] == doubled_nonce:
            self._log_doubled_nonce()
        self.principal = self._owner
        signature = keyed_hash(self._mechanism, credential.server_key, auth_message)
        return b"v=" + b64encode(signature)

    def _is_proven(self, credential: ScramCredential, auth_message: bytes, proof: bytes) -> bool:
        signature = keyed_hash(self._mechanism, credential.stored_key, auth_message)
        if len(proof) != len(signature):
            return False
        client_key = exclusive_or(proof, signature)
        is_equal = hmac.compare_digest(plain_hash(self._mechanism, client_key), credential.stored_key)
        return is_equal and self._is_known

    def _log_doubled_nonce(self) -> None:
        """Log it once per listener at INFO."""
        write = log.debug if self._shared.is_doubled_nonce_logged else log.info
        self._shared.is_doubled_nonce_logged = True
        write("client repeats its SCRAM nonce: librdkafka before 2.6.1, accepted", principal=self._owner)


class ScramClient:
    """The client's side."""

    __slots__ = (
        *("_bare", "_is_begun", "_nonce", "_password", "_scram", "_server_signature"),
        *("is_complete", "mechanism"),
    )

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        """Authenticate as this user, or by a delegation token: its id and the base64 of its HMAC.

        `nonce` is random and printable, without a comma.
        """
        self._scram = mechanism
        self.mechanism = mechanism.mechanism_name
        self._password = password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}" + (f",{TOKEN_EXTENSION}=true" if is_token else "")
        self._is_begun = False
        self._server_signature: bytes | None = None
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """Process the server's message; the first message needs none."""
        if not self._is_begun:
            self._is_begun = True
            return f"{GS2_HEADER}{self._bare}".encode()
        if self._server_signature is None:
            return self._prove(token)
        message = _parse(SERVER_FINAL, token, "server's last message")
        if message["error"] is not None:
            raise AuthenticationError(f"the server reports: {message['error']}")
        if not hmac.compare_digest(b64decode(message["signature"]), self._server_signature):
            raise AuthenticationError("the server does not know the password: its SCRAM signature is wrong")
        self.is_complete = True
        return b""

    def _prove(self, token: bytes) -> bytes:
        scram = self._scram
        message = _parse(SERVER_FIRST, token, "server's first message")
        if not message["nonce"].startswith(self._nonce) or message["nonce"] == self._nonce:
            raise AuthenticationError("SCRAM nonce of the server does not extend the client's")
        iterations = int(message["iterations"])
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            bounds = f"{ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX}"
            raise AuthenticationError(f"{iterations} SCRAM iterations, expected {bounds}")
        unproven = f"c={b64encode(GS2_HEADER.encode()).decode()},r={message['nonce']}"
        auth_message = f"{self._bare},{token.decode()},{unproven}".encode()
        salted = salted_password(scram, self._password.encode(), b64decode(message["salt"]), iterations)
        client_key = keyed_hash(scram, salted, b"Client Key")
        proof = exclusive_or(client_key, keyed_hash(scram, plain_hash(scram, client_key), auth_message))
        self._server_signature = keyed_hash(scram, keyed_hash(scram, salted, b"Server Key"), auth_message)
        return f"{unproven},p={b64encode(proof).decode()}".encode()


def keyed_hash(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    """Return HMAC(key, data)."""
    return hmac.digest(key, data, mechanism.hash_name)


def plain_hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    """Return H(data)."""
    return hashlib.new(mechanism.hash_name, data).digest()


def exclusive_or(left: bytes, right: bytes) -> bytes:
    """Return the bitwise difference of two texts of one length."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _parse(pattern: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    """Match a whole message. Raises AuthenticationError, without the message's content."""
    try:
        match = pattern.fullmatch(token.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise AuthenticationError(f"malformed SCRAM message: {what}")
    return match
