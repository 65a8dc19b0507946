"""Users of HTTP for tests: alice is an admin, bob may read, carol has no role."""

from base64 import b64encode
from typing import Any

from kvorum.admin.http.access import Access
from kvorum.admin.http.sessions import Sessions
from kvorum.admin.http.users import HttpUsers
from kvorum.client.roles import Role
from kvorum.runtime.chance import new_nonce
from kvorum.security.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from kvorum.security.passwords import PasswordChecker, UserCredentials
from kvorum.security.principal import USER, Principal
from kvorum.security.scram_keys import derive_credential

PASSWORDS = {"alice": "planted-alice", "bob": "planted-bob:ü", "carol": "planted-carol"}
ROLES = {Principal(USER, "alice"): Role.ADMIN, Principal(USER, "bob"): Role.READ}
NOW_MS = 1_700_000_000_000


def credential_of(password: str) -> ScramCredential:
    return derive_credential(ScramMechanism.SCRAM_SHA_512, password.encode(), b"salt", ITERATIONS_MIN)


def known_users() -> dict[str, dict[ScramMechanism, ScramCredential]]:
    return {user: {ScramMechanism.SCRAM_SHA_512: credential_of(text)} for user, text in PASSWORDS.items()}


def access_for_users(
    users: dict[str, dict[ScramMechanism, ScramCredential]] | None = None,
    *,
    tokens: dict[str, Role] | None = None,
    is_metrics_open: bool = False,
    **options: Any,
) -> Access:
    """Return access for these users, without a delay of failures."""
    known = known_users() if users is None else users

    async def find(user: str) -> UserCredentials:
        return known.get(user, {})

    options = {"roles": ROLES, "sessions": Sessions(new_nonce, lambda: 0), "wall_ms": lambda: NOW_MS, **options}
    found = HttpUsers(passwords=PasswordChecker(find, b"secret", 0), **options)
    return Access(tokens, users=found, is_metrics_open=is_metrics_open)


def basic(user: str, password: str | None = None) -> dict[str, str]:
    """Return the header of a user; its own password by default."""
    text = f"{user}:{PASSWORDS.get(user, '') if password is None else password}"
    return {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}
