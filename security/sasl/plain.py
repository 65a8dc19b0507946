"""PLAIN (RFC 4616): one token, `authzid NUL user NUL password`. Source: Kafka's PlainSaslServer.

Passwords are checked by a PasswordVerifier: the users of the JAAS text (`user_NAME="password"`), or a callable of the
user (verifier.py).
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import USER, Principal

MECHANISM: Final = "PLAIN"
USER_PREFIX: Final = "user_"
TOKENS_MAX: Final = 4
"""Tokens that are counted for the error."""

PasswordVerifier: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Returns whether the password is the user's: (user, password). Raises AuthenticationError if that is unknown."""


class PlainUsers:
    """The users of a JAAS text: a PasswordVerifier in constant time."""

    __slots__ = ("_passwords",)

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take the options of PlainLoginModule."""
        self._passwords = {
            key.removeprefix(USER_PREFIX): password.encode()
            for key, password in options.items()
            if key.startswith(USER_PREFIX)
        }

    async def __call__(self, user: str, password: str) -> bool:
        """Return whether the password is the user's."""
        expected = self._passwords.get(user)
        # An unknown user costs the same comparison.
        is_equal = hmac.compare_digest(password.encode(), b"" if expected is None else expected)
        return is_equal and expected is not None


class PlainServer:
    """The server's side."""

    __slots__ = ("_verify", "principal")

    expires_at_ms: Final = None

    def __init__(self, verify: PasswordVerifier) -> None:
        """Check passwords with `verify`."""
        self._verify = verify
        self.principal: Principal | None = None

    async def evaluate(self, token: bytes) -> bytes:
        """Process the only token."""
        parts = token.decode(errors="replace").split("\0", TOKENS_MAX - 1)
        if len(parts) != 3:
            raise AuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise _rejected("username not specified")
        if not password:
            raise _rejected("password not specified")
        if not await self._verify(user, password):
            raise _rejected("Invalid username or password", f": user {user!r}")
        if authorization_id not in ("", user):
            raise _rejected("Client requested an authorization id that is different from username")
        self.principal = Principal(USER, user)
        return b""


def _rejected(reason: str, detail: str = "") -> AuthenticationError:
    text = f"Authentication failed: {reason}"
    return AuthenticationError(text + detail, text)


class PlainClient:
    """The client's side."""

    __slots__ = ("_password", "_user", "is_complete")

    mechanism = MECHANISM

    def __init__(self, user: str, password: str) -> None:
        """Authenticate as this user."""
        self._user = user
        self._password = password
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """Return the only token."""
        self.is_complete = True
        return f"\0{self._user}\0{self._password}".encode()
