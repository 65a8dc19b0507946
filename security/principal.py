"""Principal of a connection (Kafka's KafkaPrincipal)."""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user. Equality is by type and name, as in Kafka."""

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)
    """Authenticated by a delegation token: may not create or renew tokens."""

    def __str__(self) -> str:
        """Return TYPE:NAME, as ACLs have it."""
        return f"{self.type}:{self.name}"


USER: Final = "User"
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a connection without authentication."""
