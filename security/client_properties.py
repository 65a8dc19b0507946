"""Security properties of a client, by the names of Kafka's Java clients or of librdkafka.

Both become one form: Java's names, with credentials in `sasl.jaas.config` and PEM files as their text. An unknown name
below `security.`, `sasl.` or `ssl.` is refused: a misspelt one would weaken the connection. References in values are
replaced, as by Kafka's config providers, so that a file or profile holds no secret: `${env:NAME}`, `${file:PATH:KEY}`
(a properties file), `${directory:PATH:NAME}`, and those of `config.providers`.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kvorum.runtime.config import ConfigError, ConfigSource, Settings, Source
from kvorum.runtime.config_defs import BROKER
from kvorum.runtime.config_providers import (
    DIRECTORY,
    ENVIRONMENT,
    FILE,
    REFERENCE,
    ProviderError,
    configured_providers,
    provider_of,
    read_text,
    replace_references,
)
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.errors import SecurityConfigError
from kvorum.security.jaas import MODULES_OF_MECHANISMS
from kvorum.security.settings import ListenerSettings

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
DEFAULT_MECHANISM: Final = "GSSAPI"
VERIFICATION: Final = "enable.ssl.certificate.verification"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
SECURITY_PREFIXES: Final = ("enable.sasl.", "enable.ssl.", "sasl.", "security.", "ssl.")
PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {"env": ENVIRONMENT, "file": FILE, "directory": DIRECTORY, "dir": DIRECTORY}
)
"""Config providers that a client has without `config.providers`, by name."""
PEM: Final = "PEM"

JAVA_NAMES: Final = frozenset(
    (
        PROTOCOL,
        MECHANISM,
        "security.providers",
        *(key for key in BROKER if key.startswith(("ssl.", "sasl.")) and "inter.broker" not in key),
    )
) - {"sasl.enabled.mechanisms", "sasl.mechanism.controller.protocol", "ssl.client.auth"}
"""Names of Java clients; the values of nearly all are read as those of a node's own keys."""
TEXTS_OF_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {"ssl.certificate.location": "ssl.keystore.certificate.chain", "ssl.key.location": "ssl.keystore.key"}
)
"""librdkafka's names of files that Java has as text in PEM."""
RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sasl.mechanisms": MECHANISM,
        "ssl.ca.location": "ssl.truststore.location",
        "ssl.ca.pem": "ssl.truststore.certificates",
        "ssl.certificate.pem": "ssl.keystore.certificate.chain",
        "ssl.key.pem": "ssl.keystore.key",
        "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    }
)
CREDENTIALS: Final = ("sasl.username", "sasl.password")
ALSO_RDKAFKA: Final = frozenset(
    (*RENAMED, *TEXTS_OF_FILES, *CREDENTIALS, VERIFICATION, "sasl.oauthbearer.method", "sasl.oauthbearer.config")
)
KNOWN: Final = JAVA_NAMES | ALSO_RDKAFKA
PROBE: Final = "probe"
"""Value of ssl.ca.location: the certificates of the machine, which is the default here."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Security settings of a client."""

    settings: ListenerSettings
    mechanism: str
    """Counts if the protocol is one of SASL."""
    verifies_server: bool
    """False: any certificate of a server is accepted."""


def client_settings(properties: Mapping[str, str], where: str = "client properties") -> ClientSettings:
    """Read the security properties among a client's properties. Raises ConfigError: one line."""
    try:
        found = java_properties(properties)
        protocol = protocol_of(found.pop(PROTOCOL, SecurityProtocol.PLAINTEXT.name))
        mechanism = found.pop(MECHANISM, DEFAULT_MECHANISM)
        verifies = boolean(VERIFICATION, found.pop(VERIFICATION, "true"))
    except SecurityConfigError as error:
        raise ConfigError(error.key, None, where, error.reason) from None
    known = {key: text for key, text in found.items() if key in BROKER}
    settings = Settings.of(known, source=Source(ConfigSource.STATIC_BROKER_CONFIG, where))
    return ClientSettings(ListenerSettings(settings, "", protocol), mechanism, verifies)


def protocol_of(text: str) -> SecurityProtocol:
    """Read security.protocol, in any case. Raises SecurityConfigError."""
    found = SecurityProtocol.__members__.get(text.strip().upper())
    if found is None:
        raise SecurityConfigError(PROTOCOL, f"{text} is not one of {', '.join(SecurityProtocol.__members__)}")
    return found


