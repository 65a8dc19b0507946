"""Settings of TLS: the values of `ssl.*` of one listener or client.

The reader of the configuration decides which key counts (`listener.name.NAME.ssl...` or the plain one); None means that
a key is not set.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

JKS: Final = "JKS"
PKCS12: Final = "PKCS12"
PEM: Final = "PEM"
TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"


class ClientAuth(Enum):
    """ssl.client.auth: whether a listener asks for the certificate of its clients."""

    NONE = "none"
    REQUESTED = "requested"
    """A client without a certificate is User:ANONYMOUS; a certificate that does not verify ends the handshake."""
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStoreSettings:
    """ssl.keystore.* and ssl.key.password."""

    type: str = JKS
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificate_chain: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStoreSettings:
    """ssl.truststore.*"""

    type: str = JKS
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """All of TLS for one listener or client, with Kafka's defaults."""

    key_store: KeyStoreSettings = KeyStoreSettings()
    trust_store: TrustStoreSettings = TrustStoreSettings()
    enabled_protocols: tuple[str, ...] = (TLS_1_2, TLS_1_3)
    cipher_suites: tuple[str, ...] = ()
    """IANA names; empty: all of the library."""
    client_auth: ClientAuth = ClientAuth.NONE
    """Servers only."""
    principal_mapping_rules: str = "DEFAULT"
    """Servers only."""
    endpoint_identification_algorithm: str = "https"
    """Clients only; empty: the name of the server is not verified."""
    allow_dn_changes: bool = False
    allow_san_changes: bool = False
    verify_own_chain: bool = False
    """Whether the key store must verify with the own trust store: the listener is one that brokers use as clients."""
