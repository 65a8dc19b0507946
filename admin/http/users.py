"""Users of the HTTP listeners: how a request shows its principal, and the role of a principal.

    Authorization: Basic USER:PASSWORD     a SCRAM user of the cluster
    Authorization: Bearer JWT              a token of the OAuth issuer
    Authorization: Kvorum TICKET           another process of the cluster, for its caller (security/user_tickets)
    Cookie                                 a session of the console
    a client certificate                   with ssl.client.auth, by ssl.principal.mapping.rules

The first one that is present counts. Roles are in kvorum.admin.roles: a principal without a role may do nothing.
"""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from kvorum.admin.http.http_error import HttpError
from kvorum.admin.http.sessions import Sessions
from kvorum.client.roles import Role
from kvorum.network.connection_counts import FailedAuthentications
from kvorum.runtime.logs import get_logger
from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.tokens import TokenRejected, TokenValidator
from kvorum.security.passwords import CredentialsUnavailable, PasswordChecker, TooManyChecks, strongest
from kvorum.security.principal import ANONYMOUS, USER, Principal
from kvorum.security.user_tickets import check_ticket, make_ticket, user_of

EVERYONE: Final = Principal(USER, "*")
"""Any principal that has authenticated."""
BASIC_CHARS_MAX: Final = 8_192

log = get_logger("admin")

T = TypeVar("T")


def rejected(message: str) -> HttpError:
    """Return the error of a caller that did not authenticate."""
    return HttpError(401, "UNAUTHENTICATED", message)


@contextmanager
def translate_errors(address: str) -> Iterator[None]:
    """Turn errors of authentication into HttpError, and log them; the client does not receive the reason."""
    try:
        yield
    except CredentialsUnavailable as error:
        status, name = (429, "TOO_MANY_LOGINS") if isinstance(error, TooManyChecks) else (503, "USERS_UNAVAILABLE")
        raise HttpError(status, name, str(error)) from error
    except (AuthenticationError, TokenRejected) as error:
        log.info("HTTP authentication failed", client=address, reason=error)
        message = error.response_message if isinstance(error, AuthenticationError) else None
        raise rejected(message or "authentication failed; the log of the server has the reason") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Credentials of one request."""

    authorization: str | None = field(default=None, repr=False)
    session_id: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    """Of the client, as DER; it has been verified."""
    address: str = "?"
    takes_basic_token: bool = False
    """Whether the password may be a token of the token file."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    """For the audit log: the principal, or the label of a token."""
    role: Role | None
    principal: Principal | None = None
    user: str | None = None
    """Of a SCRAM user: its name."""
    by_session: bool = False
    """Whether the browser sent a cookie by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpUsers:
    """The users of one server."""

    roles: Mapping[Principal, Role]
    passwords: PasswordChecker
    wall_ms: Callable[[], int]
    process: str = "admin"
    """Role and node id of this process, for which tickets are: `broker 1`."""
    tokens: TokenValidator | None = None
    """Of the OAuth issuer."""
    principal_of: Callable[[bytes], Principal] | None = None
    """Returns the principal of a client certificate. Raises AuthenticationError."""
    sessions: Sessions | None = None
    failures: FailedAuthentications = field(default_factory=FailedAuthentications)

    async def authenticate(self, login: Login) -> Caller:
        """Return the caller with its role, if it has one. Raises HttpError."""
        with translate_errors(login.address):
            return await self.delay_failure(login.address, self._authenticate(login))

    async def delay_failure(self, address: str, attempt: Awaitable[T]) -> T:
        """Return the result of an attempt to authenticate. Failures of one address are answered at a limited rate."""
        try:
            return await attempt
        except (AuthenticationError, TokenRejected):
            await asyncio.sleep(self.failures.delay_s(address, asyncio.get_running_loop().time()))
            raise

    async def _authenticate(self, login: Login) -> Caller:
        scheme, _, value = (login.authorization or "").partition(" ")
        match scheme.lower():
            case "":
                return await self._without_header(login)
            case "basic":
                user, password = user_and_password(value.strip())
                return await self.log_in(user, password)
            case "bearer":
                return await self._bearer(value.strip())
            case "kvorum":
                return await self._ticket(value.strip())
            case _:
                raise rejected("send Authorization: Basic or Bearer")

    async def _without_header(self, login: Login) -> Caller:
        caller = None if login.session_id is None else await self._session_user(login.session_id)
        if caller is None and login.certificate is not None and self.principal_of is not None:
            principal = self.principal_of(login.certificate)
            caller = None if principal == ANONYMOUS else self.caller(principal)
        if caller is None:
            raise rejected("authentication required: send Authorization: Basic or Bearer")
        return caller

    async def log_in(self, user: str, password: str) -> Caller:
        """Return the user with this password. Raises AuthenticationError, CredentialsUnavailable."""
        await self.passwords.check(user, password)
        return replace(self.caller(Principal(USER, user)), user=user)

    async def begin_session(self, user: str) -> str:
        """Return the id of a session of a user that has just logged in. Raises as `log_in`."""
        credential = strongest(await self.passwords.find(user))
        if credential is None:
            raise AuthenticationError(f"user {user!r} was deleted")
        assert self.sessions is not None
        return self.sessions.begin(user, credential)

    async def _session_user(self, session_id: str) -> Caller | None:
        session = None if self.sessions is None else self.sessions.find(session_id)
        if session is None or self.sessions is None:
            return None
        if strongest(await self.passwords.find(session.user)) != session.credential:
            self.sessions.end(session_id)  # another password, or the user was deleted
            return None
        return replace(self.caller(Principal(USER, session.user)), user=session.user, by_session=True)

    async def _bearer(self, token: str) -> Caller:
        if self.tokens is None:
            raise TokenRejected("unknown token, and no OAuth issuer is configured")
        return self.caller(Principal(USER, (await self.tokens(token)).principal_name))

    async def _ticket(self, text: str) -> Caller:
        user = user_of(text)
        check_ticket(text, await self.passwords.find(user), self.process, self.wall_ms())
        return replace(self.caller(Principal(USER, user)), user=user)

    async def ticket_for(self, user: str, process: str) -> str | None:
        """Return the ticket of a user for another process. Raises CredentialsUnavailable."""
        return make_ticket(user, await self.passwords.find(user), process, self.wall_ms())

    def caller(self, principal: Principal) -> Caller:
        """Return an authenticated principal with its role."""
        return Caller(str(principal), self.roles.get(principal, self.roles.get(EVERYONE)), principal)


def user_and_password(text: str) -> tuple[str, str]:
    """Read the credentials of Basic (RFC 7617, UTF-8). Raises AuthenticationError."""
    try:
        if len(text) > BASIC_CHARS_MAX:
            raise ValueError
        user, colon, password = b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        raise AuthenticationError("malformed Basic credentials") from None
    if not colon or not user:
        raise AuthenticationError("malformed Basic credentials")
    return user, password
