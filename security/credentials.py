"""Credentials that a mechanism looks up: SCRAM credentials and delegation tokens, both in the metadata log."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from kvorum.security.principal import Principal

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384


class ScramMechanism(IntEnum):
    """A SCRAM mechanism; the number is the one on the wire and in records (Kafka's ScramMechanism)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """Return the SASL name: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Return hashlib's name: sha256."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored form of a password for one mechanism (RFC 5802)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A delegation token as SCRAM sees it: the user is the token id, the password the base64 of its HMAC."""

    owner: Principal
    expires_at_ms: int
    """Wall time; the connection ends then."""
    credential: ScramCredential


class CredentialStore(Protocol):
    """Looks credentials up in memory. Called at each authentication."""

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the user's credential, None if there is none."""
        ...

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return a delegation token's credential, None if there is no such token."""
        ...


class NoCredentials:
    """A store without users and tokens."""

    __slots__ = ()

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return None."""
        return None

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return None."""
        return None
