"""Context of a request: principal and connection. Every handler receives it."""

from dataclasses import dataclass

from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.principal import ANONYMOUS, Principal

UNKNOWN_SOFTWARE = "unknown"
"""Kafka's value for a client that sent no name (ClientInformation)."""


@dataclass(slots=True)
class Peer:
    """The other end of one connection; changes when it authenticates and when it sends its software name.

    Its traffic is counted here, only by the connection.
    """

    connection_id: str
    client_address: str
    listener: str = "PLAINTEXT"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    principal: Principal = ANONYMOUS
    software_name: str = UNKNOWN_SOFTWARE
    software_version: str = UNKNOWN_SOFTWARE
    cipher: tuple[str, str] | None = None
    """IANA name of the cipher suite and TLS version; None without TLS."""
    since_s: float = 0.0
    """The event loop's time when it came."""
    client_id: str | None = None
    """Of its latest decoded request; those of a lane have a head that was decoded before."""
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    upgraded: bool = False
    """Upgraded: later frames are not counted here."""


@dataclass(slots=True)
class RequestContext:
    """One request's circumstances. A forwarded request has the principal and the address of the client behind it."""

    principal: Principal = ANONYMOUS
    listener: str = "PLAINTEXT"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    client_id: str | None = None
    client_address: str = "127.0.0.1"
    correlation_id: int = 0
    api_key: int = -1
    api_version: int = 0
    software_name: str = UNKNOWN_SOFTWARE
    software_version: str = UNKNOWN_SOFTWARE
    connection_id: str = ""
    received_ms: float = 0.0
    """The event loop's time when the frame was complete, in milliseconds."""
    throttle_ms: int = 0
    """Set by a handler that throttles: after the answer the connection is not read for this time (KIP-219)."""
    request_bytes: int = 0
    """Size of the frame without its length field."""
    spent_ms: float | None = None
    """Loop time of the request until it had to wait; None: it has not waited, the time runs from `received_ms`."""
    forwarded: bool = False
    """Came inside an Envelope."""

    @property
    def may_request_tokens(self) -> bool:
        """Whether requests for delegation tokens are accepted: not with a token, nor without authentication.

        Of a forwarded request the broker has checked the listener (Kafka's allowTokenRequests).
        """
        if self.principal.token_authenticated:
            return False
        if self.forwarded:
            return True
        if self.security_protocol is SecurityProtocol.SSL:
            return self.principal != ANONYMOUS
        return self.security_protocol is not SecurityProtocol.PLAINTEXT


def context_of(
    peer: Peer,
    client_id: str | None,
    correlation_id: int,
    api_key: int,
    api_version: int,
    received_ms: float,
    request_bytes: int = 0,
) -> RequestContext:
    """Return the context of a request that came over the peer's connection."""
    return RequestContext(
        peer.principal,
        peer.listener,
        peer.security_protocol,
        client_id,
        peer.client_address,
        correlation_id,
        api_key,
        api_version,
        peer.software_name,
        peer.software_version,
        peer.connection_id,
        received_ms,
        0,
        request_bytes,
    )
