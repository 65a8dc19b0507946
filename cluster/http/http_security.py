"""Security of the HTTP listeners of a process, made of its settings: TLS, tokens, users.

An invalid setting is an error at the start of each process. A token file that cannot be read is an error of the admin
process only: a broker or controller starts with its pages closed (PageAccess).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvorum.admin.http.access import Access, BadTokens, HttpError, is_local, labels_of, tokens_of
from kvorum.admin.http.sessions import Sessions
from kvorum.admin.http.users import HttpUsers
from kvorum.client.roles import Role
from kvorum.network.connection_counts import FAILURE_RATE, FailedAuthentications
from kvorum.runtime.chance import new_nonce, random_bytes
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_types import parse_roles
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import HttpEndpoint
from kvorum.runtime.logs import get_logger
from kvorum.security.passwords import FindCredentials, PasswordChecker
from kvorum.security.principal import Principal
from kvorum.security.settings import (
    HTTP_LISTENER,
    HTTP_ROLES,
    NO_CLIENT_AUTH,
    http_settings,
    is_https,
    super_users,
)

if TYPE_CHECKING:
    import ssl

    from kvorum.network.store_watch import StoreWatch
    from kvorum.network.tls_acceptor import HttpTls
    from kvorum.security.oauth.key_refresh import IssuerKeys
    from kvorum.security.tls.client import ClientTls
    from kvorum.security.tls.reload import ReloadableContext

TOKENS_FILE: Final = "kvorum.admin.tokens.file"
ANONYMOUS_METRICS: Final = "kvorum.metrics.anonymous.enable"
ADMIN: Final = "admin"
SECRET_BYTES: Final = 32

log = get_logger("cluster")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token file."""

    roles: Mapping[str, Role] | None = None
    """By SHA-256; None: there is no file."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSecurity:
    """See the module. `start` once, `close` once, in one event loop."""

    access: Access
    tls: "HttpTls | None" = None
    node_tls: "ClientTls | None" = None
    """Of connections to the HTTP listeners of other processes; None: the machine's certificate authorities."""
    keys: "IssuerKeys | None" = None
    """Of the OAuth issuer."""
    stores: "StoreWatch | None" = None

    def node_context(self) -> "ssl.SSLContext | None":
        """Return the TLS context for the next connection to another process."""
        return None if self.node_tls is None else self.node_tls.context

    async def start(self) -> None:
        """Begin to watch files and keys."""
        if self.keys is not None:
            await self.keys.start(required=False)
        if self.stores is not None:
            self.stores.start()

    async def close(self) -> None:
        """Stop. Idempotent."""
        for each in (self.keys, self.stores):
            if each is not None:
                await each.close()

    def certificate_ends(self) -> list[tuple[str, float]]:
        """Return (HTTP, time) of the certificate that expires first in the key store, as seconds since 1970."""
        store = None if self.tls is None else self.tls.server.stores.key_store
        if store is None:
            return []
        return [(HTTP_LISTENER, min(each.not_valid_after_utc.timestamp() for each in store.chain))]


def http_security(
    settings: Settings,
    tokens: Tokens,
    clock: Clock,
    endpoints: Sequence[HttpEndpoint],
    find: FindCredentials,
    process: str = ADMIN,
) -> HttpSecurity:
    """Return the security of the HTTP listeners of a process (`admin`, `broker 1`). Raises ConfigError.

    `find` returns the credentials of users.
    """
    tls, node_tls, stores = _tls(settings, endpoints, is_admin=process == ADMIN)
    users, keys = _users(settings, clock, find, process, tls)
    access = Access(tokens.roles, tokens.labels, users, settings.bool(ANONYMOUS_METRICS))
    return HttpSecurity(access=access, tls=tls, node_tls=node_tls, keys=keys, stores=stores)


