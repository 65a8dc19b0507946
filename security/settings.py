"""Security settings of a listener, read from a node's configuration with Kafka's precedence of keys.

    listener.name.LISTENER.MECHANISM.KEY > listener.name.LISTENER.KEY > KEY

`sasl.jaas.config` and the handler classes of a server count with listener and mechanism only (a login of one listener
is not that of another), and `ssl.client.auth` of a SASL_SSL listener with the listener only. Source: Kafka's
AbstractConfig.valuesWithPrefixOverride, JaasContext, SaslChannelBuilder, ChannelBuilders.
"""

import builtins
from dataclasses import dataclass
from typing import Final

from kvorum.runtime.config import DEFAULT, ConfigError, Settings, shown
from kvorum.runtime.config_defs import LISTENER_PREFIX
from kvorum.runtime.listeners import (
    Endpoint,
    SecurityProtocol,
    controller_listener_names,
    http_endpoints,
    inter_broker_listener_name,
    listeners,
    protocol_map,
)
from kvorum.security.principal import Principal

JAAS: Final = "sasl.jaas.config"
HTTP_LISTENER: Final = "HTTP"
"""Stands for all HTTP listeners of a node in the names of keys."""
HTTP_ROLES: Final = "kvorum.admin.roles"
CLIENT_AUTH: Final = "ssl.client.auth"
OF_MECHANISM_ONLY: Final = frozenset(
    (JAAS, "sasl.server.callback.handler.class", "sasl.login.class", "sasl.login.callback.handler.class")
)
"""Keys that count with the prefix of listener and mechanism only."""
TLS_PROTOCOLS: Final = frozenset((SecurityProtocol.SSL, SecurityProtocol.SASL_SSL))
SASL_PROTOCOLS: Final = frozenset((SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL))
NO_CLIENT_AUTH: Final = "none"
STORES: Final = ("ssl.keystore", "ssl.truststore")
INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The settings of one listener, which need not be one of this node: brokers dial controllers with them."""

    settings: Settings
    listener: builtins.str
    """In upper case; empty: a client's settings, which have no prefixes."""
    protocol: SecurityProtocol

    @property
    def is_tls(self) -> builtins.bool:
        """Whether connections are encrypted."""
        return self.protocol in TLS_PROTOCOLS

    @property
    def is_sasl(self) -> builtins.bool:
        """Whether clients authenticate by SASL."""
        return self.protocol in SASL_PROTOCOLS

    @property
    def is_authenticated(self) -> builtins.bool:
        """Whether some clients have a principal other than ANONYMOUS."""
        return self.is_sasl or (self.is_tls and self.client_auth != NO_CLIENT_AUTH)

    @property
    def client_auth(self) -> builtins.str:
        """Return none, requested or required; a key without the listener's prefix does not count for SASL_SSL."""
        key = self.key(CLIENT_AUTH)
        if self.is_sasl and key == CLIENT_AUTH:
            return NO_CLIENT_AUTH
        return self.settings.str(key)

    @property
    def mechanisms(self) -> builtins.list[builtins.str]:
        """Return the SASL mechanisms that clients may use."""
        return self.list("sasl.enabled.mechanisms")

    def key(self, key: builtins.str, mechanism: builtins.str | None = None) -> builtins.str:
        """Return the name under which a key has its value: with one of the prefixes, or alone."""
        if not self.listener:
            return key
        prefix, explicit = f"{LISTENER_PREFIX}{self.listener.lower()}.", self.settings.explicit()
        of_mechanism = f"{prefix}{(mechanism or '').lower()}.{key}"
        if mechanism is not None and (of_mechanism in explicit or key in OF_MECHANISM_ONLY):
            return of_mechanism
        return prefix + key if prefix + key in explicit else key

    def optional_str(self, key: builtins.str, mechanism: builtins.str | None = None) -> builtins.str | None:
        """Return a text, None where it is not set and has no default."""
        name = self.key(key, mechanism)
        return self.settings.optional_str(name) if name in self.settings else None

    def str(self, key: builtins.str, mechanism: builtins.str | None = None) -> builtins.str:
        """Return a text that is set or has a default."""
        return self.settings.str(self.key(key, mechanism))

    def int(self, key: builtins.str, mechanism: builtins.str | None = None) -> builtins.int:
        """Return a number."""
        return self.settings.int(self.key(key, mechanism))

    def bool(self, key: builtins.str, mechanism: builtins.str | None = None) -> builtins.bool:
        """Return a boolean."""
        return self.settings.bool(self.key(key, mechanism))

    def list(self, key: builtins.str, mechanism: builtins.str | None = None) -> builtins.list[builtins.str]:
        """Return a list."""
        return self.settings.list(self.key(key, mechanism))

    def error(self, key: builtins.str, reason: builtins.str, mechanism: builtins.str | None = None) -> ConfigError:
        """Return the error for a key: one line with its full name, its text (secrets hidden) and its place.

        A store is named by its location.
        """
        name = self.key(f"{key}.location" if key in STORES else key, mechanism)
        if name not in self.settings:
            return ConfigError(name, None, DEFAULT.where if self.listener else "client properties", reason)
        text = self.settings.raw(name)
        return ConfigError(name, None if text is None else shown(name, text), self.settings.source(name).where, reason)


