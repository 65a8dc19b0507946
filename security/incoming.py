"""TLS and SASL of a listener, and the principal of the node itself, made of a node's settings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import scrypt
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding

from kvorum.runtime.config import ConfigError, Settings
from kvorum.security.credentials import CredentialStore
from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.outgoing import (
    SCRAM_MECHANISMS,
    UNSECURED_USER,
    NewNonce,
    check_mechanism,
    login_module,
    login_user,
    oauth_options,
    tls_settings,
)
from kvorum.security.principal import USER, Principal
from kvorum.security.sasl.authenticator import EnabledMechanism, SaslConfig, SaslResource
from kvorum.security.sasl.gssapi import MECHANISM as GSSAPI
from kvorum.security.sasl.mechanism import SaslServer
from kvorum.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from kvorum.security.sasl.oauthbearer import OauthBearerServer
from kvorum.security.sasl.plain import MECHANISM as PLAIN
from kvorum.security.sasl.plain import PasswordVerifier, PlainServer, PlainUsers
from kvorum.security.sasl.scram import ScramServer, ScramServers
from kvorum.security.sasl.verifier import FunctionVerifier, load_function
from kvorum.security.settings import JAAS, ListenerSettings, PeerListener
from kvorum.security.tls.server import TlsServer

if TYPE_CHECKING:
    from kvorum.security.oauth.key_refresh import IssuerKeys
    from kvorum.security.oauth.tokens import TokenValidator

ENABLED = "sasl.enabled.mechanisms"
VERIFIER: Final = "kvorum.sasl.plain.verifier"
TOKEN_SECRET = "delegation.token.secret.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """The parts that the mechanisms of a node's listeners share."""

    credentials: CredentialStore
    wall_ms: Callable[[], int]
    new_nonce: NewNonce
    secret: bytes = field(repr=False)
    """Determines the salts of unknown users."""


def tls_server(settings: ListenerSettings, *, is_peer_listener: bool) -> TlsServer | None:
    """Return TLS of a listener, None without; `is_peer_listener`: nodes of the cluster connect to it.

    Raises ConfigError: one line.
    """
    if not settings.is_tls:
        return None
    try:
        return TlsServer(tls_settings(settings, verify_own_chain=is_peer_listener))
    except SecurityConfigError as error:
        raise settings.error(error.key, error.reason) from None


def own_principal(settings: ListenerSettings, mechanism: str, tls: TlsServer | None) -> Principal | None:
    """Return the principal that this node has at a listener of other nodes. Raises ConfigError."""
    if settings.is_sasl and mechanism == OAUTHBEARER:
        # The issuer names the user of a signed token: super.users must have it.
        name = oauth_options(settings).get(UNSECURED_USER)
        return None if name is None else Principal(USER, name)
    if settings.is_sasl and mechanism == GSSAPI:
        return own_kerberos_user(settings)
    if settings.is_sasl:
        return Principal(USER, login_user(settings, mechanism)[0])
    if tls is None or tls.stores.key_store is None or not settings.is_authenticated:
        return None
    leaf = tls.stores.key_store.chain[0]
    try:
        return tls.principal_of(leaf.public_bytes(Encoding.DER))
    except AuthenticationError as error:
        raise settings.error("ssl.principal.mapping.rules", f"of this node's own certificate: {error}") from None


def own_kerberos_user(settings: ListenerSettings) -> Principal | None:
    """Return the user of the own Kerberos principal, None if it is that of a ticket cache. Raises ConfigError."""
    from kvorum.security.kerberos import kerberos_names

    principal = login_module(settings, GSSAPI).options.get("principal")
    if principal is None:
        return None
    try:
        return Principal(USER, kerberos_names(settings, principal).user(principal))
    except AuthenticationError as error:
        raise settings.error(JAAS, str(error), GSSAPI) from None


def sasl_config(settings: ListenerSettings, uses: Authentication) -> SaslConfig | None:
    """Return SASL of a listener, None without. Raises ConfigError: one line."""
    if not settings.is_sasl:
        return None
    if not settings.mechanisms:
        raise settings.error(
            ENABLED, f"listener {settings.listener} needs at least one mechanism, such as SCRAM-SHA-512"
        )
    servers = {mechanism: new_server(settings, mechanism, uses) for mechanism in settings.mechanisms}
    return SaslConfig(
        mechanisms=tuple(
            EnabledMechanism(mechanism, server.make, settings.int("connections.max.reauth.ms", mechanism))
            for mechanism, server in servers.items()
        ),
        resources=tuple(server.resource for server in servers.values() if server.resource is not None),
        wall_ms=uses.wall_ms,
        failure_delay_ms=settings.int("connection.failed.authentication.delay.ms"),
        receive_bytes_max=settings.settings.int("sasl.server.max.receive.size"),
    )


