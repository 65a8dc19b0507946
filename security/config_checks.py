"""Checks of a node's security settings before its start: what cannot work is refused with one line.

Key and trust stores are read, logins are parsed, and mechanisms are compared with those of the listeners that nodes
connect to. Unwise settings are returned as warnings.
"""

from collections.abc import Iterable, Iterator, Mapping

from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import SecurityProtocol, advertised_controller_listeners, advertised_listeners
from kvorum.security.certificates import certificate_hosts
from kvorum.security.credentials import NoCredentials
from kvorum.security.incoming import (
    ENABLED,
    VERIFIER,
    Authentication,
    http_token_validator,
    own_principal,
    sasl_config,
    tls_server,
)
from kvorum.security.oauth.config_keys import KEYS_URL, is_signed
from kvorum.security.outgoing import client_tls, login_module, login_user, outgoing_security
from kvorum.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from kvorum.security.sasl.plain import MECHANISM as PLAIN
from kvorum.security.sasl.plain import USER_PREFIX
from kvorum.security.settings import (
    CLIENT_AUTH,
    HTTP_ROLES,
    JAAS,
    NO_CLIENT_AUTH,
    ListenerSettings,
    PeerListener,
    broker_peer_listener,
    http_settings,
    is_https,
    own_listeners,
    peer_listeners,
    super_users,
)
from kvorum.security.tls.server import TlsServer


def check_security(settings: Settings) -> list[str]:
    """Check the security of all listeners that a node has or connects to; return warnings. Raises ConfigError."""
    super_users(settings)
    own, peers = own_listeners(settings), peer_listeners(settings)
    names = {each.settings.listener for each in peers}
    servers: dict[str, TlsServer] = {}
    for each in own:
        server = tls_server(each, is_peer_listener=each.listener in names)
        if server is not None:
            servers[each.listener] = server
        sasl_config(each, NOTHING)
    for target in peers:
        check_peer_listener(target, is_own=target.settings.listener in {each.listener for each in own})
    return [*warnings_of(settings, own, names), *host_warnings(settings, servers), *check_http(settings)]


NOTHING = Authentication(credentials=NoCredentials(), wall_ms=lambda: 0, new_nonce=str, secret=b"")


def check_http(settings: Settings) -> Iterator[str]:
    """Check TLS and users of the HTTP listeners, and yield warnings. Raises ConfigError."""
    http = http_settings(settings)
    if is_https(settings):
        tls_server(http, is_peer_listener=False)
        client_tls(http)
    if settings.optional_str(HTTP_ROLES) is None:
        return
    http_token_validator(http, lambda: 0)
    if "broker" not in settings.list("process.roles") or not settings.list("admin.listeners"):
        return
    among_brokers = broker_peer_listener(settings).settings
    if not among_brokers.is_authenticated:
        yield (
            f"{HTTP_ROLES}: the admin API cannot check passwords, because the brokers give the keys of SCRAM users to "
            f"nodes only, and listener {among_brokers.listener} does not authenticate nodes"
        )


def check_peer_listener(target: PeerListener, *, is_own: bool) -> None:
    """Check a listener that this node connects to at others; `is_own`: it has the listener too. Raises ConfigError."""
    settings, mechanism = target.settings, target.mechanism
    if settings.protocol is SecurityProtocol.PLAINTEXT:
        return
    outgoing_security(settings, mechanism, str, mechanism_key=target.mechanism_key)
    if not is_own:
        return
    if settings.is_sasl:
        if mechanism not in settings.mechanisms:
            reason = f"does not contain {mechanism}, by which nodes connect to each other ({target.mechanism_key})"
            raise settings.error(ENABLED, f"of listener {settings.listener} {reason}")
        if mechanism == PLAIN and settings.optional_str(VERIFIER, PLAIN) is None:
            check_plain_user(settings)
    else:
        own_principal(settings, mechanism, tls_server(settings, is_peer_listener=True))


def check_plain_user(settings: ListenerSettings) -> None:
    """Check that nodes accept the user name and password with which they connect. Raises ConfigError."""
    user, password = login_user(settings, PLAIN)
    if login_module(settings, PLAIN).options.get(USER_PREFIX + user) != password:
        reason = f'nodes would not accept each other: add {USER_PREFIX}{user}="..." with the same password'
        raise settings.error(JAAS, reason, PLAIN)


def has_trust_store(settings: ListenerSettings) -> bool:
    """Return whether a listener has its own trusted certificates."""
    keys = ("ssl.truststore.location", "ssl.truststore.certificates")
    return any(settings.optional_str(key) is not None for key in keys)


def host_warnings(settings: Settings, servers: Mapping[str, TlsServer]) -> Iterator[str]:
    """Yield warnings about certificates that are not for the host that their listener advertises."""
    for endpoint in (*advertised_listeners(settings), *advertised_controller_listeners(settings)):
        server = servers.get(endpoint.listener_name)
        if server is None or server.stores.key_store is None:
            continue
        hosts = certificate_hosts(server.stores.key_store.chain[0])
        if not is_host_of(endpoint.host, hosts):
            yield (
                f"{endpoint.url}: clients that verify the host name reject the certificate, which is for "
                f"{', '.join(hosts) or 'no host'}; make one with: kvorum certs node NAME --host {endpoint.host}"
            )


def is_host_of(host: str, hosts: Iterable[str]) -> bool:
    """Return whether a certificate for `hosts` is accepted for one; `*.` stands for one label."""
    wanted = host.lower()
    names = {each.lower() for each in hosts}
    return wanted in names or f"*.{wanted.partition('.')[2]}" in names


def warnings_of(settings: Settings, own: list[ListenerSettings], among_nodes: set[str]) -> Iterator[str]:
    """Yield warnings about permitted but unwise settings."""
    has_sasl = any(each.is_sasl for each in own)
    for key in settings.explicit():
        if key == JAAS or (has_sasl and any(key == f"listener.name.{each.listener.lower()}.{JAAS}" for each in own)):
            yield f"{key} is ignored: write listener.name.LISTENER.MECHANISM.{JAAS}"
    for each in own:
        if each.is_sasl and OAUTHBEARER in each.mechanisms and not is_signed(each):
            yield (
                f"listener {each.listener} accepts tokens without a signature: every client can be any user; "
                f"set {KEYS_URL} except in tests"
            )
        if (
            each.is_sasl
            and each.is_tls
            and each.key(CLIENT_AUTH) == CLIENT_AUTH
            and settings.str(CLIENT_AUTH) != "none"
        ):
            yield f"{CLIENT_AUTH} is ignored for listener {each.listener}, which has SASL: write the listener's prefix"
        if each.is_tls and each.client_auth != NO_CLIENT_AUTH and not has_trust_store(each):
            yield (
                f"listener {each.listener}: {CLIENT_AUTH}={each.client_auth} without ssl.truststore.location: "
                "certificates of all public CAs that this machine trusts are accepted; set the trust store to your CA"
            )
        if each.listener in among_nodes and each.protocol is SecurityProtocol.SSL and not each.is_authenticated:
            yield (
                f"listener {each.listener}: {CLIENT_AUTH}=none, so that every client can act as a node of the cluster; "
                "set it to required"
            )