def listener_settings(settings: Settings, endpoint: Endpoint) -> ListenerSettings:
    """Return the settings of one of the node's listeners."""
    return ListenerSettings(settings, endpoint.listener_name, endpoint.security_protocol)


def http_settings(settings: Settings) -> ListenerSettings:
    """Return the settings of the HTTP listeners of a node: keys without a prefix, or with `listener.name.http.`.

    ssl.client.auth counts with the prefix only, as for SASL_SSL: browsers have no certificate.
    """
    return ListenerSettings(settings, HTTP_LISTENER, SecurityProtocol.SASL_SSL)


def is_https(settings: Settings) -> bool:
    """Return whether an HTTP listener of a node has TLS. Raises ConfigError."""
    return any(each.is_tls for each in http_endpoints(settings))


def own_listeners(settings: Settings) -> list[ListenerSettings]:
    """Return the settings of all listeners of this node. Raises ConfigError."""
    return [listener_settings(settings, endpoint) for endpoint in listeners(settings)]


@dataclass(frozen=True, slots=True)
class PeerListener:
    """A listener that nodes connect to, and the key of the mechanism by which they do."""

    settings: ListenerSettings
    mechanism_key: str

    @property
    def mechanism(self) -> str:
        """Return the mechanism; it counts if the protocol is one of SASL."""
        return self.settings.settings.str(self.mechanism_key)


def broker_peer_listener(settings: Settings) -> PeerListener:
    """Return the listener that brokers use among themselves. Raises ConfigError."""
    name = inter_broker_listener_name(settings)
    return PeerListener(ListenerSettings(settings, name, protocol_map(settings)[name]), INTER_BROKER_MECHANISM)


def controller_peer_listener(settings: Settings) -> PeerListener:
    """Return the listener at which controllers are reached: the first of controller.listener.names."""
    name = controller_listener_names(settings)[0]
    return PeerListener(ListenerSettings(settings, name, protocol_map(settings)[name]), CONTROLLER_MECHANISM)


def peer_listeners(settings: Settings) -> list[PeerListener]:
    """Return the listeners that a node of these roles connects to. Raises ConfigError."""
    controllers = [controller_peer_listener(settings)]
    return [broker_peer_listener(settings), *controllers] if "broker" in settings.list("process.roles") else controllers


def is_plaintext(settings: Settings) -> bool:
    """Return whether a node has and connects to listeners without security only. Raises ConfigError."""
    if is_https(settings) or settings.optional_str(HTTP_ROLES):
        return False
    found = [*own_listeners(settings), *(each.settings for each in peer_listeners(settings))]
    return all(each.protocol is SecurityProtocol.PLAINTEXT for each in found)


def super_users(settings: Settings) -> frozenset[Principal]:
    """Return `super.users`: TYPE:NAME, separated by semicolons. Raises ConfigError."""
    found = set()
    for item in filter(None, (part.strip() for part in (settings.optional_str("super.users") or "").split(";"))):
        kind, colon, name = item.partition(":")
        if not (kind and colon and name):
            reason = f"{item!r} is not of the form User:NAME; several are separated by semicolons"
            raise ConfigError("super.users", settings.raw("super.users"), settings.source("super.users").where, reason)
        found.add(Principal(kind, name))
    return frozenset(found)
