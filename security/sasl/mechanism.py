"""Interfaces of a mechanism: one object per exchange (javax.security.sasl.SaslServer and SaslClient)."""

from typing import Protocol

from kvorum.security.principal import Principal


class SaslServer(Protocol):
    """The server's side of one exchange."""

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal; None until the exchange is complete."""
        ...

    @property
    def expires_at_ms(self) -> int | None:
        """Wall time at which the credential expires (a token), None if it does not. Valid when complete."""
        ...

    async def evaluate(self, token: bytes) -> bytes:
        """Process a client's token and return the server's next one (empty: none).

        Does not suspend unless a callable of the user or a key fetch does. Raises AuthenticationError.
        """
        ...


class SaslClient(Protocol):
    """The client's side of one exchange."""

    mechanism: str
    """The name as in SaslHandshake."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has proven itself, as far as the mechanism requires it."""
        ...

    def evaluate(self, token: bytes) -> bytes:
        """Process a server's token (empty at first) and return the next one. Raises AuthenticationError."""
        ...
