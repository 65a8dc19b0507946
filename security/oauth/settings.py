"""OAUTHBEARER of a listener and of a client, made of their settings and JAAS options."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kvorum.runtime.chance import new_nonce
from kvorum.security.errors import SecurityConfigError
from kvorum.security.oauth.assertions import (
    AssertionRules,
    AssertionSource,
    ClientAssertionError,
    FileAssertion,
    SignedAssertion,
    parse_key,
    parse_template,
)
from kvorum.security.oauth.config_keys import (
    ASSERTION,
    DISCOVERY_URL,
    HANDLER,
    ISSUER,
    JWT_BEARER_RETRIEVER,
    KEYS_URL,
    PREFIX,
    RETRIEVER,
    TOKEN_URL,
    client_login,
    text_of,
)
from kvorum.security.oauth.http import RESPONSE_BYTES_MAX, WatchedFile, fetch, post
from kvorum.security.oauth.jwks import KeySet, KeySetError
from kvorum.security.oauth.key_refresh import (
    FILE_INTERVAL_MS,
    IssuerKeys,
    KeySource,
    RefreshTimes,
    discovered_key_set,
    key_set_at,
    key_set_in,
)
from kvorum.security.oauth.retrieval import (
    ClientCredentials,
    EndpointToken,
    FileToken,
    Grant,
    JwtBearer,
    MadeToken,
    TokenSource,
)
from kvorum.security.oauth.signed import ClaimRules, SignedValidator
from kvorum.security.oauth.tokens import TokenValidator
from kvorum.security.oauth.unsecured import UnsecuredValidator, make_unsecured_token
from kvorum.security.sasl.mechanism import SaslClient
from kvorum.security.sasl.oauthbearer import MECHANISM, OauthBearerClient
from kvorum.security.settings import JAAS, ListenerSettings

EXTENSION_OPTION: Final = "extension_"
TRUST_OPTION: Final = "ssl.truststore."
FILE, HTTP, HTTPS = "file", "http", "https"


def https_context(settings: ListenerSettings, options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the context for the identity provider by the JAAS options, None: the machine's certificate authorities.

    Raises ConfigError.
    """
    trust = {key.removeprefix(TRUST_OPTION): value for key, value in options.items() if key.startswith(TRUST_OPTION)}
    if not trust:
        return None
    from kvorum.security.tls.context import client_context
    from kvorum.security.tls.settings import TlsSettings, TrustStoreSettings
    from kvorum.security.tls.stores import load_stores

    store = TrustStoreSettings(
        type=trust.get("type", settings.str("ssl.truststore.type")),
        location=trust.get("location"),
        password=trust.get("password"),
        certificates=trust.get("certificates"),
    )
    tls = TlsSettings(trust_store=store)
    try:
        return client_context(tls, load_stores(tls))
    except SecurityConfigError as error:
        raise settings.error(JAAS, f"{error.key}: {error.reason}", MECHANISM) from None


def token_validator(
    settings: ListenerSettings, options: Mapping[str, str], wall_ms: Callable[[], int], context: ssl.SSLContext | None
) -> tuple[TokenValidator, IssuerKeys | None]:
    """Return the validator of a listener's tokens, and the keys that must be started before. Raises ConfigError.

    `context` is for https: None: the machine's certificate authorities.
    """
    source = _key_source(settings, context)
    if source is None:
        return _unsecured(settings, options, wall_ms), None
    keys_source, is_file = source
    key = KEYS_URL if text_of(settings, KEYS_URL) is not None else DISCOVERY_URL
    times = RefreshTimes(
        interval_ms=FILE_INTERVAL_MS if is_file else settings.int(f"{PREFIX}jwks.endpoint.refresh.ms", MECHANISM),
        retry_ms=settings.int(f"{PREFIX}jwks.endpoint.retry.backoff.ms", MECHANISM),
        retry_max_ms=settings.int(f"{PREFIX}jwks.endpoint.retry.backoff.max.ms", MECHANISM),
    )
    issuer = text_of(settings, ISSUER)
    keys = IssuerKeys(keys_source, times, lambda reason: settings.error(key, reason, MECHANISM), issuer)
    rules = ClaimRules(
        clock_skew_ms=settings.int(f"{PREFIX}clock.skew.seconds", MECHANISM) * 1000,
        audiences=frozenset(settings.list(f"{PREFIX}expected.audience", MECHANISM)),
        scope_claim=settings.str(f"{PREFIX}scope.claim.name", MECHANISM),
        principal_claim=settings.str(f"{PREFIX}sub.claim.name", MECHANISM),
    )
    return SignedValidator(keys, rules, wall_ms), keys


def _unsecured(settings: ListenerSettings, options: Mapping[str, str], wall_ms: Callable[[], int]) -> TokenValidator:
    """Return the validator of unsigned tokens. Raises ConfigError if signed ones are meant."""
    if text_of(settings, HANDLER) is not None:
        reason = f"is required with {HANDLER}: without the keys of the issuer anybody could make tokens"
        raise settings.error(KEYS_URL, reason, MECHANISM)
    try:
        return UnsecuredValidator(options, wall_ms)
    except ValueError as error:
        raise settings.error(JAAS, str(error), MECHANISM) from None


def _key_source(settings: ListenerSettings, context: ssl.SSLContext | None) -> tuple[KeySource, bool] | None:
    """Return the source of the issuer's keys and whether it is a file; None if none is set. Raises ConfigError."""
    url, discovery_url = text_of(settings, KEYS_URL), text_of(settings, DISCOVERY_URL)
    if url is not None and discovery_url is not None:
        raise settings.error(DISCOVERY_URL, f"set either this or {KEYS_URL}", MECHANISM)
    get = partial(fetch, context=context)
    if discovery_url is not None:
        _scheme(settings, DISCOVERY_URL, discovery_url, (HTTP, HTTPS))
        return discovered_key_set(discovery_url, get), False
    if url is None:
        return None
    if _scheme(settings, KEYS_URL, url, (HTTP, HTTPS, FILE)) == FILE:
        check_key_file(settings, _path(url))
        return key_set_in(WatchedFile(_path(url))), True
    return key_set_at(url, get), False


