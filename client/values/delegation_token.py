"""Delegation tokens (KIP-48). Source: Kafka's DelegationToken, TokenInformation."""

import base64
from dataclasses import dataclass, field

from kvorum.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from kvorum.protocol.messages.describe_delegation_token import DescribedDelegationToken


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token: principals as TYPE:NAME, times in milliseconds since 1970.

    A client authenticates with SCRAM: user name `token_id`, password `password`, extension tokenauth=true.
    """

    token_id: str
    owner: str
    requester: str
    """The principal that created it; that of a cluster before KIP-373 is empty."""
    renewers: tuple[str, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int
    """It cannot be renewed beyond this time."""
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """Return the HMAC in base64."""
        return base64.b64encode(self.hmac).decode()


def token_value(row: DescribedDelegationToken) -> DelegationToken:
    """Return a token of a DescribeDelegationToken response."""
    return DelegationToken(
        token_id=row.token_id,
        owner=f"{row.principal_type}:{row.principal_name}",
        requester=principal_text(row.token_requester_principal_type, row.token_requester_principal_name),
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in row.renewers),
        issued_at_ms=row.issue_timestamp,
        expires_at_ms=row.expiry_timestamp,
        max_at_ms=row.max_timestamp,
        hmac=row.hmac,
    )


def created_token(answer: CreateDelegationTokenResponse, renewers: tuple[str, ...]) -> DelegationToken:
    """Return the token of a CreateDelegationToken response."""
    return DelegationToken(
        token_id=answer.token_id,
        owner=f"{answer.principal_type}:{answer.principal_name}",
        requester=principal_text(answer.token_requester_principal_type, answer.token_requester_principal_name),
        renewers=renewers,
        issued_at_ms=answer.issue_timestamp,
        expires_at_ms=answer.expiry_timestamp,
        max_at_ms=answer.max_timestamp,
        hmac=answer.hmac,
    )


def principal_text(kind: str, name: str) -> str:
    """Return TYPE:NAME, empty if neither is given."""
    return f"{kind}:{name}" if kind or name else ""


def split_principal(text: str) -> tuple[str, str]:
    """Return type and name of TYPE:NAME. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon or not kind:
        raise ValueError(f"{text!r} is not a principal of the form TYPE:NAME, such as User:alice")
    return kind, name
