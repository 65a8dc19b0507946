"""A review of a node's security settings: what is open, weak, expires soon or can be read by others.

The settings can work (security/config_checks); here they are judged. Time and file modes are arguments.
"""

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from kvorum.runtime.config import Settings
from kvorum.runtime.config_checks import has_http_authentication
from kvorum.runtime.config_defs import broker_def
from kvorum.runtime.listeners import Endpoint, SecurityProtocol, http_endpoints, is_loopback, listeners
from kvorum.security.certificates import summarize
from kvorum.security.incoming import tls_server
from kvorum.security.sasl.plain import MECHANISM as PLAIN
from kvorum.security.settings import (
    HTTP_ROLES,
    ListenerSettings,
    http_settings,
    is_https,
    listener_settings,
    peer_listeners,
)

EXPIRING_DAYS: Final = 30
RSA_BITS_MIN: Final = 2048
STORES: Final = ("ssl.keystore.location", "ssl.truststore.location")
ANONYMOUS_METRICS: Final = "kvorum.metrics.anonymous.enable"
TOKENS_FILE: Final = "kvorum.admin.tokens.file"
OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

ModeOf = Callable[[str], int | None]
"""Returns the mode of a file, None if it cannot be read."""


class Kind(Enum):
    """Kind of a finding."""

    OPEN = "open"
    WEAK = "weak"
    EXPIRING = "expiring"
    READABLE = "readable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: where it is, and what to do about it."""

    kind: Kind
    where: str
    problem: str


def review_node(settings: Settings, now: datetime, mode_of: ModeOf) -> list[Finding]:
    """Return the findings for a node whose settings can work. Raises ConfigError."""
    among_nodes = {each.settings.listener for each in peer_listeners(settings)}
    found: list[Finding] = []
    for endpoint in listeners(settings):
        own = listener_settings(settings, endpoint)
        found += _review_protocol(endpoint, own)
        found += _review_tls(own, now, is_peer_listener=own.listener in among_nodes)
        found += _review_files(own, mode_of)
    found += _review_http(settings, now, mode_of)
    return list(dict.fromkeys(found))


def review_config_file(path: str, settings: Settings, mode_of: ModeOf) -> list[Finding]:
    """Return the finding for the configuration file itself, if it has secrets that others can read."""
    has_secrets = any((known := broker_def(key)) is not None and known.sensitive for key in settings.explicit())
    mode = mode_of(path)
    if mode is None or not has_secrets or not mode & OTHERS_READ:
        return []
    return [Finding(Kind.READABLE, path, f"has secrets and mode {mode:03o}; run: chmod 600 {path}")]


def _review_protocol(endpoint: Endpoint, own: ListenerSettings) -> Iterator[Finding]:
    where, is_local = f"listener {endpoint.url}", is_loopback(endpoint.host)
    if not own.is_authenticated:
        reach = "on this machine" if is_local else "that reaches it"
        yield Finding(Kind.OPEN, where, f"every client {reach} may use it without authentication")
    if not own.is_tls and not is_local:
        yield Finding(Kind.OPEN, where, "connections are not encrypted; use SSL or SASL_SSL")
    if own.protocol is SecurityProtocol.SASL_PLAINTEXT and PLAIN in own.mechanisms and not is_local:
        yield Finding(Kind.WEAK, where, "PLAIN sends passwords in clear; use SASL_SSL or SCRAM")


def _review_http(settings: Settings, now: datetime, mode_of: ModeOf) -> Iterator[Finding]:
    is_open = not has_http_authentication(settings)
    for endpoint in http_endpoints(settings):
        where = f"HTTP listener {endpoint.url}"
        if is_loopback(endpoint.host):
            continue
        if is_open:
            problem = f"every client that reaches it may read it without authentication; set {HTTP_ROLES}"
            yield Finding(Kind.OPEN, where, problem)
        elif settings.bool(ANONYMOUS_METRICS):
            yield Finding(Kind.OPEN, where, f"every client that reaches it may read /metrics ({ANONYMOUS_METRICS})")
        if not endpoint.is_tls:
            problem = "HTTP without TLS: passwords and tokens can be read on the network; use https://"
            yield Finding(Kind.WEAK, where, problem)
    if is_https(settings):
        own = http_settings(settings)
        yield from _review_tls(own, now, is_peer_listener=False)
        yield from _review_files(own, mode_of)
    tokens = settings.optional_str(TOKENS_FILE)
    mode = None if tokens is None else mode_of(tokens)
    if tokens is not None and mode is not None and mode & OTHERS_WRITE:
        yield Finding(Kind.WEAK, tokens, f"others may add tokens (mode {mode:03o}); run: chmod go-w {tokens}")


def _review_tls(own: ListenerSettings, now: datetime, *, is_peer_listener: bool) -> Iterator[Finding]:
    server = tls_server(own, is_peer_listener=is_peer_listener)
    if server is None:
        return
    where = f"listener {own.listener}"
    if is_peer_listener and not own.optional_str("ssl.endpoint.identification.algorithm"):
        problem = "ssl.endpoint.identification.algorithm is empty: nodes do not verify each other's host"
        yield Finding(Kind.WEAK, where, problem)
    stores = server.stores
    chain = () if stores.key_store is None else stores.key_store.chain
    trusted = () if stores.trust_store is None else stores.trust_store.certificates
    for certificate in (*chain, *trusted):
        facts, key = summarize(certificate, now), certificate.public_key()
        if facts.days_left < EXPIRING_DAYS:
            state = "expired" if facts.days_left < 0 else "expires"
            problem = (
                f"{facts.subject} {state} on {facts.not_after:%Y-%m-%d}; replace it, for example: kvorum certs rotate"
            )
            yield Finding(Kind.EXPIRING, where, problem)
        if isinstance(key, RSAPublicKey) and key.key_size < RSA_BITS_MIN:
            yield Finding(Kind.WEAK, where, f"{facts.subject} has an RSA key of {key.key_size} bits; use 2048 or more")


def _review_files(own: ListenerSettings, mode_of: ModeOf) -> Iterator[Finding]:
    for key in STORES if own.is_tls else ():
        path = own.optional_str(key)
        mode = None if path is None else mode_of(path)
        if path is None or mode is None:
            continue
        if key == STORES[0] and mode & OTHERS_READ:
            problem = f"a private key, and has mode {mode:03o}; run: chmod 600 {path}"
            yield Finding(Kind.READABLE, path, problem)
        elif mode & OTHERS_WRITE:
            yield Finding(Kind.WEAK, path, f"others may change it (mode {mode:03o}); run: chmod go-w {path}")
