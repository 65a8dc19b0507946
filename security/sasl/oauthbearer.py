"""OAUTHBEARER (RFC 7628, KIP-255): one message with a bearer token.

An invalid token is answered with JSON; the client confirms it with one byte, and then fails. Source: Kafka's
OAuthBearerSaslServer, OAuthBearerClientInitialResponse. Unlike there, a scheme other than Bearer gets an answer.
"""

import re
from collections.abc import Mapping
from typing import Final

from kvorum.runtime.logs import get_logger
from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.tokens import TokenRejected, TokenValidator
from kvorum.security.principal import USER, Principal

MECHANISM: Final = "OAUTHBEARER"
SEPARATOR: Final = "\x01"
CONFIRMATION: Final = b"\x01"
ATTEMPTS_MAX: Final = 5
"""Tokens of one exchange: a client may send another one in place of the confirmation."""
FIRST_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<authzid>(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
AUTHORIZATION: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")
EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
TOKEN_KEY: Final = "auth"

log = get_logger("security")


class OauthBearerServer:
    """The server's side."""

    __slots__ = ("_attempts", "_rejection", "_validate", "expires_at_ms", "principal")

    def __init__(self, validate: TokenValidator) -> None:
        """Check tokens with `validate`."""
        self._validate = validate
        self._attempts = 0
        self._rejection: tuple[str, str] | None = None
        """The reason for the log, and the JSON that was sent to the client."""
        self.principal: Principal | None = None
        self.expires_at_ms: int | None = None

    async def evaluate(self, token: bytes) -> bytes:
        """Process a first message, or the confirmation of an error."""
        if self._rejection is not None and (token == CONFIRMATION or self._attempts == ATTEMPTS_MAX):
            raise AuthenticationError(*self._rejection)
        self._attempts += 1
        authorization_id, bearer = parse_first_message(token)
        try:
            found = await self._validate(bearer)
        except TokenRejected as rejected:
            answer = error_json(rejected)
            self._rejection = f"invalid token: {rejected}", answer
            log.info("OAUTHBEARER token rejected", reason=rejected)
            return answer.encode()
        name = found.principal_name
        if authorization_id not in ("", name):
            text = (
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is "
                f"different from the token's principal name ({name})"
            )
            raise AuthenticationError(text, text)
        self.principal = Principal(USER, name)
        self.expires_at_ms = found.expires_at_ms
        return b""


def parse_first_message(data: bytes) -> tuple[str, str]:
    """Return authorization id (empty: none) and token. Raises AuthenticationError, without the message's content."""
    match = FIRST_MESSAGE.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise AuthenticationError("malformed OAUTHBEARER message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split(SEPARATOR)[:-1])
    authorization = AUTHORIZATION.fullmatch(pairs.get(TOKEN_KEY, ""))
    if authorization is None or authorization["scheme"].lower() != "bearer":
        raise AuthenticationError("OAUTHBEARER message without a bearer token")
    return (match["authzid"] or "").replace("=2C", ",").replace("=3D", "="), authorization["token"]


def error_json(rejected: TokenRejected) -> str:
    """Return the answer to an invalid token, as Kafka writes it."""
    if rejected.missing_scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{rejected.missing_scope}"}}'


class OauthBearerClient:
    """The client's side."""

    __slots__ = ("_extensions", "_is_begun", "_token", "is_complete")

    mechanism = MECHANISM

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Authenticate by this token. Raises ValueError for an invalid extension."""
        for name, value in (extensions or {}).items():
            if name == TOKEN_KEY or not EXTENSION_NAME.fullmatch(name) or not EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"extension {name} is invalid")
        self._token = token
        self._extensions = dict(extensions or {})
        self._is_begun = False
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """Process the server's answer; the first message needs none."""
        if not self._is_begun:
            self._is_begun = True
            pairs = {TOKEN_KEY: f"Bearer {self._token}", **self._extensions}
            text = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs.items())
            return f"n,,{SEPARATOR}{text}{SEPARATOR}".encode()
        if token:
            return CONFIRMATION  # the server's next answer has the error
        self.is_complete = True
        return b""
