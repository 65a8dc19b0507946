"""GSSAPI (RFC 4752): Kerberos tickets. Needs the extra kvorum[kerberos].

The context is established, then the server offers "no security layer" in a wrapped message, and the client accepts it
in another. The authorization id in it is ignored, as in Kafka: the authenticated name counts. KRB5_CONFIG is respected.
A server's steps need no network; a client's first one fetches a ticket, and runs in a thread.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kvorum.protocol.errors import ProtocolError
from kvorum.security.errors import AuthenticationError
from kvorum.security.principal import USER, Principal

MECHANISM: Final = "GSSAPI"
NO_LAYER: Final = 1
OFFER: Final = bytes((NO_LAYER, 0, 0, 0))
"""No security layer; so messages have no maximum size."""
ERROR_BASE: Final = -1765328384
RETRIABLE_ERRORS: Final = frozenset(ERROR_BASE + number for number in (6, 7, 21, 33, 34))
"""Client or server unknown, client or ticket not yet valid, replay: Kafka closes, and the client tries again."""


class MissingKerberos(Exception):
    """The package gssapi is not installed."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("the package gssapi is missing: pip install 'kvorum[kerberos]' (needs libkrb5-dev and gcc)")


def load_gssapi() -> Any:
    """Return the package gssapi. Raises MissingKerberos."""
    try:
        import gssapi
        import gssapi.exceptions
    except ImportError:
        raise MissingKerberos from None
    return gssapi


class GssapiServer:
    """The server's side."""

    __slots__ = ("_context", "_gssapi", "_is_offered", "_user_of", "principal")

    expires_at_ms: Final = None

    def __init__(self, credentials: Any, user_of: Callable[[str], str]) -> None:
        """Accept with the credentials of a keytab; `user_of` maps a Kerberos principal to a user."""
        self._gssapi = load_gssapi()
        self._context = self._gssapi.SecurityContext(creds=credentials, usage="accept")
        self._user_of = user_of
        self._is_offered = False
        self.principal: Principal | None = None

    async def evaluate(self, token: bytes) -> bytes | None:
        """Process a token of the client. Raises ProtocolError if the client shall try again."""
        try:
            if not self._context.complete:
                answer = self._context.step(token)
                return self._offer() if self._context.complete and not answer else bytes(answer or b"")
            if not self._is_offered:
                if token:
                    raise AuthenticationError("GSSAPI: the client sends a token after the context is established")
                return self._offer()
            chosen = self._context.unwrap(token).message
            name = str(self._context.initiator_name)
        except self._gssapi.exceptions.GSSError as error:
            reason = f"GSSAPI: {_text_of(error)}"
            if getattr(error, "min_code", 0) in RETRIABLE_ERRORS:
                raise ProtocolError(reason) from None
            raise AuthenticationError(reason) from None
        if len(chosen) < len(OFFER) or chosen[0] != NO_LAYER:
            raise AuthenticationError("GSSAPI: the client requires a security layer")
        self.principal = Principal(USER, self._user_of(name))
        return None

    def _offer(self) -> bytes:
        self._is_offered = True
        return bytes(self._context.wrap(OFFER, False).message)


class GssapiClient:
    """The client's side."""

    __slots__ = ("_context", "_first", "_gssapi", "is_complete")

    mechanism = MECHANISM

    def __init__(self, service: str, host: str, credentials: Any) -> None:
        """Fetch a ticket for `service` at `host`: blocks. Raises AuthenticationError."""
        self._gssapi = gssapi = load_gssapi()
        name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
        self._context = gssapi.SecurityContext(name=name, creds=credentials, flags=flags, usage="initiate")
        self._first: bytes | None = self._step(None)
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """Process a token of the server."""
        first, self._first = self._first, None
        if first is not None:
            return first
        if not self._context.complete:
            return self._step(token)
        try:
            offered = self._context.unwrap(token).message
            if len(offered) != len(OFFER) or not offered[0] & NO_LAYER:
                raise AuthenticationError("GSSAPI: the server requires a security layer")
            self.is_complete = True
            return bytes(self._context.wrap(OFFER, False).message)
        except self._gssapi.exceptions.GSSError as error:
            raise AuthenticationError(f"GSSAPI: {_text_of(error)}") from None

    def _step(self, token: bytes | None) -> bytes:
        try:
            return bytes(self._context.step(token) or b"")
        except self._gssapi.exceptions.GSSError as error:
            raise AuthenticationError(f"GSSAPI: {_text_of(error)}") from None


def _text_of(error: Exception) -> str:
    """Return the text of a GSSError in one line."""
    return " ".join(str(error).split())[:500]


def accepting_credentials(principal: str, keytab: str) -> Any:
    """Return the credentials of a server. Raises ValueError with the reason, MissingKerberos."""
    return _credentials(principal, "accept", {"keytab": f"FILE:{keytab}"}, keytab)


def initiating_credentials(principal: str | None, keytab: str | None, cache: str | None) -> Any:
    """Return the credentials of a client, of a keytab or a ticket cache: blocks. Raises ValueError, MissingKerberos."""
    # A cache of the login's own: one cache holds the tickets of one principal.
    memory = f"MEMORY:kvorum {principal} {keytab}"
    store = {} if keytab is None else {"client_keytab": f"FILE:{keytab}", "ccache": memory}
    if keytab is None and cache is not None:
        store = {"ccache": f"FILE:{cache}"}
    return _credentials(principal, "initiate", store, keytab)


def _credentials(principal: str | None, usage: str, store: dict[str, str], keytab: str | None) -> Any:
    gssapi = load_gssapi()
    if keytab is not None and not Path(keytab).is_file():
        raise ValueError(f"keytab {keytab} cannot be read")
    try:
        name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, mechs=[gssapi.MechType.kerberos], usage=usage, store=store or None)
    except gssapi.exceptions.GSSError as error:
        raise ValueError(_text_of(error)) from None
