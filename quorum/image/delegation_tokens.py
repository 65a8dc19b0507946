"""Delegation tokens by id (org.apache.kafka.image.DelegationTokenImage). Sans-IO, immutable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rpds import HashTrieMap

from kvorum.quorum.records import DelegationToken, MetadataRecord, RemoveDelegationToken
from kvorum.security.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenImage:
    """One token. Times are wall milliseconds."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    max_at_ms: int
    """It cannot be renewed beyond this time."""
    expires_at_ms: int

    @classmethod
    def from_record(cls, record: DelegationToken) -> TokenImage:
        """Return the token that a record describes."""
        return cls(
            token_id=record.token_id,
            owner=parse_principal(record.owner),
            requester=parse_principal(record.requester),
            renewers=tuple(map(parse_principal, record.renewers)),
            issued_at_ms=record.issue_timestamp,
            max_at_ms=record.max_timestamp,
            expires_at_ms=record.expiration_timestamp,
        )

    def to_record(self) -> DelegationToken:
        """Return the record that describes the whole of it."""
        return DelegationToken(
            owner=str(self.owner),
            requester=str(self.requester),
            renewers=tuple(map(str, self.renewers)),
            issue_timestamp=self.issued_at_ms,
            max_timestamp=self.max_at_ms,
            expiration_timestamp=self.expires_at_ms,
            token_id=self.token_id,
        )

    def has_expired(self, now_ms: int) -> bool:
        """Return whether it can neither be used nor renewed."""
        return self.max_at_ms < now_ms or self.expires_at_ms < now_ms

    def belongs_to(self, principal: Principal) -> bool:
        """Return whether the principal owns it or may renew it."""
        return principal == self.owner or principal in self.renewers


def parse_principal(text: str) -> Principal:
    """Return the principal of TYPE:NAME."""
    kind, colon, name = text.partition(":")
    assert colon, "records have principals as TYPE:NAME"
    return Principal(kind, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokensImage:
    """All tokens by id, expired ones until they are swept. The map is unordered."""

    tokens: HashTrieMap[str, TokenImage] = field(default_factory=lambda: HashTrieMap())

    def sorted_tokens(self) -> list[TokenImage]:
        """Return the tokens by id."""
        return sorted(self.tokens.values(), key=lambda token: token.token_id)

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write all tokens as records, by id."""
        for token in self.sorted_tokens():
            yield token.to_record()


class DelegationTokensDelta:
    """Changed tokens since `image`: id -> token, None if removed."""

    __slots__ = ("changes", "image")

    def __init__(self, image: DelegationTokensImage) -> None:
        """Start from the present tokens."""
        self.image = image
        self.changes: dict[str, TokenImage | None] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self.changes

    def replay(self, record: DelegationToken | RemoveDelegationToken) -> None:
        """Apply one token."""
        self.changes[record.token_id] = TokenImage.from_record(record) if isinstance(record, DelegationToken) else None

    def apply(self) -> DelegationTokensImage:
        """Make the tokens after the changes. Cost: what changed."""
        tokens = self.image.tokens
        for token_id, token in self.changes.items():
            tokens = tokens.discard(token_id) if token is None else tokens.insert(token_id, token)
        return DelegationTokensImage(tokens=tokens)


def token_changes(before: DelegationTokensImage, after: DelegationTokensImage) -> Iterator[MetadataRecord]:
    """Yield the records that lead from one image to another."""
    for token_id in sorted(before.tokens):
        if token_id not in after.tokens:
            yield RemoveDelegationToken(token_id=token_id)
    for token in after.sorted_tokens():
        if before.tokens.get(token.token_id) != token:
            yield token.to_record()