class NewServer(NamedTuple):
    """Makes the server of one exchange."""

    make: Callable[[], SaslServer]
    resource: SaslResource | None = None
    """A task that must be started before."""


def new_server(settings: ListenerSettings, mechanism: str, uses: Authentication) -> NewServer:
    """Return what makes the server of one exchange. Raises ConfigError."""
    check_mechanism(settings, ENABLED, mechanism)
    if mechanism == PLAIN:
        return NewServer(partial(PlainServer, password_verifier(settings)))
    if mechanism == OAUTHBEARER:
        return oauth_server(settings, uses)
    if mechanism == GSSAPI:
        from kvorum.security.kerberos import gssapi_server

        return NewServer(gssapi_server(settings, login_module(settings, mechanism).options))
    if settings.optional_str(JAAS, mechanism) is not None:
        login_module(settings, mechanism)  # of this node as a client; users are in the metadata
    scram = ScramServers(store=uses.credentials, secret=uses.secret, new_nonce=uses.new_nonce)
    return NewServer(partial(ScramServer, SCRAM_MECHANISMS[mechanism], scram))


def password_verifier(settings: ListenerSettings) -> PasswordVerifier:
    """Return the verifier of PLAIN: the users of the JAAS text, or the user's own. Raises ConfigError."""
    text = settings.optional_str(VERIFIER, PLAIN)
    if text is None:
        return PlainUsers(login_module(settings, PLAIN).options)
    try:
        function = load_function(text)
    except ValueError as error:
        raise settings.error(VERIFIER, str(error), PLAIN) from None
    return FunctionVerifier(function, settings.int(f"{VERIFIER}.timeout.ms", PLAIN))


def oauth_server(settings: ListenerSettings, uses: Authentication) -> NewServer:
    """Return OAUTHBEARER of a listener. Raises ConfigError."""
    from kvorum.security.oauth.config_keys import KEYS_URL, is_signed
    from kvorum.security.oauth.settings import https_context, token_validator

    has_login = settings.optional_str(JAAS, OAUTHBEARER) is not None
    if not (has_login or is_signed(settings)):
        raise settings.error(
            KEYS_URL,
            "is not set; set it to the URL of the issuer's keys. For unsigned tokens, in tests only, set "
            "sasl.jaas.config of the listener and mechanism",
            OAUTHBEARER,
        )
    options = login_module(settings, OAUTHBEARER).options if has_login else {}
    validator, keys = token_validator(settings, options, uses.wall_ms, https_context(settings, options))
    return NewServer(partial(OauthBearerServer, validator), keys)


def http_token_validator(
    settings: ListenerSettings, wall_ms: Callable[[], int]
) -> "tuple[TokenValidator, IssuerKeys] | None":
    """Return the validator of bearer tokens of HTTP, and the keys that must be started; None: no issuer is set.

    Tokens without a signature are not accepted. Raises ConfigError.
    """
    from kvorum.security.oauth.config_keys import is_signed
    from kvorum.security.oauth.settings import https_context, token_validator

    if not is_signed(settings):
        return None
    is_jaas_set = settings.optional_str(JAAS, OAUTHBEARER) is not None
    options = login_module(settings, OAUTHBEARER).options if is_jaas_set else {}
    validator, keys = token_validator(settings, options, wall_ms, https_context(settings, options))
    assert keys is not None, "tokens are signed"
    return validator, keys


def missing_credential(target: PeerListener, credentials: CredentialStore) -> ConfigError | None:
    """Return the problem if the user by which nodes connect to a listener has no SCRAM credential, else None."""
    settings, mechanism = target.settings, target.mechanism
    scram = SCRAM_MECHANISMS.get(mechanism)
    if not settings.is_sasl or scram is None:
        return None
    user = login_user(settings, mechanism)[0]
    if login_module(settings, mechanism).options.get("tokenauth") or credentials.scram_credential(scram, user):
        return None
    command = f"kvorum format CONFIG --cluster-id ID --add-scram '{mechanism}=[name={user},password=...]'"
    return settings.error(
        JAAS,
        f"user {user} has no {mechanism} credential in this node's metadata, so that no node could connect to it; "
        f"format each controller with {command}, or use PLAIN or TLS with client certificates between nodes",
        mechanism,
    )


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