def boolean(key: str, text: str) -> bool:
    """Read true or false. Raises SecurityConfigError."""
    if text.strip().lower() not in ("true", "false"):
        raise SecurityConfigError(key, f"{text} is neither true nor false")
    return text.strip().lower() == "true"


def is_security_key(key: str) -> bool:
    """Return whether a property is one of security."""
    return key.startswith(SECURITY_PREFIXES)


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the security properties by Java's names; others are left out. Raises SecurityConfigError."""
    given = expand(properties)
    for key in given.keys() - KNOWN:
        raise SecurityConfigError(key, f"is not a property of Kafka's clients or librdkafka{suggestion(key)}")
    found: dict[str, str] = {}
    for key, text in sorted(given.items()):
        if key == "ssl.ca.location" and text == PROBE:
            continue
        name = RENAMED.get(key, TEXTS_OF_FILES.get(key, key))
        if name in given and name != key:
            raise SecurityConfigError(key, f"set either this or {name}, which has the same meaning")
        if name in found:
            raise SecurityConfigError(key, "is set by two properties of the same meaning")
        found[name] = read_file(key, text) if key in TEXTS_OF_FILES else text
    for store in ("truststore", "keystore"):
        if any(f"ssl.{store}.{part}" in found.keys() - given.keys() for part in ("location", "certificates", "key")):
            found.setdefault(f"ssl.{store}.type", PEM)
    if found.get(IDENTIFICATION, "").lower() == "none":
        found[IDENTIFICATION] = ""
    add_jaas(found)
    return found


def add_jaas(found: dict[str, str]) -> None:
    """Put user name and password into the form of `sasl.jaas.config`. Raises SecurityConfigError."""
    user, password = (found.pop(key, None) for key in CREDENTIALS)
    if user is None and password is None:
        return
    if "sasl.jaas.config" in found:
        raise SecurityConfigError("sasl.jaas.config", f"set either this or {' and '.join(CREDENTIALS)}")
    if user is None or password is None:
        raise SecurityConfigError(CREDENTIALS[user is not None], f"must be set with {CREDENTIALS[user is None]}")
    mechanism = found.get(MECHANISM, DEFAULT_MECHANISM)
    if mechanism != DEFAULT_MECHANISM and mechanism in MODULES_OF_MECHANISMS:
        found["sasl.jaas.config"] = jaas_text(MODULES_OF_MECHANISMS[mechanism], username=user, password=password)


def jaas_text(module: str, **options: str) -> str:
    """Return the text of a login module."""
    words = [f"{key}={quoted(value)}" for key, value in options.items()]
    return f"{module} required {' '.join(words)};"


def quoted(value: str) -> str:
    """Return a value as JAAS texts have it."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return f'"{"".join(escapes.get(char, char) for char in value)}"'


def suggestion(key: str) -> str:
    """Return the known names that an unknown one resembles, as the end of a message."""
    close = difflib.get_close_matches(key, KNOWN, n=3, cutoff=0.75)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def expand(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the security properties with references replaced. Raises SecurityConfigError."""
    key = ""
    try:
        providers = {name: provider_of(each, "", None, os.environ) for name, each in PROVIDERS.items()}
        providers |= configured_providers(properties, os.environ)
        found: dict[str, str] = {}
        for key, text in properties.items():
            if is_security_key(key):
                found[key] = replace_references(text, providers)
    except ProviderError as error:
        raise SecurityConfigError(error.key or key, error.reason) from None
    return found


def is_reference(text: str) -> bool:
    """Return whether a value is nothing but a reference."""
    match = REFERENCE.fullmatch(text)
    return match is not None and match[1] in PROVIDERS


def read_file(key: str, path: str) -> str:
    """Read a file of text. Raises SecurityConfigError that names key and file."""
    try:
        return read_text(path)
    except ProviderError as error:
        raise SecurityConfigError(key, error.reason) from None


def shown_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield properties for people: secrets are hidden, references are not."""
    for key, text in properties.items():
        yield key, "[hidden]" if is_secret(key) and not is_reference(text) else text


def is_secret(key: str) -> bool:
    """Return whether the value of a property may not be shown."""
    name = RENAMED.get(key, key)
    known = BROKER.get(name)
    return key in ("sasl.password", "sasl.oauthbearer.config") or (known is not None and known.sensitive)
