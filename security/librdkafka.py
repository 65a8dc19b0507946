"""Security properties for librdkafka, from Java's names or its own.

Its own names pass unchanged. A Java trust store becomes text in PEM, a login in JAAS form becomes user name and
password. Properties of Java's machinery have no counterpart and are left out.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding

from kvorum.runtime.config import ConfigError
from kvorum.security.client_properties import (
    ALSO_RDKAFKA,
    IDENTIFICATION,
    MECHANISM,
    PEM,
    PROTOCOL,
    ClientSettings,
    client_settings,
    expand,
    is_security_key,
)
from kvorum.security.errors import SecurityConfigError
from kvorum.security.oauth.config_keys import JWT_BEARER_RETRIEVER, RETRIEVER, TOKEN_URL, client_login
from kvorum.security.outgoing import (
    MECHANISMS,
    UNSECURED_USER,
    login_module,
    login_user,
    oauth_options,
    tls_settings,
)
from kvorum.security.sasl.gssapi import MECHANISM as GSSAPI
from kvorum.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from kvorum.security.settings import JAAS, ListenerSettings
from kvorum.security.tls.ciphers import TLS_1_2_SUITES
from kvorum.security.tls.stores import load_stores

SAME_NAMES: Final = frozenset(
    (
        *("ssl.key.password", "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd"),
        *("sasl.kerberos.min.time.before.relogin", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"),
    )
)
KERBEROS_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sasl.kerberos.keytab": "keyTab",
        "sasl.kerberos.principal": "principal",
        "sasl.kerberos.service.name": "serviceName",
    }
)
OAUTH_CONFIG: Final = "sasl.oauthbearer.config"
INLINE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ssl.truststore.certificates": "ssl.ca.pem",
        "ssl.keystore.certificate.chain": "ssl.certificate.pem",
        "ssl.keystore.key": "ssl.key.pem",
    }
)


def librdkafka_security(properties: Mapping[str, str], where: str = "client properties") -> dict[str, str]:
    """Return the security properties among a client's by librdkafka's names. Raises ConfigError: one line."""
    if not any(map(is_security_key, properties)):
        return {}
    client = client_settings(properties, where)
    try:
        texts = expand(properties)
        found = {key: text for key, text in texts.items() if key in SAME_NAMES or key in ALSO_RDKAFKA}
        found |= {INLINE[key]: text for key, text in texts.items() if key in INLINE}
        found[PROTOCOL] = client.settings.protocol.name
        if client.settings.is_sasl:
            found[MECHANISM] = client.mechanism
            found |= {} if OAUTH_CONFIG in found else login(client)
        if client.settings.is_tls:
            found |= stores(client)
    except SecurityConfigError as error:
        raise ConfigError(error.key, None, where, error.reason) from None
    if client.mechanism in MECHANISMS and "sasl.mechanisms" in found:
        del found["sasl.mechanisms"]
    return found


def login(client: ClientSettings) -> dict[str, str]:
    """Return user name and password, if the mechanism has them. Raises ConfigError."""
    settings, mechanism = client.settings, client.mechanism
    if mechanism not in MECHANISMS:
        return {}
    if mechanism == OAUTHBEARER:
        return oauth_login(settings)
    if mechanism == GSSAPI:
        return kerberos_login(settings)
    if "tokenauth" in login_module(settings, mechanism).options:
        raise settings.error(JAAS, "has tokenauth, but librdkafka does not support delegation tokens", mechanism)
    user, password = login_user(settings, mechanism)
    return {"sasl.username": user, "sasl.password": password}


def kerberos_login(settings: ListenerSettings) -> dict[str, str]:
    """Return the login of GSSAPI; without one in JAAS form the ticket cache counts. Raises ConfigError."""
    if settings.optional_str(JAAS, GSSAPI) is None:
        return {}
    options = login_module(settings, GSSAPI).options
    return {name: options[option] for name, option in KERBEROS_OPTIONS.items() if options.get(option)}


def oauth_login(settings: ListenerSettings) -> dict[str, str]:
    """Return the login of OAUTHBEARER. Raises ConfigError."""
    options, url = oauth_options(settings), settings.optional_str(TOKEN_URL, OAUTHBEARER)
    if url is None:
        user = options.get(UNSECURED_USER)
        if user is None:
            raise settings.error(JAAS, f"has no {UNSECURED_USER}; or set {TOKEN_URL}", OAUTHBEARER)
        return {"enable.sasl.oauthbearer.unsecure.jwt": "true", OAUTH_CONFIG: f"principal={user}"}
    if url.startswith("file:"):
        raise settings.error(TOKEN_URL, "is a file, but librdkafka reads no token from files", OAUTHBEARER)
    if settings.optional_str(RETRIEVER, OAUTHBEARER) == JWT_BEARER_RETRIEVER:
        raise settings.error(RETRIEVER, "has no counterpart here for librdkafka; use client credentials", OAUTHBEARER)
    client_id, secret = client_login(settings, options)
    found = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": client_id}
    found |= {"sasl.oauthbearer.client.secret": secret, TOKEN_URL: url}
    scope = settings.optional_str("sasl.oauthbearer.scope", OAUTHBEARER) or options.get("scope")
    return found if scope is None else found | {"sasl.oauthbearer.scope": scope}


def stores(client: ClientSettings) -> dict[str, str]:
    """Return stores, host name check and ciphers. Raises SecurityConfigError."""
    tls = tls_settings(client.settings)
    found = {IDENTIFICATION: tls.endpoint_identification_algorithm or "none"}
    keys, trusted = tls.key_store, tls.trust_store
    if keys.location is not None and keys.type.upper() == PEM:
        found |= {"ssl.certificate.location": keys.location, "ssl.key.location": keys.location}
    elif keys.location is not None:
        found |= {"ssl.keystore.location": keys.location, "ssl.keystore.password": keys.password or ""}
    if trusted.location is not None and trusted.type.upper() == PEM:
        found["ssl.ca.location"] = trusted.location
    elif trusted.location is not None:
        trust_store = load_stores(tls).trust_store
        assert trust_store is not None, "it has a location"
        found["ssl.ca.pem"] = b"".join(each.public_bytes(Encoding.PEM) for each in trust_store.certificates).decode()
    if tls.cipher_suites:
        found["ssl.cipher.suites"] = ":".join(TLS_1_2_SUITES.get(name, name) for name in tls.cipher_suites)
    return found
