"""Security of one process of a node, made of its settings: listeners, own connections, principals of the cluster.

Certificates require a large library; a node with plaintext listeners only does not load it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvorum.network.authorizer import AllowAll, Authorizer, ClusterPrincipals
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.listeners import Endpoint, SecurityProtocol, broker_listeners, controller_listeners
from kvorum.security.client import PLAINTEXT, ClientSecurity
from kvorum.security.credentials import CredentialStore
from kvorum.security.principal import Principal
from kvorum.security.settings import (
    ListenerSettings,
    PeerListener,
    broker_peer_listener,
    controller_peer_listener,
    listener_settings,
    super_users,
)

if TYPE_CHECKING:
    from kvorum.network.store_watch import StoreWatch
    from kvorum.security.sasl.authenticator import SaslConfig
    from kvorum.security.tls.reload import ReloadableContext
    from kvorum.security.tls.server import TlsServer

NewNonce = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSecurity:
    """Security of the process of one role."""

    listeners: dict[str, ListenerSettings]
    """By name."""
    tls: "Mapping[str, TlsServer]"
    peers: ClientSecurity = PLAINTEXT
    """Of connections to brokers; unused by controllers."""
    controllers: ClientSecurity = PLAINTEXT
    """Of connections to controllers."""
    authorizer: Authorizer = field(default_factory=AllowAll)
    client_tls: "Mapping[str, ReloadableContext]"
    """Of connections, by the name of the listener that they go to."""
    peer_listeners: tuple[PeerListener, ...]
    """The listeners of other nodes that this process connects to, its own kind first."""
    secret: bytes = field(default=b"", repr=False)
    """Determines the salts of unknown users of SCRAM."""

    @property
    def among_nodes(self) -> PeerListener:
        """Return the listener at which other nodes of this kind connect."""
        return self.peer_listeners[0]

    def certificate_ends(self) -> list[tuple[str, float]]:
        """Return (listener, time) of the certificates that expire first in the key stores, as seconds since 1970."""
        contexts = {**self.client_tls, **self.tls}.items()
        stores = ((name, context.stores.key_store) for name, context in contexts)
        return [
            (name, min(each.not_valid_after_utc.timestamp() for each in store.chain))
            for name, store in stores
            if store is not None
        ]

    def sasl(
        self, listener: str, credentials: CredentialStore, wall_ms: Callable[[], int], new_nonce: NewNonce
    ) -> "SaslConfig | None":
        """Return SASL of a listener, None without. Raises ConfigError."""
        settings = self.listeners[listener]
        if not settings.is_sasl:
            return None
        from kvorum.security.incoming import Authentication, sasl_config

        uses = Authentication(credentials=credentials, wall_ms=wall_ms, new_nonce=new_nonce, secret=self.secret)
        return sasl_config(settings, uses)

    def missing_credential(self, credentials: CredentialStore) -> ConfigError | None:
        """Return the problem if nodes could not connect to this one for lack of a SCRAM credential, else None."""
        if not self.among_nodes.settings.is_sasl:
            return None
        from kvorum.security.incoming import missing_credential

        return missing_credential(self.among_nodes, credentials)

    def watch_stores(self, settings: Settings) -> "StoreWatch | None":
        """Return what reloads the key and trust stores, None without TLS."""
        if not self.tls and not self.client_tls:
            return None
        from kvorum.network.store_watch import INTERVAL_KEY, StoreWatch

        listeners = self.listeners | {each.settings.listener: each.settings for each in self.peer_listeners}
        contexts = (*self.tls.items(), *self.client_tls.items())
        return StoreWatch(listeners.values(), contexts, settings.int(INTERVAL_KEY))


def broker_security(settings: Settings, new_nonce: NewNonce) -> NodeSecurity:
    """Return the security of a broker process. Raises ConfigError: one line."""
    peers = (broker_peer_listener(settings), controller_peer_listener(settings))
    return _security(settings, broker_listeners(settings), peers, new_nonce)


def controller_security(settings: Settings, new_nonce: NewNonce) -> NodeSecurity:
    """Return the security of a controller process. Raises ConfigError: one line."""
    return _security(settings, controller_listeners(settings), (controller_peer_listener(settings),), new_nonce)


def admin_security(settings: Settings, new_nonce: NewNonce) -> ClientSecurity:
    """Return the security of connections to the brokers' inter-broker listener. Raises ConfigError: one line."""
    return _connections(broker_peer_listener(settings), new_nonce)


def quorum_security(settings: Settings, new_nonce: NewNonce) -> ClientSecurity:
    """Return the security of connections to the controllers' listener. Raises ConfigError: one line."""
    return _connections(controller_peer_listener(settings), new_nonce)


def _connections(target: PeerListener, new_nonce: NewNonce) -> ClientSecurity:
    """Return the security of connections to a listener. Raises ConfigError."""
    if target.settings.protocol is SecurityProtocol.PLAINTEXT:
        return PLAINTEXT
    from kvorum.security.outgoing import outgoing_security

    return outgoing_security(target.settings, target.mechanism, new_nonce, mechanism_key=target.mechanism_key)


def _security(
    settings: Settings,
    endpoints: Iterable[Endpoint],
    peers: tuple[PeerListener, ...],
    new_nonce: NewNonce,
) -> NodeSecurity:
    """Return the security of a process; other nodes of its kind connect to the first of `peers`."""
    among_nodes = peers[0]
    listeners = {each.listener_name: listener_settings(settings, each) for each in endpoints}
    tls: dict[str, TlsServer] = {}
    for name, each in listeners.items():
        if each.is_tls:
            from kvorum.security.incoming import tls_server

            server = tls_server(each, is_peer_listener=name == among_nodes.settings.listener)
            assert server is not None, "it has TLS"
            tls[name] = server
    connections = [_connections(each, new_nonce) for each in peers]
    names = [each.settings.listener for each in peers]
    return NodeSecurity(
        listeners=listeners,
        tls=tls,
        peers=connections[0],
        controllers=connections[-1],
        authorizer=_authorizer(settings, listeners, among_nodes, tls.get(among_nodes.settings.listener)),
        peer_listeners=peers,
        secret=_secret(settings, listeners.values(), new_nonce),
        client_tls={
            name: security.tls for name, security in zip(names, connections, strict=True) if security.tls is not None
        },
    )


def _secret(settings: Settings, listeners: Iterable[ListenerSettings], new_nonce: NewNonce) -> bytes:
    """Return the secret of a process with SASL."""
    if not any(each.is_sasl for each in listeners):
        return b""
    from kvorum.security.incoming import shared_secret

    return shared_secret(settings, new_nonce().encode())


def _authorizer(
    settings: Settings, listeners: Mapping[str, ListenerSettings], among_nodes: PeerListener, tls: "TlsServer | None"
) -> Authorizer:
    """Return the authorizer that knows the cluster's principals at each listener. Raises ConfigError."""
    known = super_users(settings)
    found: dict[str, frozenset[Principal]] = {name: known for name, each in listeners.items() if each.is_authenticated}
    if not found:
        return AllowAll()
    name = among_nodes.settings.listener
    if name in found:
        from kvorum.security.incoming import own_principal

        own = own_principal(among_nodes.settings, among_nodes.mechanism, tls)
        found[name] = known if own is None else known | {own}
    return ClusterPrincipals(found)
