"""Users with SCRAM credentials (KIP-554). Source: Kafka's UserScramCredentialsDescription, ScramCredentialInfo."""

from dataclasses import dataclass

from kvorum.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResult
from kvorum.security.credentials import ScramMechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialInfo:
    """A credential of a user, without its salt and keys: no cluster returns these."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user, and its credentials by mechanism."""

    name: str
    credentials: tuple[ScramCredentialInfo, ...]


def user_value(row: DescribeUserScramCredentialsResult) -> User:
    """Return a user of a DescribeUserScramCredentials response; mechanisms of newer releases are left out."""
    known = frozenset(ScramMechanism)
    return User(
        name=row.user,
        credentials=tuple(
            ScramCredentialInfo(mechanism=ScramMechanism(each.mechanism), iterations=each.iterations)
            for each in sorted(row.credential_infos, key=lambda info: info.mechanism)
            if each.mechanism in known
        ),
    )
