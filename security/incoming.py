"""TLS and SASL of a listener, and the principal of the node itself, made of a node's settings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import scrypt

from cryptography.hazmat.primitives.serialization import Encoding

from kvorum.runtime.config import Settings
from kvorum.security.credentials import CredentialStore
from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.outgoing import (
    SCRAM_MECHANISMS,
    NewNonce,
    check_mechanism,
    login_module,
    login_user,
    tls_settings,
)
from kvorum.security.principal import USER, Principal
from kvorum.security.sasl.authenticator import EnabledMechanism, SaslConfig
from kvorum.security.sasl.mechanism import SaslServer
from kvorum.security.sasl.plain import PlainServer, PlainUsers
from kvorum.security.sasl.scram import ScramServer, ScramServers
from kvorum.security.settings import JAAS, ListenerSettings
from kvorum.security.tls.server import TlsServer

ENABLED = "sasl.enabled.mechanisms"
TOKEN_SECRET = "delegation.token.secret.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """The parts that the mechanisms of a node's listeners share."""

    credentials: CredentialStore
    wall_ms: Callable[[], int]
    new_nonce: NewNonce
    secret: bytes = field(repr=False)
    """Determines the salts of unknown users."""


def authentication(
    settings: Settings, credentials: CredentialStore, wall_ms: Callable[[], int], new_nonce: NewNonce
) -> Authentication:
    """Return what the mechanisms of a node's listeners use."""
    secret = shared_secret(settings, new_nonce().encode())
    return Authentication(credentials=credentials, wall_ms=wall_ms, new_nonce=new_nonce, secret=secret)


def tls_server(settings: ListenerSettings, *, is_dialled: bool) -> TlsServer | None:
    """Return TLS of a listener, None without; `is_dialled`: nodes of the cluster connect to it.

    Raises ConfigError: one line.
    """
    if not settings.is_tls:
        return None
    try:
        return TlsServer(tls_settings(settings, verify_own_chain=is_dialled))
    except SecurityConfigError as error:
        raise settings.error(error.key, error.reason) from None


def own_principal(settings: ListenerSettings, mechanism: str, tls: TlsServer | None) -> Principal | None:
    """Return the principal that this node has at a listener of other nodes. Raises ConfigError."""
    if settings.is_sasl:
        return Principal(USER, login_user(settings, mechanism)[0])
    if tls is None or tls.stores.key_store is None or not settings.is_authenticated:
        return None
    leaf = tls.stores.key_store.chain[0]
    try:
        return tls.principal_of(leaf.public_bytes(Encoding.DER))
    except AuthenticationError as error:
        raise settings.error("ssl.principal.mapping.rules", f"of this node's own certificate: {error}") from None


def sasl_config(settings: ListenerSettings, uses: Authentication) -> SaslConfig | None:
    """Return SASL of a listener, None without. Raises ConfigError: one line."""
    if not settings.is_sasl:
        return None
    if not settings.mechanisms:
        raise settings.error(
            ENABLED, f"listener {settings.listener} needs at least one mechanism, such as SCRAM-SHA-512"
        )
    scram = ScramServers(store=uses.credentials, secret=uses.secret, new_nonce=uses.new_nonce)
    mechanisms = [
        EnabledMechanism(
            mechanism,
            new_server(settings, mechanism, scram),
            max_reauth_ms=settings.int("connections.max.reauth.ms", mechanism),
        )
        for mechanism in settings.mechanisms
    ]
    return SaslConfig(
        mechanisms=tuple(mechanisms),
        wall_ms=uses.wall_ms,
        failure_delay_ms=settings.int("connection.failed.authentication.delay.ms"),
        receive_bytes_max=settings.settings.int("sasl.server.max.receive.size"),
    )


def new_server(settings: ListenerSettings, mechanism: str, scram: ScramServers) -> Callable[[], SaslServer]:
    """Return what makes the server of one exchange. Raises ConfigError."""
    check_mechanism(settings, ENABLED, mechanism)
    found = SCRAM_MECHANISMS.get(mechanism)
    if found is not None:
        if settings.optional_str(JAAS, mechanism) is not None:
            login_module(settings, mechanism)  # of this node as a client; users are in the metadata
        return partial(ScramServer, found, scram)
    users = PlainUsers(login_module(settings, mechanism).options)
    return partial(PlainServer, users)


def shared_secret(settings: Settings, fallback: bytes) -> bytes:
    """Return a secret that all nodes of the cluster have, made of those in their configuration; else the fallback.

    It takes some 50 ms: what clients see of it must not serve to try passwords.
    """
    texts = sorted(_secrets(settings))
    return scrypt("\0".join(texts).encode(), salt=b"unknown users", n=1 << 14, r=8, p=1) if texts else fallback


def _secrets(settings: Settings) -> Iterator[str]:
    for key, entry in settings.explicit().items():
        if key.endswith(JAAS) or key == TOKEN_SECRET:
            yield entry.text
