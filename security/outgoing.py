"""Security of outgoing connections, made of settings: TLS with its stores, SASL with its login."""

import ssl
from collections.abc import Callable, Mapping
from typing import Final

from kvorum.runtime.clock import SystemClock
from kvorum.security.client import PLAINTEXT, ClientSecurity, NewClient
from kvorum.security.client_properties import MECHANISM, ClientSettings
from kvorum.security.credentials import ScramMechanism
from kvorum.security.errors import SecurityConfigError
from kvorum.security.jaas import MODULES_OF_MECHANISMS, JaasError, JaasModule, parse_jaas
from kvorum.security.oauth.config_keys import TOKEN_URL
from kvorum.security.sasl.gssapi import MECHANISM as GSSAPI
from kvorum.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from kvorum.security.sasl.plain import MECHANISM as PLAIN
from kvorum.security.sasl.plain import PlainClient
from kvorum.security.sasl.scram import ScramClient
from kvorum.security.settings import JAAS, ListenerSettings
from kvorum.security.tls.client import ClientTls
from kvorum.security.tls.context import client_context
from kvorum.security.tls.settings import ClientAuth, KeyStoreSettings, TlsSettings, TrustStoreSettings
from kvorum.security.tls.stores import Stores

SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = {each.mechanism_name: each for each in ScramMechanism}
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)

LOGIN_OPTIONS: Final[Mapping[str, str]] = {
    OAUTHBEARER: 'clientId="..." clientSecret="..."',
    GSSAPI: 'useKeyTab=true storeKey=true keyTab="..." principal="SERVICE/HOST@REALM"',
}
"""JAAS options in the error for a missing text; of others: user name and password."""

UNSECURED_USER: Final = "unsecuredLoginStringClaim_sub"
"""JAAS option with the user of a token without a signature."""

NewNonce = Callable[[], str]


def outgoing_security(
    settings: ListenerSettings,
    mechanism: str,
    new_nonce: NewNonce,
    *,
    mechanism_key: str = MECHANISM,
    verifies_server: bool = True,
) -> ClientSecurity:
    """Return the security of connections to a listener; `mechanism_key` has the mechanism. Raises ConfigError."""
    tls = sasl = None
    if settings.is_tls:
        tls = client_tls(settings, verifies_server=verifies_server)
    if settings.is_sasl:
        check_mechanism(settings, mechanism_key, mechanism)
        sasl = sasl_client(settings, mechanism, new_nonce)
    return PLAINTEXT if tls is None and sasl is None else ClientSecurity(tls=tls, sasl=sasl)


def security_of_client(client: ClientSettings, new_nonce: NewNonce) -> ClientSecurity:
    """Return the security of a client's connections. Raises ConfigError."""
    return outgoing_security(client.settings, client.mechanism, new_nonce, verifies_server=client.verifies_server)


def client_tls(settings: ListenerSettings, *, verifies_server: bool = True) -> ClientTls:
    """Return TLS of outgoing connections. Raises ConfigError."""
    try:
        return (ClientTls if verifies_server else UnverifiedTls)(tls_settings(settings))
    except SecurityConfigError as error:
        raise settings.error(error.key, error.reason) from None


class UnverifiedTls(ClientTls):
    """TLS that accepts any certificate of a server: for tests, on request only."""

    __slots__ = ()

    def _context_of(self, settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
        context = client_context(settings, stores, verify_host_name=False)
        context.verify_mode = ssl.CERT_NONE
        return context


def tls_settings(settings: ListenerSettings, *, verify_own_chain: bool = False) -> TlsSettings:
    """Return the values of `ssl.*`."""
    optional = settings.optional_str
    return TlsSettings(
        key_store=KeyStoreSettings(
            type=settings.str("ssl.keystore.type"),
            location=optional("ssl.keystore.location"),
            password=optional("ssl.keystore.password"),
            key_password=optional("ssl.key.password"),
            key=optional("ssl.keystore.key"),
            certificate_chain=optional("ssl.keystore.certificate.chain"),
        ),
        trust_store=TrustStoreSettings(
            type=settings.str("ssl.truststore.type"),
            location=optional("ssl.truststore.location"),
            password=optional("ssl.truststore.password"),
            certificates=optional("ssl.truststore.certificates"),
        ),
        enabled_protocols=tuple(settings.list("ssl.enabled.protocols")),
        cipher_suites=tuple(settings.list("ssl.cipher.suites")),
        client_auth=ClientAuth(settings.client_auth),
        principal_mapping_rules=settings.str("ssl.principal.mapping.rules"),
        endpoint_identification_algorithm=settings.optional_str("ssl.endpoint.identification.algorithm") or "",
        allow_dn_changes=settings.bool("ssl.allow.dn.changes"),
        allow_san_changes=settings.bool("ssl.allow.san.changes"),
        verify_own_chain=verify_own_chain,
    )


def login_module(settings: ListenerSettings, mechanism: str) -> JaasModule:
    """Return the login module of a mechanism. Raises ConfigError."""
    expected = MODULES_OF_MECHANISMS[mechanism]
    text = settings.optional_str(JAAS, mechanism)
    if text is None:
        options = LOGIN_OPTIONS.get(mechanism, 'username="..." password="..."')
        raise settings.error(JAAS, f"is not set; set it to: {expected} required {options};", mechanism)
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise settings.error(JAAS, str(error), mechanism) from None
    if module.name != expected:
        raise settings.error(JAAS, f"has the login module {module.name}; {mechanism} requires {expected}", mechanism)
    return module


def oauth_options(settings: ListenerSettings) -> Mapping[str, str]:
    """Return the JAAS options of OAUTHBEARER; with a token endpoint none is needed. Raises ConfigError."""
    is_optional = settings.optional_str(TOKEN_URL, OAUTHBEARER) is not None
    if is_optional and settings.optional_str(JAAS, OAUTHBEARER) is None:
        return {}
    return login_module(settings, OAUTHBEARER).options


def check_mechanism(settings: ListenerSettings, key: str, mechanism: str) -> None:
    """Raise ConfigError for a mechanism that is not supported."""
    if mechanism not in MECHANISMS:
        known = f"{', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}"
        raise settings.error(key, f"mechanism {mechanism} is not supported; use {known}")


def login_user(settings: ListenerSettings, mechanism: str) -> tuple[str, str]:
    """Return user name and password of a login. Raises ConfigError."""
    options = login_module(settings, mechanism).options
    for name in ("username", "password"):
        if not options.get(name):
            raise settings.error(JAAS, f'has no {name}; add {name}="..."', mechanism)
    return options["username"], options["password"]


def sasl_client(settings: ListenerSettings, mechanism: str, new_nonce: NewNonce) -> NewClient:
    """Return what makes the client of one exchange. Raises ConfigError."""
    if mechanism == OAUTHBEARER:
        from kvorum.security.oauth.settings import https_context, oauth_client

        options = oauth_options(settings)
        return oauth_client(settings, options, SystemClock().wall_ms, https_context(settings, options))
    if mechanism == GSSAPI:
        from kvorum.security.kerberos import gssapi_client

        return gssapi_client(settings, login_module(settings, mechanism).options)
    user, password = login_user(settings, mechanism)
    scram = SCRAM_MECHANISMS.get(mechanism)
    if scram is None:
        return lambda host: PlainClient(user, password)
    is_token = login_module(settings, mechanism).options.get("tokenauth", "").lower() == "true"
    return lambda host: ScramClient(scram, user, password, new_nonce(), is_token=is_token)