def _tls(
    settings: Settings, endpoints: Sequence[HttpEndpoint], *, is_admin: bool
) -> "tuple[HttpTls | None, ClientTls | None, StoreWatch | None]":
    """Return TLS of the listeners, that of connections to other processes, and what reloads both."""
    if not is_https(settings):
        return None, None, None
    # Loaded only if needed: certificates require a large library.
    from kvorum.network.store_watch import INTERVAL_KEY, StoreWatch
    from kvorum.network.tls_acceptor import HttpTls
    from kvorum.security.incoming import tls_server
    from kvorum.security.outgoing import client_tls

    http, tls = http_settings(settings), None
    contexts: list[tuple[str, ReloadableContext]] = []
    if any(each.is_tls for each in endpoints):
        server = tls_server(http, is_peer_listener=False)
        assert server is not None, "HTTP's settings have TLS"
        contexts.append((HTTP_LISTENER, server))
        tls = HttpTls(
            server=server,
            handshake_timeout_ms=settings.int("kvorum.ssl.handshake.timeout.ms"),
            handshakes_max=settings.int("kvorum.ssl.handshakes.max"),
            handshakes_per_ip_max=settings.int("kvorum.ssl.handshakes.per.ip.max"),
        )
    node_tls = client_tls(http) if is_admin else None
    if node_tls is not None:
        contexts.append((HTTP_LISTENER, node_tls))
    return tls, node_tls, StoreWatch([http], contexts, settings.int(INTERVAL_KEY))


def _users(
    settings: Settings, clock: Clock, find: FindCredentials, process: str, tls: "HttpTls | None"
) -> "tuple[HttpUsers | None, IssuerKeys | None]":
    """Return the users of a process, and the keys of the OAuth issuer. Raises ConfigError."""
    text = settings.optional_str(HTTP_ROLES)
    if text is None:
        return None, None
    # Loaded only if needed: tokens require a large library.
    from kvorum.security.incoming import http_token_validator

    http = http_settings(settings)
    validator, keys = http_token_validator(http, clock.wall_ms) or (None, None)
    has_certificates = tls is not None and http.client_auth != NO_CLIENT_AUTH
    roles = {each: Role.ADMIN for each in super_users(settings)}
    for name, role in parse_roles(text).items():
        kind, _, of_kind = name.partition(":")
        roles[Principal(kind, of_kind)] = Role[role.upper()]
    users = HttpUsers(
        roles=roles,
        passwords=PasswordChecker(
            find, random_bytes(SECRET_BYTES), settings.int("connection.failed.authentication.delay.ms")
        ),
        wall_ms=clock.wall_ms,
        process=process,
        tokens=validator,
        principal_of=tls.server.principal_of if tls is not None and has_certificates else None,
        sessions=Sessions(new_nonce, clock.monotonic_ms) if process == ADMIN else None,
        failures=FailedAuthentications(settings.int(FAILURE_RATE)),
    )
    return users, keys


def read_tokens(settings: Settings, disk: Disk) -> Tokens:
    """Return the tokens of the token file. Raises ConfigError."""
    path = settings.optional_str(TOKENS_FILE)
    if path is None:
        return Tokens()
    try:
        text = disk.read(path).decode(errors="replace")
        return Tokens(tokens_of(text), labels_of(text))
    except (OSError, BadTokens) as error:
        raise ConfigError(TOKENS_FILE, path, settings.source(TOKENS_FILE).where, str(error)) from error


@dataclass(frozen=True, slots=True)
class PageAccess:
    """Access rules of a process's pages, or why there is no access."""

    access: Access
    closed: tuple[int, str, str] | None = None
    """The status, the name of the error, and why."""

    def check_open(self) -> None:
        """Raises HttpError."""
        if self.closed is not None:
            raise HttpError(*self.closed)


def page_security(
    settings: Settings, disk: Disk, clock: Clock, endpoint: HttpEndpoint, find: FindCredentials, process: str
) -> tuple[HttpSecurity, PageAccess]:
    """Return the security of a broker or controller, and the access rules of its pages. Raises ConfigError.

    If the token file cannot be read, the pages are closed.
    """
    tokens, closed = Tokens({}), None
    try:
        tokens = read_tokens(settings, disk)
    except ConfigError as error:
        log.error("HTTP pages of this process disabled", reason=error)
        closed = (503, "TOKENS_UNREADABLE", f"{TOKENS_FILE} cannot be read: see the log, then start again")
    security = http_security(settings, tokens, clock, [endpoint], find, process)
    if not security.access.is_guarded and not is_local(endpoint.host):
        reason = f"{endpoint.url} is not loopback: without {HTTP_ROLES} or {TOKENS_FILE} only loopback is permitted"
        closed = (403, "FORBIDDEN_LISTENER", reason)
    return security, PageAccess(security.access, closed)
