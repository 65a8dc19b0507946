"""SCRAM credentials of users (org.apache.kafka.image.ScramImage). Sans-IO, immutable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from rpds import HashTrieMap

from kvorum.quorum.records import MetadataRecord, RemoveUserScramCredential, UserScramCredential
from kvorum.security.credentials import ScramCredential

NO_CREDENTIALS: Final[Mapping[int, ScramCredential]] = MappingProxyType({})


def credential_record(user: str, mechanism: int, credential: ScramCredential) -> UserScramCredential:
    """Return the record that sets a credential."""
    return UserScramCredential(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramImage:
    """All credentials by user and mechanism; users without credentials are not included. The maps are unordered."""

    users: HashTrieMap[str, HashTrieMap[int, ScramCredential]] = field(
        default_factory=lambda: HashTrieMap(), repr=False
    )

    def of(self, user: str) -> Mapping[int, ScramCredential]:
        """Return the credentials of one user by mechanism, empty where it has none."""
        credentials = self.users.get(user)
        return NO_CREDENTIALS if credentials is None else credentials

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write all credentials as records, by user and mechanism."""
        for user in sorted(self.users):
            for mechanism, credential in sorted(self.users[user].items(), key=lambda item: item[0]):
                yield credential_record(user, mechanism, credential)


class ScramDelta:
    """Changed credentials since `image`: user -> mechanism -> credential, None if removed."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ScramImage) -> None:
        """Start from the present credentials."""
        self.image = image
        self.changes: dict[str, dict[int, ScramCredential | None]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self.changes

    def replay(self, record: UserScramCredential | RemoveUserScramCredential) -> None:
        """Apply one credential."""
        credential = None
        if isinstance(record, UserScramCredential):
            credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self.changes.setdefault(record.name, {})[record.mechanism] = credential

    def apply(self) -> ScramImage:
        """Make the credentials after the changes. Cost: what changed."""
        users = self.image.users
        for user, changes in self.changes.items():
            credentials: HashTrieMap[int, ScramCredential] = users.get(user) or HashTrieMap()
            for mechanism, credential in changes.items():
                credentials = (
                    credentials.discard(mechanism) if credential is None else credentials.insert(mechanism, credential)
                )
            users = users.insert(user, credentials) if credentials else users.discard(user)
        return ScramImage(users=users)


def scram_changes(before: ScramImage, after: ScramImage) -> Iterator[MetadataRecord]:
    """Yield the records that lead from one image to another."""
    for user in sorted(before.users):
        for mechanism in sorted(before.users[user]):
            if mechanism not in after.of(user):
                yield RemoveUserScramCredential(name=user, mechanism=mechanism)
    for user in sorted(after.users):
        for mechanism, credential in sorted(after.users[user].items(), key=lambda item: item[0]):
            if before.of(user).get(mechanism) != credential:
                yield credential_record(user, mechanism, credential)