def check_key_file(settings: ListenerSettings, path: str) -> None:
    """Raise ConfigError if the file cannot be read, or has no keys."""
    try:
        with open(path, "rb") as file:
            KeySet.parse(file.read(RESPONSE_BYTES_MAX))
    except OSError as error:
        raise settings.error(KEYS_URL, f"file {path} cannot be read: {error.strerror}", MECHANISM) from None
    except KeySetError as error:
        raise settings.error(KEYS_URL, f"file {path} has no keys: {error}", MECHANISM) from None


def oauth_client(
    settings: ListenerSettings, options: Mapping[str, str], wall_ms: Callable[[], int], context: ssl.SSLContext | None
) -> Callable[[str], Awaitable[SaslClient]]:
    """Return what makes the client of one exchange. Raises ConfigError."""
    source = _token_source(settings, options, wall_ms, context)
    extensions = {
        key.removeprefix(EXTENSION_OPTION): value for key, value in options.items() if key.startswith(EXTENSION_OPTION)
    }
    try:
        OauthBearerClient("", extensions)
    except ValueError as error:
        raise settings.error(JAAS, str(error), MECHANISM) from None

    async def client(host: str) -> SaslClient:
        return OauthBearerClient(await source.token(), extensions)

    return client


def _token_source(
    settings: ListenerSettings, options: Mapping[str, str], wall_ms: Callable[[], int], context: ssl.SSLContext | None
) -> TokenSource:
    url = text_of(settings, TOKEN_URL)
    if url is None:
        if text_of(settings, RETRIEVER) == JWT_BEARER_RETRIEVER:
            raise settings.error(TOKEN_URL, f"is required with {JWT_BEARER_RETRIEVER}", MECHANISM)
        try:
            make_unsecured_token(options, 0)
        except ValueError as error:
            reason = f"{error}; or set {TOKEN_URL}"
            raise settings.error(JAAS, reason, MECHANISM) from None
        return MadeToken(lambda: make_unsecured_token(options, wall_ms()))
    if _scheme(settings, TOKEN_URL, url, (HTTP, HTTPS, FILE)) == FILE:
        return FileToken(WatchedFile(_path(url)))
    scope = text_of(settings, f"{PREFIX}scope") or options.get("scope")
    grant: Grant
    if text_of(settings, RETRIEVER) == JWT_BEARER_RETRIEVER:
        grant = JwtBearer(url=url, source=_assertion_source(settings, wall_ms), scope=scope)
    else:
        client_id, client_secret = client_login(settings, options)
        grant = ClientCredentials(url=url, client_id=client_id, client_secret=client_secret, scope=scope)
    return EndpointToken(grant, partial(post, context=context), wall_ms)


def _assertion_source(settings: ListenerSettings, wall_ms: Callable[[], int]) -> AssertionSource:
    """Return the source of assertions; its files are read once to check them. Raises ConfigError."""
    path = text_of(settings, f"{ASSERTION}file")
    if path is not None:
        _content(settings, f"{ASSERTION}file", path)
        return FileAssertion(WatchedFile(path))
    claims = {name: text_of(settings, f"{ASSERTION}claim.{name}") for name in ("aud", "iss", "sub")}
    rules = AssertionRules(
        algorithm=settings.str(f"{ASSERTION}algorithm", MECHANISM).upper(),
        claims={name: text for name, text in claims.items() if text is not None},
        lifetime_s=settings.int(f"{ASSERTION}claim.exp.seconds", MECHANISM),
        not_before_s=settings.int(f"{ASSERTION}claim.nbf.seconds", MECHANISM),
        has_id=settings.bool(f"{ASSERTION}claim.jti.include", MECHANISM),
        passphrase=text_of(settings, f"{ASSERTION}private.key.passphrase"),
    )
    key_key, template_key = f"{ASSERTION}private.key.file", f"{ASSERTION}template.file"
    key_path, template_path = text_of(settings, key_key), text_of(settings, template_key)
    if key_path is None:
        raise settings.error(key_key, f"is required with {JWT_BEARER_RETRIEVER}, or {ASSERTION}file", MECHANISM)
    key = key_key
    try:
        parse_key(_content(settings, key, key_path), rules)
        if template_path is not None:
            key = template_key
            parse_template(_content(settings, key, template_path))
    except ClientAssertionError as error:
        raise settings.error(key, f"cannot be used: {error}", MECHANISM) from None
    template = None if template_path is None else WatchedFile(template_path)
    return SignedAssertion(rules, WatchedFile(key_path), template, wall_ms, new_nonce)


def _content(settings: ListenerSettings, key: str, path: str) -> bytes:
    """Return the content of a file. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            return file.read(RESPONSE_BYTES_MAX)
    except OSError as error:
        raise settings.error(key, f"cannot be read: {error.strerror}", MECHANISM) from None


def _scheme(settings: ListenerSettings, key: str, url: str, permitted: tuple[str, ...]) -> str:
    """Return the scheme of a URL. Raises ConfigError."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in permitted or not (parts.path if parts.scheme == FILE else parts.hostname):
        raise settings.error(key, f"is not a URL of {', '.join(permitted)}", MECHANISM)
    return parts.scheme


def _path(url: str) -> str:
    return url2pathname(urlsplit(url).path)
