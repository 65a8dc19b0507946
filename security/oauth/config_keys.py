"""The configs of OAUTHBEARER, and what they require of each other."""

from collections.abc import Mapping
from typing import Final

from kvorum.security.sasl.oauthbearer import MECHANISM
from kvorum.security.settings import JAAS, ListenerSettings

PREFIX: Final = "sasl.oauthbearer."
KEYS_URL: Final = f"{PREFIX}jwks.endpoint.url"
DISCOVERY_URL: Final = "kvorum.sasl.oauthbearer.discovery.url"
TOKEN_URL: Final = f"{PREFIX}token.endpoint.url"
ISSUER: Final = f"{PREFIX}expected.issuer"
RETRIEVER: Final = f"{PREFIX}jwt.retriever.class"
JWT_BEARER_RETRIEVER: Final = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
ASSERTION: Final = f"{PREFIX}assertion."
HANDLER: Final = "sasl.server.callback.handler.class"


def text_of(settings: ListenerSettings, key: str) -> str | None:
    """Return a text, None where it is not set or empty."""
    return settings.optional_str(key, MECHANISM) or None


def is_signed(settings: ListenerSettings) -> bool:
    """Return whether tokens must be signed by an issuer."""
    return text_of(settings, KEYS_URL) is not None or text_of(settings, DISCOVERY_URL) is not None


def client_login(settings: ListenerSettings, options: Mapping[str, str]) -> tuple[str, str]:
    """Return client id and secret for the token endpoint. Raises ConfigError."""
    found = []
    for key, option in (("client.id", "clientId"), ("client.secret", "clientSecret")):
        name = f"{PREFIX}client.credentials.{key}"
        value = text_of(settings, name) or options.get(option)
        if not value:
            raise settings.error(name, f"is required with {TOKEN_URL}; or set {option} in {JAAS}", MECHANISM)
        found.append(value)
    return found[0], found[1]
