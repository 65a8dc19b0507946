"""Tickets: a process of the cluster acts for a user at another one, without the user's password. Sans-IO.

The admin API requests the pages of a broker or controller for its caller. Both processes know the server key of the
user's SCRAM credential, which signs the ticket. It is for one process and a short time.

    Authorization: Kvorum USER.EXPIRES.SIGNATURE      base64url, milliseconds, base64url
"""

import hmac
from typing import Final

from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.tokens import decode_base64, encode_base64
from kvorum.security.passwords import UserCredentials, strongest

SCHEME: Final = "kvorum"
LIFETIME_MS: Final = 300_000
"""The clocks of the two machines may differ by as much."""
DOMAIN: Final = b"kvorum http ticket\0"
"""No message of SCRAM, which the key signs as well, begins so."""
DIGITS_MAX: Final = 15


def make_ticket(user: str, credentials: UserCredentials, audience: str, now_ms: int) -> str | None:
    """Return the header's value for a process (`broker 1`); None if the user has no credential any more."""
    credential = strongest(credentials)
    if credential is None:
        return None
    expires_ms = now_ms + LIFETIME_MS
    signature = sign(credential.server_key, user, audience, expires_ms)
    return f"{SCHEME.capitalize()} {encode_base64(user.encode())}.{expires_ms}.{encode_base64(signature)}"


def sign(key: bytes, user: str, audience: str, expires_ms: int) -> bytes:
    """Return the signature."""
    return hmac.digest(key, DOMAIN + f"{audience}\0{user}\0{expires_ms}".encode(), "sha256")


def user_of(text: str) -> str:
    """Return the user that a ticket names; nothing is proven yet. Raises AuthenticationError."""
    try:
        return decode_base64(text.partition(".")[0]).decode()
    except ValueError:
        raise AuthenticationError("malformed ticket") from None


def check_ticket(text: str, credentials: UserCredentials, audience: str, now_ms: int) -> None:
    """Check a ticket of the user that it names, behind the scheme. Raises AuthenticationError."""
    user, (_, expires, signature) = user_of(text), [*text.split("."), "", ""][:3]
    if not (expires.isascii() and expires.isdigit() and len(expires) <= DIGITS_MAX):
        raise AuthenticationError("malformed ticket")
    credential = strongest(credentials)
    try:
        given = decode_base64(signature)
    except ValueError:
        given = b""
    if credential is None or not hmac.compare_digest(sign(credential.server_key, user, audience, int(expires)), given):
        raise AuthenticationError(f"ticket for user {user!r} has a wrong signature")
    if not now_ms < int(expires) <= now_ms + 2 * LIFETIME_MS:
        raise AuthenticationError(f"ticket for user {user!r} has expired; compare the clocks of the nodes")
