"""Security of a node's or client's own connections."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from kvorum.security.sasl.mechanism import SaslClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """TLS of outgoing connections."""

    context: ssl.SSLContext = field(repr=False)
    check_hostname: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How a connection is secured after it is established: first TLS, then SASL. None: not used."""

    tls: ClientTls | None = None
    sasl: Callable[[], SaslClient] | None = field(default=None, repr=False)
    """Makes the client of one exchange."""


PLAINTEXT = ClientSecurity()
