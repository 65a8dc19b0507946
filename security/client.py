"""Security of a node's or client's own connections."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from kvorum.security.sasl.mechanism import SaslClient

if TYPE_CHECKING:
    from kvorum.security.tls.client import ClientTls


NewClient: TypeAlias = Callable[[str], SaslClient | Awaitable[SaslClient]]
"""Makes the client of one exchange with a host. Raises AuthenticationError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How a connection is secured after it is established: first TLS, then SASL. None: not used."""

    tls: "ClientTls | None" = None
    sasl: NewClient | None = field(default=None, repr=False)


PLAINTEXT: Final = ClientSecurity()
